"""An agent and the compactions of its context: when one begins, and where its summary goes."""

import msgspec
import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from pi_actors.actors.agent.cut import limits_of, load_of
from pi_actors.actors.agent.messages import (
    AbortAgent,
    Compact,
    CompactionEnded,
    CompactionSkipped,
    CompactionStarted,
    Configure,
    EntryAppended,
    EntryDraft,
    RunEnded,
    SubmissionQueued,
    SubmissionSettled,
    Submit,
    SubmitWrite,
    Withdraw,
)
from pi_actors.actors.agent.state import AgentState
from pi_actors.actors.compaction.messages import (
    CompactionInput,
    FailSummary,
    ReceiveSummary,
    Summarise,
    Trigger,
)
from pi_actors.actors.generation.messages import (
    CallModel,
    CheckedCall,
    CompactionAwaited,
    FailAttempt,
    Prepared,
    PrepareRequest,
    ReceiveResponse,
    RequestStarted,
)
from pi_actors.actors.tool.messages import SettleTool
from pi_actors.core.catalog import Catalog, ToolFacts
from pi_actors.core.decider import Abort, Mark, Spawned
from pi_actors.core.ids import ROOT, ActorId
from pi_actors.core.lifecycle import Choices, Outcome, WorkEnded, WorkSpawned
from pi_actors.core.messages import Call, Text, Usage, user_message
from pi_actors.core.settings import CompactionSettings, Settings
from pi_actors.testing import given_session
from pi_actors.testing.session_spec import GivenSession

WINDOW = 4_000
"""Compacted before a request above 3,000 tokens, beside it above 2,500; about 1,000 stay."""
CATALOG = Catalog(
    tools={"push": ToolFacts(name="push", replay="safe")},
    models=frozenset({"m"}),
    windows={"m": WINDOW},
    default_model="m",
    default_tools=("push",),
)
TOO_LARGE = FailAttempt(kind="overflow", error="prompt is too long")


def words(tokens: int) -> str:
    return "word" * tokens


def ask(tokens: int = 10) -> Submit:
    return Submit(messages=(user_message(words(tokens)),))


def answer(tokens: int = 10, *, used: int = 0) -> ReceiveResponse:
    usage = Usage(input=used - tokens, output=tokens) if used else None
    return ReceiveResponse(parts=(Text(text=words(tokens)),), stop="stop", usage=usage)


