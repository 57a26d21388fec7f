"""Printing a result shows what the guides show."""

from __future__ import annotations

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
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import Score

ARGUMENTS = Payload.of(Content(state=ContentState.FULL, value={"q": 1}))
OUTPUT = Payload.of(Content(state=ContentState.FULL, value="found", text="found"))
LOG = CallLog(calls=(ToolCall(name="search", aliases=("search", "web.search"), arguments=ARGUMENTS, output=OUTPUT),))


@pytest.mark.parametrize(
    ("score", "printed"),
    [
        pytest.param(
            CountEvaluator().evaluate(
                CountCriteria(expectations=(CountExpectation(tool="search", operator=Operator.EQUAL, count=1),)), LOG
            ),
            "CountJustification({'explained_tool_calls_count': {'search': 'Actual: 1, Expected: 1, Score: 1.0'}})",
            id="count",
        ),
        pytest.param(
            OrderEvaluator().evaluate(OrderCriteria(expected=("search",)), LOG),
            "OrderJustification({'actual_tool_calls_order': ['search'], 'expected_tool_calls_order': ['search'], 'lcs': ['search']})",
            id="order",
        ),
        pytest.param(
            ArgsEvaluator().evaluate(ArgsCriteria(expectations=(ArgsExpectation(tool="search", arguments={"q": 1}),)), LOG),
            "ArgsJustification({'explained_tool_calls_args': {'search_0': \"Actual: {'q': 1}, Expected: {'q': 1}, Score: 1.0\"}})",
            id="args",
        ),
        pytest.param(
            OutputEvaluator().evaluate(OutputCriteria(expectations=(OutputExpectation(tool="search", output="found"),)), LOG),
            "OutputJustification({'explained_tool_calls_outputs': {'search_0': \"Actual: 'found', Expected: 'found', Score: 1.0\"}})",
            id="output",
        ),
    ],
)
def test_justification_prints_its_details(score: Score, printed: str) -> None:
    assert repr(score.justification) == printed


def test_call_is_found_once_under_its_name_and_each_alias() -> None:
    assert LOG.by_name == {"search": [0], "web.search": [0]}
