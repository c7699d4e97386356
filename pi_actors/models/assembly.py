"""A response as it grows: clean deltas on the way out, whole parts at the end.

Both kinds of model build their answers here, so the deltas of a part always join to that part.
Text is normalised where it enters: NUL goes, a lone surrogate becomes U+FFFD, and the two halves of
a pair are joined even when they arrive in two deltas.
"""

from typing import Literal, TypeAlias

from pi_actors.core.messages import Call, Part, Text, Thinking
from pi_actors.core.text import normalise, split_surrogate
from pi_actors.models.protocol import CallDelta, Emit, StreamDelta, TextDelta, ThinkingDelta

PartType: TypeAlias = Literal["text", "thinking", "call"]


class Assembly:
    """The parts of one response, told apart by the provider's own number for each.

    Parts are numbered from 0 in the order of their first mention; deltas carry that number, and it
    is the part's place in ``finish()``.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._parts: dict[int, _Growing] = {}

    def text(self, key: int, text: str) -> None:
        """Part *key* is text and grew by *text*."""
        self._grow(self._part(key, "text"), text)

    def thinking(self, key: int, text: str) -> None:
        """Part *key* is thinking and grew by *text*."""
        self._grow(self._part(key, "thinking"), text)

    def call(self, key: int, name: str, wire_id: str) -> None:
        """Part *key* is a call. The first mention is shown, the last name and id are kept."""
        is_new = key not in self._parts
        part = self._part(key, "call")
        part.name, part.wire_id = normalise(name), normalise(wire_id)
        if is_new:
            self._emit(CallDelta(part=part.number, name=part.name, wire_id=part.wire_id))

    def arguments(self, key: int, text: str) -> None:
        """The arguments of call *key* grew by *text*."""
        self._grow(self._part(key, "call"), text)

    def seal(self, key: int, opaque: str | None) -> None:
        """Keep *opaque*, raw provider JSON, with part *key*."""
        if (part := self._parts.get(key)) is not None:
            part.opaque = opaque

    def size(self, key: int) -> int:
        """How many characters of part *key* have arrived."""
        part = self._parts.get(key)
        return 0 if part is None else sum(map(len, part.pieces)) + len(part.held)

    def finish(self) -> tuple[Part, ...]:
        """Show what was held back and return the parts in order."""
        for part in self._parts.values():
            if part.held:
                self._show(part, normalise(part.held))
                part.held = ""
        return self._finished()

    def _part(self, key: int, kind: PartType) -> "_Growing":
        if (part := self._parts.get(key)) is None:
            part = self._parts[key] = _Growing(len(self._parts), kind)
        assert part.kind == kind, f"part {key} was {part.kind} and is now {kind}"
        return part

    def _grow(self, part: "_Growing", text: str) -> None:
        ready, part.held = split_surrogate(part.held + text)
        if ready := normalise(ready):
            self._show(part, ready)

    def _show(self, part: "_Growing", text: str) -> None:
        part.pieces.append(text)
        delta: StreamDelta
        match part.kind:
            case "text":
                delta = TextDelta(part.number, text)
            case "thinking":
                delta = ThinkingDelta(part.number, text)
            case "call":
                delta = CallDelta(part=part.number, arguments=text)
        self._emit(delta)

    def _finished(self) -> tuple[Part, ...]:
        finished: list[Part] = []
        calls = 0
        for part in self._parts.values():
            finished.append(part.finished(calls))
            calls += part.kind == "call"
        return tuple(finished)


class _Growing:
    """One part: the pieces shown so far and a high surrogate held back for its other half."""

    __slots__ = ("held", "kind", "name", "number", "opaque", "pieces", "wire_id")

    def __init__(self, number: int, kind: PartType) -> None:
        self.number = number
        self.kind: PartType = kind
        self.pieces: list[str] = []
        self.held = ""
        self.name = ""
        self.wire_id = ""
        self.opaque: str | None = None

    def finished(self, calls_before: int) -> Part:
        text = "".join(self.pieces)
        match self.kind:
            case "text":
                return Text(text=text, opaque=self.opaque)
            case "thinking":
                return Thinking(text=text, opaque=self.opaque)
            case "call":
                return Call(
                    index=calls_before,
                    wire_id=self.wire_id,
                    name=self.name,
                    arguments=text,
                    opaque=self.opaque,
                )
