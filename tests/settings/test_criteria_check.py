"""The mappings of the evaluator guides become checks, or a CriteriaError that names all that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CallFilter,
    CountCriteria,
    CountExpectation,
    Matching,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
    Parallel,
)
from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase
from otel_toolcall_eval.settings.criteria_check import build_check, check_config

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _pytest.mark import ParameterSet

GOLDEN = Path(__file__).parent.parent / "golden" / "conformance"
COUNT = {"tool_calls_count": {"a": ["=", 1]}}


def unfolded(value: object) -> object:
    """Return a vector's value with ``{"$repeat": [text, n]}`` written out."""
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return str(text) * int(times)
        return {key: unfolded(member) for key, member in value.items()}
    return [unfolded(member) for member in value] if isinstance(value, list) else value


def vectors() -> list[ParameterSet]:
    files = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.json")))
    return [pytest.param(vector, id=vector["id"]) for file in files for vector in file["vectors"]]


def test_the_golden_vectors_are_there() -> None:
    assert len(vectors()) > 400


@pytest.mark.parametrize("vector", vectors())
def test_golden_vectors_build_exactly_if_they_expect_a_score(vector: Mapping[str, Any]) -> None:
    criteria: Any = unfolded(vector["criteria"])
    config: Any = unfolded(vector.get("config"))
    if "error" in vector["expected"]:
        with pytest.raises(CriteriaError):
            build_check(vector["evaluator"], config, criteria)
    else:
        build_check(vector["evaluator"], config, criteria)
        check_config(vector["evaluator"], config)


@pytest.mark.parametrize(
    ("evaluator", "config", "criteria", "expected"),
    [
        pytest.param(
            "tool-call-count",
            {"strict": True},
            {"toolCallsCount": {"a": ["==", 1], "*": ["<=", 9]}},
            CountCriteria(
                expectations=(
                    CountExpectation(tool="a", operator=Operator.EQUAL, count=1),
                    CountExpectation(tool="*", operator=Operator.LESS_EQUAL, count=9),
                ),
                strict=True,
            ),
            id="count",
        ),
        pytest.param(
            "uipath-tool-call-order",
            {"parallel": "any"},
            {"tool_calls_order": ["a", "b", "a"]},
            OrderCriteria(expected=("a", "b", "a"), parallel=Parallel.ANY),
            id="order",
        ),
        pytest.param(
            "ToolCallArgsEvaluator",
            {"subset": True, "matching": "positional"},
            {"tool_calls": [{"name": "a", "args": {"x": {"y": [1, None]}}}, {"name": "b", "args": {}, "id": "c1"}]},
            ArgsCriteria(
                expectations=(
                    ArgsExpectation(tool="a", arguments={"x": {"y": [1, None]}}),
                    ArgsExpectation(tool="b", arguments={}, call_id="c1"),
                ),
                subset=True,
                matching=Matching.POSITIONAL,
            ),
            id="args",
        ),
        pytest.param(
            "tool-call-output",
            None,
            {"toolOutputs": [{"name": "a", "output": "x"}, {"name": "b", "output": None}, {"name": "c", "output": {"d": 0}}]},
            OutputCriteria(
                expectations=(
                    OutputExpectation(tool="a", output="x"),
                    OutputExpectation(tool="b", output=None),
                    OutputExpectation(tool="c", output={"d": 0}),
                ),
            ),
            id="output",
        ),
    ],
)
def test_criteria_are_built(evaluator: str, config: dict[str, object] | None, criteria: dict[str, object], expected: object) -> None:
    assert build_check(evaluator, config, criteria).criteria == expected


def test_a_check_has_what_the_configuration_says() -> None:
    check = build_check(
        "tool-call-count",
        {"name": "Mine", "passThreshold": 0.5, "include": {"kinds": ["mcp"], "phases": ["executed", "requested"]}},
        COUNT,
    )
    assert (check.evaluator, check.evaluator_id, check.pass_threshold) == ("Mine", "tool-call-count", 0.5)
    assert check.include == CallFilter(kinds=frozenset({CallKind.MCP}), phases=frozenset({CallPhase.EXECUTED, CallPhase.REQUESTED}))


def test_a_check_without_configuration_has_the_class_name_and_needs_a_full_score() -> None:
    check = build_check("tool-call-count", None, COUNT)
    assert (check.evaluator, check.pass_threshold, check.include) == ("ToolCallCountEvaluator", 1.0, CallFilter())


@pytest.mark.parametrize("criteria", [pytest.param(None, id="none"), pytest.param({}, id="empty")])
def test_without_criteria_the_default_ones_hold(criteria: dict[str, object] | None) -> None:
    config = {"default_evaluation_criteria": {"tool_calls_order": ["a"]}}
    assert build_check("tool-call-order", config, criteria).criteria == OrderCriteria(expected=("a",))


