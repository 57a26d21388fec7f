"""Evaluates how agents call tools, from their OpenTelemetry spans.

These names are the promise; the rooms behind them may move.
"""

from __future__ import annotations

from otel_toolcall_eval.api import (
    AgentExecution,
    EvaluationResult,
    ToolCallArgsEvaluator,
    ToolCallCountEvaluator,
    ToolCallOrderEvaluator,
    ToolCallOutputEvaluator,
    evaluate,
)
from otel_toolcall_eval.errors import CriteriaError, SettingsError, ToolCallEvalError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.processor import ToolCallEvalSpanProcessor

__all__ = [
    "AgentExecution",
    "CriteriaError",
    "EvaluationResult",
    "Label",
    "SettingsError",
    "ToolCallArgsEvaluator",
    "ToolCallCountEvaluator",
    "ToolCallEvalError",
    "ToolCallEvalSpanProcessor",
    "ToolCallOrderEvaluator",
    "ToolCallOutputEvaluator",
    "evaluate",
]
