from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.extraction.dialect import Decode, MatchOperator, ReadStep, Role, Subject, ValueOrigin
from otel_toolcall_eval.extraction.dialect_parser import MAX_DIALECTS, parse_dialects, sorted_by_priority
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.extraction.dialect import Dialect, Pattern

MATCH = {"all": [{"attr": "a"}]}
SMALLEST = {"name": "d", "match": MATCH, "name_from": [{"attr": "n"}]}


def _compile(text: str) -> Pattern:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(str(error)) from error


def _parse(document: object, **keywords: Any) -> tuple[Dialect, ...]:  # noqa: ANN401 - the parser's own keywords
    return parse_dialects(document, where="my.yaml", compile_pattern=_compile, **keywords)


def _one(**members: object) -> Dialect:
    (dialect,) = _parse([{**SMALLEST, **members}])
    return dialect


def _problems(document: object) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        _parse(document)
    return [str(problem) for problem in caught.value.problems]


def test_the_smallest_dialect_gets_the_defaults() -> None:
    dialect = _one()
    assert (dialect.name, dialect.family, dialect.priority, dialect.role) == ("d", "d", 50, Role.TOOL)
    assert dialect.name_from[0].key == "n"
    assert dialect.name_from[0].decode is Decode.AUTO


def test_a_document_may_be_the_list_itself_or_have_it_under_dialects() -> None:
    assert _parse({"dialects": [SMALLEST], "version": 1}) == _parse([SMALLEST])
    assert _parse({"version": 1}) == ()


def test_users_families_and_priorities_are_set_apart() -> None:
    (dialect,) = _parse([{**SMALLEST, "priority": 7}], family_prefix="user:", priority_offset=1000)
    assert (dialect.name, dialect.family, dialect.priority) == ("d", "user:d", 1007)


def test_dialects_are_asked_by_priority_then_name() -> None:
    dialects = _parse([{**SMALLEST, "name": "b"}, {**SMALLEST, "name": "a"}, {**SMALLEST, "name": "c", "priority": 60}])
    assert [dialect.name for dialect in sorted_by_priority(dialects)] == ["c", "a", "b"]


def test_everything_that_a_dialect_can_say_is_read() -> None:
    dialect = _one(
        about="why",
        family="f",
        priority=9,
        role="tool",
        supersedes="x",
        part_of=["y"],
        empty_arguments=["None"],
        kind="mcp",
        kind_when={"agent": [{"attr": "k", "equals": True}]},
        phase_when={"deferred": [{"attr": "k", "in": [1, "2"]}]},
        child_kind_when={"agent": [{"attr": "k"}]},
        child_phase_when={"rejected": [{"attr": "k"}]},
        alias_separators=["-"],
        placeholders={"call_id": ["unknown", ""]},
        nothing_means_empty=True,
        reason="r",
        hint="h",
        content_hint="c",
        hidden_pair="{}",
        error_when=[{"attr": "e", "not_equals": "0"}],
        requests_from=[{"attr": "m", "shape": "genai_parts", "path": "a.0"}],
    )
    assert dialect.kind is CallKind.MCP
    assert dialect.kind_when[0][0] is CallKind.AGENT
    assert dialect.phase_when[0][0] is CallPhase.DEFERRED
    assert dialect.phase_when[0][1].some[0].values == ("1", "2")  # type: ignore[union-attr] # a test, not a group
    assert dialect.placeholders == {"call_id": frozenset({"unknown", ""})}
    assert dialect.requests_from[0].source.path == ("a", "0")
    assert dialect.nothing_means_empty


@pytest.mark.parametrize(
    ("test", "subject", "operator", "values"),
    [
        pytest.param({"attr": "k"}, Subject.ATTR, MatchOperator.EXISTS, (), id="present"),
        pytest.param({"attr": "k", "exists": False}, Subject.ATTR, MatchOperator.EXISTS, (), id="absent"),
        pytest.param({"attr": "k", "equals": 1.5}, Subject.ATTR, MatchOperator.EQUALS, ("1.5",), id="number"),
        pytest.param({"attr": "k", "equals": False}, Subject.ATTR, MatchOperator.EQUALS, ("false",), id="boolean"),
        pytest.param({"resource": "k", "prefix": "x"}, Subject.RESOURCE, MatchOperator.PREFIX, ("x",), id="resource"),
        pytest.param({"event": "k"}, Subject.EVENT, MatchOperator.EXISTS, (), id="event"),
        pytest.param({"span_name": "k"}, Subject.SPAN_NAME, MatchOperator.EQUALS, ("k",), id="span name"),
        pytest.param({"scope": {"in": ["a", "b"]}}, Subject.SCOPE, MatchOperator.IN, ("a", "b"), id="scope"),
        pytest.param({"kind": "client"}, Subject.KIND, MatchOperator.EQUALS, ("client",), id="kind"),
        pytest.param({"span_name": {"regex": "x"}}, Subject.SPAN_NAME, MatchOperator.REGEX, (), id="pattern"),
    ],
)
def test_every_form_of_test_is_read(test: Mapping[str, object], subject: Subject, operator: MatchOperator, values: tuple[str, ...]) -> None:
    (read,) = _one(match={"all": [test]}).match.every
    assert (read.subject, read.operator, read.values) == (subject, operator, values)  # type: ignore[union-attr] # a test


