"""Evaluates how agents call tools, from their OpenTelemetry spans.

These names are the promise; the rooms behind them may move. Each is imported when it is first used, so that an agent which
imports this package, and uses it only where it is configured, starts as fast as before.

PYTEST_DONT_REWRITE: pytest rewrites the assertions of packages that have a plugin, and warns where it comes too late, as when an
agent's spans are evaluated in the process that runs the tests. There is none to rewrite here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_toolcall_eval.inprocess.expectations import Expectation, expect_tool_calls
    from otel_toolcall_eval.inprocess.library import (
        AgentExecution,
        EvaluationResult,
        ToolCallArgsEvaluator,
        ToolCallCountEvaluator,
        ToolCallOrderEvaluator,
        ToolCallOutputEvaluator,
        evaluate,
    )
    from otel_toolcall_eval.inprocess.processor import ToolCallEvalSpanProcessor
    from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import ToolCalls
    from otel_toolcall_eval.model.errors import CriteriaError, ExpectationError, ExpectationTimeoutError, SettingsError, ToolCallEvalError
    from otel_toolcall_eval.model.score import Label

__all__ = [
    "AgentExecution",
    "CriteriaError",
    "EvaluationResult",
    "Expectation",
    "ExpectationError",
    "ExpectationTimeoutError",
    "Label",
    "SettingsError",
    "ToolCallArgsEvaluator",
    "ToolCallCountEvaluator",
    "ToolCallEvalError",
    "ToolCallEvalSpanProcessor",
    "ToolCallOrderEvaluator",
    "ToolCallOutputEvaluator",
    "ToolCalls",
    "evaluate",
    "expect_tool_calls",
]

_HOMES = {
    "CriteriaError": "model.errors",
    "Expectation": "inprocess.expectations",
    "ExpectationError": "model.errors",
    "ExpectationTimeoutError": "model.errors",
    "Label": "model.score",
    "SettingsError": "model.errors",
    "ToolCallEvalError": "model.errors",
    "ToolCallEvalSpanProcessor": "inprocess.processor",
    "ToolCalls": "inprocess.pytest_plugin.tool_calls",
    "expect_tool_calls": "inprocess.expectations",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    value: object = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'inprocess.library')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
