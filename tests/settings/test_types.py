"""Each type of value: what it takes, what it says of the rest, and that JSON Schema says the same."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from otel_toolcall_eval.model.criteria import Matching, Operator
from otel_toolcall_eval.model.tool_call import CallKind
from otel_toolcall_eval.settings.config_model import in_our_words
from otel_toolcall_eval.settings.types import (
    Count,
    Flag,
    GivenName,
    GivenNames,
    GivenShare,
    Name,
    Object,
    kind_of,
)

KINDS = Annotated[frozenset[CallKind], Field(min_length=1)]


def schema_takes(kind: type[Any], value: object) -> bool:
    return bool(Draft202012Validator(TypeAdapter(kind).json_schema()).is_valid(value))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        pytest.param(Name, "a", "a", id="name"),
        pytest.param(Name, " ", " ", id="blank-is-a-name"),
        pytest.param(GivenName, "気温", "気温", id="name-of-any-script"),
        pytest.param(GivenNames, "a", frozenset({"a"}), id="one-name"),
        pytest.param(GivenNames, ["a", "b", "a"], frozenset({"a", "b"}), id="names"),
        pytest.param(Flag, True, True, id="true"),
        pytest.param(Flag, "true", True, id="true-as-text"),
        pytest.param(Flag, "false", False, id="false-as-text"),
        pytest.param(GivenShare, 0, 0.0, id="least-share"),
        pytest.param(GivenShare, 1, 1.0, id="greatest-share"),
        pytest.param(GivenShare, 0.25, 0.25, id="share"),
        pytest.param(Object, {}, {}, id="no-members"),
        pytest.param(Object, {"a": [None]}, {"a": [None]}, id="members"),
        pytest.param(Count, ["=", 0], (Operator.EQUAL, 0), id="none"),
        pytest.param(Count, ["==", 2], (Operator.EQUAL, 2), id="two-equal-signs-are-one"),
        pytest.param(Count, ["!=", 2], (Operator.NOT_EQUAL, 2), id="not-equal"),
        pytest.param(Count, [">=", 10**30], (Operator.GREATER_EQUAL, 10**30), id="any-number"),
        pytest.param(Matching, "maximum", Matching.MAXIMUM, id="choice"),
        pytest.param(KINDS, ["mcp", "agent"], frozenset({CallKind.MCP, CallKind.AGENT}), id="choices"),
    ],
)
def test_right_values_are_taken(kind: type[Any], value: object, expected: object) -> None:
    assert TypeAdapter(kind).validate_python(value) == expected
    assert schema_takes(kind, value)


PAIR = 'write a list of an operator and a whole number, as in [">=", 1]'


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        pytest.param(Name, "", "this is empty; write a name", id="empty-name"),
        pytest.param(Name, None, "this is null, not text; write a name", id="null-as-name"),
        pytest.param(Name, 5, "this is a whole number, not text; put it in quotes", id="number-as-name"),
        pytest.param(Name, [], "this is a list, not text; write a name", id="list-as-name"),
        pytest.param(GivenName, None, "this is null; give a value, or leave the key out", id="given-null-as-name"),
        pytest.param(GivenNames, [], "this is empty; add at least one entry, or remove it", id="no-names"),
        pytest.param(GivenNames, ["a", 1], "this is a whole number, not text; put it in quotes", id="number-among-names"),
        pytest.param(Flag, None, "this is null, not true or false; write true or false", id="null-as-flag"),
        pytest.param(Flag, 1, "this is a whole number, not true or false; write true or false", id="one-as-flag"),
        pytest.param(Flag, "yes", "'yes' is neither true nor false; write true or false, without quotes", id="yes-as-flag"),
        pytest.param(GivenShare, True, "this is a boolean, not a number; write a number", id="boolean-as-share"),
        pytest.param(GivenShare, "0.5", "this is text, not a number; write a number", id="text-as-share"),
        pytest.param(GivenShare, 1.5, "1.5 is not at most 1.0; write a number of at most 1.0", id="share-above-1"),
        pytest.param(GivenShare, -1, "-1 is not at least 0.0; write a number of at least 0.0", id="share-below-0"),
        pytest.param(Object, None, "this is null, not an object; write keys with values, as in {city: Tokyo}", id="null-as-object"),
        pytest.param(Object, '{"x": 1}', "this is text, not an object; write keys with values, as in {city: Tokyo}", id="text-as-object"),
        pytest.param(Count, "=1", f"this is text, not a list; {PAIR}", id="text-as-count"),
        pytest.param(Count, [], f"the list has length 0, not 2; {PAIR}", id="count-of-nothing"),
        pytest.param(Count, ["=", 1, 2], f"the list has length 3, not 2; {PAIR}", id="count-of-three"),
        pytest.param(Count, [1, "="], f"the operator is a whole number, not text; {PAIR}", id="count-the-wrong-way-round"),
        pytest.param(Count, ["=>", 1], "'=>' is not an operator; use one of = == != > >= < <=", id="operator-the-wrong-way-round"),
        pytest.param(Count, ["=", "2"], f"the count is text, not a whole number; {PAIR}", id="count-as-text"),
        pytest.param(Count, ["=", True], f"the count is a boolean, not a whole number; {PAIR}", id="count-as-boolean"),
        pytest.param(Count, ["=", -1], "the count -1 is negative; calls are counted from 0", id="negative-count"),
        pytest.param(Matching, "maximun", "'maximun' is not known here; did you mean 'maximum'?", id="misspelt-choice"),
        pytest.param(Matching, "zz", "'zz' is not known here; use one of maximum, positional", id="unknown-choice"),
        pytest.param(Matching, 1, "this is a whole number, not text; use one of maximum, positional", id="number-as-choice"),
        pytest.param(KINDS, ["mpc"], "'mpc' is not known here; did you mean 'mcp'?", id="misspelt-among-choices"),
        pytest.param(
            KINDS,
            [1],
            "this is a whole number, not text; use one of agent, control, function, mcp, provider",
            id="number-chosen",
        ),
        pytest.param(KINDS, [], "this is empty; add at least one entry, or remove it", id="nothing-chosen"),
        pytest.param(KINDS, "mcp", "this is text, not a list; write a list, even for a single entry", id="text-as-choices"),
    ],
)
def test_wrong_values_are_refused_in_our_words(kind: type[Any], value: object, complaint: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (error,) = caught.value.errors()
    assert "; ".join(in_our_words(error)) == complaint
    assert not schema_takes(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        pytest.param(Name, "\ud800", "this is not valid Unicode", id="half-a-surrogate-pair"),
        pytest.param(Count, ["=", 2.0], "the count is a decimal number, not a whole number", id="whole-float"),
        pytest.param(GivenShare, float("nan"), "nan is not at most 1.0", id="nan"),
        pytest.param(Object, {1: "a"}, "the key '1' is not text", id="number-as-key"),
        pytest.param(GivenShare, 10**5000, "the number is too large", id="number-that-python-does-not-print"),
        pytest.param(Count, ["=", -(10**5000)], "the count a huge number is negative", id="count-that-python-does-not-print"),
    ],
)
def test_what_json_schema_can_not_tell_is_refused_too(kind: type[Any], value: object, what: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert in_our_words(caught.value.errors()[0])[0] == what


def test_what_has_no_kind_is_something_else() -> None:
    assert kind_of(BaseModel) == "something else"


def test_an_enumeration_is_text() -> None:
    assert kind_of(Operator.EQUAL) == "text"
