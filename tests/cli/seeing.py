"""What a person sees of commits, on paper that remembers what was written."""

from pi_actors.cli.screen import Screen
from pi_actors.core.decider import Event
from pi_actors.core.record import Recorded


class Page:
    """Paper that remembers what was written."""

    def __init__(self) -> None:
        self.text = ""

    def line(self, text: str, style: str = "") -> None:
        self.end_line()
        self.text += text + "\n"

    def piece(self, text: str, style: str = "") -> None:
        self.text += text

    def end_line(self) -> None:
        if self.text and not self.text.endswith("\n"):
            self.text += "\n"


def seen(*events: tuple[int, int, Event]) -> str:
    """What is seen of (position, actor, event), each a commit of its own."""
    page = Page()
    screen = Screen(page)
    for position, actor, event in events:
        screen.show(
            (
                Recorded(
                    position=position,
                    end=position,
                    at_us=0,
                    actor=actor,
                    cause=0,
                    topic=type(event).__name__,
                    event=event,
                ),
            )
        )
    return page.text
