from __future__ import annotations

from collections import ChainMap, deque

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.rendering import MAX_RENDERED, render

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


def seen(value: object, limit: int) -> object:
    """Return a value whose texts end just behind what is shown of them, which is what their quotes are chosen by."""
    if isinstance(value, str):
        return value[: limit + 1]
    if isinstance(value, list):
        return [seen(member, limit) for member in value]
    if isinstance(value, tuple):
        return tuple(seen(member, limit) for member in value)
    return {seen(key, limit): seen(member, limit) for key, member in value.items()} if isinstance(value, dict) else value


@given(VALUES, st.integers(0, 60))
@example([{"0000'": None}], 3)
@example("ab\"'", 2)
def test_rendering_is_repr_up_to_the_limit(value: object, limit: int) -> None:
    whole = repr(value)
    assert render(value, limit=limit) == (whole if len(whole) <= limit else repr(seen(value, limit))[:limit] + "...")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param({"user_id": 123, "tags": ("a",)}, "{'user_id': 123, 'tags': ('a',)}", id="object"),
        pytest.param(ChainMap({"a": 1}), "{'a': 1}", id="other-mapping"),
        pytest.param(deque([1, 2]), "[1, 2]", id="other-sequence"),
        pytest.param("\ud800\n", r"'\ud800\n'", id="surrogate-and-line-break"),
        pytest.param(2**1999, str(2**1999), id="long-integer"),
        pytest.param([b"a"], "[<bytes>]", id="no-json"),
        pytest.param(10**5000, hex(10**5000)[:MAX_RENDERED] + "...", id="integer-beyond-python's-limit"),
        pytest.param("a" * MAX_RENDERED, "'" + "a" * (MAX_RENDERED - 1) + "...", id="long-text"),
        pytest.param([0] * 1_000_000, ("[" + "0, " * MAX_RENDERED)[:MAX_RENDERED] + "...", id="long-list"),
    ],
)
def test_value_is_shown(value: object, shown: str) -> None:
    assert render(value) == shown


def test_depth_is_bounded() -> None:
    value: object = 1
    for _ in range(100_000):
        value = [value]
    assert render(value) == "[" * 100 + "..." + "]" * 100
    while isinstance(value, list):  # undone step by step: Python's own destructor recurses
        value = value[0]
