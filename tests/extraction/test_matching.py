from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.dialect import Dialect, Match, MatchOperator, Subject, Test
from otel_toolcall_eval.extraction.matching import (
    MAX_SCOPES,
    MAX_TESTED_LENGTH,
    DialectIndex,
    at_path,
    fulfils,
    holds,
    present,
    spelled,
    value_of,
)
from tests.extraction.spans import make

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Value

SPAN = make(
    name="span name",
    scope="scope.name",
    kind=3,
    events=[("event", {})],
    resource={"service": "s"},
    attributes={
        "text": "a",
        "number": 5,
        "flag": True,
        "empty": "",
        "json": '{"type": "tool", "n": [1]}',
        "object": {"k": {"l": 1}},
        "float": 1.5,
    },
)


NOTHING: tuple[Value, ...] = (None, "", (), {}, b"", 0, False)


def _attr(key: str, operator: MatchOperator = MatchOperator.EXISTS, *values: str, **more: object) -> Test:
    return Test(subject=Subject.ATTR, key=key, operator=operator, values=values, **more)  # type: ignore[arg-type] # the test's own fields


@pytest.mark.parametrize(
    ("condition", "answer"),
    [
        pytest.param(_attr("text"), True, id="present"),
        pytest.param(_attr("empty"), False, id="empty is not present"),
        pytest.param(_attr("none"), False, id="missing"),
        pytest.param(_attr("none", wanted=False), True, id="absent as wanted"),
        pytest.param(_attr("text", MatchOperator.EQUALS, "a"), True, id="equal"),
        pytest.param(_attr("number", MatchOperator.EQUALS, "5"), True, id="number by its spelling"),
        pytest.param(_attr("flag", MatchOperator.EQUALS, "true"), True, id="boolean by its spelling"),
        pytest.param(_attr("float", MatchOperator.EQUALS, "1.5"), True, id="float by its spelling"),
        pytest.param(_attr("object", MatchOperator.EQUALS, "{}"), False, id="object has no spelling"),
        pytest.param(_attr("text", MatchOperator.NOT_EQUALS, "b"), True, id="other"),
        pytest.param(_attr("none", MatchOperator.NOT_EQUALS, "b"), False, id="missing is not other"),
        pytest.param(_attr("text", MatchOperator.IN, "a", "b"), True, id="one of"),
        pytest.param(_attr("text", MatchOperator.PREFIX, "x", "a"), True, id="prefix"),
        pytest.param(_attr("text", MatchOperator.REGEX, pattern=re.compile("^a$")), True, id="pattern"),
        pytest.param(_attr("text", MatchOperator.REGEX), False, id="pattern that did not compile"),
        pytest.param(_attr("json", MatchOperator.EQUALS, "tool", path=("type",)), True, id="path into text"),
        pytest.param(_attr("json", MatchOperator.EQUALS, "1", path=("n", "0")), True, id="path into a list"),
        pytest.param(_attr("json", MatchOperator.EQUALS, "1", path=("n", "7")), False, id="path beyond a list"),
        pytest.param(_attr("json", path=("none",)), False, id="path to nothing"),
        pytest.param(_attr("object", MatchOperator.EQUALS, "1", path=("k", "l")), True, id="path into an object"),
        pytest.param(_attr("text", path=("a",)), False, id="path into no JSON"),
        pytest.param(Test(subject=Subject.SPAN_NAME, operator=MatchOperator.EQUALS, values=("span name",)), True, id="span name"),
        pytest.param(Test(subject=Subject.SCOPE, operator=MatchOperator.PREFIX, values=("scope.",)), True, id="scope"),
        pytest.param(Test(subject=Subject.KIND, operator=MatchOperator.EQUALS, values=("client",)), True, id="kind"),
        pytest.param(Test(subject=Subject.RESOURCE, key="service", operator=MatchOperator.EQUALS, values=("s",)), True, id="resource"),
        pytest.param(Test(subject=Subject.EVENT, key="event"), True, id="event"),
        pytest.param(Test(subject=Subject.EVENT, key="none", wanted=False), True, id="no event, as wanted"),
        pytest.param(Match(every=(_attr("text"), _attr("none"))), False, id="all of two"),
        pytest.param(Match(some=(_attr("none"), _attr("text"))), True, id="one of two"),
        pytest.param(Match(every=(_attr("text"),), none=(_attr("number"),)), False, id="none of one"),
    ],
)
def test_conditions(condition: Test | Match, *, answer: bool) -> None:
    assert fulfils(condition, SPAN) is answer
    assert holds(Match(every=(condition,)), SPAN) is answer


