"""The three kinds of identifier: a session has a name, everything in it has a position."""

from typing import Final, TypeAlias

SessionId: TypeAlias = str
"""A session's name, chosen by its user: 1 to 200 characters."""

Position: TypeAlias = int
"""A 1-based place in a session's stream, strictly increasing and never reused."""

ActorId: TypeAlias = Position
"""The position of the event that spawned the actor."""

EntryId: TypeAlias = Position
SubmissionId: TypeAlias = Position

ROOT: Final[ActorId] = 1
"""The root agent: the first event of every session spawns it."""

NO_CAUSE: Final[Position] = 0
"""Stands for 'no event led here': a caller did."""

NOBODY: Final[ActorId] = 0
"""Stands for 'no actor': the owner of an ownerless agent."""