def test_conditions_nest() -> None:
    match = _one(match={"any": [{"all": [{"attr": "a"}]}], "not": [{"attr": "b"}]}).match
    assert (len(match.some), len(match.none)) == (1, 1)


@pytest.mark.parametrize(
    ("source", "origin", "step"),
    [
        pytest.param({"attr": "k"}, ValueOrigin.ATTR, ReadStep.SELF, id="attribute"),
        pytest.param({"attr_prefix": "k."}, ValueOrigin.ATTR_PREFIX, ReadStep.SELF, id="prefix"),
        pytest.param({"event": "k", "field": "*"}, ValueOrigin.EVENT, ReadStep.SELF, id="event"),
        pytest.param({"span_name": True}, ValueOrigin.SPAN_NAME, ReadStep.SELF, id="span name"),
        pytest.param({"value": "k"}, ValueOrigin.VALUE, ReadStep.SELF, id="constant"),
        pytest.param({"parent": {"attr": "k"}}, ValueOrigin.ATTR, ReadStep.PARENT, id="parent"),
        pytest.param({"child": {"event": "k", "field": "f"}, "decode": "text"}, ValueOrigin.EVENT, ReadStep.CHILD, id="child"),
    ],
)
def test_every_form_of_source_is_read(source: Mapping[str, object], origin: ValueOrigin, step: ReadStep) -> None:
    (read,) = _one(name_from=[source]).name_from
    assert (read.origin, read.step) == (origin, step)


def test_every_way_of_reading_is_read() -> None:
    (source,) = _one(
        arguments_from=[
            {
                "span_name": {"strip_prefix": "a", "strip_suffix": "b", "before_last": ".", "regex": "(x)"},
                "decode": "json",
                "path": "a.b",
                "unwrap": ["kwargs"],
                "names_from": "schema",
                "wrap_as": "command",
                "refuse_schema": True,
                "cut_when": {"attr": "cut"},
                "only_if": [{"attr": "x"}, {"attr": "y"}],
                "unless": {"all": [{"attr": "z"}]},
            },
        ],
    ).arguments_from
    assert (source.strip_prefix, source.strip_suffix, source.before_last, source.path) == ("a", "b", ".", ("a", "b"))
    assert (source.decode, source.unwrap, source.names_from, source.wrap_as) == (Decode.JSON, ("kwargs",), "schema", "command")
    assert source.refuse_schema
    assert source.only_if is not None
    assert len(source.only_if.every) == 2
    assert source.unless is not None
    assert source.cut_when is not None


