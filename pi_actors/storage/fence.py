"""Why a batch is refused: its session is not what its writer takes it for."""

from pi_actors.core.errors import Fenced, LogTooNew
from pi_actors.core.ids import SessionId
from pi_actors.storage.log import FORMAT, Batch, Head

_ADVICE = "Nothing of this commit was stored. Close the session and open it again."
_NOTHING_DELETED = "Nothing was deleted. Close the session and open it again."


def last_position(batch: Batch) -> int:
    """Where the batch ends; asserts that its rows follow each other from ``after`` on."""
    last = batch.after + len(batch.rows)
    assert batch.rows, f"a batch of session {batch.session!r} has no rows"
    assert batch.rows[-1].position == last, f"rows after {batch.after} end at {batch.rows[-1].position}"
    return last


def scavenger_fenced(session: SessionId, epoch: int, head: Head | None) -> Fenced:
    """The head says another epoch than that of who wants to delete rows."""
    now = "it has no head" if head is None else f"it is at epoch {head.epoch}"
    return Fenced(
        f"session {session!r} was taken over by another writer: {now}, and this one is of epoch {epoch}. "
        f"{_NOTHING_DELETED}"
    )


def fenced(batch: Batch, head: Head | None) -> Fenced:
    """The head says another epoch or another last position."""
    if head is None:
        return Fenced(f"session {batch.session!r} has no head: it was never claimed, or deleted. {_ADVICE}")
    return Fenced(
        f"another writer has extended or taken over session {batch.session!r}: it is at epoch {head.epoch}, "
        f"position {head.position}; this writer is at epoch {batch.epoch}, position {batch.after}. {_ADVICE}"
    )


def conflicting(batch: Batch, problem: str) -> Fenced:
    """A row of the batch is there already."""
    return Fenced(
        f"session {batch.session!r} has something after position {batch.after} already ({problem}). {_ADVICE}"
    )


def require_known_format(session: SessionId, head: Head, topic: str) -> None:
    """Raise LogTooNew where a newer version has written the session. ``topic``: of its last row."""
    if head.format > FORMAT:
        raise LogTooNew(session, head.position, topic, f"rows of format {head.format}")
