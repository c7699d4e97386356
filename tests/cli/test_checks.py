"""The demo's checks: each one fails where what it claims is not so."""

from collections.abc import Sequence

import msgspec
import pytest

from pi_actors.actors.agent.messages import RunEnded, RunRecovered, RunStarted, ToolResultSettled
from pi_actors.actors.tool.messages import ToolInput, ToolStarted
from pi_actors.cli.demo.acts import decisions
from pi_actors.cli.demo.checks import Evidence, checks_of
from pi_actors.core.decider import Event
from pi_actors.core.lifecycle import WorkSpawned
from pi_actors.core.messages import CallRef, Diagnostic
from pi_actors.core.record import Recorded

CALL = ToolInput(entry=1, index=0, name="edit")
BORN = WorkSpawned(kind="pi.tool", agent=1, input=msgspec.msgpack.encode(CALL))
STARTED = ToolStarted(replay="never")
RESULT = ToolResultSettled(call=CallRef(entry=1, index=0), name="edit", by=2, own=True)
UNKNOWN = msgspec.structs.replace(
    RESULT, own=False, diagnostics=(Diagnostic(level="warn", code="interrupted", text="?"),)
)
RUN = RunStarted(inputs=(1,))
RECOVERED = RunRecovered(run=1, attempt=1)
ANSWERED = RunEnded(run=1, inputs=(1,), answer=9)


def log(*events: Event) -> list[Recorded]:
    """A log in which every event is of the actor that was born at position 2."""
    return [
        Recorded(
            position=position,
            end=position,
            at_us=0,
            actor=2,
            cause=0,
            topic=type(event).__name__,
            event=event,
        )
        for position, event in enumerate(events, 1)
    ]


GOOD = {
    "before the start": Evidence(
        stop="before the start",
        killed=True,
        found=log(RUN, BORN),
        stored=log(RUN, BORN, RECOVERED, STARTED, RESULT, ANSWERED),
        lines_found=0,
        lines=1,
    ),
    "before the result": Evidence(
        stop="before the result",
        killed=True,
        found=log(RUN, BORN, STARTED),
        stored=log(RUN, BORN, STARTED, RECOVERED, UNKNOWN, ANSWERED),
        lines_found=1,
        lines=1,
    ),
    "before the request": Evidence(
        stop="before the request",
        killed=True,
        found=log(RUN, BORN, STARTED, RESULT),
        stored=log(RUN, BORN, STARTED, RESULT, RECOVERED, ANSWERED),
        lines_found=1,
        lines=1,
    ),
}


def broken(evidence: Evidence, **changes: object) -> list[str]:
    """The claims that fail once *changes* are made."""
    changed = msgspec.structs.replace(evidence, **changes)
    return [check.claim for check in checks_of(changed) if not check.held]


@pytest.mark.parametrize("moment", list(GOOD))
def test_a_good_act_passes_every_check(moment: str) -> None:
    assert broken(GOOD[moment]) == []


@pytest.mark.parametrize("moment", list(GOOD))
def test_every_act_must_be_killed_answered_and_change_the_file_once(moment: str) -> None:
    good = GOOD[moment]
    assert "kill -9 ended the process at its moment" in broken(good, killed=False)
    assert "the line is in the file exactly once" in broken(good, lines=2)
    assert "the task was answered, once" in broken(good, stored=good.stored[:-1])
    assert "what was stored is still stored, unchanged" in broken(
        good, found=[*good.found[:-1], good.stored[-1]]
    )
    not_recovered = [recorded for recorded in good.stored if recorded.event is not RECOVERED]
    assert "another process took the run up, once" in broken(good, stored=not_recovered)


@pytest.mark.parametrize(
    ("moment", "stored", "claim"),
    [
        (
            "before the start",
            (RUN, BORN, RECOVERED, STARTED, STARTED, RESULT, ANSWERED),
            "none of 1 calls was repeated",
        ),
        (
            "before the start",
            (RUN, BORN, RECOVERED, STARTED, RESULT, RESULT, ANSWERED),
            "every call has exactly one result",
        ),
        (
            "before the start",
            (RUN, BORN, RECOVERED, ANSWERED),
            "the call ran now, for the first time",
        ),
        (
            "before the result",
            (RUN, BORN, STARTED, RECOVERED, RESULT, ANSWERED),
            "the model was told that the effect is unknown",
        ),
        (
            "before the result",
            (RUN, BORN, STARTED, RECOVERED, STARTED, RESULT, ANSWERED),
            "none of 1 calls was repeated",
        ),
        (
            "before the request",
            (RUN, BORN, STARTED, RESULT, RECOVERED, STARTED, ANSWERED),
            "no tool that had run ran again",
        ),
    ],
)
def test_what_is_done_twice_or_told_wrongly_is_noticed(
    moment: str, stored: Sequence[Event], claim: str
) -> None:
    assert claim in broken(GOOD[moment], stored=log(*stored))


@pytest.mark.parametrize(
    ("moment", "wrong"),
    [
        ("before the start", log(RUN, BORN, STARTED)),
        ("before the result", log(RUN, BORN)),
        ("before the request", log(RUN, BORN, STARTED)),
    ],
)
def test_a_process_that_died_at_another_moment_is_noticed(moment: str, wrong: list[Recorded]) -> None:
    assert [claim for claim in broken(GOOD[moment], found=wrong) if " the log had the call" in f" {claim}"]


def test_a_call_that_only_looks_may_run_again() -> None:
    safe = ToolStarted(replay="safe")
    stored = log(RUN, BORN, safe, RECOVERED, safe, RESULT, ANSWERED)
    evidence = msgspec.structs.replace(GOOD["before the result"], found=stored[:3], stored=stored)
    assert "none of 1 calls was repeated" not in broken(evidence)
    assert decisions(evidence) == ["edit began and only looks at things, so it runs again"]
