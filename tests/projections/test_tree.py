"""The ownership tree."""

import msgspec

from pi_actors.actors.agent.entries import ForkInput
from pi_actors.actors.agent.messages import RunEnded
from pi_actors.core.lifecycle import (
    COMPLETED,
    AbortMarked,
    AgentSpawned,
    Outcome,
    OutcomeHeld,
    WorkEnded,
    WorkSpawned,
)
from projections.tree import TREE, ActorNode, ForkedFrom
from tests.projections.story import ROOT, Story, response


def started() -> Story:
    story = Story()
    story.spawn_root()
    return story


def node(story: Story, id: int) -> ActorNode:
    return next(node for node in story.state().tree() if node.id == id)


def test_work_appears_with_its_spawn_and_vanishes_when_terminal() -> None:
    """Scenario Q263."""
    story = started()
    assert [shown.id for shown in story.state().tree()] == [ROOT]
    generation = story.ask()
    assert story.state().tree() == [
        ActorNode(id=ROOT, kind="pi.agent", agent=ROOT, owner=0, state="busy"),
        ActorNode(id=generation, kind="pi.generation", agent=ROOT, owner=0, state="pending"),
    ]
    story.commit((generation, WorkEnded(outcome=COMPLETED)), (ROOT, RunEnded(run=4, inputs=(2,), answer=6)))
    assert story.state().tree() == [ActorNode(id=ROOT, kind="pi.agent", agent=ROOT, owner=0, state="idle")]


def test_a_marked_actor_shows_what_it_still_waits_for() -> None:
    """Scenario Q266."""
    story = started()
    generation = story.ask()
    _, (read, grep) = story.call_tools(generation, "read", "grep")
    assert node(story, generation).waiting_on == ()
    story.commit((generation, AbortMarked()), (read, AbortMarked()), (grep, AbortMarked()))
    assert node(story, generation).waiting_on == (read, grep)
    assert node(story, read).abort_requested
    story.commit((read, WorkEnded(outcome=Outcome(status="aborted"))))
    assert node(story, generation).waiting_on == (grep,)


def test_an_actor_with_a_held_outcome_is_completing() -> None:
    """Scenario K181."""
    story = started()
    generation = story.ask()
    _, (tool,) = story.call_tools(generation, "delegate")
    child = story.commit((0, AgentSpawned(owner=tool)))
    below = story.ask(agent=child)
    story.commit((tool, OutcomeHeld(outcome=COMPLETED)))
    assert (node(story, tool).state, node(story, tool).waiting_on) == ("completing", (child,))
    story.commit((below, WorkEnded(outcome=COMPLETED)))
    assert node(story, tool).waiting_on == ()


def test_an_agent_without_a_run_waits_while_ordinary_work_below_it_lives() -> None:
    """Scenarios L208 and L209, and K196 for the owner that has ended."""
    story = started()
    generation = story.ask()
    _, (tool,) = story.call_tools(generation, "delegate")
    child = story.commit((0, AgentSpawned(owner=tool)))
    story.commit((tool, WorkEnded(outcome=COMPLETED)), (generation, WorkEnded(outcome=COMPLETED)))
    story.commit((ROOT, RunEnded(run=4, inputs=(2,), answer=6)))
    assert node(story, ROOT).state == "idle"
    story.ask(agent=child)
    assert (node(story, ROOT).state, node(story, child).state) == ("waiting", "busy")


def test_an_agent_whose_owner_has_ended_keeps_the_nearest_live_actor_above_it_waiting() -> None:
    """Scenario K196."""
    story = started()
    generation = story.ask()
    _, (tool,) = story.call_tools(generation, "delegate")
    child = story.commit((0, AgentSpawned(owner=tool)))
    below = story.ask(agent=child)
    _, (nested,) = story.call_tools(below, "delegate", agent=child)
    grandchild = story.commit((0, AgentSpawned(owner=nested)))
    story.commit((nested, WorkEnded(outcome=COMPLETED)), (below, WorkEnded(outcome=COMPLETED)))
    story.commit((tool, WorkEnded(outcome=COMPLETED)), (generation, AbortMarked()))
    assert node(story, generation).waiting_on == ()
    story.ask(agent=grandchild)
    assert node(story, generation).waiting_on == (child,)


def test_an_actor_that_is_said_to_own_itself_ends_the_way_up() -> None:
    story = started()
    odd = story.commit((0, WorkSpawned(kind="odd", agent=ROOT, owner=2)))
    assert odd == 2
    assert [shown.id for shown in story.state().tree()] == [ROOT, odd]


def test_background_work_keeps_nobody_above_it_waiting() -> None:
    """Scenario L208."""
    story = started()
    anchor = story.commit((0, WorkSpawned(kind="anchor", agent=ROOT, background=True)))
    child = story.commit((0, AgentSpawned(owner=anchor)))
    story.commit((0, WorkSpawned(kind="reporter", agent=ROOT, background=True)))
    story.ask(agent=child)
    story.commit((anchor, OutcomeHeld(outcome=COMPLETED)))
    assert node(story, ROOT).state == "idle"
    assert (node(story, anchor).background, node(story, anchor).waiting_on) == (True, (child,))


def test_events_that_nobody_can_have_had_change_nothing() -> None:
    story = started()
    before = story.state()
    story.commit(
        (0, WorkSpawned(kind="pi.tool", agent=77)),
        (55, AbortMarked()),
        (55, OutcomeHeld(outcome=COMPLETED)),
        (55, WorkEnded(outcome=COMPLETED)),
        (55, RunEnded(run=1, inputs=())),
        (55, response(5)),
    )
    after = story.state()
    assert (after.tree_state, after.folds) == (before.tree_state, before.folds)


def test_an_entry_recorded_for_a_work_actor_is_nobodys() -> None:
    story = started()
    generation = story.ask()
    before = story.state().entries(ROOT)
    story.commit((generation, response(generation)))
    assert story.state().entries(ROOT) == before


def test_the_document_of_the_tree_lists_its_nodes() -> None:
    story = started()
    (root,) = TREE.document(story.state().tree_state)["nodes"]
    assert root == {
        "id": 1,
        "kind": "pi.agent",
        "agent": 1,
        "owner": 0,
        "background": False,
        "state": "idle",
        "waiting_on": [],
        "abort_requested": False,
        "blocked": None,
        "forked_from": None,
    }


def test_a_fork_says_whose_history_it_goes_on_from_and_up_to_where() -> None:
    story = started()
    born = msgspec.msgpack.encode(ForkInput(parent=ROOT, at=7, context=()))
    fork = story.commit((0, AgentSpawned(input=born)))
    damaged = story.commit((0, AgentSpawned(input=b"no fork's")))
    assert node(story, fork).forked_from == ForkedFrom(agent=ROOT, entry=7)
    assert [node(story, id).forked_from for id in (ROOT, damaged)] == [None, None]
