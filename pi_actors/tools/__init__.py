"""The door to the world that tools act on: what a tool is, what it is given, and the tools at hand."""

from pi_actors.tools.coding import coding_tools
from pi_actors.tools.context import AgentLimits, ToolCall, ToolContext, ToolPort
from pi_actors.tools.environment import Env, EnvError, EnvFactory, ExecResult, FileInfo, Line, TextReader
from pi_actors.tools.local import LocalEnv
from pi_actors.tools.result import NOT_DONE, UNKNOWN, ToolResult, Verdict
from pi_actors.tools.schema import Arguments, InvalidArguments, InvalidTool
from pi_actors.tools.subagents import subagent_tool
from pi_actors.tools.tool import Tool, tool

__all__ = [
    "NOT_DONE",
    "UNKNOWN",
    "AgentLimits",
    "Arguments",
    "Env",
    "EnvError",
    "EnvFactory",
    "ExecResult",
    "FileInfo",
    "InvalidArguments",
    "InvalidTool",
    "Line",
    "LocalEnv",
    "TextReader",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolPort",
    "ToolResult",
    "Verdict",
    "coding_tools",
    "subagent_tool",
    "tool",
]
