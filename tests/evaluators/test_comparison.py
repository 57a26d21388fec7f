from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.comparison import asked, compared, offered, plainly_answers, spelled
from otel_toolcall_eval.model.tool_call import Content, ContentState, Json
from tests.evaluators.calls import NO_OUTPUT, full, said

NAN = float("nan")
INFINITY = float("inf")
UNREAD = Content(state=ContentState.UNPARSED, text="[[[")


def answers(expected: Json, recorded: Content) -> bool:
    found = not set(asked(expected)).isdisjoint(offered(recorded))
    assert found or not plain(expected, recorded)
    return found


def plain(expected: Json, recorded: Content) -> bool:
    return plainly_answers(expected, spelled(expected) if isinstance(expected, str) else expected, recorded)


@pytest.mark.parametrize(
    ("expected", "recorded"),
    [
        pytest.param("sunny", said("sunny"), id="text"),
        pytest.param("  ", said("  "), id="blank-text"),
        pytest.param("", said(""), id="empty-text"),
        pytest.param('"hello"', said('"hello"'), id="quotes-stay"),
        pytest.param("done", said('{"content": "done"}'), id="content"),
        pytest.param("done", said("{'content': 'done', 'status': 'ok'}"), id="content-beside-others"),
        pytest.param('{"content": "done"}', said("{'content': 'done'}"), id="whole-wrapper"),
        pytest.param({"content": {"a": 1}}, said('{"content": {"a": 1}}'), id="whole-wrapper-as-value"),
        pytest.param("{'content': 'x'}", said('{"content": {"content": "x"}}'), id="wrapper-in-wrapper"),
        pytest.param("{'a': 1}", said('{"content": {"a": 1.0}}'), id="content-object-against-text"),
        pytest.param('{"a":1}', said('{"content": "{\'a\': 1}"}'), id="content-text-that-spells-an-object"),
        pytest.param({"a": 1}, said('{"content": "{\\"a\\": 1}"}'), id="object-against-content-text"),
        pytest.param([1, 2], said("(1, 2)"), id="list-against-tuple"),
        pytest.param("42", said("42"), id="number-text"),
        pytest.param("42.0", said("42"), id="number-by-value"),
        pytest.param(42, said("42"), id="number"),
        pytest.param(42, full("42", "42"), id="number-that-a-dialect-left-as-text"),
        pytest.param("True", said('{"content": true}'), id="python's-word"),
        pytest.param("true", said('{"content": true}'), id="json's-word"),
        pytest.param(True, said("True"), id="boolean"),
        pytest.param("('a', 'b')", full(("a", "b")), id="attribute-list"),
        pytest.param("0", full(0), id="attribute-zero"),
        pytest.param("x", full({"content": "x"}), id="attribute-object"),
        pytest.param("x", full("x"), id="text-value-without-text"),
        pytest.param("hello", full("hello", '[{"type": "text", "text": "hello"}]'), id="taken-out-of-a-wrapper"),
        pytest.param({"a": 1}, full('{"a": 1}', '[{"type": "text", "text": "..."}]'), id="object-text-taken-out-of-a-wrapper"),
        pytest.param(None, said("null"), id="null"),
        pytest.param("", said("null"), id="empty-and-null"),
        pytest.param("", said('{"content": null}'), id="empty-and-null-content"),
        pytest.param("None", said("null"), id="null-spelled"),
        pytest.param("", NO_OUTPUT, id="empty-and-nothing"),
        pytest.param(None, NO_OUTPUT, id="null-and-nothing"),
        pytest.param("NaN", full(NAN), id="nan-spelled"),
        pytest.param("nan", full({"content": NAN}), id="nan-spelled-by-python"),
        pytest.param("inf", full(INFINITY), id="infinity-spelled-by-python"),
        pytest.param("-Infinity", full(-INFINITY), id="infinity-spelled"),
        pytest.param("[[[", UNREAD, id="text-of-what-can't-be-read"),
    ],
)
def test_output_meets_the_expectation(expected: Json, recorded: Content) -> None:
    assert answers(expected, recorded)


@pytest.mark.parametrize(
    ("expected", "recorded"),
    [
        pytest.param("Sunny", said("sunny"), id="case"),
        pytest.param("done", said('{"content": "done "}'), id="blank"),
        pytest.param("hello", said('"hello"'), id="quotes"),
        pytest.param("x", said('{"Content": "x"}'), id="content-is-exact"),
        pytest.param("42.0", said('{"content": "42"}'), id="content-text-is-no-number"),
        pytest.param(42, said('{"content": "42"}'), id="content-text-against-number"),
        pytest.param('{"a": 1}', said('"{\\"a\\": 1}"'), id="decoded-once"),
        pytest.param("", said("0"), id="zero-is-not-empty"),
        pytest.param("", said("{}"), id="object-is-not-empty"),
        pytest.param("", said("false"), id="false-is-not-empty"),
        pytest.param(None, said(""), id="null-and-empty-text"),
        pytest.param("null", NO_OUTPUT, id="null-spelled-and-nothing"),
        pytest.param("x", NO_OUTPUT, id="text-and-nothing"),
        pytest.param(True, said("1"), id="true-and-one"),
        pytest.param([1, 2], said("[2, 1]"), id="list-order"),
        pytest.param(NAN, full(NAN), id="nan"),
        pytest.param(None, Content(state=ContentState.UNPARSED), id="null-and-what-can't-be-read"),
    ],
)
def test_output_does_not_meet_the_expectation(expected: Json, recorded: Content) -> None:
    assert not answers(expected, recorded)


