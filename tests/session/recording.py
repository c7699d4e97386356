"""A model that keeps the requests it was sent, and may be kept from answering summaries."""

from collections.abc import Sequence

import trio

from pi_actors.core.messages import Result, Text
from pi_actors.models import ModelRequest, ScriptedModel
from pi_actors.models.plays import Script, Summaries
from tests.models.watched import Watched

WINDOW = 4_000
"""Compacted before a request above 3,000 tokens, beside it above 2,500; about 1,000 stay."""


class Recording(Watched):
    """Plays *script* in a window of so many tokens.

    ``asked``: set when a summary is asked for. ``answering``: until it is set, summaries wait.
    """

    def __init__(
        self,
        script: Script,
        *,
        summaries: Summaries | None = None,
        window: int | None = WINDOW,
        name: str = "scripted",
        holds: bool = False,
    ) -> None:
        super().__init__(ScriptedModel(script, summaries=summaries, name=name, context_window=window))
        self.requests: list[ModelRequest] = []
        self.asked = trio.Event()
        self.answering = trio.Event()
        if not holds:
            self.answering.set()

    async def meet(self, request: ModelRequest) -> None:
        self.requests.append(request)
        if request.purpose == "summary":
            self.asked.set()
            await self.answering.wait()

    @property
    def turns(self) -> Sequence[ModelRequest]:
        """The requests for turns."""
        return [request for request in self.requests if request.purpose == "turn"]

    @property
    def summaries(self) -> Sequence[ModelRequest]:
        """The requests for summaries."""
        return [request for request in self.requests if request.purpose == "summary"]


def words(tokens: int) -> str:
    """A text of so many tokens."""
    return "word" * tokens


def said(request: ModelRequest) -> str:
    """All the text that a request carries."""
    return "\n".join(texts_of(request))


def texts_of(request: ModelRequest) -> list[str]:
    """The texts of a request's messages, results included."""
    texts: list[str] = []
    for message in request.messages:
        for part in message.parts:
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, Result):
                texts += [item.text for item in part.content if isinstance(item, Text)]
    return texts


def tokens_of(request: ModelRequest) -> int:
    """How large a request is, at four characters a token."""
    return sum(len(text) for text in texts_of(request)) // 4
