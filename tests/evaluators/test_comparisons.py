"""Each expectation beside what became of it: as the explanation tells it, one by one, and without values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CountCriteria,
    CountExpectation,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
)
from tests.evaluators.calls import call, full, log

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import Comparison, Score
    from otel_toolcall_eval.model.tool_call import CallLog, ToolCall

Told = list[tuple[str, str, str, bool, int | None]]


def told(score: Score) -> Told:
    def number(comparison: Comparison) -> int | None:
        return None if comparison.span_id is None else int.from_bytes(comparison.span_id)

    return [(found.label, found.expected, found.actual, found.matched, number(found)) for found in score.justification.comparisons()]


def numbered(*calls: ToolCall) -> CallLog:
    return log(*(replace(made, span_id=position.to_bytes(8)) for position, made in enumerate(calls, start=1)))


def test_counts_stand_beside_their_expectations() -> None:
    expectations = (
        CountExpectation(tool="a", operator=Operator.GREATER_EQUAL, count=1),
        CountExpectation(tool="b", operator=Operator.EQUAL, count=2),
        CountExpectation(tool="*", operator=Operator.LESS, count=9),
    )
    assert told(CountEvaluator().evaluate(CountCriteria(expectations=expectations), log("a", "b", "a"))) == [
        ("a", "at least 1 call", "2 calls", True, None),
        ("b", "exactly 2 calls", "1 call", False, None),
        ("all tools", "fewer than 9 calls", "3 calls", True, None),
    ]


def test_names_stand_beside_the_call_in_their_place() -> None:
    score = OrderEvaluator().evaluate(OrderCriteria(expected=("a", "b", "c", "d")), numbered(call("c"), call("a"), call("d")))
    assert told(score) == [
        ("a", "place 1", "call 2", True, 2),
        ("b", "place 2", "not called", False, None),
        ("c", "place 3", "called out of order", False, None),
        ("d", "place 4", "call 3", True, 3),
    ]


def test_arguments_stand_beside_the_call_that_comes_nearest() -> None:
    wanted = (
        ArgsExpectation(tool="f", arguments={"id": 7, "text": "secret"}),
        ArgsExpectation(tool="f", arguments={"id": 8}),
        ArgsExpectation(tool="g", arguments={}),
    )
    calls = numbered(call("f", {"id": 7, "text": "hidden"}), call("f", {"id": 8}))
    assert told(ArgsEvaluator().evaluate(ArgsCriteria(expectations=wanted), calls)) == [
        ("f_0", "arguments id, text", "$.text differs", False, 1),
        ("f_1", "arguments id", "as expected", True, 2),
        ("g_0", "no arguments", "not called", False, None),
    ]


@pytest.mark.parametrize(
    ("names", "subset", "expected"),
    [
        pytest.param("", True, "any arguments", id="anything"),
        pytest.param("ab", True, "arguments a, b among others", id="subset"),
        pytest.param("abcdefgh", False, "arguments a, b, c, d, e, f, g, h", id="as many as are named"),
        pytest.param("abcdefghij", False, "arguments a, b, c, d, e, f, g, h and 2 more", id="bounded"),
    ],
)
def test_expected_arguments_are_named_and_their_values_are_not(names: str, subset: bool, expected: str) -> None:  # noqa: FBT001 - a column of the table
    criteria = ArgsCriteria(expectations=(ArgsExpectation(tool="f", arguments=dict.fromkeys(names, "secret")),), subset=subset)
    assert told(ArgsEvaluator().evaluate(criteria, log()))[0][1] == expected


def test_outputs_stand_beside_the_call_without_their_values() -> None:
    criteria = OutputCriteria(expectations=(OutputExpectation(tool="f", output={"total": 9}),))
    calls = numbered(call("f", output=full({"total": 8})))
    assert told(OutputEvaluator().evaluate(criteria, calls)) == [("f_0", "this output", "$.total differs", False, 1)]
