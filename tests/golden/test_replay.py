"""Logs of every released format, replayed by today's code."""

from pathlib import Path

import msgspec
import pytest
from trio.testing import MockClock

from pi_actors.actors.topics import ALL
from pi_actors.core.record import UnknownEvent
from pi_actors.storage.log import FORMAT
from pi_actors.storage.memory import MemoryLog
from pi_actors.testing import TrioClock, check_log, read_log
from tests.crash.killed import topics
from tests.golden.story import opened, tell
from tests.golden.write import FOLDER, load, summary

LOGS = sorted(FOLDER.glob("format-*.rows"))


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
async def test_a_golden_log_still_says_what_it_said(path: Path) -> None:
    log = load(path)
    assert not [each for each in check_log(log) if isinstance(each.event, UnknownEvent)]
    assert await summary(log) == msgspec.json.decode(path.with_suffix(".json").read_bytes())


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
async def test_the_session_of_a_golden_log_goes_on(
    path: Path, tmp_path: Path, autojump_clock: MockClock
) -> None:
    log = load(path)
    before = len(read_log(log))
    async with opened(log, tmp_path, TrioClock()) as session:
        assert (await session.root.ask("Are you well?")).text == "You said: Are you well?."
        history = await session.root.history(limit=1_000)
        assert [entry.id for entry in history if entry.id <= before]
    check_log(log)


def test_the_golden_log_of_todays_format_has_every_topic() -> None:
    assert FOLDER / f"format-{FORMAT}.rows" in LOGS
    stored = topics(load(FOLDER / f"format-{FORMAT}.rows"))
    assert sorted(set(ALL) - set(stored)) == []


async def test_the_story_of_the_golden_log_can_be_told_again(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    log = MemoryLog()
    await tell(log, tmp_path)
    check_log(log)
    assert sorted(set(ALL) - set(topics(log))) == []
