"""The errands of a generation: prepare, wait for a deadline, ask the model."""

import msgspec
import trio

from pi_actors.actors.agent.context import derive, needed
from pi_actors.actors.generation.messages import (
    CheckedCall,
    Delta,
    FailAttempt,
    Prepared,
    ReceiveResponse,
    StreamPartial,
    WakeAt,
)
from pi_actors.actors.generation.partial import Partial, grow, parts_of
from pi_actors.actors.generation.state import Requested
from pi_actors.core.errors import InvalidValue
from pi_actors.core.instants import instant
from pi_actors.core.lifecycle import Choices
from pi_actors.core.messages import Blob, Call, Part, Result, Text, Thinking
from pi_actors.core.text import normalise, split_surrogate
from pi_actors.models.protocol import (
    CallDelta,
    Model,
    ModelFailed,
    ModelRequest,
    ModelResponse,
    StreamDelta,
    TextDelta,
    ThinkingDelta,
)
from pi_actors.runtime.errands import Errand
from pi_actors.runtime.listening import listen
from pi_actors.runtime.progress import Pacer
from pi_actors.runtime.shell import Shell
from pi_actors.tools.schema import InvalidArguments


async def prepare_request(shell: Shell, errand: Errand) -> None:
    """Compute the instructions for what is chosen now and report them."""
    choices, instructions = await _instructions(shell, errand)
    await errand.report(Prepared(choices=choices, instructions=instructions))


async def wake_at(shell: Shell, errand: Errand) -> None:
    """Wait for the stored deadline, take the run up if it was only waiting, then prepare anew."""
    assert isinstance(errand.effect, WakeAt), errand.effect
    await shell.clock.sleep_until(instant(errand.effect.due_us))
    choices, instructions = await _instructions(shell, errand)
    prepared = Prepared(choices=choices, instructions=instructions)
    await shell.take_up(errand.agent, errand.message(prepared))


async def call_model(shell: Shell, errand: Errand) -> None:
    """Send the pinned request, stream the response, report how it ended."""
    state = errand.state
    assert isinstance(state, Requested), state
    stream = _Stream(shell, errand)
    report: ReceiveResponse | FailAttempt
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.pacer.run)
        try:
            model, request = await _request(shell, errand, state)
            report = _received(shell, await stream.follow(model, request))
        except ModelFailed as failure:
            report = stream.failed(failure)
        # Inside the nursery, so that a response that is there is stored even while being cancelled.
        await _store(errand, state, report)
        nursery.cancel_scope.cancel()


async def _store(errand: Errand, state: Requested, report: ReceiveResponse | FailAttempt) -> None:
    try:
        await errand.report(report, cause=state.request)
    except InvalidValue as error:
        refused = FailAttempt(kind="fatal", error=f"the response cannot be stored: {error}")
        await errand.report(refused, cause=state.request)


async def _instructions(shell: Shell, errand: Errand) -> tuple[Choices, str | None]:
    choices = shell.agent_state(errand.agent).choices
    env = await shell.environment_or_problem(choices.cwd) if shell.registry.needs_context else None
    context = shell.registry.prompt_context(errand.agent, choices, env)
    instructions = await shell.registry.instructions(choices, context)
    return choices, instructions


async def _request(shell: Shell, errand: Errand, state: Requested) -> tuple[Model, ModelRequest]:
    pinned = state.pinned
    model = shell.registry.models.get(pinned.model)
    if model is None:
        raise ModelFailed(
            "fatal", f"this process has no model {pinned.model!r}; register it and submit again"
        )
    agent = shell.agent_state(errand.agent)
    messages, origins = derive(await shell.bodies.entries(needed(agent.entries, pinned.cutoff)))
    request = ModelRequest(
        messages=messages,
        origins=origins,
        tools=shell.registry.offered(pinned.tools),
        turn=pinned.turn,
        attempt=pinned.attempt,
        thinking=pinned.thinking,
        session_id=f"{shell.line.shown.uuid}:{errand.agent}",
    )
    return model, request


