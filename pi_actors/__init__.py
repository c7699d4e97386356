"""pi-actors: LLM agents that survive kill -9.

An agent is an actor whose only memory is the events it has stored. Read in this order:

    core         pure: messages, deciders, the ownership tree, the commit that runs to rest
    actors       pure: the kinds agent, generation, tool, compaction and custom (those of users);
                 each has a ``messages.py`` and a ``decider.py``
    storage      the door to the log: rows, locks, SQLite and memory
    models       the door to language models
    tools        the door to files, commands and what else tools act on
    runtime      the trio shell; the commit path is numbered in ``runtime/commit_line.py``
    session      what users hold; this module exports it
    testing      given/when/then, a crashing store, checkers of the promises
    server       views and commands over HTTP, and the web page
    cli          the command line

The read side is a package of its own, ``projections``: everything people see, folded from the log.
"""

from pi_actors.core.errors import (
    AgentBusy,
    CommandRefused,
    Fenced,
    InvalidValue,
    LogCorrupt,
    LogTooNew,
    NotFound,
    NotSupported,
    PiActorsError,
    SessionClosed,
    SessionFailed,
    SessionInUse,
    StoreError,
    StoreUnreadable,
    Unanswered,
    UnknownName,
)
from pi_actors.core.lifecycle import Outcome
from pi_actors.core.messages import Blob, Diagnostic, Entry, Message, Text, Usage, user_message
from pi_actors.core.settings import CompactionSettings, RetrySettings, Settings
from pi_actors.runtime.clock import Clock, SystemClock
from pi_actors.runtime.registry import PromptContext
from pi_actors.runtime.work import ActorKind, Done, Failed, Next, Work
from pi_actors.session import (
    Agent,
    Answer,
    Session,
    SessionInfo,
    Settled,
    Store,
    Submission,
    open_session,
    open_store,
    subagent_tools,
)
from pi_actors.tools import NOT_DONE, UNKNOWN, AgentLimits, Tool, ToolContext, ToolResult, tool
from projections.tree import ActorNode

__all__ = [
    "NOT_DONE",
    "UNKNOWN",
    "ActorKind",
    "ActorNode",
    "Agent",
    "AgentBusy",
    "AgentLimits",
    "Answer",
    "Blob",
    "Clock",
    "CommandRefused",
    "CompactionSettings",
    "Diagnostic",
    "Done",
    "Entry",
    "Failed",
    "Fenced",
    "InvalidValue",
    "LogCorrupt",
    "LogTooNew",
    "Message",
    "Next",
    "NotFound",
    "NotSupported",
    "Outcome",
    "PiActorsError",
    "PromptContext",
    "RetrySettings",
    "Session",
    "SessionClosed",
    "SessionFailed",
    "SessionInUse",
    "SessionInfo",
    "Settings",
    "Settled",
    "Store",
    "StoreError",
    "StoreUnreadable",
    "Submission",
    "SystemClock",
    "Text",
    "Tool",
    "ToolContext",
    "ToolResult",
    "Unanswered",
    "UnknownName",
    "Usage",
    "Work",
    "open_session",
    "open_store",
    "subagent_tools",
    "tool",
    "user_message",
]
