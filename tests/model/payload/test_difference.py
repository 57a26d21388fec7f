from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.difference import MAX_DIFFERENCES, differences, likeness
from otel_toolcall_eval.model.payload.equality import identity

SECRET = "hunter2"  # noqa: S105 - no password: a value that must not show
SCALARS = st.sampled_from([None, False, True, 0, 1, 1.0, 2**53, 2**53 + 1, float("nan"), "", "1", SECRET, b"a"])
KEYS = st.sampled_from(["a", "b", "two words", 1, True, None, (1, 2)])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.lists(st.tuples(KEYS, inner), max_size=3).map(dict)
    ),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_differences_are_found_exactly_where_values_are_not_equal(expected: object, actual: object) -> None:
    found = differences(expected, actual)
    assert (not found) is (identity(expected) == identity(actual))
    assert len(found) <= MAX_DIFFERENCES
    assert SECRET not in "".join(found)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=3).map(dict), st.lists(st.tuples(KEYS, VALUES), max_size=4).map(dict))
def test_extra_members_are_no_difference_where_they_are_allowed(expected: object, actual: object) -> None:
    contained = identity(expected) <= identity(actual)  # type: ignore[operator]  # identities of objects are sets
    assert (not differences(expected, actual, extra_allowed=True)) is contained


@pytest.mark.parametrize(
    ("expected", "actual", "found"),
    [
        pytest.param({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("$.a.b[1] differs",), id="path"),
        pytest.param({"zip": 1}, {}, ("$.zip is missing",), id="missing"),
        pytest.param({}, {"zip": 1}, ("$.zip is not expected",), id="not-expected"),
        pytest.param({"n": 1}, {"n": "1"}, ("$.n is text, expected a number",), id="kinds"),
        pytest.param({"n": True}, {"n": 1}, ("$.n is a number, expected a boolean",), id="boolean-and-number"),
        pytest.param(None, [], ("$ is a list, expected null",), id="top"),
        pytest.param({"o": {}}, {"o": b""}, ("$.o is bytes, expected an object",), id="bytes"),
        pytest.param({"o": 1}, {"o": object}, ("$.o is no JSON value, expected a number",), id="no-json"),
        pytest.param([1, 2], [1], ("$ has length 1, expected 2",), id="length"),
        pytest.param({"two words": 1}, {"two words": 2}, ("$['two words'] differs",), id="odd-key"),
        pytest.param({1: 1}, {"1": 1}, ("$[1] is missing", "$['1'] is not expected"), id="number-key"),
        pytest.param({"k" * 61: 1}, {}, (f"$['{'k' * 59}...] is missing",), id="long-key"),
        pytest.param({"line\nbreak": 1}, {}, (r"$['line\nbreak'] is missing",), id="line-break-in-key"),
        pytest.param(list(range(9)), list(range(1, 10)), ("$[0] differs", "$[1] differs", "$[2] differs"), id="bounded"),
    ],
)
def test_difference_is_told(expected: object, actual: object, found: tuple[str, ...]) -> None:
    assert differences(expected, actual) == found


def test_values_beyond_the_depth_differ() -> None:
    value: object = 1
    for _ in range(101):
        value = [value]
    assert differences(value, value) == ("$" + "[0]" * 100 + " differs",)


@pytest.mark.parametrize(
    ("expected", "actual", "members"),
    [
        pytest.param({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 3.0, "d": 4}, 2, id="objects"),
        pytest.param([1, 2, 3], (1, 3, 3, 4), 2, id="lists"),
        pytest.param({"a": 1}, [1], 0, id="unlike"),
        pytest.param("a", "a", 0, id="scalars-have-no-members"),
    ],
)
def test_likeness_counts_equal_members(expected: object, actual: object, members: int) -> None:
    assert likeness(expected, actual) == members