def _received(shell: Shell, response: ModelResponse) -> ReceiveResponse:
    """The response as a report: text normalised, calls numbered and checked."""
    parts: list[Part] = []
    for part in response.parts:
        calls = sum(isinstance(each, Call) for each in parts)
        parts.append(_clean(part, calls))
    return ReceiveResponse(
        parts=tuple(parts),
        stop=response.stop,
        calls=tuple(_checked(shell, part) for part in parts if isinstance(part, Call)),
        provider=response.provider,
        provider_model=response.model,
        usage=response.usage,
    )


def _clean(part: Part, index: int) -> Part:
    match part:
        case Text() | Thinking():
            return msgspec.structs.replace(part, text=normalise(part.text))
        case Call():
            return Call(
                index=index,
                wire_id=normalise(part.wire_id),
                name=normalise(part.name),
                arguments=normalise(part.arguments),
                opaque=part.opaque,
            )
        case Blob() | Result():
            return part


def _checked(shell: Shell, call: Call) -> CheckedCall:
    tool = shell.registry.tools.get(call.name)
    problem: str | None = None
    if tool is not None:
        try:
            tool.parse(call.arguments)
        except InvalidArguments as error:
            problem = str(error)
    return CheckedCall(index=call.index, name=call.name, problem=problem)


class _Stream:
    """One response on its way: what has arrived, and what of it is stored."""

    def __init__(self, shell: Shell, errand: Errand) -> None:
        self._shell = shell
        self._errand = errand
        self._arrived: Partial = ()
        self._buffer: list[Delta] = []
        self._halves: dict[int, str] = {}
        self.pacer = Pacer(self._flush, shell.settings.progress_ms, first_waits=True)

    async def follow(self, model: Model, request: ModelRequest) -> ModelResponse:
        """Stream *request*; what arrives is buffered for the pacer to store.

        Raises:
            ModelFailed: the model failed, or was silent past the stall limit.
        """
        return await listen(model, request, self._emit, stall_ms=self._shell.settings.stall_ms)

    def failed(self, failure: ModelFailed) -> FailAttempt:
        """The failure as a report, with what had arrived."""
        return FailAttempt(
            kind=failure.kind,
            error=normalise(str(failure)),
            retry_after_ms=failure.retry_after_ms,
            parts=parts_of(self._arrived),
            usage=failure.usage,
        )

    def _emit(self, delta: StreamDelta) -> None:
        stored = self._delta(delta)
        self._arrived = grow(self._arrived, (stored,))
        last = self._buffer[-1] if self._buffer else None
        if last is not None and last.part == stored.part and not stored.name and not stored.wire_id:
            self._buffer[-1] = msgspec.structs.replace(last, text=last.text + stored.text)
        else:
            self._buffer.append(stored)
        self.pacer.touch()

    def _delta(self, delta: StreamDelta) -> Delta:
        """*delta* with text that can be stored: a surrogate pair may arrive in two halves."""
        match delta:
            case TextDelta():
                return Delta(part=delta.part, type="text", text=self._joined(delta.part, delta.text))
            case ThinkingDelta():
                return Delta(part=delta.part, type="thinking", text=self._joined(delta.part, delta.text))
            case CallDelta():
                return Delta(
                    part=delta.part,
                    type="call",
                    text=self._joined(delta.part, delta.arguments),
                    name=normalise(delta.name),
                    wire_id=normalise(delta.wire_id),
                )

    def _joined(self, part: int, text: str) -> str:
        text, half = split_surrogate(self._halves.pop(part, "") + text)
        if half:
            self._halves[part] = half
        return normalise(text)

    async def _flush(self) -> None:
        deltas, self._buffer = tuple(self._buffer), []
        if any(delta.text or delta.name for delta in deltas):
            await self._errand.report(StreamPartial(deltas=deltas))
