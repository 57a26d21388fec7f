"""The main path with its real reader and evaluators, under virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.model.criteria import CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.settings.criteria_check import build_check
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
    from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
    from otel_toolcall_eval.model.criteria import Check
    from otel_toolcall_eval.model.score import TraceReport

READER = default_extractor()


def count(**expected: object) -> Check:
    """Build a check of counts: a number, or an operator with a number; ``any`` stands for ``*``."""
    pairs = {("*" if tool == "any" else tool): (["=", how] if isinstance(how, int) else how) for tool, how in expected.items()}
    return build_check("tool-call-count", None, {"tool_calls_count": pairs})


def order(*names: str, strict: bool = False) -> Check:
    """Build a check of a sequence."""
    return build_check("tool-call-order", {"strict": strict}, {"tool_calls_order": list(names)})


def args(tool: str, arguments: Mapping[str, object], **config: bool) -> Check:
    """Build a check of one call's arguments."""
    return build_check("tool-call-args", config, {"tool_calls": [{"name": tool, "args": dict(arguments)}]})


def output(tool: str, returned: object) -> Check:
    """Build a check of what one call returned."""
    return build_check("tool-call-output", None, {"tool_outputs": [{"name": tool, "output": returned}]})


def criteria_set(checks: Iterable[Check], name: str = "faults") -> CriteriaSet:
    """Build criteria that judge every trace."""
    return CriteriaSet(name=name, checks=tuple(checks), version="1", selector=Selector(reach=SelectorScope.EVERY))


def pipeline(*checks: Check, policy: CompletionPolicy | None = None, limits: BufferLimits | None = None) -> Pipeline:
    """Build a main path that judges every trace by these checks."""
    return Pipeline(reader=READER, evaluators=evaluators_by_criteria(), criteria=[criteria_set(checks)], policy=policy, limits=limits)


def said(report: TraceReport) -> list[tuple[str, float | None]]:
    """Return label and emitted score of each verdict."""
    return [(verdict.label.value, verdict.emitted_score) for verdict in report.verdicts]