def _nested(depth: int) -> dict[str, object]:
    match: dict[str, object] = {"attr": "a"}
    for _ in range(depth):
        match = {"all": [match]}
    return match


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"nmae_from": []}, "my.yaml[0](d): 'nmae_from' is not a known key; use 'name_from'", id="typo"),
        pytest.param({"zzz": []}, "'zzz' is not a known key; use one of name,", id="unknown key"),
        pytest.param(
            {"match": {}}, "my.yaml[0](d).match: no condition is here; write at least one under all, any or not", id="no condition"
        ),
        pytest.param(
            {"match": []}, "match: an object is due, a list is here; write an object with keys such as 'all'", id="list for object"
        ),
        pytest.param({"match": {"all": {}}}, "match.all: a list is due, an object is here", id="object for list"),
        pytest.param({"match": {"all": [{}]}}, "match.all[0]: a test needs exactly one thing to look at", id="no subject"),
        pytest.param({"match": {"all": [{"attr": "a", "scope": "b"}]}}, "exactly one thing to look at", id="two subjects"),
        pytest.param({"match": {"all": [{"attr": "a", "equals": 1, "in": [1]}]}}, "keep one of equals, in", id="two comparisons"),
        pytest.param({"match": {"all": [{"attr": ""}]}}, "an empty text is here", id="empty text"),
        pytest.param({"match": {"all": [{"attr": 5}]}}, "a text is due, a number is here", id="number for text"),
        pytest.param({"match": {"all": [{"attr": "x" * 501}]}}, "a text of 501 characters is here; write at most 500", id="long text"),
        pytest.param({"match": {"all": [{"attr": "a", "exists": 1}]}}, "true or false is due, a number is here", id="number for boolean"),
        pytest.param({"match": {"all": [{"attr": "a", "equals": None}]}}, "a text is due, nothing is here", id="null"),
        pytest.param({"match": {"all": [{"attr": "a", "regex": "("}]}}, "not a regular expression", id="bad pattern"),
        pytest.param({"match": {"all": [{"attr": "a", "regex": ""}]}}, "an empty text is here", id="empty pattern"),
        pytest.param({"match": _nested(8)}, "conditions are nested more than 6 deep", id="nested"),
        pytest.param({"priority": 1001}, "priority: an integer from 0 to 1000 is due", id="priority"),
        pytest.param({"priority": True}, "an integer from 0 to 1000 is due", id="boolean for integer"),
        pytest.param({"role": "tol"}, "role: 'tol' is not possible here; use 'tool'", id="role"),
        pytest.param({"kind": 5}, "kind: '5' is not possible here; use one of function,", id="kind"),
        pytest.param({"kind_when": {"agnt": []}}, "'agnt' is not a known key; use 'agent'", id="case"),
        pytest.param({"name_from": []}, "a tool dialect needs to know the tool's name; add name_from", id="no name"),
        pytest.param({"name_from": [{}]}, "name_from[0]: a source needs exactly one place to look", id="no place"),
        pytest.param({"name_from": [{"event": "e"}]}, "an event needs the attribute that holds the value; add field", id="no field"),
        pytest.param({"name_from": [{"parent": {"child": {"attr": "a"}}}]}, "only one step to another span is possible", id="two steps"),
        pytest.param({"name_from": [{"parent": {}}]}, "name_from[0].parent: a source needs exactly one place", id="bad inner source"),
        pytest.param(
            {"name_from": [{"attr": "a", "unwrap": ["kwarg"]}]}, "'kwarg' is not a known shape; use some of args_kwargs", id="shape"
        ),
        pytest.param({"name_from": [{"attr": "a", "decode": "yaml"}]}, "'yaml' is not possible here", id="decode"),
        pytest.param({"name_from": [{"attr": "a", "only_if": {}}]}, "only_if: a test needs exactly one", id="guard"),
        pytest.param({"requests_from": [{"attr": "a"}]}, "a shape is due, none is here; write one of", id="no message shape"),
        pytest.param({"requests_from": ["a"]}, "a shape is due, none is here", id="text for messages"),
        pytest.param(
            {"requests_from": [{"attr": "a", "shape": "x"}]}, "'x' is not a known shape; use one of codex_decision", id="message shape"
        ),
        pytest.param({"requests_from": [{"shape": "genai_parts"}]}, "exactly one place to look", id="messages without a place"),
        pytest.param({"supersedes": 5}, "supersedes: a list is due, a number is here", id="number for list"),
        pytest.param({"match": {"all": "x"}}, "match.all: a list is due, a text is here", id="text for list"),
        pytest.param({"alias_separators": True}, "a list is due, a boolean is here", id="boolean for list"),
        pytest.param({"placeholders": {"ids": []}}, "'ids' is not a known key", id="placeholder"),
        pytest.param({"about": 5, "reason": "x" * 600}, "a text of 600 characters", id="long reason"),
    ],
)
def test_what_is_wrong_is_told_with_place_and_cure(change: Mapping[str, object], words: str) -> None:
    assert any(words in problem for problem in _problems([{**SMALLEST, **change}]))


def test_all_problems_of_a_file_are_told_at_once() -> None:
    problems = _problems({"dialects": [{"name": "x"}, {**SMALLEST, "role": "x", "priority": -1}, 5], "versoin": 1})
    assert problems == [
        "my.yaml: 'versoin' is not a known key; use 'version'",
        "my.yaml.dialects[0](x): match missing; add what is missing",
        "my.yaml.dialects[1](d).role: 'x' is not possible here; use one of tool, event, model, agent, part, wrapper, ignore",
        "my.yaml.dialects[1](d).priority: an integer from 0 to 1000 is due; write such a number",
        "my.yaml.dialects[2]: an object is due, a number is here; write an object with keys such as 'name'",
    ]


def test_a_name_stands_once() -> None:
    assert _problems([SMALLEST, SMALLEST]) == ['my.yaml: "d" stands twice; give every dialect its own name']


def test_the_number_of_dialects_is_bounded() -> None:
    (problem,) = _problems([{**SMALLEST, "name": str(number)} for number in range(MAX_DIALECTS + 1)])
    assert "write at most 1000" in problem
