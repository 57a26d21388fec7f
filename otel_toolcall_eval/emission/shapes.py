"""What of a report decides what is recorded and said of it, where all that was expected of the trace was met, as of most."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.model.score import Completeness, Label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.score import ExpectationOutcome, TraceReport, Verdict

Shape: TypeAlias = "tuple[str | int | None, ...]"
"""Where it is equal, and the outcomes whose identity stands in it are the same, the same is recorded."""


def outcomes_if_met(verdict: Verdict) -> Sequence[ExpectationOutcome] | None:
    """Return a verdict's outcomes if all expectations are met and nothing casts doubt on that; None if not, or if there are none.

    Those of criteria that are met are the same object for all traces, and not only equal.
    """
    score = verdict.score
    if score is None or score.value < 1.0 or verdict.label is not Label.PASS:
        return None
    if verdict.completeness is not Completeness.COMPLETE or verdict.doubts or verdict.failure is not None:
        return None
    return score.outcomes or None


def shape_of(report: TraceReport, verdict: Verdict, service: str | None) -> Shape | None:
    """Return what decides what a verdict records; None if it is not one that is met."""
    outcomes = outcomes_if_met(verdict)
    if outcomes is None:
        return None
    return verdict.criteria, verdict.evaluator, report.trigger, report.agent, service, id(outcomes)


def shape_of_report(report: TraceReport, service: str | None) -> Shape | None:
    """Return what decides what a report records, its durations aside; None unless there are verdicts, and all of them are met.

    None of these is a ``shape_of`` of a verdict: they have 4 members and 3 for each verdict, that has 6.
    """
    verdicts = report.verdicts
    if not verdicts:
        return None
    found: list[str | int | None] = [report.trigger, report.completeness, report.agent, service]
    for verdict in verdicts:
        outcomes = outcomes_if_met(verdict)
        if outcomes is None:
            return None
        found += (verdict.criteria, verdict.evaluator, id(outcomes))
    return tuple(found)


Labels: TypeAlias = "tuple[tuple[str, str, Label], ...]"
"""Name of the criteria, evaluator and label of each verdict of a report."""


def labels_of(report: TraceReport) -> Labels:
    """Return the labels of a report."""
    return tuple([(verdict.criteria, verdict.evaluator, verdict.label) for verdict in report.verdicts])
