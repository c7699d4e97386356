"""What a scripted model can be told to play."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import msgspec

from pi_actors.core.messages import Thinking, Usage
from pi_actors.core.text import Json, clean_json
from pi_actors.models.protocol import ModelRequest


class ScriptedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call to make. ``wire_id`` None: a deterministic one is made up."""

    name: str
    arguments: str
    wire_id: str | None = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. Without text, thinking and calls it is an empty stream.

    ``usage``: None counts it, "unreported" leaves it out. ``stop``: None is what the content implies.
    """

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    thinking: Thinking | None = None
    usage: Usage | Literal["unreported"] | None = None
    stop: Literal["stop", "calls", "length"] | None = None


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that ends cleanly, but without its finish marker."""

    reply: Reply


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A request that fails, once the text ``after`` has streamed."""

    kind: Literal["retryable", "overflow", "fatal"]
    message: str
    retry_after_ms: int | None = None
    after: str = ""


class Stall(msgspec.Struct, frozen=True, kw_only=True):
    """A stream that falls silent after ``text`` and never ends by itself."""

    text: str = ""


Play: TypeAlias = Reply | Cut | Failure | Stall

Item: TypeAlias = Play | Sequence[Play]
"""One answer, or one for each attempt, of which the last repeats."""

Script: TypeAlias = Sequence[Item] | Callable[[ModelRequest], Item]
"""By turn, or a function of the request."""

Summaries: TypeAlias = Sequence[str | Item] | Callable[[ModelRequest], str | Item]
"""The same for summaries, where plain text stands for a reply."""


def reply(
    text: str = "",
    *calls: ScriptedCall,
    thinking: str | Thinking | None = None,
    usage: Usage | Literal["unreported"] | None = None,
    stop: Literal["stop", "calls", "length"] | None = None,
) -> Reply:
    """An answer of *thinking*, *text* and *calls*, in this order.

    ``usage``: tokens to report, counted if None, or "unreported". ``stop``: "length" plays an answer
    that the output limit cut.

    Raises:
        TypeError: the text is not a str, or a call was not made with ``call``.
    """
    _must_be(str, text, 'reply() takes its text first; reply("", call(...)) has none')
    for wish in calls:
        _must_be(ScriptedCall, wish, "after its text reply() takes calls made with call(...)")
    thought = Thinking(text=thinking) if isinstance(thinking, str) else thinking
    return Reply(text=text, calls=calls, thinking=thought, usage=usage, stop=stop)


def call(name: str, /, **arguments: Json) -> ScriptedCall:
    """A call of the tool *name*.

    Raises:
        InvalidValue: the arguments are not JSON.
    """
    checked = clean_json(arguments, f"the arguments of call({name!r})")
    return ScriptedCall(name=name, arguments=msgspec.json.encode(checked).decode())


def call_raw(name: str, text: str, *, wire_id: str | None = None) -> ScriptedCall:
    """A call whose arguments are exactly *text*, JSON or not, with the provider's id *wire_id*.

    ``wire_id``: "" plays a provider that gives none; a repeated one plays a provider that reuses ids.
    """
    return ScriptedCall(name=name, arguments=text, wire_id=wire_id)


def fail(
    message: str, retryable: bool = True, retry_after_ms: int | None = None, *, after: str = ""
) -> Failure:
    """A failed request; ``after`` is text that streams before it fails."""
    kind: Literal["retryable", "fatal"] = "retryable" if retryable else "fatal"
    return Failure(kind=kind, message=message, retry_after_ms=retry_after_ms, after=after)


def overflow() -> Failure:
    """A request that is larger than the context window."""
    return Failure(kind="overflow", message="the request is larger than the context window")


def cut(text: str = "", *calls: ScriptedCall) -> Cut:
    """An answer whose stream ends early: what had arrived, and no finish marker."""
    return Cut(reply=reply(text, *calls))


def stall(text: str = "") -> Stall:
    """A stream that falls silent after *text*, until it is cancelled."""
    return Stall(text=text)


# A wrong script is told about when it is written, not in the middle of a run.


def checked_script(script: Script) -> tuple[Item, ...] | Callable[[ModelRequest], Item]:
    """Return *script* as it will be played.

    Raises:
        TypeError: it is neither a list of answers nor a function.
        ValueError: the list for the attempts of a turn is empty.
    """
    if callable(script):
        return script
    if not isinstance(script, list | tuple):
        raise TypeError(
            f"the script is a {type(script).__name__}; give a list of answers or a function of the request"
        )
    return tuple(checked_item(item, f"turn {turn} of the script") for turn, item in enumerate(script))


def checked_summaries(
    summaries: Summaries | None,
) -> tuple[Item, ...] | Callable[[ModelRequest], str | Item] | None:
    """Return *summaries* as they will be played, plain text as replies.

    Raises:
        TypeError: one of them is neither text nor an answer.
        ValueError: the list is empty.
    """
    if summaries is None or callable(summaries):
        return summaries
    if not summaries:
        raise ValueError("summaries is an empty list; leave it out for the built-in summary")
    return tuple(summary(item, f"summary {place}") for place, item in enumerate(summaries))


def summary(item: str | Item, where: str) -> Item:
    """Return *item*, where plain text stands for a reply.

    Raises:
        TypeError: it is neither text nor an answer.
    """
    return Reply(text=item) if isinstance(item, str) else checked_item(item, where)


def checked_item(item: Item, where: str) -> Item:
    """Return *item*, an answer or one for each attempt.

    Raises:
        TypeError: it is something else; the message names *where*.
        ValueError: it is an empty list.
    """
    if isinstance(item, list | tuple):
        if not item:
            raise ValueError(f"{where} is an empty list; it needs an answer for attempt 1")
        return tuple(_checked_play(play, f"attempt {place} of {where}") for place, play in enumerate(item, 1))
    return _checked_play(item, where)


def _checked_play(play: object, where: str) -> Play:
    if isinstance(play, Reply | Failure | Cut | Stall):
        return play
    hint = "; wrap it in reply(...)" if isinstance(play, str | ScriptedCall) else ""
    raise TypeError(
        f"{where} is a {type(play).__name__}, not an answer{hint}. "
        "Answers are made with reply, fail, overflow, cut and stall"
    )


def _must_be(kind: type, value: object, rule: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{rule}; this is a {type(value).__name__}")
