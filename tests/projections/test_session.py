"""The session's fold: its laws, and what it offers."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.actors.topics import ALL
from pi_actors.core.errors import NotFound
from pi_actors.core.lifecycle import AgentSpawned
from pi_actors.core.record import Recorded, UnknownEvent
from projections.session import EMPTY, FoldedState, fold_commit
from projections.transcript import TRANSCRIPT
from projections.tree import TREE
from tests.projections.arbitrary import SMALL, recorded_at
from tests.projections.story import ROOT, Story, recorded, response


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[Recorded, ...]]:
    """Commits with consecutive positions; the first event spawns the root, all others are arbitrary."""
    commits: list[tuple[Recorded, ...]] = [(recorded(1, 1, AgentSpawned(session_uuid="u"), end=1, at_us=0),)]
    position = 1
    for size in draw(st.lists(st.integers(1, 4), max_size=8)):
        end = position + size
        commits.append(tuple(draw(recorded_at(at, end)) for at in range(position + 1, end + 1)))
        position = end
    return commits


def everything(state: FoldedState) -> object:
    return {
        "documents": [state.documents(agent) for agent in state.agents],
        "entries": [TRANSCRIPT.document(state.folds[agent].transcript) for agent in state.agents],
        "tree": TREE.document(state.tree_state),
        "usage": msgspec.to_builtins([state.usage(agent) for agent in state.agents]),
    }


@given(st.lists(st.tuples(SMALL, SMALL).flatmap(lambda at: recorded_at(*at)), max_size=30))
def test_folding_never_raises_and_every_document_is_json(events: list[Recorded]) -> None:
    state = fold_commit(EMPTY, (recorded(1, 1, AgentSpawned(session_uuid="u"), end=1, at_us=0),))
    for event in events:
        state = fold_commit(msgspec.structs.replace(state, position=-1), (event,))
        shown = everything(state)
        assert json.loads(json.dumps(shown)) == shown


@given(logs())
def test_folding_commit_by_commit_equals_folding_at_once(commits: list[tuple[Recorded, ...]]) -> None:
    state = EMPTY
    for commit in commits:
        state = fold_commit(state, commit)
    assert fold_commit(EMPTY, [event for commit in commits for event in commit]) == state


@given(logs())
def test_events_that_were_stored_and_read_back_fold_alike(commits: list[tuple[Recorded, ...]]) -> None:
    state, again = EMPTY, EMPTY
    for commit in commits:
        state = fold_commit(state, commit)
        again = fold_commit(again, [stored(event) for event in commit])
    assert everything(again) == everything(state)


@given(logs(), SMALL)
def test_commits_that_overlap_what_is_known_change_nothing(
    commits: list[tuple[Recorded, ...]], back: int
) -> None:
    """A feed may start before the place up to which the log was read."""
    events = [event for commit in commits for event in commit]
    state = fold_commit(EMPTY, events)
    assert fold_commit(state, events[-back:]) == state


def test_an_event_touches_the_folds_of_its_agent_only() -> None:
    story = Story()
    story.spawn_root()
    other = story.commit((0, AgentSpawned()))
    before = story.state()
    after = fold_commit(before, (recorded(3, other, response(5), end=3, at_us=0),))
    assert after.folds[ROOT] is before.folds[ROOT]
    assert after.entry_ids(other) == (*before.entry_ids(other), 3)


def test_a_session_knows_its_uuid_its_position_and_its_agents() -> None:
    story = Story()
    story.spawn_root()
    other = story.commit((0, AgentSpawned(session_uuid="never")))
    state = story.state()
    assert (state.uuid, state.position, state.agents) == ("uuid-1", 2, (ROOT, other))


def test_the_position_is_the_end_of_the_commit_also_where_its_last_events_were_scavenged() -> None:
    state = fold_commit(EMPTY, (recorded(1, 1, AgentSpawned(session_uuid="u"), end=4, at_us=0),))
    assert state.position == 4


def test_an_unknown_agent_is_refused_with_those_that_exist() -> None:
    story = Story()
    story.spawn_root()
    state = story.state()
    for ask in (state.documents, state.entries, state.usage):
        with pytest.raises(NotFound, match="no agent 9 at position 1; its agents are: 1"):
            ask(9)


def test_an_event_of_an_unknown_topic_only_moves_the_position_and_the_time() -> None:
    story = Story()
    story.spawn_root()
    before, at_us = story.state(), story.at_us
    story.commit((ROOT, UnknownEvent(topic="Future", display=True, body=b"")))
    assert story.state() == msgspec.structs.replace(before, position=2, at_us=at_us)


def stored(event: Recorded) -> Recorded:
    type_ = ALL.get(event.topic)
    if type_ is None:
        return event
    body = msgspec.msgpack.encode(event.event)
    return msgspec.structs.replace(event, event=msgspec.msgpack.decode(body, type=type_))
