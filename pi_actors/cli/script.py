"""A scripted model as a JSON file, so that everything can be tried with no key and no network.

The file is a list of answers by turn, or an object with that list as ``turns``; the rest is optional:

    {"chunk_ms": 10, "context_window": 200000, "turns": [ANSWER, ...], "summaries": [ANSWER, ...]}

``summaries``: what requests for a summary get, each until it stands in the context. ``context_window``:
in tokens.

An ANSWER is plain text, one of the objects below, or a list of these: one for each attempt, of
which the last repeats.

    {"text": "Let me look.", "calls": [{"name": "read", "arguments": {"path": "a.txt"}}],
     "thinking": "Where is it?"}                               all three are optional
    {"fail": "overloaded", "retryable": true, "retry_after_ms": 10, "after": "half"}
    {"cut": "half an ans"}                                     ends without its finish marker
    {"stall": "and then"}                                      falls silent
    {"overflow": true}                                         is larger than the context window
"""

from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from pi_actors.core.errors import UnknownName
from pi_actors.core.text import Json
from pi_actors.models import ScriptedCall, ScriptedModel, call_raw, cut, fail, overflow, reply, stall
from pi_actors.models.plays import Item, Play

NotNegative: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class CallLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call. ``arguments``: an object, or the text that the model is to send, JSON or not."""

    name: str
    arguments: dict[str, Json] | str = {}


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer: a reply, or one of the faults, which are told by their first word."""

    text: str = ""
    calls: tuple[CallLine, ...] = ()
    thinking: str | None = None
    fail: str | None = None
    retryable: bool = True
    retry_after_ms: NotNegative | None = None
    after: str = ""
    cut: str | None = None
    stall: str | None = None
    overflow: bool = False


AnswerText: TypeAlias = str | AnswerLine
TurnLine: TypeAlias = AnswerText | tuple[AnswerText, ...]


class ScriptFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. ``chunk_ms``: pause between two pieces of what is said."""

    turns: tuple[TurnLine, ...]
    summaries: tuple[TurnLine, ...] | None = None
    context_window: Positive = 200_000
    chunk_ms: NotNegative = 0


def scripted_file(path: Path, *, name: str) -> ScriptedModel:
    """The model that plays the script in *path*, known as *name*.

    Raises:
        UnknownName: the file cannot be read, or is no script; the message says where and why.
    """
    script = _read(path, name)
    try:
        return ScriptedModel(
            [_item(turn) for turn in script.turns],
            chunk_ms=script.chunk_ms,
            summaries=None if script.summaries is None else [_item(line) for line in script.summaries],
            name=name,
            context_window=script.context_window,
        )
    except ValueError as error:
        raise UnknownName(f"model {name!r}: {path} is no script: {error}") from error


def _read(path: Path, name: str) -> ScriptFile:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UnknownName(f"model {name!r}: the script {path} cannot be read: {error.strerror}") from error
    try:
        if text.lstrip().startswith(b"["):
            return msgspec.convert({"turns": msgspec.json.decode(text)}, type=ScriptFile)
        return msgspec.json.decode(text, type=ScriptFile)
    except msgspec.MsgspecError as error:
        raise UnknownName(f"model {name!r}: {path} is no script: {error}") from error


def _item(turn: TurnLine) -> Item:
    if isinstance(turn, tuple):
        return [_play(answer) for answer in turn]
    return _play(turn)


def _play(answer: AnswerText) -> Play:
    match answer:
        case str():
            return reply(answer)
        case AnswerLine(overflow=True):
            return overflow()
        case AnswerLine(fail=str(message)):
            return fail(message, answer.retryable, answer.retry_after_ms, after=answer.after)
        case AnswerLine(cut=str(text)):
            return cut(text, *map(_call, answer.calls))
        case AnswerLine(stall=str(text)):
            return stall(text)
        case AnswerLine():
            return reply(answer.text, *map(_call, answer.calls), thinking=answer.thinking)


def _call(line: CallLine) -> ScriptedCall:
    if isinstance(line.arguments, str):
        return call_raw(line.name, line.arguments)
    return call_raw(line.name, msgspec.json.encode(line.arguments).decode())