def session_with(*turns: int, settings: Settings = Settings(), catalog: Catalog = CATALOG) -> GivenSession:
    """A session that had turns of so many tokens each, half asked and half answered."""
    session = given_session(catalog=catalog, settings=settings)
    for tokens in turns:
        session = session.when(ROOT, ask(tokens // 2)).done()
        session = session.when(session.newest("pi.generation").id, answer(tokens // 2)).done()
    return session


def root(session: GivenSession) -> AgentState:
    state = session.state.actors[ROOT].state
    assert isinstance(state, AgentState)
    return state


def context(session: GivenSession) -> list[int]:
    return [entry.id for entry in root(session).entries]


def generation(session: GivenSession) -> ActorId:
    return session.newest("pi.generation").id


def compactions(session: GivenSession) -> list[ActorId]:
    """The live ones."""
    actors = session.state.actors.values()
    return sorted(actor.id for actor in actors if actor.kind == "pi.compaction" and not actor.ended)


def born(session: GivenSession, compaction: ActorId) -> CompactionInput:
    (event,) = [each.event for each in session.log if each.position == compaction]
    assert isinstance(event, WorkSpawned)
    return msgspec.msgpack.decode(event.input, type=CompactionInput)


def trigger(session: GivenSession) -> Trigger:
    (compaction,) = compactions(session)
    return born(session, compaction).trigger


def topics(session: GivenSession, before: GivenSession) -> list[str]:
    return [each.topic for each in session.log[len(before.log) :]]


def summarised(session: GivenSession, compaction: ActorId, text: str = "They talked.") -> GivenSession:
    """*compaction* has got its summary."""
    return session.when(compaction, ReceiveSummary(part=0, last=True, text=text, stop="stop")).done()


def prepared(session: GivenSession) -> GivenSession:
    """The generation has computed its instructions once more."""
    return session.when(
        generation(session),
        Prepared(choices=root(session).choices, instructions=root(session).choices.instructions),
    ).done()


def outcome(session: GivenSession, actor: ActorId) -> Outcome:
    (event,) = [
        each.event for each in session.log if each.actor == actor and isinstance(each.event, WorkEnded)
    ]
    return event.outcome


def requests(session: GivenSession) -> list[RequestStarted]:
    return [each.event for each in session.log if isinstance(each.event, RequestStarted)]


# Thresholds.


def test_a_context_with_room_is_sent_as_it_is() -> None:
    session = session_with(1_000, 1_000).when(ROOT, ask(400)).done()
    assert compactions(session) == []
    assert session.owed() == {generation(session): (CallModel(request=session.log[-1].position, repeated=0),)}


def test_above_the_first_limit_a_blocking_compaction_runs_before_the_request_is_sent() -> None:
    """C66."""
    before = session_with(1_000, 1_000)
    session = before.when(ROOT, ask(1_100)).then_events(
        "SubmissionPlaced",
        "EntryAppended",
        "RunStarted",
        "WorkSpawned",
        "WorkSpawned",
        "CompactionAwaited",
        "SummaryStarted",
    )
    (compaction,) = compactions(session)
    assert trigger(session) == "blocking"
    assert session.state.actors[compaction].owner == generation(session)
    assert session.owed() == {compaction: (Summarise(request=session.state.position),)}


def test_its_summary_is_appended_directly_and_then_the_request_is_prepared_anew_and_sent() -> None:
    """C66, F135."""
    session = session_with(1_000, 1_000).when(ROOT, ask(1_100)).done()
    (compaction,) = compactions(session)
    after = summarised(session, compaction)
    assert topics(after, session) == ["SummarySettled", "EntryAppended", "WorkEnded", "CompactionReturned"]
    assert after.owed() == {generation(after): (PrepareRequest(compacted=True),)}
    sent = prepared(after)
    assert topics(sent, after) == ["RequestStarted"]
    summary = root(sent).entries[0]
    assert (summary.heads, summary.part) == (True, "user")
    assert context(sent)[1:] == [id for id in context(session) if id >= born(session, compaction).keep_from]


@pytest.mark.parametrize("how", ["fails", "is aborted", "has no model"])
def test_whatever_its_outcome_the_request_is_sent_then(how: str) -> None:
    """C66, X73: no entry has left the context."""
    session = session_with(1_000, 1_000)
    if how == "has no model":
        settings = Settings(compaction=CompactionSettings(model="unknown"))
        session = session_with(1_000, 1_000, settings=settings)
    session = session.when(ROOT, ask(1_100)).done()
    before = context(session)
    for compaction in compactions(session):
        if how == "fails":
            session = session.when(compaction, FailSummary(kind="fatal", error="no")).done()
        else:
            session = session.when(compaction, Mark()).done().when(compaction, Abort()).done()
    assert compactions(session) == []
    session = prepared(session)
    assert context(session) == before
    assert isinstance(session.log[-1].event, RequestStarted)
    session = session.when(generation(session), answer()).done()
    assert root(session).run is None


def test_above_the_second_limit_a_background_compaction_starts_and_the_request_is_sent_at_once() -> None:
    """C67."""
    before = session_with(1_000, 1_000)
    session = before.when(ROOT, ask(600)).then_events(
        "SubmissionPlaced",
        "EntryAppended",
        "RunStarted",
        "WorkSpawned",
        "CompactionStarted",
        "WorkSpawned",
        "SummaryStarted",
        "RequestStarted",
    )
    (compaction,) = compactions(session)
    assert trigger(session) == "background"
    assert session.state.actors[compaction].owner == 0
    assert root(session).compactions == (compaction,)


def test_while_one_of_the_agents_own_is_live_no_second_one_starts_and_the_request_is_sent() -> None:
    """C68: above either limit, whoever wanted the first."""
    session = session_with(1_000, 1_000, 400).when(ROOT, Compact()).done()
    for tokens in (200, 1_100):
        asked = session.when(ROOT, ask(tokens)).done()
        assert compactions(asked) == compactions(session)
        assert isinstance(asked.log[-1].event, RequestStarted)


def test_a_summary_that_waits_in_the_inbox_keeps_a_retry_from_starting_a_second_compaction() -> None:
    """C68: it is ready, and is placed at the next boundary."""
    session = session_with(1_000, 1_000).when(ROOT, ask(600)).done()
    (compaction,) = compactions(session)
    failing = FailAttempt(kind="retryable", error="overloaded")
    session = session.when(generation(session), failing).done()
    session = summarised(session, compaction)
    assert [item.entry.kind for item in root(session).inbox] == ["pi.compaction"]
    session = prepared(session)
    assert compactions(session) == []
    assert requests(session)[-1].attempt == 2
    session = session.when(generation(session), answer()).done()
    assert root(session).entries[0].heads


def test_the_size_is_what_the_provider_counted_and_an_estimate_of_what_came_after() -> None:
    """C69: 1,000 tokens by our estimate and 2,000 by the provider's count, so 400 more are 800."""
    session = session_with(980).when(ROOT, ask(10)).done()
    session = session.when(generation(session), answer(10, used=2_000)).done()
    assert compactions(session.when(ROOT, ask(240)).done()) == []
    session = session.when(ROOT, ask(400)).done()
    assert trigger(session) == "background"
    assert born(session, compactions(session)[0]).tokens == 2_800


def test_planned_instructions_count_before_they_are_appended() -> None:
    """C69."""
    catalog = msgspec.structs.replace(CATALOG, instructions=words(300))
    session = session_with(1_000, 1_000).with_catalog(catalog)
    asked = session.when(ROOT, ask(300)).done()
    assert trigger(asked) == "background"
    kinds = [each.event.kind for each in asked.log if isinstance(each.event, EntryAppended)]
    assert kinds[-1] == "pi.system"


@for_all(
    st.lists(st.integers(2, 1_600), min_size=3, max_size=8),
    st.integers(0, 900),
    st.sampled_from([0, 500, 16_384]),
    st.booleans(),
)
def test_the_context_after_a_compaction_fits_by_construction(
    turns: list[int], instructions: int, margin: int, changing: bool
) -> None:
    """However long the summary is, and the instructions that are said with it, none must follow at once."""
    settings = Settings(compaction=CompactionSettings(background_tokens=margin))
    session = session_with(settings=settings)
    for number, tokens in enumerate(turns):
        if changing or number == 0:
            choices = Choices(instructions=f"{number:04}{words(instructions)}")
            session = session.when(ROOT, Configure(choices=choices)).done()
        session = session.when(ROOT, ask(tokens)).done()
        if compactions(session) and trigger(session) == "blocking":
            session = prepared(summarised(session, compactions(session)[0], words(9_000)))
            size = load_of(root(session).entries, root(session).counted, 0).tokens
            assert size <= (limits_of(WINDOW, settings.compaction).background or 0)
        for each in compactions(session):
            session = session.when(each, Mark()).done().when(each, Abort()).done()
        session = session.when(generation(session), answer(5)).done()


def test_a_window_nobody_knows_has_no_thresholds() -> None:
    catalog = msgspec.structs.replace(CATALOG, windows={})
    session = session_with(10_000, 10_000, catalog=catalog).when(ROOT, ask(60_000)).done()
    assert compactions(session) == []


def test_switched_off_nothing_is_compacted_without_being_asked() -> None:
    settings = Settings(compaction=CompactionSettings(enabled=False))
    session = session_with(2_000, 1_500, settings=settings).when(ROOT, ask()).done()
    assert compactions(session) == []
    asked = session.when(ROOT, Compact()).done()
    assert trigger(asked) == "manual"


def test_what_would_free_too_little_is_not_begun_and_that_is_said_once() -> None:
    """X72: all but 400 of 3,090 tokens are the input itself."""
    session = session_with(400).when(ROOT, ask(2_690)).done()
    (skipped,) = [each.event for each in session.log if isinstance(each.event, CompactionSkipped)]
    assert skipped == CompactionSkipped(tokens=3_090, freed_tokens=0)
    assert compactions(session) == []
    assert isinstance(session.log[-1].event, RequestStarted)
    session = session.when(generation(session), FailAttempt(kind="retryable", error="busy")).done()
    again = prepared(session)
    assert topics(again, session) == ["RequestStarted"]


def test_once_enough_would_be_freed_it_is_begun() -> None:
    session = session_with(400).when(ROOT, ask(2_690)).done()
    session = session.when(generation(session), answer(600)).done()
    session = session.when(ROOT, ask(500)).done()
    assert trigger(session) == "blocking"


def test_a_retry_after_a_compaction_does_not_wait_for_another_and_places_nothing() -> None:
    """What came after the request was sent waits for the next boundary, as at any retry."""
    session = session_with(1_000, 1_000).when(ROOT, ask(1_100)).done()
    (compaction,) = compactions(session)
    session = session.when(compaction, FailSummary(kind="fatal", error="no")).done()
    session = prepared(session)
    session = session.when(generation(session), FailAttempt(kind="retryable", error="busy")).done()
    session = session.when(ROOT, ask()).done()
    session = session.when(ROOT, msgspec.structs.replace(ask(), when_busy="steer")).done()
    before = session
    session = prepared(session)
    assert topics(session, before) == ["RequestStarted"]
    assert len(root(session).inbox) == 2


# After an overflow.


def overflowed(settings: Settings = Settings()) -> GivenSession:
    """A provider has refused a request that seemed to fit."""
    session = session_with(1_000, 1_000, settings=settings).when(ROOT, ask(100)).done()
    return session.when(generation(session), TOO_LARGE).done()


def test_a_refused_request_is_compacted_for_and_sent_again_as_the_same_attempt() -> None:
    session = overflowed()
    assert trigger(session) == "overflow"
    (compaction,) = compactions(session)
    awaited = [each.event for each in session.log if isinstance(each.event, CompactionAwaited)]
    assert awaited == [CompactionAwaited(compaction=compaction, overflow="prompt is too long")]
    session = prepared(summarised(session, compaction))
    assert root(session).entries[0].heads
    assert requests(session)[-1].attempt == 1
    assert requests(session)[-1].turn == requests(session)[-2].turn


def test_a_second_refusal_ends_the_run_with_the_providers_words() -> None:
    """C59."""
    session = prepared(summarised(overflowed(), compactions(overflowed())[0]))
    again = FailAttempt(kind="overflow", error="still too long")
    session = session.when(generation(session), again).done()
    (ended,) = [each.event for each in session.log[-1:]]
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.detail) == ("model_error", "still too long")
    assert root(session).held == "model_error"


def test_each_turn_may_be_refused_once() -> None:
    session = prepared(summarised(overflowed(), compactions(overflowed())[0]))
    pushed = Call(index=0, wire_id="", name="push", arguments=words(700))
    called = ReceiveResponse(parts=(pushed,), stop="calls", calls=(CheckedCall(index=0, name="push"),))
    session = session.when(generation(session), called).done()
    tool = session.newest("pi.tool").id
    session = session.when(tool, SettleTool(content=(Text(text=words(900)),))).done()
    session = session.when(generation(session), TOO_LARGE).done()
    assert trigger(session) == "overflow"


@pytest.mark.parametrize("why", ["no cut", "hardly anything to leave out", "switched off"])
def test_where_a_compaction_cannot_help_the_run_ends_with_the_providers_words(why: str) -> None:
    """C59."""
    if why == "no cut":
        session = session_with().when(ROOT, ask(100)).done()
        session = session.when(generation(session), TOO_LARGE).done()
    elif why == "hardly anything to leave out":
        session = session_with(20).when(ROOT, ask(2_000)).done()
        session = session.when(generation(session), TOO_LARGE).done()
    else:
        session = overflowed(Settings(compaction=CompactionSettings(enabled=False)))
    assert compactions(session) == []
    ended = session.log[-1].event
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.detail) == ("model_error", "prompt is too long")


@pytest.mark.parametrize("how", ["fails", "is aborted"])
def test_a_refusal_whose_compaction_brought_no_entry_ends_the_run_with_the_providers_words(how: str) -> None:
    """C60."""
    session = overflowed()
    (compaction,) = compactions(session)
    if how == "fails":
        session = session.when(compaction, FailSummary(kind="fatal", error="no")).done()
    else:
        session = session.when(compaction, Mark()).done().when(compaction, Abort()).done()
    ended = session.log[-1].event
    assert isinstance(ended, RunEnded)
    assert (ended.reason, ended.detail) == ("model_error", "prompt is too long")


def test_what_a_provider_with_an_unknown_window_refused_is_made_smaller() -> None:
    catalog = msgspec.structs.replace(CATALOG, windows={})
    session = session_with(9_000, 9_000, catalog=catalog).when(ROOT, ask(600)).done()
    session = session.when(generation(session), TOO_LARGE).done()
    (compaction,) = compactions(session)
    keep_from = born(session, compaction).keep_from
    kept = sum(entry.tokens for entry in root(session).entries if entry.id >= keep_from)
    assert 18_600 // 4 <= kept <= 18_600 * 9 // 16


def test_what_was_refused_is_made_smaller_also_where_hardly_anything_can_go() -> None:
    """The newest call and its long result stay together; the little before them goes."""
    session = session_with(700).when(ROOT, ask(100)).done()
    pushed = Call(index=0, wire_id="", name="push", arguments="{}")
    called = ReceiveResponse(parts=(pushed,), stop="calls", calls=(CheckedCall(index=0, name="push"),))
    session = session.when(generation(session), called).done()
    result = SettleTool(content=(Text(text=words(6_000)),))
    session = session.when(session.newest("pi.tool").id, result).done()
    session = session.when(generation(session), TOO_LARGE).done()
    (compaction,) = compactions(session)
    assert born(session, compaction).trigger == "overflow"
    keep_from = born(session, compaction).keep_from
    stays = [entry.part for entry in root(session).entries if entry.sent and entry.id >= keep_from]
    assert stays == ["assistant", "result"]


# Asked for by a caller, and placed when it fits.


def test_one_that_a_caller_asks_for_is_the_agents_own_and_does_not_make_it_busy() -> None:
    """F139."""
    before = session_with(1_000, 1_000)
    asking = before.when(ROOT, Compact(instructions="Mind the order.", request_id="c"))
    session = asking.then_events("CompactionStarted", "WorkSpawned", "SummaryStarted")
    (compaction,) = compactions(session)
    assert asking.reply() == Spawned(id=compaction, is_new=True)
    assert root(session).run is None
    assert born(session, compaction).instructions == "Mind the order."
    asked = session.when(ROOT, ask()).done()
    assert isinstance(asked.log[-1].event, RequestStarted)


def test_without_a_run_its_summary_is_placed_at_once() -> None:
    """F136."""
    session = session_with(1_000, 1_000).when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    after = summarised(session, compaction)
    assert topics(after, session) == ["SummarySettled", "EntryAppended", "WorkEnded", "CompactionEnded"]
    assert root(after).entries[0].heads
    assert root(after).compactions == ()


def test_during_a_run_its_summary_is_queued_under_its_own_request_id_until_the_next_boundary() -> None:
    """F135, F136."""
    session = session_with(1_000, 1_000).when(ROOT, ask()).done().when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    before = context(session)
    session = summarised(session, compaction)
    (queued,) = [each.event for each in session.log if isinstance(each.event, SubmissionQueued)]
    assert queued.request_id == f"pi.compaction:{compaction}"
    assert (queued.mode, queued.entry.by) == ("write", compaction)
    assert context(session) == before
    assert outcome(session, compaction) == Outcome(status="completed")
    session = session.when(generation(session), answer()).done()
    assert root(session).entries[0].heads
    assert root(session).inbox == ()


def test_it_is_placed_after_a_round_of_tools_and_the_next_request_carries_it() -> None:
    session = session_with(1_000, 1_000).when(ROOT, ask()).done().when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    pushed = Call(index=0, wire_id="", name="push", arguments="{}")
    called = ReceiveResponse(parts=(pushed,), stop="calls", calls=(CheckedCall(index=0, name="push"),))
    session = session.when(generation(session), called).done()
    session = summarised(session, compaction)
    assert not root(session).entries[0].heads
    session = session.when(session.newest("pi.tool").id, SettleTool(content=(Text(text="ok"),))).done()
    assert root(session).entries[0].heads
    assert requests(session)[-1].cutoff == context(session)[0]
    assert [entry.part for entry in root(session).entries[-3:]] == ["user", "assistant", "result"]


def test_with_too_little_to_leave_out_it_is_over_at_once() -> None:
    """F128."""
    session = session_with(100).when(ROOT, Compact()).done()
    (compaction,) = [each.actor for each in session.log if isinstance(each.event, WorkEnded)][-1:]
    assert outcome(session, compaction).reason == "nothing_to_compact"
    assert root(session).compactions == ()


def test_without_a_model_it_fails_and_the_agent_stays_usable() -> None:
    """F144."""
    catalog = msgspec.structs.replace(CATALOG, windows={})
    session = session_with(30_000, 30_000, catalog=catalog).with_catalog(Catalog())
    session = session.when(ROOT, Compact()).done()
    assert compactions(session) == []
    ended = [each.event for each in session.log if isinstance(each.event, WorkEnded)][-1]
    assert (ended.outcome.status, ended.outcome.reason) == ("failed", "no_model")
    session = session.with_catalog(catalog).when(ROOT, ask()).done()
    assert isinstance(session.log[-1].event, RequestStarted)


def test_of_two_the_one_whose_cut_has_left_the_context_is_stale() -> None:
    """F143: the newest cut wins, in whichever order they come."""
    session = session_with(1_000, 1_000).when(ROOT, Compact()).done()
    (early,) = compactions(session)
    session = _talked(session, 1_500).when(ROOT, Compact()).done()
    late = compactions(session)[-1]
    assert born(session, early).keep_from < born(session, late).keep_from
    after = summarised(summarised(session, late), early)
    assert outcome(after, early).reason == "stale"
    assert context(after)[1] == born(session, late).keep_from
    both = summarised(summarised(session, early), late)
    assert outcome(both, late).reason is None
    assert context(both)[1:] == context(after)[1:]


def test_after_a_reset_a_summary_is_stale() -> None:
    session = session_with(1_000, 1_000).when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    reset = SubmitWrite(entry=EntryDraft(kind="pi.reset", head_self=True))
    session = summarised(session.when(ROOT, reset).done(), compaction)
    assert outcome(session, compaction).reason == "stale"
    assert len(context(session)) == 1


def test_a_queued_summary_whose_cut_has_left_the_context_is_settled_stale_at_the_boundary() -> None:
    session = session_with(1_000, 1_000).when(ROOT, ask()).done().when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    reset = SubmitWrite(entry=EntryDraft(kind="pi.reset", head_self=True))
    session = summarised(session.when(ROOT, reset).done(), compaction)
    session = session.when(generation(session), answer()).done()
    (stale,) = [each.event for each in session.log if isinstance(each.event, SubmissionSettled)]
    assert stale.reason == "stale"
    assert len(context(session)) == 1


def test_one_that_is_ready_while_another_blocks_is_placed_with_what_came_meanwhile() -> None:
    session = session_with(1_000, 1_000).when(ROOT, ask(1_100)).done()
    (blocking,) = compactions(session)
    session = session.when(ROOT, Compact()).done()
    manual = compactions(session)[-1]
    session = summarised(session, manual, "By hand.")
    session = prepared(summarised(session, blocking, "Before the request."))
    data = [
        each.event.data
        for each in session.log
        if isinstance(each.event, EntryAppended) and each.event.kind == "pi.compaction"
    ]
    assert [each["trigger"] for each in data] == ["blocking", "manual"]
    assert sum(entry.heads for entry in root(session).entries) == 1
    assert isinstance(session.log[-1].event, RequestStarted)


def test_a_held_inbox_stays_held_when_a_summary_is_placed() -> None:
    """X70."""
    session = session_with(1_000, 1_000).when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    session = session.when(ROOT, ask()).done().when(ROOT, ask()).done()
    failing = FailAttempt(kind="fatal", error="no such key")
    session = session.when(generation(session), failing).done()
    assert root(session).held == "model_error"
    session = summarised(session, compaction)
    assert root(session).entries[0].heads
    assert (root(session).held, len(root(session).inbox)) == ("model_error", 1)
    assert session.owed() == {}


def test_the_instructions_in_force_survive_a_summary_and_are_not_said_again() -> None:
    catalog = msgspec.structs.replace(CATALOG, instructions="Be brief.")
    session = session_with(1_000, 1_000, 600, catalog=catalog).when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    session = summarised(session, compaction)
    assert [entry.part for entry in root(session).entries[:2]] == ["user", "instructions"]
    session = session.when(ROOT, ask()).done()
    kinds = [each.event.kind for each in session.log if isinstance(each.event, EntryAppended)]
    assert kinds.count("pi.system") == 1


def test_instructions_changed_while_a_summary_is_written_are_the_ones_that_survive() -> None:
    catalog = msgspec.structs.replace(CATALOG, instructions="Be brief.")
    session = session_with(1_000, 1_000, 600, catalog=catalog).when(ROOT, Compact()).done()
    (compaction,) = compactions(session)
    session = session.when(ROOT, Configure(choices=Choices(instructions="Be loud."))).done()
    session = session.when(ROOT, ask()).done()
    session = session.when(generation(session), answer()).done()
    session = summarised(session, compaction)
    instructions = [entry for entry in root(session).entries if entry.part == "instructions"]
    assert len(instructions) == 1
    system = root(session).system
    assert system is not None
    assert system[0] == instructions[0].id


# What arrives while a compaction blocks.


def blocked() -> GivenSession:
    return session_with(1_000, 1_000).when(ROOT, ask(1_100)).done()


def test_what_was_said_while_it_blocked_is_in_the_first_request_after_it() -> None:
    """X68, X69: writes, steers, and follow-ups where the run has asked for nothing yet."""
    session = blocked()
    (compaction,) = compactions(session)
    note = EntryDraft(kind="note", messages=(user_message("by the way"),))
    steer = msgspec.structs.replace(ask(), when_busy="steer")
    session = session.when(ROOT, ask()).done().when(ROOT, steer).done()
    session = session.when(ROOT, SubmitWrite(entry=note)).done()
    session = prepared(summarised(session, compaction))
    assert root(session).inbox == ()
    assert requests(session)[-1].cutoff == max(context(session))
    run = root(session).run
    assert run is not None
    assert len(run.inputs) == 3
    session = session.when(generation(session), answer()).done()
    (ended,) = [each.event for each in session.log if isinstance(each.event, RunEnded)][-1:]
    assert ended.inputs == run.inputs


def test_in_the_middle_of_a_run_follow_ups_wait_for_its_end() -> None:
    session = session_with(1_000, 400).when(ROOT, ask(100)).done()
    pushed = Call(index=0, wire_id="", name="push", arguments="{}")
    called = ReceiveResponse(parts=(pushed,), stop="calls", calls=(CheckedCall(index=0, name="push"),))
    session = session.when(generation(session), called).done()
    result = SettleTool(content=(Text(text=words(1_700)),))
    session = session.when(session.newest("pi.tool").id, result).done()
    (compaction,) = compactions(session)
    session = session.when(ROOT, ask()).done()
    session = prepared(summarised(session, compaction))
    assert [item.mode for item in root(session).inbox] == ["follow_up"]
    assert [entry.part for entry in root(session).entries[-2:]] == ["assistant", "result"]


def test_with_a_reset_in_the_inbox_all_waits_for_the_next_boundary() -> None:
    session = blocked()
    (compaction,) = compactions(session)
    reset = SubmitWrite(entry=EntryDraft(kind="pi.reset", head_self=True))
    session = session.when(ROOT, reset).done().when(ROOT, ask()).done()
    session = prepared(summarised(session, compaction))
    assert len(root(session).inbox) == 2
    session = session.when(generation(session), answer()).done()
    assert root(session).inbox == ()
    assert root(session).run is not None


def test_a_queued_summary_can_be_withdrawn_like_any_write() -> None:
    session = session_with(1_000, 1_000).when(ROOT, ask()).done().when(ROOT, Compact()).done()
    session = summarised(session, compactions(session)[0])
    (item,) = root(session).inbox
    session = session.when(ROOT, Withdraw(submission=item.submission)).done()
    session = session.when(generation(session), answer()).done()
    assert not any(entry.heads for entry in root(session).entries)


# Abort.


@pytest.mark.parametrize("kind", ["manual", "background", "blocking", "overflow"])
def test_an_abort_of_the_agent_ends_every_compaction_without_an_entry(kind: str) -> None:
    """F141."""
    match kind:
        case "manual":
            session = session_with(1_000, 1_000).when(ROOT, Compact()).done()
        case "background":
            session = session_with(1_000, 1_000).when(ROOT, ask(600)).done()
        case "blocking":
            session = blocked()
        case _:
            session = overflowed()
    assert trigger(session) == kind
    (compaction,) = compactions(session)
    before = context(session)
    session = session.when(ROOT, AbortAgent()).done()
    while session.owed():
        actor = next(iter(session.owed()))
        session = session.when(actor, Abort()).done()
    assert outcome(session, compaction) == Outcome(status="aborted")
    assert context(session) == before
    assert (root(session).run, root(session).compactions) == (None, ())
    asked = session.when(ROOT, ask(1)).done()
    assert root(asked).run is not None


def test_one_that_begins_below_an_abort_asks_for_nothing() -> None:
    """A caller may ask an agent for it whose owner is being stopped."""
    session = blocked().when(ROOT, AbortAgent()).done()
    session = session.when(ROOT, Compact()).done()
    assert len(compactions(session)) == 2
    assert [each for each in session.log if isinstance(each.event, CompactionStarted)]
    assert CompactionEnded not in {type(each.event) for each in session.log}


def _talked(session: GivenSession, tokens: int) -> GivenSession:
    """The session after one more turn."""
    session = session.when(ROOT, ask(tokens // 2)).done()
    return session.when(generation(session), answer(tokens // 2)).done()
