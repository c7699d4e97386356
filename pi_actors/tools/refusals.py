"""What the environment refuses is a result that the model reads, not a failure of the tool."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeAlias

from pi_actors.tools.environment import EnvError
from pi_actors.tools.result import ToolResult

P = ParamSpec("P")
Answer: TypeAlias = ToolResult | str


class Refused(Exception):
    """The tool cannot do what the model asked; the message is for the model."""


def told_to_the_model(act: Callable[P, Awaitable[Answer]]) -> Callable[P, Awaitable[Answer]]:
    """Make an EnvError or Refused of *act* an error result with its message."""

    @wraps(act)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> Answer:
        try:
            return await act(*args, **kwargs)
        except (EnvError, Refused) as error:
            return ToolResult(str(error), is_error=True)

    return answered
