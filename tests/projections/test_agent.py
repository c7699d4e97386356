"""pi.agent and pi.provider."""

from pi_actors.actors.agent.messages import AgentConfigured, EntryAppended, RunEnded
from pi_actors.actors.generation.messages import RequestStarted
from pi_actors.core.lifecycle import COMPLETED, AgentSpawned, Choices, WorkEnded
from tests.projections.story import ROOT, Story


def started() -> Story:
    story = Story()
    story.spawn_root()
    return story


def test_a_new_agent_shows_what_was_chosen_and_nothing_resolved() -> None:
    story = started()
    agent = story.commit((0, AgentSpawned(owner=7, choices=Choices(model="m", tools=("read",)))))
    assert story.document("pi.agent", agent) == {
        "id": agent,
        "owner": 7,
        "chosen": {"model": "m", "thinking": None, "tools": ["read"], "instructions": None, "cwd": None},
        "resolved": None,
        "busy": False,
        "run": None,
        "live_work": 0,
    }


def test_choices_are_replaced_as_a_whole() -> None:
    story = started()
    story.commit((ROOT, AgentConfigured(choices=Choices(model="a", thinking="high"))))
    story.commit((ROOT, AgentConfigured(choices=Choices(cwd="/src"))))
    chosen = {"model": None, "thinking": None, "tools": None, "instructions": None, "cwd": "/src"}
    assert story.document("pi.agent")["chosen"] == chosen


def test_resolved_is_what_the_latest_request_was_pinned_to() -> None:
    story = started()
    generation = story.ask()
    story.request(generation)
    pinned = RequestStarted(
        attempt=2, turn=0, cutoff=3, model="n", thinking="low", tools=("read", "grep"), digest="d1"
    )
    story.commit((generation, pinned))
    resolved = {"model": "n", "thinking": "low", "tools": ["read", "grep"], "digest": "d1"}
    assert story.document("pi.agent")["resolved"] == resolved


def test_an_agent_is_busy_while_its_run_is_active() -> None:
    story = started()
    generation = story.ask()
    shown = story.document("pi.agent")
    assert (shown["busy"], shown["run"], shown["live_work"]) == (True, 4, 1)
    story.commit((generation, WorkEnded(outcome=COMPLETED)), (ROOT, RunEnded(run=4, inputs=(2,), answer=6)))
    shown = story.document("pi.agent")
    assert (shown["busy"], shown["run"], shown["live_work"]) == (False, None, 0)


def test_the_end_of_another_run_leaves_an_agent_busy() -> None:
    story = started()
    story.ask()
    story.commit((ROOT, RunEnded(run=99, inputs=())))
    assert story.document("pi.agent")["run"] == 4


def test_the_provider_session_id_is_the_uuid_and_the_agent_for_every_agent() -> None:
    """Scenarios C76 and I157: a reset keeps it."""
    story = started()
    other = story.commit((0, AgentSpawned()))
    reset = story.position + 1
    story.commit((ROOT, EntryAppended(kind="pi.reset", head=reset)))
    assert story.document("pi.provider") == {"session_id": "uuid-1:1"}
    assert story.document("pi.provider", other) == {"session_id": f"uuid-1:{other}"}
