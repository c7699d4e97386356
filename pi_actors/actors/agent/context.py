"""What a model is sent: always a valid provider transcript, whatever the history looks like.

One path serves ordinary turns, resumed ones and model switches alike:

1. entries up to the cutoff, from the newest head on; failed and aborted answers left out;
2. each call directly followed by its one result, in call order, a missing one made up;
3. remarks on results written out for the model;
4. instructions that only user messages precede moved to the front.

The same entries give the same messages, so a resumed process sends the same bytes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from pi_actors.actors.agent.entries import EntryMeta
from pi_actors.core.ids import EntryId
from pi_actors.core.messages import (
    CallRef,
    Diagnostic,
    Entry,
    Message,
    Result,
    Text,
    calls_of,
)

Origin = tuple[str, str] | None
"""(provider, provider model) of an assistant message; None for every other."""


def needed(metas: Iterable[EntryMeta], cutoff: EntryId) -> list[EntryId]:
    """The entries whose bodies a context up to *cutoff* is made of, in its order."""
    return [meta.id for meta in metas if meta.sent and meta.id <= cutoff]


def derive(entries: Sequence[Entry]) -> tuple[tuple[Message, ...], tuple[Origin, ...]]:
    """The messages of *entries* (as :func:`needed` orders them) and where each came from."""
    results = _results(entries)
    pairs = [pair for entry in entries for pair in _messages(entry, results)]
    pairs = _system_first(pairs)
    return tuple(message for message, _ in pairs), tuple(origin for _, origin in pairs)


def _results(entries: Iterable[Entry]) -> dict[CallRef, Result]:
    found: dict[CallRef, Result] = {}
    for entry in entries:
        for message in entry.messages:
            for part in message.parts:
                if isinstance(part, Result):
                    found.setdefault(part.call, part)
    return found


def _messages(entry: Entry, results: dict[CallRef, Result]) -> Iterator[tuple[Message, Origin]]:
    for message in entry.messages:
        if message.role == "tool" or not message.parts:
            continue
        if message.role != "assistant":
            yield message, None
            continue
        yield message, _origin(entry)
        calls = calls_of(message)
        if calls:
            refs = (CallRef(entry=entry.id, index=call.index) for call in calls)
            answered = tuple(written_out(results.get(ref) or _missing(ref)) for ref in refs)
            yield Message(role="tool", parts=answered), None


def _origin(entry: Entry) -> Origin:
    if entry.kind != "pi.assistant":
        return None
    data = cast(dict[str, object], entry.data)
    provider, model = data.get("provider"), data.get("provider_model")
    return (provider, model) if isinstance(provider, str) and isinstance(model, str) else None


def written_out(result: Result) -> Result:
    """*result* with its remarks as one trailing text block, for a reader that sees only text."""
    if not result.diagnostics:
        return result
    remarks = "\n".join(f"[{remark.level}: {remark.text}]" for remark in result.diagnostics)
    return Result(call=result.call, content=(*result.content, Text(text=remarks)), is_error=result.is_error)


def _missing(ref: CallRef) -> Result:
    text = "The history has no result for this call (missing_result); its effect is unknown."
    remark = Diagnostic(level="error", code="missing_result", text=text)
    return Result(call=ref, is_error=True, diagnostics=(remark,))


def _system_first(pairs: list[tuple[Message, Origin]]) -> list[tuple[Message, Origin]]:
    """Move instructions that only user messages (or other instructions) precede to the front."""
    opening = 0
    while opening < len(pairs) and pairs[opening][0].role in ("system", "user"):
        opening += 1
    first, rest = pairs[:opening], pairs[opening:]
    return [
        *(pair for pair in first if pair[0].role == "system"),
        *(pair for pair in first if pair[0].role != "system"),
        *rest,
    ]
