"""A session's log as a list, and the state that folding it gives."""

from collections.abc import Iterable

import msgspec

from pi_actors.core.ids import Position, SessionId
from pi_actors.core.record import Recorded, UnknownEvent
from pi_actors.core.state import EMPTY, SessionState, evolve
from pi_actors.runtime.live import KINDS
from pi_actors.runtime.store import TOPICS
from pi_actors.storage.codec import decode_rows
from pi_actors.storage.log import LogReader, Row


def read_log(
    reader: LogReader, session: SessionId = "main", *, through: Position | None = None
) -> list[Recorded]:
    """Every event of *session* up to *through* (None: its head), decoded. Blocks.

    Raises:
        LogCorrupt, LogTooNew: a row cannot be read; the message names its position.
    """
    head = reader.head(session)
    end = through if through is not None else (0 if head is None else head.position)
    rows: list[Row] = []
    while page := reader.read(session, after=rows[-1].position if rows else 0, through=end):
        rows += page
    return list(decode_rows(session, rows, TOPICS))


def fold_state(log: Iterable[Recorded]) -> SessionState:
    """The state after *log*; events of unknown topics change nothing but its position."""
    state = EMPTY
    for each in log:
        if isinstance(each.event, UnknownEvent):
            state = msgspec.structs.replace(state, position=each.position, at_us=each.at_us)
            continue
        state = evolve(
            state, KINDS, position=each.position, at_us=each.at_us, actor=each.actor, event=each.event
        )
    return state
