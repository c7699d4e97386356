"""A model that plays a script: deterministic, and safe across restarts because it keeps no state.

What it says depends on the request alone: a list is indexed by ``turn``, an item that is a list by
``attempt``. A process that sends the same request again gets the same answer.
"""

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Literal, TypeVar, assert_never

import trio

from pi_actors.core.messages import Message, Result, Text, Thinking, Usage
from pi_actors.models.assembly import Assembly
from pi_actors.models.plays import (
    Cut,
    Failure,
    Item,
    Play,
    Reply,
    Script,
    Stall,
    Summaries,
    checked_item,
    checked_script,
    checked_summaries,
    summary,
)
from pi_actors.models.protocol import Emit, ModelFailed, ModelRequest, ModelResponse

CHARACTERS_PER_TOKEN: Final = 4
CHUNKS_MAX: Final = 200

Answer = TypeVar("Answer")


class ScriptedModel:
    """Plays *script*: a list by turn, or a function of the request.

    ``chunk_ms``: pause between two deltas; 0 streams without pausing. ``summaries``: what requests
    with the purpose "summary" get; in a list each is used until its text stands in the request,
    then the next, and the last repeats. Without it a summary says how long the text was and how it
    ended, with a digest of the whole, so each text has its own and the same text the same.
    Usage is counted, at four characters a token, where a reply does not state it.

    Raises:
        TypeError: the script has something in it that is not an answer.
        ValueError: ``chunk_ms`` is negative, or a list for the attempts of one turn is empty.
    """

    def __init__(
        self,
        script: Script,
        *,
        chunk_ms: int = 0,
        summaries: Summaries | None = None,
        name: str = "scripted",
        context_window: int | None = 200_000,
    ) -> None:
        if chunk_ms < 0:
            raise ValueError(f"chunk_ms is {chunk_ms}; it must be at least 0")
        self._script = checked_script(script)
        self._summaries = checked_summaries(summaries)
        self._chunk_ms = chunk_ms
        self._name = name
        self._context_window = context_window

    @property
    def name(self) -> str:
        """The name under which logs know it."""
        return self._name

    @property
    def context_window(self) -> int | None:
        """Tokens that fit, None if unknown."""
        return self._context_window

    async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
        """Play the answer to *request*.

        Raises:
            ModelFailed: the script says so, or has nothing for this turn (fatal).
        """
        await trio.lowlevel.checkpoint()
        play = self._play(request)
        assembly = Assembly(emit)
        match play:
            case Reply():
                await self._speak(play, request, assembly)
                return self._response(play, request, assembly)
            case Cut():
                await self._speak(play.reply, request, assembly)
                return self._response(play.reply, request, assembly, cut=True)
            case Failure():
                await self._speak(Reply(text=play.after), request, assembly)
                assembly.finish()
                raise ModelFailed(play.kind, play.message, retry_after_ms=play.retry_after_ms)
            case Stall():
                await self._speak(Reply(text=play.text), request, assembly)
                await trio.sleep_forever()
                raise AssertionError  # the line above never returns
            case _:
                assert_never(play)

    def _play(self, request: ModelRequest) -> Play:
        if request.purpose == "summary":
            item = self._summary(request)
        elif callable(self._script):
            item = self._asked(self._script, checked_item, request)
        elif request.turn < len(self._script):
            item = self._script[request.turn]
        else:
            raise ModelFailed("fatal", self._past_the_end(request.turn, len(self._script)))
        if isinstance(item, Sequence):
            return item[min(request.attempt, len(item)) - 1]
        return item

    def _summary(self, request: ModelRequest) -> Item:
        if self._summaries is None:
            return Reply(text=_built_in_summary("\n".join(_texts(request.messages))))
        if callable(self._summaries):
            return self._asked(self._summaries, summary, request)
        told = "\n".join(_texts(request.messages))
        used = [place for place, item in enumerate(self._summaries) if _stands_in(item, told)]
        return self._summaries[min(used[-1] + 1 if used else 0, len(self._summaries) - 1)]

    def _asked(
        self,
        function: Callable[[ModelRequest], Answer],
        checked: Callable[[Answer, str], Item],
        request: ModelRequest,
    ) -> Item:
        try:
            return checked(function(request), "what it returned")
        except Exception as error:
            raise ModelFailed("fatal", self._broken(request.turn, error)) from error

    def _broken(self, turn: int, error: Exception) -> str:
        return f"the function that scripts model {self._name!r} failed at turn {turn}: {error!r}"

    def _past_the_end(self, turn: int, length: int) -> str:
        return (
            f"the script of model {self._name!r} has {length} turns and turn {turn} was asked for "
            "(turns count from 0); add a reply for it"
        )

    async def _speak(self, said: Reply, request: ModelRequest, assembly: Assembly) -> None:
        pauses = False
        for step in _steps(said, request, assembly):
            if pauses and self._chunk_ms:
                await trio.sleep(self._chunk_ms / 1000)
            step()
            pauses = True

    def _response(
        self, said: Reply, request: ModelRequest, assembly: Assembly, *, cut: bool = False
    ) -> ModelResponse:
        usage = _counted_usage(said, request) if said.usage is None else said.usage
        stop: Literal["stop", "calls", "length"] = "calls" if said.calls else "stop"
        return ModelResponse(
            parts=assembly.finish(),
            stop=None if cut else said.stop or stop,
            provider="scripted",
            model=self._name,
            usage=None if usage == "unreported" else usage,
        )


