"""The page applies frames as Python does: ``page/frames.js`` beside ``projections.frames``."""

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pi_actors.core.text import Json
from projections.frames import Frame, FrameDoesNotFit, Op, apply_frame, diff
from tests.projections.test_frames import DOCUMENTS, NOW, SCALARS
from tests.server.browser import Browser, browsing
from tests.server.processes import serving

TWIN: Final = """
const [value, frame, expected, done] = arguments;
const sorted = (_, node) => node && typeof node === "object" && !Array.isArray(node)
  ? Object.fromEntries(Object.entries(node).sort(([one], [other]) => one < other ? -1 : 1)) : node;
const text = (node) => JSON.stringify(node, sorted);
import("/frames.js").then(({applyFrame, FrameDoesNotFit}) => {
  const [before, start] = [value, JSON.parse(value)];
  try {
    const found = text(applyFrame(start, JSON.parse(frame)));
    const same = found === text(JSON.parse(expected));
    done(same && JSON.stringify(start) === JSON.stringify(JSON.parse(before)) ? "" : found);
  } catch (error) {
    done(error instanceof FrameDoesNotFit && expected === "misfit" ? "" : String(error));
  }
});
"""
OPS: Final = st.builds(
    Op,
    op=st.sampled_from(["set", "delete", "insert", "append"]),
    path=st.lists(st.sampled_from(["x", "y", "id", "__proto__", 0, 1, -1]), max_size=3).map(tuple),
    value=SCALARS,
)


@pytest.fixture(scope="module")
def browser() -> Generator[Browser]:
    with browsing() as browser:
        yield browser


def test_frames_do_the_same_in_the_page_as_in_python(browser: Browser, tmp_path: Path) -> None:
    @settings(max_examples=60, deadline=None)
    @given(DOCUMENTS, DOCUMENTS, st.lists(OPS, max_size=3))
    @example({"x": {}}, {"x": {"__proto__": {"y": 1}}}, [Op(op="set", path=("x", "__proto__", "y"), value=2)])
    @example(
        {"x": "é"}, {"x": "é🎉"}, [Op(op="append", path=("x",), value="🎉"), Op(op="delete", path=("x",))]
    )
    @example({"x": [1]}, {}, [Op(op="insert", path=("x", 1), value=None), Op(op="set", path=("x", 2))])
    def same(old: dict[str, Json], new: dict[str, Json], ops: list[Op]) -> None:
        leading = Frame(position=7, at=NOW, ops=diff(old, new))
        assert twin_of(browser, old, leading) == ""
        assert twin_of(browser, new, Frame(position=8, at=NOW, ops=tuple(ops))) == ""
        assert twin_of(browser, old, Frame(position=9, at=NOW, snapshot=new)) == ""

    with serving("work.db", cwd=tmp_path) as server:
        browser.open(server.url)
        same()


def twin_of(browser: Browser, value: dict[str, Json], frame: Frame) -> str:
    """How the page's way of applying a frame differs from Python's; empty where it does not."""
    expected = "misfit"
    with suppress(FrameDoesNotFit):
        expected = msgspec.json.encode(apply_frame(value, frame)).decode()
    encoded = msgspec.json.encode(value).decode(), msgspec.json.encode(frame).decode()
    found: str = browser.run_async(TWIN, *encoded, expected)
    return found