@pytest.mark.parametrize("wrap", [dict, MappingProxyType])
def test_attributes_are_read_whatever_mapping_they_are(wrap: type) -> None:
    assert [value_of(wrap({"a": 0, "b": None}), key) for key in "abc"] == [0, None, None]


def test_long_text_is_not_read_for_a_test() -> None:
    span = make(attributes={"k": '{"a": 1, "b": "' + "x" * MAX_TESTED_LENGTH + '"}'})
    assert not fulfils(_attr("k", path=("a",)), span)


def test_values_that_are_none_and_texts_of_scalars() -> None:
    assert [present(value) for value in NOTHING] == [False] * 5 + [True, True]
    assert [spelled(value) for value in NOTHING[:1]] == [None]
    assert at_path({"a": 1}, ("a", "b")) is None
    assert at_path([1], ("1234567",)) is None


def _dialect(name: str, match: Match) -> Dialect:
    return Dialect(name=name, family=name, match=match)


ASKED = [
    _dialect("value", Match(every=(_attr("text", MatchOperator.EQUALS, "a"),))),
    _dialect("other value", Match(every=(_attr("text", MatchOperator.EQUALS, "b"),))),
    _dialect("key", Match(every=(_attr("number"),))),
    _dialect("object value", Match(every=(_attr("object", MatchOperator.EQUALS, "x"),))),
    _dialect("path", Match(every=(_attr("json", MatchOperator.EQUALS, "tool", path=("type",)),))),
    _dialect("event", Match(every=(Test(subject=Subject.EVENT, key="event"),))),
    _dialect("name", Match(every=(Test(subject=Subject.SPAN_NAME, operator=MatchOperator.EQUALS, values=("span name",)),))),
    _dialect("name pattern", Match(every=(Test(subject=Subject.SPAN_NAME, operator=MatchOperator.PREFIX, values=("span",)),))),
    _dialect("scope", Match(every=(Test(subject=Subject.SCOPE, operator=MatchOperator.EQUALS, values=("scope.name",)),))),
    _dialect("scope prefix", Match(every=(Test(subject=Subject.SCOPE, operator=MatchOperator.PREFIX, values=("scope.",)),))),
    _dialect("kind", Match(every=(Test(subject=Subject.KIND, operator=MatchOperator.EQUALS, values=("client",)),))),
    _dialect("absence", Match(none=(_attr("none"),))),
    _dialect("one of two", Match(some=(_attr("none"), _attr("text")))),
    _dialect("one of two, one without a marker", Match(some=(_attr("none", wanted=False), _attr("text")))),
    _dialect("inside", Match(every=(Match(some=(_attr("text"),)),))),
    _dialect("rarest", Match(every=(_attr("text"), _attr("text", MatchOperator.EQUALS, "a"), _attr("number")))),
]


def test_the_index_finds_what_asking_everybody_finds_in_the_same_order() -> None:
    index = DialectIndex(ASKED)
    assert index.matching(SPAN) == [dialect for dialect in ASKED if holds(dialect.match, SPAN)]
    assert len(index.candidates(make())) == 4  # those that nothing on the span can rule out


def test_scopes_without_end_are_not_remembered_without_end() -> None:
    index = DialectIndex(ASKED)
    for number in range(MAX_SCOPES + 5):
        index.matching(make(scope=f"scope.{number}"))
    assert [dialect.name for dialect in index.matching(make(scope="scope.new")) if dialect.name.startswith("scope")] == ["scope prefix"]
