from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.model.payload.text import MAX_DEPTH, UnreadableTextError, read_text

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_json_is_read_back(value: Json, ensure_ascii: bool, indent: int | None) -> None:  # noqa: FBT001 - hypothesis fills it in
    assert repr(read_text(json.dumps(value, ensure_ascii=ensure_ascii, indent=indent))) == repr(value)


@given(st.text() | st.text(alphabet="{}[]()\"'\\:,0123eE.+-ntfNTFul \n", max_size=30))
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(UnreadableTextError):
        read_text(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param('{"a": [1, 1.0, true, null]}', {"a": [1, 1.0, True, None]}, id="json"),
        pytest.param("{'a': [1, 1.0, True, None]}", {"a": [1, 1.0, True, None]}, id="literal"),
        pytest.param('{"a": True}', {"a": True}, id="double-quotes-and-python's-words"),
        pytest.param('{"a": 1,}', {"a": 1}, id="comma-at-the-end"),
        pytest.param('{"a": 1, "a": 2}', {"a": 2}, id="last-key-wins"),
        pytest.param("NaN", float("nan"), id="nan"),
        pytest.param('{"a": -Infinity}', {"a": float("-inf")}, id="infinity"),
        pytest.param(r'"\ud800"', "\ud800", id="lone-surrogate"),
        pytest.param("\t\n 42 \r\n", 42, id="blanks"),
        pytest.param("1_000", 1000, id="underscore"),
        pytest.param("'it is'", "it is", id="quoted-text"),
        pytest.param("(1, 2)", (1, 2), id="tuple"),
        pytest.param("true", True, id="json's-true"),
        pytest.param("True", True, id="python's-true"),
        pytest.param("null", None, id="null"),
        pytest.param("None", None, id="none"),
        pytest.param(f'["{"[" * 500}"]', ["[" * 500], id="brackets-in-text-have-no-depth"),
        pytest.param(f'["{"[" * 500}\\"{"{" * 500}"]', ["[" * 500 + '"' + "{" * 500], id="brackets-behind-an-escape"),
        pytest.param(f'"{"[" * 500}"', "[" * 500, id="brackets-in-text-only"),
        pytest.param("[" + "[]," * 200 + "[]]", [[]] * 201, id="many-brackets-side-by-side"),
    ],
)
def test_text_is_read(text: str, value: Json) -> None:
    assert repr(read_text(text)) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("  ", id="blank"),
        pytest.param("It is sunny.", id="prose"),
        pytest.param("None of it", id="prose-that-begins-like-a-literal"),
        pytest.param("nan", id="python's-nan"),
        pytest.param("\ufeff{}", id="byte-order-mark"),
        pytest.param("{'a': true}", id="single-quotes-and-json's-words"),
        pytest.param('{"x": ', id="cut"),
        pytest.param('"open', id="open-text"),
        pytest.param('["open' + "[" * 500, id="open-text-after-an-open-list"),
        pytest.param("{1, 2}", id="set"),
        pytest.param("b'a'", id="bytes"),
        pytest.param("__import__('os')", id="code"),
        pytest.param("007", id="leading-zeros"),
        pytest.param("9" * 100_001, id="too-many-digits"),
        pytest.param("[" + "9" * 100_001 + "]", id="too-many-digits-inside"),
    ],
)
def test_other_text_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableTextError, match=r"^$"):
        read_text(text)


@pytest.mark.parametrize("length", [4_300, 4_301, 20_000])
@pytest.mark.parametrize(
    "form", [pytest.param("%s", id="alone"), pytest.param('{"a": [-%s]}', id="json"), pytest.param("{'a': [-%s]}", id="literal")]
)
def test_integers_are_exact_at_any_size(length: int, form: str) -> None:
    number = 10 ** (length - 1) + 1
    value = read_text(form % f"1{'0' * (length - 2)}1")
    assert value == number if form == "%s" else value == {"a": [-number]}


@pytest.mark.parametrize(
    ("opener", "closer"),
    [
        pytest.param("[", "]", id="lists"),
        pytest.param('{"a": ', "}", id="objects"),
        pytest.param("{'a': ", "}", id="literal-objects"),
        pytest.param("(", ",)", id="tuples"),
    ],
)
def test_depth_is_bounded(opener: str, closer: str) -> None:
    read_text(opener * MAX_DEPTH + "1" + closer * MAX_DEPTH)
    with pytest.raises(UnreadableTextError):
        read_text(opener * (MAX_DEPTH + 1) + "1" + closer * (MAX_DEPTH + 1))


@pytest.mark.parametrize("brackets", [8, 9, 60])
def test_brackets_side_by_side_are_not_deep(brackets: int) -> None:
    assert read_text(f"[{', '.join(['[]', '{}'] * brackets)}]") == [[], {}] * brackets


@pytest.mark.parametrize("opener", ["[", '{"a":', "{'a':", "(", "[1,", "-", "'", '"\\', "'\\'"])
def test_a_raised_recursion_limit_does_no_harm(opener: str) -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000_000)
    try:
        with pytest.raises(UnreadableTextError):
            read_text(opener * 200_001)
    finally:
        sys.setrecursionlimit(limit)
