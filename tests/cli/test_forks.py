"""Forks on the command line: where they go on from, and what they inherit."""

import json
from pathlib import Path
from typing import Final

import trio

from pi_actors import open_session
from pi_actors.core.text import Json
from pi_actors.models import ScriptedModel, reply
from tests.cli.commandline import json_lines, pi_actors, running

STORE: Final = "work.db"
INHERITED: Final = ["one", "first", "two", "second"]


def forked(folder: Path) -> tuple[int, int]:
    """A fork in a new store of a root with three answers, and the entry that it was forked at."""

    async def main() -> tuple[int, int]:
        model = ScriptedModel([reply("first"), reply("second"), reply("third")])
        async with open_session(folder / STORE, model=model) as session:
            for question in ("one", "two", "three"):
                await session.root.ask(question)
            at = (await session.root.entries())[3].id
            return (await session.root.fork(at)).id, at

    return trio.run(main)


def texts(value: Json) -> list[str]:
    """What is said in a view's entries."""
    parts = [part for entry in value["entries"] for message in entry["messages"] for part in message["parts"]]
    return [part["text"] for part in parts]


def test_the_log_the_tree_and_a_replay_say_where_a_fork_goes_on_from(tmp_path: Path) -> None:
    fork, at = forked(tmp_path)
    log = pi_actors("log", STORE, cwd=tmp_path).stdout
    assert f"an agent that nobody owns, forked from agent 1 at entry {at}" in log
    tree = pi_actors("tree", STORE, cwd=tmp_path).stdout
    assert f"agent {fork} · idle · forked from agent 1 at entry {at}" in tree
    replayed = pi_actors("replay", STORE, cwd=tmp_path).stdout
    assert f"· agent {fork} goes on from agent 1 at entry {at}" in replayed.splitlines()
    (told,) = json_lines(pi_actors("tree", STORE, "--json", cwd=tmp_path))
    assert [node["forked_from"] for node in told["tree"]] == [None, {"agent": 1, "entry": at}]


def test_the_state_of_a_fork_has_what_it_inherits(tmp_path: Path) -> None:
    fork, _ = forked(tmp_path)
    (state,) = json_lines(pi_actors("replay", STORE, "--json", "--agent", fork, cwd=tmp_path))
    assert texts(state["value"]) == INHERITED


def test_whoever_watches_a_fork_sees_what_it_inherits(tmp_path: Path) -> None:
    fork, _ = forked(tmp_path)
    with running("attach", STORE, "--json", "--agent", fork, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert texts(json.loads(next(process.stdout))["snapshot"]) == INHERITED
