"""The play in three acts: start a process, kill it at its moment, start another, tell, check."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click
import msgspec

from pi_actors.actors.topics import PROGRESS
from pi_actors.cli.demo.checks import Evidence, calls_in, checks_of
from pi_actors.cli.demo.child import Moment, Order
from pi_actors.cli.demo.project import CHANGELOG, make_project, times_wanted
from pi_actors.cli.demo.story import TASK
from pi_actors.cli.failures import ANSWERED, UNANSWERED
from pi_actors.cli.models import DEMO, model_of
from pi_actors.cli.paper import Roll, console_of
from pi_actors.cli.reading import read_commits, stored_sessions
from pi_actors.cli.wording import shortened, words_of
from pi_actors.core.record import Recorded
from pi_actors.storage.opening import file_of

FOUND_SHOWN: Final = 6
COLUMNS_BEFORE_WORDS: Final = 28
WORDS_SHOWN: Final = 90
COMPLAINT_SHOWN: Final = 600

TELLING: Final = frozenset(
    {
        "RunRecovered",
        "RequestStarted",
        "RequestRepeated",
        "ResponseSettled",
        "ToolStarted",
        "ToolResultSettled",
        "RunEnded",
    }
)
"""What of the second process's events tells the story."""


class Act(NamedTuple):
    """One of the three. ``title`` says when its process dies."""

    stop: Moment
    title: str


ACTS: Final = (
    Act("before the start", "killed before the tool starts"),
    Act("before the result", "killed after the file was changed and before the result was stored"),
    Act("before the request", "killed after the result was stored and before the next request is sent"),
)


def play(*, model: str | None, base_url: str | None, store: str | None) -> int:
    """Play the three acts and return the exit status: 0 only if every check of each held."""
    name = model or DEMO
    model_of(name, base_url)
    folder = Path(tempfile.mkdtemp(prefix="pi-actors-demo-"))
    kept = _kept(store, folder)
    names = free_names(kept)
    stage = _Stage(model=name, base_url=base_url, store=kept, folder=folder)
    stage.say(f"The task: {TASK}", "bold")
    stage.say(f"The model: {name}. Scratch projects and the store are in {folder}.", "dim")
    failed = sum(stage.play(number, act, names[number - 1]) for number, act in enumerate(ACTS, 1))
    stage.say("")
    if failed:
        stage.say(f"✗ {failed} checks did not hold.", "bold red")
    else:
        stage.say("✓ Three processes were killed; nothing was lost and nothing was done twice.", "bold green")
    stage.say(f"Look at it:  pi-actors sessions {kept}")
    stage.say(f"             pi-actors log {kept} --session {names[1]}")
    return UNANSWERED if failed else ANSWERED


