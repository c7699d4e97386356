"""Checkers of the promises: over a stored log, its index tables, and an open session.

They are the oracle of crash tests: whatever a test has done, these must hold afterwards.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from pi_actors.actors.agent.messages import SubmissionPlaced, SubmissionQueued, is_done_at_once
from pi_actors.actors.topics import PROGRESS, index_of
from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Commit, Recorded
from pi_actors.core.state import SessionState
from pi_actors.session import Session
from pi_actors.storage.log import LogReader
from pi_actors.testing.promises import CHECKERS, commits_are_whole, submissions_settle_once
from pi_actors.testing.reading import fold_state, read_log


class PromiseBroken(AssertionError):
    """A log, an index or a session is not what the product promises; the message lists where."""


def broken_promises(log: Sequence[Recorded], *, scavenged_to: Position = 0) -> list[str]:
    """Every promise that *log* breaks, one line each. Up to *scavenged_to* progress may be missing."""
    found = [f"commits_are_whole: {problem}" for problem in commits_are_whole(log, scavenged_to)]
    others = [checker for checker in CHECKERS if checker is not commits_are_whole]
    return found + [f"{checker.__name__}: {problem}" for checker in others for problem in checker(log)]


def check_log(reader: LogReader, session: SessionId = "main", *, finished: bool = False) -> list[Recorded]:
    """Return the session's log, which keeps every promise, as its index tables do. Blocks.

    *finished*: also nothing is live and no submission waits any more.

    Raises:
        PromiseBroken: it does not; the message says where.
        LogCorrupt, LogTooNew: a row cannot be read.
    """
    log = read_log(reader, session)
    head = reader.head(session)
    scavenged_to = 0 if head is None else head.scavenged_to
    problems = [*broken_promises(log, scavenged_to=scavenged_to), *wrong_index(reader, session, log)]
    if finished:
        problems += unfinished(log)
    _demand(problems, log)
    return log


def unfinished(log: Sequence[Recorded]) -> Iterator[str]:
    """What of *log* still waits or runs, one line each."""
    state = fold_state(log)
    for actor in state.actors.values():
        if actor.live:
            yield f"{actor.kind} {actor.id} is still live"
    if not list(submissions_settle_once(log)):
        settled = {id for id, _ in index_of(log).settled} | _done_at_once(log)
        settled |= {each.position for each in log if is_done_at_once(each.event)}
        for submission in sorted(accepted(log) - settled):
            yield f"submission {submission} is not settled"


def accepted(log: Iterable[Recorded]) -> set[Position]:
    """Every submission that was queued, or placed at once."""
    accepted: set[Position] = set()
    for each in log:
        match each.event:
            case SubmissionQueued() | SubmissionPlaced(submission=0):
                accepted.add(each.position)
            case _:
                pass
    return accepted


def wrong_index(reader: LogReader, session: SessionId, log: Sequence[Recorded]) -> Iterator[str]:
    """Where the index tables differ from what *log* tells. Blocks."""
    index = index_of(log)
    settled = dict(index.settled)
    if len(settled) < len(index.settled):
        yield "something was settled twice"
    for position in range(1, log[-1].position + 1 if log else 1):
        found = reader.find_settled(session, position)
        if found != settled.get(position):
            yield f"{position} is indexed as settled at {found}, the log says {settled.get(position)}"
    for agent, request_id, submission, kind in index.requests:
        if reader.find_request(session, agent, request_id) != (submission, kind):
            yield f"request id {request_id!r} of agent {agent} is not indexed as {kind} {submission}"
    for agent in {each.actor for each in log}:
        entries = [entry for owner, entry in index.entries if owner == agent]
        if reader.entries(session, agent, before=None, limit=len(log) + 1) != entries:
            yield f"the entries of agent {agent} are not indexed as {entries}"


async def check_session(session: Session) -> None:
    """Compare what *session* holds in memory with a fold of what is stored.

    Raises:
        PromiseBroken: they differ.
        SessionFailed, SessionClosed: it is not open.
    """
    live = session.live
    store = live.store
    while True:
        shown = await store.read(live.kept.awake, live.line.shown)
        log = await store.read(partial(read_log, store.log, session.id, through=shown.position))
        head = await store.read(store.log.head, session.id)
        # Else progress went while it was read, which the state then shown still had.
        if head is None or head.scavenged_to <= shown.position:
            break
    folded = fold_state(log)
    if folded != shown:
        _demand([f"the live state is {shown}", f"the log folds to {folded}"], log)


class Witness:
    """Looks on while *session* shows commits, and checks that nothing is shown before it is stored.

    ``shown``: every event that was shown since. The stored position is read at the instant of
    showing, which blocks the event loop for as long as that takes.
    """

    def __init__(self, session: Session) -> None:
        self.shown: list[Recorded] = []
        self.problems: list[str] = []
        self._session = session
        self.stop = session.live.line.listen(self._see)

    def check(self, log: Sequence[Recorded]) -> None:
        """Compare what was shown with what *log* holds; progress may have gone from it since.

        Raises:
            PromiseBroken: something was shown early, differently, or left out.
        """
        problems = list(self.problems)
        if self.shown:
            start, end = self.shown[0].position, self.shown[-1].position
            stored = [each for each in log if start <= each.position <= end]
            kept = {each.position for each in stored}
            shown = [each for each in self.shown if each.position in kept or each.topic not in PROGRESS]
            if stored != shown:
                problems.append(f"what was shown from {start} to {end} is not what is stored")
        _demand(problems, log)

    def _see(self, commit: Commit, state: SessionState) -> None:
        self.shown.extend(commit)
        stored = self._stored()
        if stored < commit[-1].position:
            self.problems.append(f"{commit[-1].position} was shown when {stored} was stored")
        if state.position != commit[-1].position:
            self.problems.append(f"with {commit[-1].position} the state of {state.position} was shown")

    def _stored(self) -> Position:
        head = self._session.live.store.log.head(self._session.id)
        return 0 if head is None else head.position


def _done_at_once(log: Iterable[Recorded]) -> set[Position]:
    """The writes that were placed when they came: the same event admits and settles them."""
    return {
        each.position
        for each in log
        if isinstance(each.event, SubmissionPlaced) and each.event.mode == "write"
    }


def _demand(problems: Sequence[str], log: Sequence[Recorded]) -> None:
    if problems:
        events = [f"{each.position:5} {each.actor:5} {each.topic} {each.event}"[:200] for each in log]
        raise PromiseBroken("\n".join([*problems, "The log:", *events]))
