"""How a session is drawn: pure, from what was seen to lines."""

import msgspec
from rich.console import Console
from rich.text import Text as Styled

from pi_actors.actors.agent.messages import EntryAppended, EntryDraft, SubmissionQueued
from pi_actors.actors.compaction.messages import (
    CompactionInput,
    SummaryFailed,
    SummarySettled,
    SummaryStarted,
)
from pi_actors.actors.generation.messages import Delta, PartialStreamed
from pi_actors.actors.tool.messages import ToolOutputStreamed, ToolStarted
from pi_actors.cli.drawing import below_of, node_words, screen_of, tree_of
from pi_actors.cli.watching import Seen
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.messages import user_message
from projections.tree import ActorNode, ForkedFrom
from projections.view import value_of
from tests.projections.story import ROOT, Story


def drawn(story: Story, *, width: int = 60, height: int = 20) -> list[str]:
    """The lines of a terminal of that size."""
    state = story.state()
    seen = Seen(position=state.position, at="now", tree=tuple(state.tree()), value=value_of(state, ROOT))
    console = Console(width=width, height=height, color_system=None)
    with console.capture() as capture:
        console.print(screen_of(seen, "work", [Styled("below")], console))
    return [line.rstrip() for line in capture.get().splitlines()]


def told() -> tuple[Story, int]:
    """A story in the middle of its first generation."""
    story = Story()
    story.spawn_root()
    generation = story.ask("hello\x1b[31m")
    story.request(generation)
    return story, generation


def test_a_screen_is_full_and_shows_what_runs_now_and_what_waits() -> None:
    story, generation = told()
    story.commit((generation, PartialStreamed(deltas=(Delta(part=0, type="text", text="I thi"),))))
    queued = EntryDraft(kind="pi.user", messages=(user_message("and then?"),))
    story.commit((ROOT, SubmissionQueued(mode="steer", entry=queued)))
    lines = drawn(story)
    assert len(lines) == 20
    assert lines[0].startswith("work · position 8 · 0 tokens in, 0 out")
    assert lines[1:4] == ["> hello[31m", "· m is asked", "I thi"], "no control characters"
    assert lines[-3:] == ["· queued (steer): and then?", f"· pi.generation {generation} · pending", "below"]


def test_tools_are_shown_with_the_end_of_their_output() -> None:
    story, generation = told()
    _, (tool,) = story.call_tools(generation, "bash")
    text = "".join(f"line {number}\n" for number in range(50))
    story.commit((tool, ToolStarted(replay="never")), (tool, ToolOutputStreamed(text=text)))
    lines = drawn(story)
    assert "▸ bash n=0" in lines
    assert "  │ line 49" in lines
    assert "  │ line 10" not in lines


def test_of_what_does_not_fit_the_newest_is_shown() -> None:
    story = Story()
    story.spawn_root()
    for number in range(40):
        story.ask(f"question {number} " + "very " * 20)
    lines = drawn(story, width=40, height=10)
    assert len(lines) == 10
    assert any("very" in line for line in lines[1:5])
    assert "question 0" not in "".join(lines)
    assert drawn(story, width=5, height=3)[-1] == "below"


def test_live_compactions_and_summaries_are_lines_of_their_own() -> None:
    story = Story()
    story.spawn_root()
    first, second = story.ask("one"), story.ask("two")
    kept = second - 2
    born = msgspec.msgpack.encode(CompactionInput(trigger="background", entries=(3,), keep_from=kept))
    asked = story.commit((0, WorkSpawned(kind="pi.compaction", agent=ROOT, input=born)))
    failed = story.commit((0, WorkSpawned(kind="pi.compaction", agent=ROOT, input=born)))
    story.commit((asked, SummaryStarted(model="m")), (asked, SummarySettled(part=0, last=False, model="m")))
    story.commit((failed, SummaryStarted(model="m")))
    story.commit((failed, SummaryFailed(attempt=1, error="overloaded", model="m", due_us=1_000_000)))
    said = (user_message("Before: one."),)
    data = {"trigger": "manual", "tokens_before": 1_234}
    story.commit((ROOT, EntryAppended(kind="pi.compaction", messages=said, head=kept, data=data)))
    queued = EntryDraft(kind="pi.compaction", messages=said)
    story.commit((ROOT, SubmissionQueued(mode="write", entry=queued)))
    lines = drawn(story, width=100)
    assert first < kept
    assert lines[1:5] == [
        "≡ context summarised: about 1,234 tokens before, the newest entry kept",
        "> two",
        "· the context is summarised, in the background: m is asked, part 2",
        "· the summary failed: overloaded; attempt 2 at 1970-01-01T00:00:01Z",
    ]
    assert "· the summary is ready and takes its place after the current step" in lines
    assert not any("Before: one." in line for line in lines), "nobody said that"


def node(id: int, kind: str = "pi.tool", owner: int = 0, agent: int = 1, **more: object) -> ActorNode:
    """A node."""
    return ActorNode(id=id, kind=kind, agent=agent, owner=owner, state="pending", **more)  # type: ignore[arg-type] # by name


def test_a_tree_says_what_waits_for_what_what_is_stopped_and_why_it_is_blocked() -> None:
    agent = ActorNode(id=1, kind="pi.agent", agent=1, owner=0, state="busy")
    child = ActorNode(id=7, kind="pi.agent", agent=7, owner=5, state="idle")
    stopped = node(5, background=True, waiting_on=(6, 7), abort_requested=True)
    blocked = node(6, "mine", owner=5, blocked="there is no kind 'mine' here")
    lost = node(9, owner=4)
    fork = ActorNode(
        id=11, kind="pi.agent", agent=11, owner=0, state="idle", forked_from=ForkedFrom(agent=1, entry=8)
    )
    nodes = [agent, stopped, blocked, child, lost, fork]
    assert node_words(fork) == "agent 11 · idle · forked from agent 1 at entry 8"
    assert node_words(stopped) == "pi.tool 5 · pending · in the background · waits for 6, 7 · asked to stop"
    assert node_words(blocked) == "mine 6 · pending · blocked: there is no kind 'mine' here"
    assert [(each.id, depth) for each, depth in below_of(nodes, 1)] == [(5, 0), (6, 1), (7, 1)]
    console = Console(width=100, color_system=None)
    with console.capture() as capture:
        console.print(tree_of(nodes, "work"))
    lines = capture.get().splitlines()
    assert [line.lstrip("│├└─ ").split(" ·")[0] for line in lines] == [
        "work",
        "agent 1",
        "pi.tool 5",
        "mine 6",
        "agent 7",
        "pi.tool 9",
        "agent 11",
    ]
