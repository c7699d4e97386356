"""The read side: what people see, folded from the log and from nothing else.

``fold`` says what a projection is. One module each: ``live``, ``inbox``, ``usage``, ``agent`` and
``provider`` are an agent's documents, ``transcript`` its active entries, ``tree`` and
``submissions`` speak of the whole session. ``session`` folds commits into all of them, ``replay``
reads those commits from a store.
"""

from projections.replay import replay
from projections.session import SessionState

__all__ = ["SessionState", "replay"]
