"""Operations on JSON: found between two values, carried out on one."""

from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pi_actors.core.text import Json
from projections.frames import DELETED_MAX, Frame, FrameDoesNotFit, Op, apply_frame, diff
from tests.projections.exact import exact

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.text("ab", max_size=3)
)
IDS = st.integers(0, 4) | st.sampled_from(["a", "b"]) | st.booleans()


def objects(values: st.SearchStrategy[Json]) -> st.SearchStrategy[dict[str, Json]]:
    return st.dictionaries(st.sampled_from(["id", "entry", "index", "x", "y"]), values | IDS, max_size=4)


VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=5) | objects(inner), max_leaves=25)
DOCUMENTS = objects(VALUES)


def frame(*ops: Op) -> Frame:
    return Frame(position=7, at=NOW, ops=ops)


def changed(value: dict[str, Json], *ops: Op) -> Json:
    return apply_frame(value, frame(*ops))


@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_values_leads_from_one_to_the_other_and_changes_neither(
    old: dict[str, Json], new: dict[str, Json]
) -> None:
    before = exact(old), exact(new)
    ops = diff(old, new)
    assert exact(apply_frame(old, frame(*ops))) == before[1]
    assert (exact(old), exact(new)) == before
    assert (ops == ()) == (before[0] == before[1])


@given(DOCUMENTS, DOCUMENTS)
def test_a_frame_that_was_sent_as_json_does_the_same(old: dict[str, Json], new: dict[str, Json]) -> None:
    sent = msgspec.json.encode(frame(*diff(old, new)))
    received = msgspec.json.decode(sent, type=Frame)
    assert exact(apply_frame(old, received)) == exact(new)


@given(
    DOCUMENTS,
    st.lists(
        st.builds(
            Op,
            op=st.sampled_from(["set", "delete", "insert", "append"]),
            path=st.lists(st.sampled_from(["x", "y", "id", 0, 1, -1]), max_size=3).map(tuple),
            value=SCALARS,
        ),
        max_size=3,
    ),
)
def test_a_frame_fits_or_is_refused_and_never_spoils_the_value(value: dict[str, Json], ops: list[Op]) -> None:
    before = exact(value)
    with suppress(FrameDoesNotFit):
        apply_frame(value, frame(*ops))
    assert exact(value) == before


def test_text_that_grew_is_appended_to() -> None:
    assert diff({"x": "ab"}, {"x": "abc"}) == (Op(op="append", path=("x",), value="c"),)
    assert diff({"x": ""}, {"x": "abc"}) == (Op(op="set", path=("x",), value="abc"),)


def test_elements_with_an_id_are_added_and_removed_one_by_one() -> None:
    one, two, three = ({"id": id, "text": "long " * 10} for id in (1, 2, 3))
    assert diff([one], [one, two, three]) == (
        Op(op="append", path=(), value=two),
        Op(op="append", path=(), value=three),
    )
    assert diff([one, three], [one, two, three]) == (Op(op="insert", path=(1,), value=two),)
    assert diff([one, two, three], [three]) == (Op(op="delete", path=(1,)), Op(op="delete", path=(0,)))
    assert diff([one], []) == (Op(op="set", path=(), value=[]),)


def test_an_element_that_changed_is_known_by_its_id_wherever_it_stands_now() -> None:
    old = [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}]
    new = [{"id": 2, "text": "bc"}, {"id": 3, "text": "c"}]
    assert diff(old, new) == (
        Op(op="delete", path=(0,)),
        Op(op="append", path=(0, "text"), value="c"),
        Op(op="append", path=(), value={"id": 3, "text": "c"}),
    )


def test_calls_are_known_by_their_entry_and_index() -> None:
    old = [{"entry": 5, "index": index, "output": "x" * 100} for index in range(3)]
    assert diff(old, [dict(slot) for slot in old[1:]]) == (Op(op="delete", path=(0,)),)


def test_elements_without_an_id_are_known_by_their_place() -> None:
    old = [{"type": "text", "text": "a"}]
    new = [{"type": "text", "text": "ab"}, {"type": "call", "text": ""}]
    assert diff(old, new) == (
        Op(op="append", path=(0, "text"), value="b"),
        Op(op="append", path=(), value={"type": "call", "text": ""}),
    )


def test_a_list_that_loses_very_much_or_is_put_in_another_order_is_sent_anew() -> None:
    many = [{"id": id} for id in range(DELETED_MAX + 2)]
    assert diff(many, many[-1:]) == (Op(op="set", path=(), value=many[-1:]),)
    assert diff(many[:2], many[1::-1]) == (Op(op="set", path=(), value=many[1::-1]),)


def test_what_is_the_same_object_is_not_looked_into() -> None:
    class Untouchable(dict[str, Json]):
        def __iter__(self) -> object:  # type: ignore[override]  # it must not be called
            raise AssertionError

    same = Untouchable(x=1)
    assert diff({"same": same, "x": 1}, {"same": same, "x": 2}) == (Op(op="set", path=("x",), value=2),)


def test_what_a_frame_does_not_touch_is_shared_with_the_value_before() -> None:
    value: dict[str, Json] = {"entries": [{"id": 1}], "docs": {"a": {"x": [1]}, "b": {"y": "t"}}}
    after = changed(value, Op(op="append", path=("docs", "b", "y"), value="u"))
    assert after == {"entries": [{"id": 1}], "docs": {"a": {"x": [1]}, "b": {"y": "tu"}}}
    assert after["entries"] is value["entries"]
    assert after["docs"]["a"] is value["docs"]["a"]


def test_a_snapshot_is_the_value_whatever_was_known_before() -> None:
    whole = Frame(position=3, at=NOW, snapshot={"x": 1})
    assert apply_frame({"y": 2}, whole) == {"x": 1}


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (Op(op="delete", path=("gone",)), "delete gone, but there is no 'gone'"),
        (Op(op="set", path=("list", 2), value=1), r"set list/2, but there is no 2 in a list of 2"),
        (Op(op="insert", path=("list", 3), value=1), "insert list/3, but 3 is no place in a list of 2"),
        (Op(op="insert", path=("new",), value=1), "insert new, but 'new' is no place in an object of 4"),
        (Op(op="append", path=("number",), value="1"), "append number, but there is a number"),
        (Op(op="append", path=("text",), value=1), "append text, but there is text"),
        (Op(op="set", path=("text", "x"), value=1), "set text/x, but 'x' is looked for in text"),
        (Op(op="set", path=("nothing", "x"), value=1), "set nothing/x, but 'x' is looked for in null"),
        (Op(op="delete", path=()), "delete the whole value, but there is an object"),
    ],
)
def test_a_frame_that_does_not_fit_says_where_and_what_to_do(op: Op, why: str) -> None:
    value: dict[str, Json] = {"list": [0, 1], "text": "a", "number": 1, "nothing": None}
    with pytest.raises(FrameDoesNotFit, match=f"it would {why}. Attach again and start from the snapshot"):
        changed(value, op)
