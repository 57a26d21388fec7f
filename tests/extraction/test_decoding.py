from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.extraction.decoding import (
    MIN_CUT_LENGTH,
    decode_arguments,
    decode_output,
    looks_like_schema,
    parameter_names,
    plain,
    read_as,
    unwrap,
)
from otel_toolcall_eval.extraction.dialect import Decode, Dialect, Match, Source, ValueOrigin
from otel_toolcall_eval.extraction.reading import Found
from otel_toolcall_eval.model.tool_call import Content, ContentState

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Value

MASKED = Dialect(name="d", family="d", match=Match(), placeholders={"redacted": frozenset({"<mask>"})}, empty_arguments=frozenset({"None"}))
LONG = "x" * MIN_CUT_LENGTH
SCHEMA = '{"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}}'


def _found(value: Value, *, cut: bool = False, names: Value = None, **reading: Any) -> Found:  # noqa: ANN401 - fields of Source
    return Found(value=value, source=Source(origin=ValueOrigin.ATTR, key="k", **reading), dialect=MASKED, names=names, cut=cut)


def _arguments(value: Value, **reading: Any) -> Content:  # noqa: ANN401
    return decode_arguments(_found(value, **reading)).content


def _output(value: Value, **reading: Any) -> Content:  # noqa: ANN401
    return decode_output(_found(value, **reading)).content


FULL, ABSENT, REDACTED, TRUNCATED, UNPARSED = ContentState


@pytest.mark.parametrize(
    ("value", "state", "decoded"),
    [
        pytest.param({"a": 1}, FULL, {"a": 1}, id="object"),
        pytest.param('{"a": 1}', FULL, {"a": 1}, id="json"),
        pytest.param("{'a': True}", FULL, {"a": True}, id="python"),
        pytest.param('"{\\"a\\": 1}"', FULL, {"a": 1}, id="json in json"),
        pytest.param("", FULL, {}, id="empty"),
        pytest.param("  ", FULL, {}, id="blank"),
        pytest.param(None, FULL, {}, id="null"),
        pytest.param("None", FULL, {}, id="a producer's word for nothing"),
        pytest.param("[1]", UNPARSED, None, id="list"),
        pytest.param((1,), UNPARSED, None, id="array"),
        pytest.param("Paris", UNPARSED, None, id="word"),
        pytest.param("5", UNPARSED, None, id="number in text"),
        pytest.param(5, UNPARSED, None, id="number"),
        pytest.param('{"a": }', UNPARSED, None, id="broken"),
        pytest.param("<mask>", REDACTED, None, id="user's mask"),
        pytest.param(" __REDACTED__ ", REDACTED, None, id="known mask"),
        pytest.param("x" * 201, UNPARSED, None, id="too long for a mask"),
        pytest.param('{"a": 1, "b": "' + LONG, TRUNCATED, None, id="cut"),
        pytest.param('{"a": 1, "b": "xx...[TRUNCATED: original length 9]', TRUNCATED, None, id="cut with a mark"),
    ],
)
def test_arguments_are_an_object_or_a_state_that_says_why_not(value: Value, state: ContentState, decoded: Json) -> None:
    content = _arguments(value)
    assert (content.state, content.value) == (state, decoded)
    assert content.text == (value if isinstance(value, str) else None)


@pytest.mark.parametrize("value", ["", " ", None, "null"])
def test_in_the_guides_convention_nothing_is_no_arguments(value: Value) -> None:
    content = _arguments(value, decode=Decode.ONCE)
    assert (content.state, content.value, content.nothing) == (FULL, {}, True)


def test_what_was_never_recorded_is_absent_unless_that_means_empty() -> None:
    assert decode_arguments(None).content.state is ABSENT
    assert decode_output(None).content.state is ABSENT
    assert decode_arguments(None, nothing_means_empty=True).content == Content(state=FULL, value={}, nothing=True)
    assert decode_output(None, nothing_means_empty=True).content == Content(state=FULL, nothing=True)


@pytest.mark.parametrize(
    ("length", "state"),
    [pytest.param(MIN_CUT_LENGTH - 1, UNPARSED, id="below"), pytest.param(MIN_CUT_LENGTH, TRUNCATED, id="at the bound")],
)
def test_in_the_guides_convention_broken_text_is_cut_only_from_a_length_on(length: int, state: ContentState) -> None:
    assert _arguments(('{"a": "' + LONG)[:length], decode=Decode.ONCE).state is state


def test_the_guides_arguments_are_decoded_once() -> None:
    assert _arguments('"{\\"x\\": 1}"', decode=Decode.ONCE).state is UNPARSED
    assert _arguments('{"kwargs": {}}', decode=Decode.ONCE, unwrap=("kwargs",)).value == {"kwargs": {}}


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        pytest.param("18", "18", id="bare number stays text"),
        pytest.param("null", "null", id="bare null stays text"),
        pytest.param("'x'", "'x'", id="python's quotes stay"),
        pytest.param('"x"', "x", id="quoted text"),
        pytest.param('"x" and "y"', '"x" and "y"', id="text that begins quoted"),
        pytest.param("(see note)", "(see note)", id="text that begins like a tuple"),
        pytest.param("(5)", "(5)", id="a grouped number"),
        pytest.param("(1, 2)", (1, 2), id="tuple"),
        pytest.param(" [1]", [1], id="leading blank"),
        pytest.param(3, 3, id="number"),
        pytest.param(None, None, id="null"),
        pytest.param("", "", id="empty"),
        pytest.param(b"\xff", "/w==", id="bytes"),
    ],
)
def test_an_output_is_any_value_and_other_text_is_itself(value: Value, decoded: Json) -> None:
    content = _output(value)
    assert (content.state, content.value) == (FULL, decoded)


