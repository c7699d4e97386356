"""The active context under any interleaving of turns, compactions, resets and writes.

A simple telling of the rules stands beside the real thing: it looks at the whole log each time,
and at nothing but the events.
"""

from collections.abc import Callable, Sequence
from typing import Final, Literal

import msgspec
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from pi_actors.actors.agent.context import derive, needed
from pi_actors.actors.agent.entries import entry_of
from pi_actors.actors.agent.messages import (
    Compact,
    Configure,
    EntryDraft,
    PlaceInbox,
    ReleaseInbox,
    Submit,
    SubmitWrite,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.decider import Asking, Failed
from pi_actors.actors.compaction.messages import (
    CompactionInput,
    FailSummary,
    ReceiveSummary,
    RepeatSummary,
)
from pi_actors.actors.generation.messages import CheckedCall, FailAttempt, Prepared, ReceiveResponse
from pi_actors.actors.generation.state import Preparing, Requested, Retrying
from pi_actors.actors.tool.messages import SettleTool
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.ids import ROOT, EntryId
from pi_actors.core.lifecycle import Choices, WorkEnded, WorkSpawned
from pi_actors.core.messages import Call, Entry, Message, Part, Result, Text, calls_of, user_message
from pi_actors.core.record import Recorded
from pi_actors.core.state import Actor
from pi_actors.core.text import Json
from pi_actors.models import ModelRequest, ProviderModel, reply
from pi_actors.models.wire import Destination, outgoing
from pi_actors.testing import given_session
from pi_actors.testing.session_spec import GivenSession
from tests.models.playback import answer_for, open_playback, unseen

CATALOG: Final = Catalog(
    tools={"look": ToolFacts(name="look", replay="safe")},
    models=frozenset({"m"}),
    windows={"m": 4_000},
    default_model="m",
    default_tools=("look",),
    instructions="Be brief.",
)
DESTINATIONS: Final = (
    Destination(origin=("openai", "played"), inline_system=True),
    Destination(origin=("anthropic", "played")),
)
SIZES: Final = (3, 200, 700, 1_500)


def words(size: int) -> str:
    return "word" * SIZES[size % len(SIZES)]


# What may happen. Each step returns the session as it was where it cannot happen now.


def ask(session: GivenSession, size: int) -> GivenSession:
    message = user_message(words(size))
    return session.when(
        ROOT, Submit(messages=(message,), when_busy="follow_up" if size % 3 else "steer")
    ).done()


def write(session: GivenSession, size: int) -> GivenSession:
    note = Message(role="system", parts=(Text(text=words(size)),))
    messages = (note,) if size % 2 else (user_message(words(size)),)
    return session.when(ROOT, SubmitWrite(entry=EntryDraft(kind="note", messages=messages))).done()


def reset(session: GivenSession, size: int) -> GivenSession:
    messages = (user_message(words(size)),) if size % 2 else ()
    entry = EntryDraft(kind="pi.reset", messages=messages, head_self=True)
    return session.when(ROOT, SubmitWrite(entry=entry)).done()


def instruct(session: GivenSession, size: int) -> GivenSession:
    return session.when(ROOT, Configure(choices=Choices(instructions=f"Be {words(size % 2)}."))).done()


def compact(session: GivenSession, size: int) -> GivenSession:
    return session.when(ROOT, Compact()).done()


def go_on(session: GivenSession, size: int) -> GivenSession:
    """What the shell would do by itself: prepare, wake up, place."""
    if root(session).held is not None:
        session = session.when(ROOT, ReleaseInbox()).done()
    if session.owed().get(ROOT):
        session = session.when(ROOT, PlaceInbox()).done()
    for actor in work(session, "pi.generation"):
        if isinstance(actor.state, Preparing | Retrying):
            instructions = root(session).choices.instructions or "Be brief."
            prepared = Prepared(choices=root(session).choices, instructions=instructions)
            return session.when(actor.id, prepared).done()
    for actor in work(session, "pi.compaction"):
        if isinstance(actor.state, Failed):
            return session.when(actor.id, RepeatSummary()).done()
    return session


def answer(session: GivenSession, size: int) -> GivenSession:
    return respond(session, ReceiveResponse(parts=(Text(text=words(size)),), stop="stop"))


def look(session: GivenSession, size: int) -> GivenSession:
    """Several calls at once; one in four responses is cut off by its length."""
    calls = tuple(Call(index=at, wire_id="", name="look", arguments="{}") for at in range(1 + size % 3))
    checked = tuple(CheckedCall(index=call.index, name="look") for call in calls)
    parts: tuple[Part, ...] = (Text(text="hm"), *calls)
    return respond(
        session,
        ReceiveResponse(parts=parts, stop="length" if size % 4 == 3 else "calls", calls=checked),
    )


def settle(session: GivenSession, size: int) -> GivenSession:
    tools = work(session, "pi.tool")
    if not tools:
        return session
    result = SettleTool(content=(Text(text=words(size)),))
    return session.when(tools[size % len(tools)].id, result).done()


def fail(session: GivenSession, size: int) -> GivenSession:
    kinds: tuple[Literal["retryable", "overflow", "fatal"], ...] = ("retryable", "overflow", "fatal")
    for actor in work(session, "pi.generation"):
        if isinstance(actor.state, Requested):
            return session.when(actor.id, FailAttempt(kind=kinds[size % 3], error="no")).done()
    return session


def summarise(session: GivenSession, size: int) -> GivenSession:
    """One of the compactions gets its summary, or not."""
    asking = [each for each in work(session, "pi.compaction") if isinstance(each.state, Asking)]
    if not asking:
        return session
    chosen = asking[size % len(asking)].id
    if size % 5 == 4:
        return session.when(chosen, FailSummary(kind="retryable", error="no")).done()
    return session.when(chosen, ReceiveSummary(part=0, last=True, text="They talked.", stop="stop")).done()


def respond(session: GivenSession, response: ReceiveResponse) -> GivenSession:
    for actor in work(session, "pi.generation"):
        if isinstance(actor.state, Requested):
            return session.when(actor.id, response).done()
    return session


STEPS: Final[tuple[Callable[[GivenSession, int], GivenSession], ...]] = (
    *(ask, answer, look, settle, go_on, summarise) * 3,
    *(write, reset, instruct, compact, fail),
)


def work(session: GivenSession, kind: str) -> list[Actor]:
    """The live actors of that kind."""
    actors = session.state.actors.values()
    return sorted((each for each in actors if each.kind == kind and not each.ended), key=lambda each: each.id)


def root(session: GivenSession) -> AgentState:
    state = session.state.actors[ROOT].state
    assert isinstance(state, AgentState)
    return state


# The simple telling.


def entries_of(log: Sequence[Recorded]) -> list[Entry]:
    found = (entry_of(each.event, position=each.position, agent=each.actor, at_us=each.at_us) for each in log)
    return [entry for entry in found if entry is not None]


def told_context(log: Sequence[Recorded]) -> list[EntryId]:
    """The active context: the newest head, the instructions in force when it came, and what stays."""
    entries = entries_of(log)
    heads = [entry for entry in entries if entry.head is not None]
    if not heads:
        return [entry.id for entry in entries]
    newest = heads[-1]
    resets = [entry.id for entry in heads if entry.head == entry.id]
    start = max([newest.head or 0, *resets])
    in_force = [entry.id for entry in entries if entry.kind == "pi.system" and entry.id < newest.id][-1:]
    if newest.id in resets or (in_force and resets and in_force[0] < resets[-1]):
        in_force = []
    stays = [entry.id for entry in entries if entry.head is None and entry.id >= start]
    return [newest.id, *(id for id in in_force if id < start), *stays]


def told_fates(log: Sequence[Recorded]) -> list[tuple[EntryId, bool]]:
    """Each summary that was placed or found stale when it came: its compaction, and whether it was placed."""
    fates: list[tuple[EntryId, bool]] = []
    for each in log:
        if isinstance(each.event, WorkEnded) and each.event.outcome.reason == "stale":
            fates.append((each.actor, False))
    fates += [(entry.by, True) for entry in entries_of(log) if entry.kind == "pi.compaction"]
    return fates


def check_fates(session: GivenSession, before: GivenSession) -> None:
    """A summary takes its place exactly where its first kept entry is still in the context."""
    known = {actor for actor, _ in told_fates(before.log)}
    new = [fate for fate in told_fates(session.log) if fate[0] not in known]
    for actor, was_placed in new[:1]:
        (birth,) = [each.event for each in session.log if each.position == actor]
        keep_from = decoded(birth).keep_from
        assert (keep_from in told_context(before.log)) == was_placed, (actor, was_placed)


def decoded(birth: object) -> CompactionInput:
    assert isinstance(birth, WorkSpawned)
    return msgspec.msgpack.decode(birth.input, type=CompactionInput)


# What a provider would be sent.


def request_of(session: GivenSession) -> ModelRequest:
    """What the context would be sent as now."""
    bodies = {entry.id: entry for entry in entries_of(session.log)}
    ids = needed(root(session).entries, session.state.position)
    messages, origins = derive([bodies[id] for id in ids])
    return ModelRequest(messages=messages, origins=origins)


def check_transcript(request: ModelRequest) -> None:
    """X08, X105: each turn with calls is followed by as many results, in the calls' order."""
    messages = request.messages
    for at, message in enumerate(messages):
        results = [part.call.index for part in message.parts if isinstance(part, Result)]
        asked = [call.index for call in calls_of(messages[at - 1])] if at else []
        assert results == (asked if message.role == "tool" else [])
        if calls_of(message):
            assert messages[at + 1].role == "tool"
    for destination in DESTINATIONS:
        check_outgoing([part for each in outgoing(request, destination) for part in each.parts])


def check_outgoing(parts: Sequence[object]) -> None:
    """The same for pydantic-ai's parts: calls and returns by their ids, nothing in between."""
    kinds = [(type(part).__name__, getattr(part, "tool_call_id", "")) for part in parts]
    calls = [id for kind, id in kinds if kind == "ToolCallPart"]
    assert [id for kind, id in kinds if kind == "ToolReturnPart"] == calls
    assert len({*calls}) == len(calls)


STORIES: Final = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 11)), min_size=30, max_size=70)


