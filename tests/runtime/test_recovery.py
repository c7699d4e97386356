"""Which effects of a found run may start, and when."""

from pi_actors.actors.agent.messages import RecoverRun, RunRecovered, Submit
from pi_actors.actors.compaction.messages import KIND, FailSummary
from pi_actors.actors.generation.messages import CallModel, ReceiveResponse
from pi_actors.core.catalog import Catalog
from pi_actors.core.decider import Passive, SpawnAgent
from pi_actors.core.ids import ROOT
from pi_actors.core.lifecycle import Choices
from pi_actors.core.messages import Text, user_message
from pi_actors.core.record import Recorded
from pi_actors.core.state import owed
from pi_actors.runtime.kept import without
from pi_actors.runtime.live import KINDS
from pi_actors.runtime.recovery import FoundRuns
from pi_actors.testing import given_session


def test_a_scheduled_retry_of_a_summary_is_a_step_of_the_run_that_waits_for_it() -> None:
    """V349: so recoveries between its retries do not give the run up."""
    catalog = Catalog(models=frozenset({"m"}), windows={"m": 4_000}, default_model="m")
    session = given_session(catalog=catalog)
    for tokens in (700, 700, 700, 1_400):
        session = session.when(ROOT, Submit(messages=(user_message("word" * tokens),))).done()
        if (compaction := [each for each in session.state.actors.values() if each.kind == KIND]) == []:
            answered = ReceiveResponse(parts=(Text(text="yes"),), stop="stop")
            session = session.when(session.newest("pi.generation").id, answered).done()
    failing = FailSummary(kind="retryable", error="overloaded")
    session = session.when(compaction[0].id, failing).done()
    recover, *_ = FoundRuns(session.state, KINDS).take_up(session.state, ROOT)
    assert recover.command == RecoverRun(last_step_below=session.state.position)


def test_nothing_of_a_found_run_starts_before_its_taking_up_is_stored() -> None:
    """Also while that commit is on its way: only what the log shows counts."""
    catalog = Catalog(models=frozenset({"m"}), default_model="m")
    state = given_session(catalog=catalog).when(ROOT, Submit(messages=(user_message("go"),))).done().state
    found = FoundRuns(state, KINDS)
    (generation,) = (actor for actor in state.actors.values() if actor.live)
    (effect,) = owed(generation, KINDS)
    assert isinstance(effect, CallModel)
    assert found.ready(state, lambda _: True) == [ROOT]
    assert not found.may_start(state, generation, effect)
    assert len(found.take_up(state, ROOT)) == 2
    assert not found.may_start(state, generation, effect)
    assert found.take_up(state, ROOT) == ()
    assert found.ready(state, lambda _: True) == []
    event = RunRecovered(run=4, attempt=1)
    taken = Recorded(position=9, end=9, at_us=0, actor=ROOT, cause=0, topic="RunRecovered", event=event)
    assert found.follow((taken,), state) == [ROOT]
    assert found.follow((taken,), state) == []
    assert found.may_start(state, generation, effect)


def test_the_last_step_of_a_passive_agent_below_a_run_counts() -> None:
    catalog = Catalog(models=frozenset({"m"}), default_model="m")
    running = given_session(catalog=catalog).when(ROOT, Submit(messages=(user_message("go"),))).done()
    (generation,) = (actor for actor in running.state.actors.values() if actor.live)
    spawned = running.when(generation.id, SpawnAgent(name="", choices=Choices())).done().state
    child = max(actor.id for actor in spawned.actors.values() if actor.is_agent)
    passive = without(spawned, child, Passive(position=9, last_step=1_000, model=None))
    recover = FoundRuns(passive, KINDS).take_up(passive, ROOT)[0].command
    assert isinstance(recover, RecoverRun)
    assert recover.last_step_below == 1_000
