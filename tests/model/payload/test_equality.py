from __future__ import annotations

from collections import ChainMap, UserString, deque
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.equality import contains, identity, same
from otel_toolcall_eval.model.payload.text import MAX_DEPTH, read_text

# Few enough that equal ones meet, and each with a neighbour that something else confuses it with.
SCALARS = st.sampled_from(
    [None, False, True, 0, 1, -0.0, 1.0, 1.5, 2**53, 2**53 + 1, 2.0**53, 10**400, float("inf"), "", "1", "true", "null"]
)
KEYS = st.sampled_from(["a", "1", 1, 1.5, True, None, "None", (1,), (1.0,), (True,)])
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.lists(st.tuples(KEYS, inner), max_size=3).map(dict)
    ),
    max_leaves=6,
)


def equal(one: object, other: object) -> bool:
    """docs/semantics.md, section 2, in as many words."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return one == other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return len(one) == len(other) and all(
            any(equal(key, other_key) and equal(member, other_member) for other_key, other_member in other.items())
            for key, member in one.items()
        )
    return type(one) is type(other) and one == other


@given(VALUES, VALUES)
def test_identities_are_equal_exactly_if_values_are(one: object, other: object) -> None:
    assert (identity(one) == identity(other)) is equal(one, other)
    assert same(one, other) is equal(one, other)


@given(VALUES)
def test_equal_values_have_equal_hashes(value: object) -> None:
    again = read_text(repr(value)) if "inf" not in repr(value) else value
    assert equal(value, again)
    assert identity(value) == identity(again)
    assert same(value, again)
    assert hash(identity(value)) == hash(identity(again))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, id="key-order"),
        pytest.param([1, (2, 3)], (1.0, [2, 3]), id="tuple-and-list"),
        pytest.param({"a": [True, {"b": None}, 0.5]}, {"a": [True, {"b": None}, 0.5]}, id="usual"),
        pytest.param((1, 2), (1, 2), id="tuples"),
        pytest.param({1: "x"}, {1.0: "x"}, id="number-keys"),
        pytest.param({"a": {}}, ChainMap({"a": {}}), id="other-mapping"),
        pytest.param([1], deque([1]), id="other-sequence"),
        pytest.param("a", type("Text", (str,), {})("a"), id="text-subclass"),
    ],
)
def test_equal(one: object, other: object) -> None:
    assert identity(one) == identity(other)
    assert hash(identity(one)) == hash(identity(other))
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(True, 1, id="true-and-one"),
        pytest.param([False], [0], id="false-and-zero-inside"),
        pytest.param(1, "1", id="number-and-text"),
        pytest.param(None, "", id="null-and-empty"),
        pytest.param(None, False, id="null-and-false"),
        pytest.param([], {}, id="empty-list-and-object"),
        pytest.param([1, 2], [2, 1], id="list-order"),
        pytest.param({1: "x"}, {"1": "x"}, id="number-key-and-text-key"),
        pytest.param({True: "x"}, {1: "x"}, id="true-key-and-one-key"),
        pytest.param({"a": None}, {}, id="null-member-and-none"),
        pytest.param({"a": None}, {"b": None}, id="other-key"),
        pytest.param({"a": 1, "b": 2}, {"a": 1, "b": 3}, id="other-member"),
        pytest.param([1], [1, 1], id="list-length"),
        pytest.param([["a", 1]], {"a": 1}, id="pairs-and-object"),
        pytest.param(2**53 + 1, 2.0**53, id="beyond-double"),
        pytest.param(10**400, float("inf"), id="huge-and-infinity"),
        pytest.param("é", "e\u0301", id="composed-and-decomposed"),
        pytest.param(float("nan"), float("nan"), id="nan"),
        pytest.param([float("nan")], [float("nan")], id="nan-inside"),
        pytest.param({float("nan"): 1}, {float("nan"): 1}, id="nan-as-key"),
        pytest.param(b"a", b"a", id="no-json"),
        pytest.param(bytearray(b"a"), [97], id="bytes-are-no-list"),
        pytest.param(UserString("a"), "b", id="text-like"),
    ],
)
def test_different(one: object, other: object) -> None:
    assert identity(one) != identity(other)
    assert not same(one, other)


@pytest.mark.parametrize("wrap", [pytest.param(lambda inner: [inner], id="list"), pytest.param(lambda inner: {"a": inner}, id="object")])
def test_values_beyond_the_depth_equal_nothing(wrap: object) -> None:
    value: object = 1
    for _ in range(MAX_DEPTH):
        value = wrap(value)  # type: ignore[operator]  # a table of functions
    assert identity(value) == identity(value)
    assert same(value, value)
    deeper = wrap(value)  # type: ignore[operator]  # a table of functions
    assert identity(deeper) != identity(deeper)
    assert not same(deeper, deeper)
    for _ in range(100_000):
        deeper = wrap(deeper)  # type: ignore[operator]  # a table of functions
    hash(identity(deeper))
    assert not same(deeper, deeper)
    while isinstance(deeper, list | dict):  # undone step by step: Python's own destructor recurses
        deeper = deeper["a"] if isinstance(deeper, dict) else deeper[0]


@pytest.mark.parametrize(
    ("whole", "part", "contained"),
    [
        pytest.param({"a": 1, "b": 2}, {"a": 1.0}, True, id="one-more"),
        pytest.param({"a": 1}, {}, True, id="nothing"),
        pytest.param({"b": 1}, {"a": 1}, False, id="other-key"),
        pytest.param({"a": True}, {"a": 1}, False, id="other-value"),
        pytest.param({"a": {"b": 1, "c": 1}}, {"a": {"b": 1}}, False, id="nested-values-are-compared-whole"),
        pytest.param({1: 1}, {"1": 1}, False, id="number-key-and-text-key"),
    ],
)
def test_object_contains_members(whole: Mapping[object, object], part: Mapping[str, object], contained: bool) -> None:  # noqa: FBT001 - a column of the table
    assert contains(whole, part) is contained


def test_identity_shows_what_it_stands_for() -> None:
    assert repr(identity([True, False, b""])) == "(<true>, <false>, <no value>)"
