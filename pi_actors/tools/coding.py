"""The tools of a coding agent."""

from pi_actors.tools.editing import edit, write
from pi_actors.tools.reading import ls, read
from pi_actors.tools.search import find, grep
from pi_actors.tools.shell import bash
from pi_actors.tools.tool import Tool


def coding_tools() -> tuple[Tool, ...]:
    """Return read, grep, find and ls, which only look and may run again after a crash, and write,
    edit and bash, which are never repeated by themselves.
    """
    return (read, grep, find, ls, write, edit, bash)
