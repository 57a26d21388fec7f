"""``otel_toolcall_eval`` is the promise: what stands in ``__all__`` is there, and importing it costs next to nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, assert_type

import pytest

import otel_toolcall_eval

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


def test_names_are_sorted_and_there() -> None:
    assert otel_toolcall_eval.__all__ == sorted(otel_toolcall_eval.__all__)
    assert dir(otel_toolcall_eval) == otel_toolcall_eval.__all__
    for name in otel_toolcall_eval.__all__:
        assert getattr(otel_toolcall_eval, name).__name__ == name


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Pipeline'"):
        otel_toolcall_eval.Pipeline  # noqa: B018 - the access is what is tested  # type: ignore[attr-defined]


def test_import_alone_loads_neither_the_sdk_nor_pydantic() -> None:
    code = "import sys, otel_toolcall_eval; print(sorted({'pydantic', 'opentelemetry', 'grpc', 'ruamel'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def never_run_but_type_checked(spans: list[ReadableSpan]) -> None:
    """Use the public names as users do; mypy reads it, nothing runs it."""
    results = otel_toolcall_eval.evaluate(spans, {"tool-call-count": {"tool_calls_count": {"a": ("=", 1)}}})
    assert_type(results["tool-call-count"].score, float)
    assert_type(results["tool-call-count"].label, otel_toolcall_eval.Label)
    evaluator = otel_toolcall_eval.ToolCallOrderEvaluator(id="order", config={"strict": True})
    assert_type(evaluator.evaluate(spans, {"tool_calls_order": ["a"]}), otel_toolcall_eval.EvaluationResult)
    processor = otel_toolcall_eval.ToolCallEvalSpanProcessor(criteria=["a.yaml", "evals"])
    processor.bind(1, "criteria")
    with otel_toolcall_eval.expect_tool_calls({"tool-call-count": {"tool_calls_count": {"a": ("=", 1)}}}, config={}) as expectation:
        assert_type(expectation, otel_toolcall_eval.Expectation)
    assert_type(expectation.result(timeout=1.0), dict[str, otel_toolcall_eval.EvaluationResult])
    assert_type(expectation.results(timeout=None), list[dict[str, otel_toolcall_eval.EvaluationResult]])

    @otel_toolcall_eval.expect_tool_calls(["criteria"])
    async def agent(question: str) -> int:
        return len(question)

    assert_type(asyncio.run(agent("what")), int)


def never_run_but_type_checked_in_a_test(tool_calls: otel_toolcall_eval.ToolCalls) -> None:
    """Use the fixture of the pytest plugin as users do, whose type checkers are strict, too."""
    assert_type(tool_calls.count("search") == 1, bool)
    assert tool_calls.count() <= 2
    assert tool_calls.order == ["search", "book"]
    assert ["search", "book"] in tool_calls.order
    assert tool_calls.args("search") == {"city": "Tokyo"}
    assert tool_calls.args("search") >= {"city": "Tokyo"}
    assert {"city": "Tokyo"} in tool_calls.args("search")
    assert tool_calls.output("search") == "sunny"
    assert "sunny" in tool_calls.output("search")
    tool_calls.assert_meets("tokyo_forecast", criteria="evaluations/")
