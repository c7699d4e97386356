"""What a running tool may report, and until when."""

from collections.abc import Callable
from typing import cast

import pytest
import trio

from pi_actors.core.errors import CommandRefused, InvalidValue
from pi_actors.core.messages import Diagnostic
from pi_actors.tools import LocalEnv
from tests.tools.recording import RecordingPort, context


async def test_output_reaches_the_port_without_control_characters() -> None:
    """D94."""
    port = RecordingPort()
    context(port, LocalEnv()).output("a\x1b[1m\r\n\tb")
    assert port.outputs == ["a[1m\n\tb"]


async def test_a_worker_thread_may_report_output_and_remarks() -> None:
    port = RecordingPort()
    ctx = context(port, LocalEnv())
    limiter = trio.CapacityLimiter(1)
    await trio.to_thread.run_sync(ctx.output, "from a thread", limiter=limiter)
    await trio.to_thread.run_sync(ctx.diagnose, "warn", "careful", limiter=limiter)
    assert port.outputs == ["from a thread"]
    assert port.diagnostics == [Diagnostic(level="warn", code="note", text="careful")]


async def test_details_are_a_private_copy() -> None:
    port = RecordingPort()
    value = {"done": [1]}
    await context(port, LocalEnv()).details(value)
    value["done"].append(2)
    assert port.reported == [{"done": [1]}]


async def test_nothing_is_taken_after_the_result() -> None:
    """D99."""
    port = RecordingPort()
    ctx = context(port, LocalEnv())
    ctx.close()
    with pytest.raises(CommandRefused, match=r"output of call 2 of entry 7 \(probe\) came after its result"):
        ctx.output("late")
    with pytest.raises(CommandRefused, match="a remark of call 2"):
        ctx.diagnose("info", "late")
    with pytest.raises(CommandRefused, match="details of call 2"):
        await ctx.details("late")
    assert (port.outputs, port.diagnostics, port.reported) == ([], [], [])


async def test_what_is_no_text_or_no_level_is_refused() -> None:
    ctx = context(RecordingPort(), LocalEnv())
    with pytest.raises(InvalidValue, match="output is a bytes; it must be text"):
        cast(Callable[[object], None], ctx.output)(b"bytes")
    with pytest.raises(InvalidValue, match="level of a remark is 'fatal'"):
        cast(Callable[[str, str], None], ctx.diagnose)("fatal", "x")
    with pytest.raises(InvalidValue, match="details of a tool has a value of type object"):
        await ctx.details(object())