class _Stage:
    """Where the acts are played and told."""

    def __init__(self, *, model: str, base_url: str | None, store: Path, folder: Path) -> None:
        self._model = model
        self._base_url = base_url
        self._store = str(store)
        self._folder = folder
        self._console = console_of()
        self._paper = Roll(self._console)
        room = self._console.width - COLUMNS_BEFORE_WORDS if self._console.is_terminal else WORDS_SHOWN
        self._words_shown = min(max(room, 20), WORDS_SHOWN)

    def say(self, text: str, style: str = "") -> None:
        self._paper.line(text, style)

    def play(self, number: int, act: Act, session: str) -> int:
        """Play one act and return how many of its checks did not hold."""
        self.say("")
        self.say(f"Act {number} of {len(ACTS)}: {act.title}", "bold")
        project = self._folder / session
        make_project(project)
        order = Order(
            store=self._store,
            session=session,
            project=str(project),
            model=self._model,
            base_url=self._base_url,
            stop=act.stop,
        )
        killed = self._kill(order)
        found, lines_found = self._stored(session), times_wanted(project)
        self._tell_found(found)
        self._finish(order)
        evidence = Evidence(
            stop=act.stop,
            killed=killed,
            found=found,
            stored=self._stored(session),
            lines_found=lines_found,
            lines=times_wanted(project),
        )
        self._tell_decisions(evidence)
        return self._tell_checks(evidence, project)

    def _kill(self, order: Order) -> bool:
        """Start a process, kill it at its moment; whether both went as they should."""
        with self._child(order) as process:
            with self._console.status(f"process {process.pid} works on the task"):
                assert process.stdout is not None
                said = process.stdout.readline().strip()
            process.kill()
            status = process.wait()
        self.say(f"  process {process.pid} works on the task … kill -9", "red")
        return said == order.stop and status == -signal.SIGKILL

    def _finish(self, order: Order) -> None:
        """Start another process, which is told nothing but to ask for the same task, and wait for it."""
        successor = msgspec.structs.replace(order, stop=None)
        with self._child(successor) as process, self._console.status(f"process {process.pid} works on"):
            process.wait()
        self.say(f"  process {process.pid} opens the session and stores:", "green")

    @contextmanager
    def _child(self, order: Order) -> Generator["subprocess.Popen[str]"]:
        """The demo's agent in a process of its own, which does not outlive the block."""
        complaints = self._folder / f"{order.session}.err"
        with complaints.open("a") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "pi_actors.cli.demo.child", msgspec.json.encode(order).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        with process:
            try:
                yield process
            finally:
                process.kill()
        if said := complaints.read_text().strip():
            self.say(f"  it said: {said[-COMPLAINT_SHOWN:]}", "red")
            complaints.write_text("")

    def _stored(self, session: str) -> list[Recorded]:
        return [recorded for commit in read_commits(self._store, session) for recorded in commit]

    # Telling.

    def _tell_found(self, found: Sequence[Recorded]) -> None:
        self.say("  the end of its log:")
        for recorded in _settled(found)[-FOUND_SHOWN:]:
            self._tell(recorded, "dim")

    def _tell_decisions(self, evidence: Evidence) -> None:
        for recorded in evidence.added:
            if recorded.topic in TELLING:
                self._tell(recorded, "yellow" if recorded.topic == "RunRecovered" else "")
        for words in decisions(evidence):
            self.say(f"  why: {words}", "yellow")

    def _tell(self, recorded: Recorded, style: str) -> None:
        words = shortened(words_of(recorded.event), self._words_shown)
        self.say(f"    {recorded.position:>3}  {recorded.topic:<17}  {words}", style)

    def _tell_checks(self, evidence: Evidence, project: Path) -> int:
        checks = checks_of(evidence)
        for check in checks:
            self.say(f"  {'✓' if check.held else '✗'} {check.claim}", "green" if check.held else "red")
        self.say(f"  {CHANGELOG} is {project / CHANGELOG}", "dim")
        return sum(not check.held for check in checks)


def decisions(evidence: Evidence) -> list[str]:
    """What recovery decided about each call that was found without a result, and why."""
    after = calls_in(evidence.stored)
    told: list[str] = []
    for actor, call in calls_in(evidence.found).items():
        if call.results:
            continue
        if not call.started:
            told.append(f"{call.name} has no ToolStarted in the log, so it never began: it runs now")
        elif call.started[0].replay == "safe":
            told.append(f"{call.name} began and only looks at things, so it runs again")
        elif after[actor].is_interrupted:
            told.append(
                f"{call.name} began and has no result, so nobody knows what it did. It is not repeated; "
                "the model is told so and looks for itself"
            )
    if not told:
        told.append("every call has its result, so no tool runs; only the request that was due is sent")
    return told


def _settled(events: Sequence[Recorded]) -> list[Recorded]:
    return [recorded for recorded in events if recorded.topic not in PROGRESS]


def _kept(store: str | None, folder: Path) -> Path:
    """The file of the demo's store."""
    if store is None:
        return folder / "demo.db"
    if store == "memory:":
        raise click.UsageError("the demo kills processes, so its store must be a file, not memory:")
    return file_of(store).absolute()


def free_names(store: Path) -> list[str]:
    """A session for each act, under names that the store does not have yet."""
    taken = stored_sessions(store)
    run = 1
    while True:
        names = [f"act-{number}" + (f"-{run}" if run > 1 else "") for number in range(1, len(ACTS) + 1)]
        if not taken.intersection(names):
            return names
        run += 1
