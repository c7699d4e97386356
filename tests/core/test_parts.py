"""Parts that are not of their types are refused where they enter, and nothing fails for them later."""

import pytest

from pi_actors import InvalidValue, ToolResult, tool
from pi_actors.core.messages import Blob, Message, Text
from pi_actors.models import call, reply
from tests.session.opened import opened

WRONG: dict[str, Text | Blob] = {
    "a Text of int": Text(text=5),  # type: ignore[arg-type]
    "a Blob whose media type is of int": Blob(media_type=5, data=b"x"),  # type: ignore[arg-type]
    "a Blob of NoneType": Blob(media_type="text/plain", data=None),  # type: ignore[arg-type]
}
wrong = pytest.mark.parametrize("problem", WRONG)


@wrong
async def test_an_input_with_a_wrong_part_is_refused_and_the_session_goes_on(problem: str) -> None:
    async with opened([reply("Here.")]) as session:
        with pytest.raises(InvalidValue, match=f"the input has {problem}"):
            await session.root.submit([WRONG[problem]])
        with pytest.raises(InvalidValue, match=f"the input has {problem}"):
            await session.root.submit_write("note", messages=[Message(role="user", parts=(WRONG[problem],))])
        assert (await session.root.ask("go")).text == "Here."


@wrong
async def test_a_result_with_a_wrong_part_is_the_failure_of_its_tool(problem: str) -> None:
    @tool(replay="safe")
    async def broken() -> ToolResult:
        """Give back what is no part."""
        return ToolResult((WRONG[problem],))

    async with opened([reply("", call("broken")), reply("I see.")], broken) as session:
        assert (await session.root.ask("go")).text == "I see."


@pytest.mark.parametrize("name", ["terminate", "is_error"])
async def test_a_result_whose_flag_is_neither_true_nor_false_is_the_failure_of_its_tool(name: str) -> None:
    @tool(replay="safe")
    async def broken() -> ToolResult:
        """Give back a flag that is none."""
        return ToolResult("x", **{name: "yes"})  # type: ignore[arg-type]

    async with opened([reply("", call("broken")), reply("I see.")], broken) as session:
        assert (await session.root.ask("go")).text == "I see."
