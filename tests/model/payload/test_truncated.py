from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.text import MAX_DEPTH
from otel_toolcall_eval.model.payload.truncated import MAX_CUT_LENGTH, CutObject, read_cut


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        pytest.param('{"a": 1, "b": "x', CutObject(whole={"a": 1}, open_key="b"), id="in a text"),
        pytest.param('{"a": 1, "b": 12', CutObject(whole={"a": 1}, open_key="b"), id="in a number"),
        pytest.param('{"a": 1, "b"', CutObject(whole={"a": 1}), id="after a key"),
        pytest.param('{"a": 1, "b', CutObject(whole={"a": 1}), id="in a key"),
        pytest.param('{"a": 1, "b":', CutObject(whole={"a": 1}, open_key="b"), id="after a colon"),
        pytest.param('{"a": 1,', CutObject(whole={"a": 1}), id="after a comma"),
        pytest.param('{"a": 1', CutObject(whole={}, open_key="a"), id="in the only member"),
        pytest.param("{", CutObject(whole={}), id="after the bracket"),
        pytest.param(" {'a': True, 'b': ('x', 'y", CutObject(whole={"a": True}, open_key="b"), id="python"),
        pytest.param(
            '{"a": {"b": 1, "c": "x', CutObject(whole={}, open_key="a", inner=CutObject(whole={"b": 1}, open_key="c")), id="inner"
        ),
        pytest.param('{"a": [{"b": 1, "c": ', CutObject(whole={}, open_key="a"), id="object in a list"),
        pytest.param('{"a": [1, {"b": 2}], "c": [', CutObject(whole={"a": [1, {"b": 2}]}, open_key="c"), id="whole list"),
        pytest.param('[1, {"a": 1, "b', CutObject(whole={}), id="list"),
        pytest.param('{"a": "x\\', CutObject(whole={}, open_key="a"), id="in an escape"),
    ],
)
def test_whole_members_of_a_cut_object_are_recovered(text: str, cut: CutObject) -> None:
    assert read_cut(text) == cut


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("sunny", id="text"),
        pytest.param('"a', id="cut text"),
        pytest.param('{"a": 1}', id="whole"),
        pytest.param('{"a": 1} and', id="whole with more"),
        pytest.param('{"a" 1, "b": ', id="no colon"),
        pytest.param('{"a": 1 2, "b": ', id="two values"),
        pytest.param('{"a": xx, "b": ', id="no value"),
        pytest.param('{"a": : ', id="two colons"),
        pytest.param('{"a": "b": ', id="colon after a value"),
        pytest.param("{, ", id="comma first"),
        pytest.param('{"a", ', id="comma after a key"),
        pytest.param("[1: ", id="colon in a list"),
        pytest.param('{"a": [1}, "b": ', id="wrong bracket"),
        pytest.param('{x y: 1, "b": ', id="key that is none"),
        pytest.param("[1] 2, ", id="a value after the end"),
        pytest.param("[" * (MAX_DEPTH + 1), id="too deep"),
    ],
)
def test_what_is_not_cut_or_wrong_elsewhere_is_no_cut_object(text: str) -> None:
    assert read_cut(text) is None


def test_a_key_that_is_no_value_is_no_key() -> None:
    assert read_cut("{x y: ") == CutObject(whole={})


def test_a_long_text_is_looked_at_up_to_a_bound() -> None:
    cut = read_cut('{"a": 1, "b": "' + "x" * MAX_CUT_LENGTH + '"')
    assert cut == CutObject(whole={"a": 1}, open_key="b")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(value=st.dictionaries(st.text(max_size=3), JSON, max_size=4), data=st.data())
def test_members_of_a_cut_object_are_members_of_the_whole_one(value: dict[str, object], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = read_cut(text[: data.draw(st.integers(1, len(text) - 1))])
    assert cut is not None
    assert cut.whole.items() <= value.items() or all(value[key] == member for key, member in cut.whole.items())
