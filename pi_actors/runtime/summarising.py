"""The errands of a compaction: ask for the summary of a part, wait for the deadline of a retry."""

from typing import Final

from pi_actors.actors.compaction.decider import Asking
from pi_actors.actors.compaction.messages import FailSummary, ReceiveSummary, RepeatAt, RepeatSummary
from pi_actors.core.instants import instant
from pi_actors.core.messages import Call, Text, user_message
from pi_actors.core.text import normalise
from pi_actors.core.tokens import text_tokens
from pi_actors.models.protocol import Model, ModelFailed, ModelRequest, ModelResponse, StreamDelta
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.listening import listen
from pi_actors.runtime.shell import Shell
from pi_actors.runtime.telling import parts_of, told

INSTRUCTIONS: Final = """\
Below is the older part of a conversation between a user and an assistant that uses tools. It is about
to be replaced by your summary, and the assistant will go on from that alone. Write down, briefly and in
plain text, all that it will need: what the user wants and has decided, what was done and found, with
names, paths, figures and error texts exactly as they are, what is unfinished, and what comes next.
If the text begins with an earlier summary, carry over what still matters of it. Answer with the
summary only, in at most {words} words."""


async def summarise(shell: Shell, errand: Errand) -> None:
    """Send the pinned request for the part that is due, and report how it ended."""
    state = errand.state
    assert isinstance(state, Asking), state
    report: ReceiveSummary | FailSummary
    sent = 0
    try:
        model, request, last = await _request(shell, state)
        sent = text_tokens(_text_of(request))
        response = await listen(model, request, _ignore, stall_ms=shell.settings.stall_ms)
        report = _received(response, state.part, last)
    except ModelFailed as failure:
        report = FailSummary(
            kind=failure.kind,
            error=normalise(str(failure)),
            sent_tokens=sent,
            retry_after_ms=failure.retry_after_ms,
            usage=failure.usage,
        )
    await errand.report(report, cause=state.request)


async def repeat_at(shell: Shell, errand: Errand) -> None:
    """Wait for the stored deadline, take the run up if it was only waiting, then ask again."""
    assert isinstance(errand.effect, RepeatAt), errand.effect
    await shell.clock.sleep_until(instant(errand.effect.due_us))
    await shell.take_up(errand.agent, errand.message(RepeatSummary()))


async def _request(shell: Shell, state: Asking) -> tuple[Model, ModelRequest, bool]:
    """The model, the request for the part that is due, and whether it is the last part."""
    model = shell.registry.models.get(state.pinned.model)
    if model is None:
        raise ModelFailed("fatal", f"this process has no model {state.pinned.model!r} to write the summary")
    entries = await shell.bodies.entries(state.input.entries)
    parts = parts_of((told(entry) for entry in entries), state.pinned.input_tokens_max)
    text = "\n\n".join(part for part in (_asked(state), parts[state.part]) if part)
    request = ModelRequest(messages=(user_message(text),), purpose="summary", attempt=state.attempt)
    return model, request, state.part == len(parts) - 1


def _asked(state: Asking) -> str:
    # About three words take four tokens; fewer than twenty say nothing.
    words = max(state.summary_tokens_max * 3 // 4, 20)
    pieces = [INSTRUCTIONS.format(words=words)]
    if state.input.instructions:
        pieces.append(f"Besides, the user asks of the summary: {state.input.instructions}")
    if state.so_far:
        pieces.append(f"The summary of what came before this part:\n{state.so_far}")
    return "\n\n".join(pieces)


def _received(response: ModelResponse, part: int, last: bool) -> ReceiveSummary:
    return ReceiveSummary(
        part=part,
        last=last,
        text=normalise("".join(each.text for each in response.parts if isinstance(each, Text))),
        stop=response.stop,
        calls=any(isinstance(each, Call) for each in response.parts),
        provider=response.provider,
        provider_model=response.model,
        usage=response.usage,
    )


def _text_of(request: ModelRequest) -> str:
    return "".join(part.text for part in request.messages[0].parts if isinstance(part, Text))


def _ignore(_: StreamDelta) -> None:
    """Nobody watches a summary being written."""
