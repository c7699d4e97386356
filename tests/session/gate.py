"""A tool that waits until the test lets it go on."""

import trio

from pi_actors import tool


class Gate:
    """``entered`` is set when the tool runs, and it returns "open" once ``opened`` is set."""

    def __init__(self, name: str = "gate") -> None:
        self.entered = trio.Event()
        self.opened = trio.Event()
        self.runs = 0

        @tool(name=name)
        async def gate() -> str:
            """Wait."""
            self.runs += 1
            self.entered.set()
            await self.opened.wait()
            return "open"

        self.tool = gate