def test_text_is_decoded_at_most_four_times() -> None:
    layers = ["x"]
    for _ in range(6):
        layers.append(
            repr(layers[-1]).replace("'", '"') if len(layers) == 1 else '"' + layers[-1].replace("\\", "\\\\").replace('"', '\\"') + '"'
        )
    assert read_as(layers[4], Decode.AUTO) == "x"
    assert read_as(layers[5], Decode.AUTO) == '"x"'


@pytest.mark.parametrize(
    ("decode", "text", "value"),
    [
        pytest.param(Decode.TEXT, "[1]", "[1]", id="text"),
        pytest.param(Decode.JSON, "5", 5, id="json scalar"),
        pytest.param(Decode.PYTHON, "None", None, id="python scalar"),
        pytest.param(Decode.JSON, "word", "word", id="not json"),
    ],
)
def test_a_dialect_can_say_how_text_is_read(decode: Decode, text: str, value: Json) -> None:
    assert _output(text, decode=decode).value == value


def test_a_producers_flag_marks_a_value_as_cut() -> None:
    assert _output("sunny and", cut=True).state is TRUNCATED
    assert _output(5, cut=True).state is TRUNCATED


@pytest.mark.parametrize(
    ("text", "reading", "partial"),
    [
        pytest.param('{"args": {"p": 1, "q": "' + LONG, {"path": ("args",)}, {"p": 1}, id="path into the cut"),
        pytest.param('{"args": {"p": 1}, "q": "' + LONG, {"path": ("args",)}, {"p": 1}, id="path to a whole member"),
        pytest.param('{"args": 5, "q": "' + LONG, {"path": ("args",)}, {}, id="path to no object"),
        pytest.param('{"x": 1, "q": "' + LONG, {"path": ("args",)}, {}, id="path that is lost"),
        pytest.param('{"x": {"args": "' + LONG, {"path": ("x", "args", "b")}, {}, id="path beyond the cut"),
        pytest.param('{"args": [], "kwargs": {"a": 1, "b": "' + LONG, {"unwrap": ("args_kwargs",)}, {"a": 1}, id="wrapper"),
        pytest.param('{"kwargs": {"a": 1, "b": "' + LONG, {}, {}, id="no wrapper by this dialect"),
        pytest.param("[" + "1, " * 20, {}, {}, id="list"),
        pytest.param("{'a': 1, 'b': '" + LONG, {}, {"a": 1}, id="python"),
    ],
)
def test_whole_members_of_cut_arguments_are_kept(text: str, reading: dict[str, Any], partial: dict[str, Json]) -> None:
    content = _arguments(text, **reading)
    assert (content.state, content.partial) == (TRUNCATED, partial)


def test_a_path_leads_into_the_value() -> None:
    assert _output('{"a": [{"b": "[1]"}]}', path=("a", "0", "b")).value == [1]
    assert _output('{"a": {"b": 5}}', path=("a",)).value == {"b": 5}
    assert _output('{"a": 1}', path=("b",)).state is ABSENT


def test_a_single_text_can_become_the_only_argument() -> None:
    assert _arguments("ls", decode=Decode.TEXT, wrap_as="command").value == {"command": "ls"}


def test_a_schema_is_not_taken_for_arguments() -> None:
    assert _arguments(SCHEMA, refuse_schema=True).state is ABSENT
    assert _arguments('{"city": "Paris"}', refuse_schema=True).value == {"city": "Paris"}


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        pytest.param({"type": "object", "properties": {}}, True, id="json schema"),
        pytest.param({"city": {"type": "string"}}, True, id="inputs of smolagents"),
        pytest.param({"type": "object"}, False, id="an argument named type"),
        pytest.param({}, False, id="empty"),
        pytest.param([], False, id="list"),
    ],
)
def test_schemas_are_told_from_arguments(value: Json, *, answer: bool) -> None:
    assert looks_like_schema(value) is answer


def test_positional_arguments_get_the_names_of_the_schema() -> None:
    arguments = _arguments('{"args": ["Paris"], "kwargs": {}}', unwrap=("args_kwargs",), names=SCHEMA)
    assert arguments.value == {"city": "Paris"}


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        pytest.param(SCHEMA, ["city", "unit"], id="schema in text"),
        pytest.param({"answer": {"type": "any"}}, ["answer"], id="inputs"),
        pytest.param({"a": 1}, [], id="no schema"),
        pytest.param("text", (), id="text"),
        pytest.param(None, (), id="none"),
        pytest.param(5, (), id="number"),
    ],
)
def test_parameter_names(schema: Value, names: list[str]) -> None:
    assert parameter_names(schema) == names


def test_a_mask_inside_a_wrapper_is_a_mask() -> None:
    assert _output('{"output": "<mask>"}', unwrap=("output",)).state is REDACTED


def test_text_that_a_wrapper_held_is_the_recorded_text() -> None:
    content = _output('{"output": "sunny"}', unwrap=("output",))
    assert (content.value, content.text) == ("sunny", "sunny")


def test_shapes_are_taken_off_in_their_order_and_only_once() -> None:
    value, said = unwrap({"output": {"output": 1}}, ("output",))
    assert value == {"output": 1}
    assert len(said) == 1


def test_structured_values_become_plain_ones() -> None:
    assert plain({"a": (b"\x00", {"b": None})}) == {"a": ("AA==", {"b": None})}


def test_arguments_that_are_null_inside_a_wrapper_are_none_at_all() -> None:
    content = _arguments('{"kwargs": {}, "x": null}', path=("x",))
    assert content.state is ABSENT
    assert _arguments("null", decode=Decode.JSON).value == {}