@pytest.mark.parametrize(
    ("expected", "recorded", "at_a_glance"),
    [
        pytest.param("sunny", said("sunny"), True, id="text"),
        pytest.param('{"a": 1}', said('{"a": 1}'), True, id="same-text"),
        pytest.param('{"a": 1}', said("{'a': 1.0}"), True, id="text-that-spells-it"),
        pytest.param({"a": 1}, said('{"a": 1}'), True, id="object"),
        pytest.param("done", said('{"content": "done", "k": 1}'), True, id="content"),
        pytest.param({"content": "done"}, said('{"content": "done"}'), True, id="wrapper"),
        pytest.param("hello", said('"hello"'), False, id="quotes"),
        pytest.param({"a": 1}, said("[1]"), False, id="other-value"),
        pytest.param("done", said("{'content': 'done'}"), True, id="content-of-a-literal"),
        pytest.param('{"a": 1}', said('{"content": "{\\"a\\": 1}"}'), True, id="content-text"),
        pytest.param('{"a":1}', said('{"content": "{\\"a\\": 1}"}'), True, id="content-text-that-spells-what-text-spells"),
        pytest.param({"a": 1}, said('{"content": "{\\"a\\": 1}"}'), True, id="content-text-that-spells-it"),
        pytest.param([1], said('{"content": "(1,)"}'), True, id="content-text-that-spells-a-tuple"),
        pytest.param(42, said('{"content": "42"}'), False, id="content-text-that-spells-a-number"),
        pytest.param({"a": 1}, said('{"content": "a"}'), False, id="content-text-that-spells-nothing"),
        pytest.param({"a": 1}, said('{"content": {"a": 1}}'), True, id="content-value"),
        pytest.param("", said('{"content": ""}'), True, id="empty-content"),
        pytest.param(None, NO_OUTPUT, False, id="nothing"),
        pytest.param(None, Content(state=ContentState.ABSENT), False, id="absent"),
    ],
)
def test_what_is_usual_is_told_at_a_glance(expected: Json, recorded: Content, at_a_glance: bool) -> None:  # noqa: FBT001 - a column of the table
    assert plain(expected, recorded) is at_a_glance


VALUES: st.SearchStrategy[Json] = st.recursive(
    st.sampled_from(["x", "", "42", '"x"', "null", "True", "NaN", "[1]", "(1,)", '{"a": 1}', "{'a': 1.0}"])
    | st.sampled_from([None, True, 0, 42, 1.0, NAN]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "content", "k"]), inner, max_size=2),
    max_leaves=4,
)
SPELLED = st.sampled_from(["json", "json-in-json", "repr"])


def spelt(value: Json, how: str) -> str:
    return repr(value) if how == "repr" else json.dumps(json.dumps(value) if how == "json-in-json" else value)


@given(value=VALUES, other=VALUES, text=st.none() | SPELLED, how=SPELLED, wrapped=st.booleans(), twice=st.booleans())
def test_what_is_told_at_a_glance_is_told_by_the_tokens(
    *, value: Json, other: Json, text: str | None, how: str, wrapped: bool, twice: bool
) -> None:
    expected = value if text is None else spelt(value, text)
    recorded: Json = other if twice else value
    if wrapped:
        recorded = {"content": spelt(recorded, how) if how != "json" else recorded}
    answers(expected, said(spelt(recorded, "json")))
    answers(expected, full(recorded))


def test_wrapper_as_a_whole_is_offered_only_if_one_is_expected() -> None:
    recorded = said('{"content": {"a": 1}}')
    assert set(asked({"content": {"a": 1}})) & set(offered(recorded)) == set(asked({"content": {"a": 1}}))
    assert not set(asked({"content": {"a": 1}})) & set(offered(recorded, wrapped=False))
    assert set(asked({"a": 1})) <= set(offered(recorded, wrapped=False))


@pytest.mark.parametrize(
    ("expected", "recorded", "shown"),
    [
        pytest.param("sunny", said("rainy"), ("sunny", "rainy"), id="text"),
        pytest.param("hello", said('"hello"'), ("hello", '"hello"'), id="quoted-text"),
        pytest.param("{'a': 1}", said('{"content": "{\\"a\\": 2}"}'), ({"a": 1}, {"a": 2}), id="spelled-objects"),
        pytest.param({"content": 1}, said('{"content": 2}'), ({"content": 1}, {"content": 2}), id="wrapper-expected"),
        pytest.param("1", said('{"content": 2}'), (1, 2), id="number-against-text"),
        pytest.param("1", said('{"content": "2"}'), ("1", "2"), id="content-text"),
        pytest.param({"a": 1}, said("sunny"), ({"a": 1}, "sunny"), id="object-and-prose"),
        pytest.param(43, full("42", "42"), (43, 42), id="number-left-as-text"),
        pytest.param("{'a': 1}", full("{'a': 2}", "{'a': 2}"), ({"a": 1}, {"a": 2}), id="object-left-as-text"),
        pytest.param("a", UNREAD, ("a", "[[["), id="can't-be-read"),
        pytest.param("a", Content(state=ContentState.UNPARSED), ("a", None), id="nothing-to-read"),
        pytest.param("x", full("hello", '[{"text": "hello"}]'), ("x", "hello"), id="taken-out-of-a-wrapper"),
    ],
)
def test_nearest_forms_are_compared(expected: Json, recorded: Content, shown: tuple[Json, Json]) -> None:
    assert compared(expected, recorded) == shown
