"""Models that do not keep to their types: the session goes on, and what they said cannot break it later."""

from pathlib import Path

import pytest

from pi_actors import CommandRefused, CompactionSettings, Settings, Unanswered, Usage
from pi_actors.core.messages import Text
from pi_actors.models import Emit, ModelRequest, ModelResponse, ScriptedModel, reply
from tests.session.opened import QUICK, opened


@pytest.mark.parametrize(
    "returned",
    [
        None,
        "an answer",
        ModelResponse(parts=(Text(text="x"),), stop="done"),  # type: ignore[arg-type]
        ModelResponse(parts=("x",), stop="stop"),  # type: ignore[arg-type]
    ],
    ids=["nothing", "text", "another stop", "another part"],
)
async def test_a_model_that_returns_no_response_ends_the_run_and_the_agent_stays_usable(
    returned: ModelResponse,
) -> None:
    class Broken(ScriptedModel):
        async def stream(self, request: ModelRequest, emit: Emit) -> ModelResponse:
            return returned

    async with opened(Broken([])) as session:
        with pytest.raises(Unanswered, match="what the model returned is no ModelResponse"):
            await session.root.ask("go")
        await session.root.configure(model=ScriptedModel([reply("Here.")], name="sound"))
        assert (await session.root.ask("and now?")).text == "Here."


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input=-1),
        Usage(input=1.5),  # type: ignore[arg-type]
        Usage(output=2**63),
        Usage(cache_read=2**70),
        7,
    ],
    ids=str,
)
async def test_usage_that_no_request_can_have_counts_as_unreported(usage: Usage, tmp_path: Path) -> None:
    store = str(tmp_path / "work.db")
    script = ScriptedModel(
        [reply("One.", usage=usage), reply("Two.")], summaries=[reply("Said.", usage=usage)]
    )
    tight = Settings(retry=QUICK.retry, compaction=CompactionSettings(keep_recent_tokens=1))
    async with opened(script, store=store, settings=tight) as session:
        assert (await session.root.ask("go")).text == "One."
        assert (await session.root.ask("on")).text == "Two."
        outcome = await session.wait_actor(await session.root.compact())
        assert (outcome.status, outcome.reason) == ("completed", None)
        used = await session.usage()
        assert (used.responses, used.unreported) == (3, 2)
    async with opened(script, store=store) as session:
        assert await session.usage() == used


@pytest.mark.parametrize("window", [3_000.5, -1, True, 2**70], ids=str)
async def test_a_context_window_that_is_no_number_of_tokens_is_refused_at_opening(window: int) -> None:
    with pytest.raises(CommandRefused, match=r"context window of model 'scripted' is .*; it must be a whole"):
        async with opened(ScriptedModel([], context_window=window)):
            raise AssertionError("not opened")