def test_criteria_go_before_default_ones() -> None:
    config = {"default_evaluation_criteria": {"tool_calls_order": ["a"]}}
    assert build_check("tool-call-order", config, {"tool_calls_order": ["b"]}).criteria == OrderCriteria(expected=("b",))


@pytest.mark.parametrize(
    "default",
    [
        pytest.param(None, id="null"),
        pytest.param([], id="empty-list"),
        pytest.param({}, id="empty-object"),
        pytest.param({"toolCallsOrder": []}, id="empty-member"),
    ],
)
def test_an_empty_default_is_no_default(default: object) -> None:
    with pytest.raises(CriteriaError) as caught:
        build_check("tool-call-order", {"defaultEvaluationCriteria": default}, None)
    assert str(caught.value) == "ToolCallOrderEvaluator: there are no criteria, and no default criteria; give evaluation criteria"


def test_values_are_copied_so_that_later_changes_do_nothing() -> None:
    arguments = {"x": [1]}
    check = build_check("tool-call-args", None, {"tool_calls": [{"name": "a", "args": arguments}]})
    arguments["x"].append(2)
    assert check.criteria == ArgsCriteria(expectations=(ArgsExpectation(tool="a", arguments={"x": [1]}),))


def test_all_that_is_wrong_is_told_at_once_under_the_evaluators_name() -> None:
    config = {"name": "Mine", "strict": "yes", "matching": "positinal", "default_evaluation_criteria": {"tool_calls": [{"name": "a"}]}}
    with pytest.raises(CriteriaError) as caught:
        build_check("tool-call-args", config, None)
    assert str(caught.value).splitlines() == [
        "Mine.strict: 'yes' is neither true nor false; write true or false, without quotes",
        "Mine.matching: 'positinal' is not known here; did you mean 'positional'?",
        "Mine.default_evaluation_criteria[0]: 'args' is missing; add it",
    ]


@pytest.mark.parametrize(
    ("evaluator", "config", "criteria", "complaint"),
    [
        pytest.param(
            "tool-call-cuont",
            {},
            COUNT,
            "evaluator: 'tool-call-cuont' is not an evaluator of ours; did you mean 'tool-call-count'?",
            id="id",
        ),
        pytest.param(
            "uipath-exact-match",
            {},
            COUNT,
            "evaluator: 'uipath-exact-match' is not an evaluator of ours; use one of ToolCallArgsEvaluator, ToolCallCountEvaluator, "
            "ToolCallOrderEvaluator, ToolCallOutputEvaluator, tool-call-args, tool-call-count, tool-call-order, tool-call-output",
            id="another-evaluator-of-the-family",
        ),
        pytest.param(
            "tool-call-count",
            5,
            COUNT,
            "ToolCallCountEvaluator: this is a whole number, not an object; write keys with values",
            id="config",
        ),
        pytest.param(
            "tool-call-count",
            {"x": {1, 2}},
            COUNT,
            "ToolCallCountEvaluator.x: set is not a JSON value; use text, a number, a list or an object",
            id="config-of-anything",
        ),
        pytest.param(
            "tool-call-args",
            {},
            {"tool_calls": [{"name": "a", "args": {"x": object}}]},
            "ToolCallArgsEvaluator[0].args.x: type is not a JSON value; use text, a number, a list or an object",
            id="criteria-of-anything",
        ),
        pytest.param(
            "tool-call-count",
            {"name": ""},
            COUNT,
            "ToolCallCountEvaluator.name: this is empty; write a name",
            id="name-that-can-not-be-shown",
        ),
        pytest.param(
            "tool-call-count",
            {},
            {"tool_calls_count": {"get_humidity": ["=>", 1]}},
            "ToolCallCountEvaluator.get_humidity: '=>' is not an operator; use one of = == != > >= < <=",
            id="criteria",
        ),
    ],
)
def test_what_can_not_be_used_is_refused(
    evaluator: str, config: Mapping[str, object], criteria: Mapping[str, object], complaint: str
) -> None:
    with pytest.raises(CriteriaError) as caught:
        build_check(evaluator, config, criteria)
    assert str(caught.value) == complaint


def test_a_configuration_is_checked_before_there_are_criteria() -> None:
    check_config("tool-call-count", None)
    with pytest.raises(CriteriaError):
        check_config("tool-call-count", {"strict": None})


def test_criteria_that_hold_themselves_are_refused() -> None:
    loop: dict[str, object] = {}
    loop["x"] = loop
    with pytest.raises(CriteriaError, match="nested more than 100 deep"):
        build_check("tool-call-args", {}, {"tool_calls": [{"name": "a", "args": loop}]})
