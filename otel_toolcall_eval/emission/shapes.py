"""What of a report decides what is recorded of it. Apart from ``metrics``, since the compiled wheel compiles it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import Label, TraceReport, Verdict

Shape: TypeAlias = "tuple[str | int | None, ...]"
"""Where it is equal, and the outcomes whose identity stands in it are the same, the same is recorded."""


def shape_of(report: TraceReport, verdict: Verdict, service: str | None) -> Shape | None:
    """Return what decides what a verdict records; None if it is not one whose expectations are all met and that nothing casts doubt on.

    The outcomes of criteria that are met are the same object for all traces, and not only equal.
    """
    score = verdict.score
    if score is None or score.value < 1.0 or verdict.doubts:
        return None
    return (
        verdict.criteria,
        verdict.evaluator,
        verdict.label,
        verdict.completeness,
        report.trigger,
        report.agent,
        service,
        id(score.outcomes),
    )


def labels_of(report: TraceReport) -> list[tuple[str, str, Label]]:
    """Return name of the criteria, evaluator and label of each verdict."""
    return [(verdict.criteria, verdict.evaluator, verdict.label) for verdict in report.verdicts]
