"""The demo's task, and a scripted model that does it honestly.

What the model says follows from the request alone, as with every scripted model: a process that
asks again after a crash gets the same answer. It believes no effect that nobody reported.
"""

import shlex
import sys
from typing import Final

from pi_actors.cli.demo.project import CHANGELOG, WANTED_LINE
from pi_actors.core.messages import Call, Result, Text, calls_of
from pi_actors.models import ModelRequest, Reply, ScriptedCall, call, reply

TESTS: Final = f"{shlex.quote(sys.executable)} -m unittest"
TASK: Final = (
    f"Add the line '{WANTED_LINE}' to {CHANGELOG} under Unreleased, run the tests ({TESTS}), report."
)
REQUEST_ID: Final = "the-task"
"""Both processes of an act ask under this id, so they ask once."""

_HEADING: Final = "## Unreleased\n"


def answer(request: ModelRequest) -> Reply:
    """What the demo's model says to *request*."""
    did = _did(request)
    if did is None:
        return reply(f"I will add the line to {CHANGELOG}.", _edit())
    wish, result = did
    text = _text(result)
    match wish.name:
        case "edit" if "effect is unknown" in text:
            return reply(
                "Nobody knows whether that edit happened. I will look before I touch the file again.",
                call("grep", pattern=WANTED_LINE, path=CHANGELOG),
            )
        case "edit" if result.is_error:
            return reply(f"I could not add the line: {text}")
        case "edit":
            return reply("The line is in. Now the tests.", call("bash", command=TESTS))
        case "grep" if WANTED_LINE in text:
            return reply(
                "It had happened: the line is there, so I do not add it again. Now the tests.",
                call("bash", command=TESTS),
            )
        case "grep":
            return reply("It had not happened, so I add the line now.", _edit())
        case _ if result.is_error:
            return reply(f"The line '{WANTED_LINE}' is in {CHANGELOG}, but the tests did not pass:\n{text}")
        case _:
            return reply(f"Done: the line '{WANTED_LINE}' is in {CHANGELOG}, and all tests pass.")


def _edit() -> ScriptedCall:
    return call("edit", path=CHANGELOG, old_text=_HEADING, new_text=f"{_HEADING}\n{WANTED_LINE}\n")


def _did(request: ModelRequest) -> tuple[Call, Result] | None:
    """The newest call since the newest input, with its result; None where there is none yet."""
    calls: tuple[Call, ...] = ()
    did: tuple[Call, Result] | None = None
    for message in request.messages:
        match message.role:
            case "user":
                did = None
            case "assistant":
                calls = calls_of(message)
            case "tool":
                results = [part for part in message.parts if isinstance(part, Result)]
                did = (calls[-1], results[-1]) if calls and results else None
            case "system":
                pass
    return did


def _text(result: Result) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))
