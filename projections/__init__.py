"""The read side: what people see, folded from the log and from nothing else.

``fold`` says what a projection is. One module each: ``live`` (with ``attempt``, ``partial``,
``tool_slots`` and ``compactions``), ``inbox``, ``usage``, ``agent`` and ``provider`` are an agent's
documents, ``transcript`` says which entries it has in context, ``tree`` and ``submissions`` speak of
the whole session.

``session`` folds commits into all of them that are about what is. ``tail`` reads those commits from
a store, ``snapshot`` is the folded state as bytes, ``folding`` begins with one and goes on with the
tail, ``entries`` reads what entries say, ``replay`` gives everything at a position.

``view`` is an agent's transcript and documents as one JSON value, ``frames`` are its changes,
``backlog`` keeps the newest of them, ``pacing`` gives them to each viewer when it can take them,
``follow`` finds them in a log that somebody else writes, ``attach`` on a server. ``checkpoint`` keeps
a projection of one's own between runs, ``sqlite_checkpoint`` in a file.
"""

from projections.attach import AttachFailed, attach
from projections.checkpoint import Checkpoint, MemoryCheckpoint, Projected, run_projection
from projections.fold import Projection
from projections.follow import follow
from projections.frames import Frame, FrameDoesNotFit, Op, apply_frame
from projections.pacing import View
from projections.replay import SessionState, replay
from projections.sqlite_checkpoint import SQLiteCheckpoint

__all__ = [
    "AttachFailed",
    "Checkpoint",
    "Frame",
    "FrameDoesNotFit",
    "MemoryCheckpoint",
    "Op",
    "Projected",
    "Projection",
    "SQLiteCheckpoint",
    "SessionState",
    "View",
    "apply_frame",
    "attach",
    "follow",
    "replay",
    "run_projection",
]