@settings(max_examples=40)
@for_all(STORIES)
def test_any_interleaving_gives_the_context_that_the_rules_tell_and_a_valid_transcript(
    story: list[tuple[Callable[[GivenSession, int], GivenSession], int]],
) -> None:
    """X08, X105, F131, F136."""
    session = given_session(catalog=CATALOG)
    for step, size in story:
        before, session = session, step(session, size)
        assert [entry.id for entry in root(session).entries] == told_context(session.log)
        check_fates(session, before)
        check_transcript(request_of(session))


@settings(max_examples=20)
@for_all(STORIES)
async def test_providers_are_sent_calls_with_their_results_and_nothing_in_between(
    story: list[tuple[Callable[[GivenSession, int], GivenSession], int]],
) -> None:
    """X105: the bodies that go over the wire, for two protocols."""
    session = ask(given_session(catalog=CATALOG), 0)
    for step, size in story:
        session = step(session, size)
    session = ask(reset(session, 1), 0) if not root(session).entries else session
    request = request_of(session)
    if all(message.role != "user" for message in request.messages):
        return
    async with open_playback() as playback:
        playback.answers = [answer_for(reply("ok"), "chat")]
        await ProviderModel("openai:played", base_url=f"{playback.url}/v1", api_key="no key").stream(
            request, unseen
        )
        check_chat(playback.recorded[-1].json["messages"])
        playback.answers = [answer_for(reply("ok"), "anthropic")]
        await ProviderModel("anthropic:claude-opus-4-6", base_url=playback.url, api_key="no key").stream(
            request, unseen
        )
        check_anthropic(playback.recorded[-1].json["messages"])


def check_chat(messages: Json) -> None:
    """OpenAI: an assistant's calls are answered by tool messages, one each, before anything else."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert waiting == []
        waiting = [each["id"] for each in message.get("tool_calls") or ()]
    assert waiting == []


def check_anthropic(messages: Json) -> None:
    """Anthropic: turns alternate from the user's on, and results lead the turn after their calls."""
    assert [message["role"] for message in messages] == [
        "assistant" if at % 2 else "user" for at in range(len(messages))
    ]
    waiting: list[str] = []
    for message in messages:
        content: Json = message["content"]
        blocks: list[Json] = [] if isinstance(content, str) else content
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert answered == waiting
        assert all(block["type"] == "tool_result" for block in blocks[: len(answered)])
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert waiting == []
