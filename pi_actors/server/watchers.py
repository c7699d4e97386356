"""What a stream of events is made of: the frames of an agent's view, or the tree each time it changes."""

import msgspec

from pi_actors.core.ids import ActorId, Position
from pi_actors.core.text import Json
from pi_actors.server.feed import Feed
from pi_actors.server.served import Served
from pi_actors.server.trees import tree_of


class FrameWatcher:
    """Follows one agent's view for somebody who has seen all up to *after* (None: nothing).

    *uuid*: of the session that was seen; what was seen of another one cannot be continued.
    """

    def __init__(
        self, served: Served, feed: Feed, agent: ActorId, after: Position | None, uuid: str | None
    ) -> None:
        self._served = served
        self._feed = feed
        self._agent = agent
        self._reached = after
        self._uuid = uuid
        self._read_to: Position | None = None

    async def new(self) -> tuple[bytes, ...]:
        batch = await self._feed.next(self._agent, self._reached, uuid=self._uuid, read_to=self._read_to)
        # Nobody else has run since the batch was made, so it is as of here.
        self._read_to = self._feed.read_to
        self._reached, self._uuid = batch.position, None
        return batch.events

    async def wait(self) -> None:
        await self._served.news.wait_beyond(self._read_to or 0)


class TreeWatcher:
    """Follows a session's tree. Of changes that come faster than they are taken only the last is told."""

    def __init__(self, served: Served, feed: Feed) -> None:
        self._served = served
        self._feed = feed
        self._reached: Position = 0
        self._told: Json = None

    async def new(self) -> tuple[bytes, ...]:
        now = await tree_of(self._served, self._feed)
        self._reached = max(now["position"], self._feed.read_to)
        if now["tree"] == self._told:
            return ()
        self._told = now["tree"]
        return (b"id: %d\ndata: %b\n\n" % (now["position"], msgspec.json.encode(now)),)

    async def wait(self) -> None:
        await self._served.news.wait_beyond(self._reached)