def _built_in_summary(told: str) -> str:
    words, end = told.split(), " ".join(told[-400:].split())[-80:]
    return f"Summary {zlib.crc32(told.encode()):08x} of {len(words)} words, which ended: {end}"


def _steps(said: Reply, request: ModelRequest, assembly: Assembly) -> Iterator[Callable[[], None]]:
    """What to do one after another, a pause in between."""
    key = 0
    if said.thinking is not None:
        for piece in _pieces(said.thinking.text) or [""]:
            yield partial(assembly.thinking, key, piece)
        assembly.seal(key, said.thinking.opaque)
        key += 1
    for piece in _pieces(said.text):
        yield partial(assembly.text, key, piece)
    key += bool(said.text)
    for index, wish in enumerate(said.calls):
        wire_id = _wire_id(request, index) if wish.wire_id is None else wish.wire_id
        yield partial(assembly.call, key + index, wish.name, wire_id)
        for piece in _pieces(wish.arguments):
            yield partial(assembly.arguments, key + index, piece)


def _pieces(text: str) -> list[str]:
    """*text* in a few words at a time, in at most 200 pieces."""
    size = max(6, math.ceil(len(text) / CHUNKS_MAX))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _wire_id(request: ModelRequest, index: int) -> str:
    agent = f"{zlib.crc32(request.session_id.encode()):08x}_" if request.session_id else ""
    return f"call_{agent}{request.turn}_{index}"


def _counted_usage(said: Reply, request: ModelRequest) -> Usage:
    spoken = [said.text, said.thinking.text if said.thinking else ""]
    spoken += [part for wish in said.calls for part in (wish.name, wish.arguments)]
    return Usage(input=_tokens(_texts(request.messages)), output=_tokens(spoken))


def _tokens(texts: Sequence[str]) -> int:
    return math.ceil(sum(map(len, texts)) / CHARACTERS_PER_TOKEN)


def _texts(messages: Sequence[Message]) -> list[str]:
    texts: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case Text() | Thinking():
                    texts.append(part.text)
                case Result():
                    texts += [item.text for item in part.content if isinstance(item, Text)]
                case _:
                    pass
    return texts


def _stands_in(item: Item, told: str) -> bool:
    """Whether *told* has the summary that *item* ends up saying."""
    last = item[-1] if isinstance(item, Sequence) else item
    return isinstance(last, Reply) and last.text in told
