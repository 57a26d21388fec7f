"""The decision on a trace and the verdicts that were reported: enough to restore the decision in another process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.model.criteria import NOTHING_BOUND, BoundCriteria
from otel_toolcall_eval.model.values import value_class

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import Label, TraceReport
    from otel_toolcall_eval.model.trace import Trace, Trigger

Said: TypeAlias = "tuple[tuple[str, str, Label, float | None], ...]"
"""Criteria, evaluator, label and emitted score of each verdict; empty if no criteria apply to the trace."""


@value_class
class PriorVerdict:
    """The verdicts reported on a trace, kept as long as they may be revised.

    Attributes:
        revision: of the report.
        said: what the report says.
        bound: what was bound to the trace's ID until then.
    """

    revision: int
    said: Said
    bound: BoundCriteria


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One evaluation of a trace that is complete, or that late spans changed.

    Attributes:
        unit_span_id: the agent span, where agent invocations are evaluated one by one; None for a whole trace.
        trigger: why it was evaluated then.
        look: 0 for the first evaluation, then 1, 2, ...; one that changes no verdict makes no revision.
        batch: equal for what was decided at the same moment.
        given: the verdicts that hold since; None if an internal error kept the trace from being evaluated.
        reported: False if nothing was reported: no verdict changed, or there was an internal error.
        decided_after_ns: see ``Trace``.
    """

    trace_id: bytes
    unit_span_id: bytes | None
    trigger: Trigger
    look: int
    batch: int
    given: PriorVerdict | None
    reported: bool
    decided_after_ns: int = 0

    @property
    def key(self) -> bytes:
        """Return what tells this trace, or this part of one, from all others."""
        return self.trace_id if self.unit_span_id is None else self.trace_id + self.unit_span_id

    @classmethod
    def on(cls, trace: Trace, given: PriorVerdict | None, *, batch: int, reported: bool, after_ns: int) -> Decision:
        """Return the decision on a trace as it was when it was evaluated."""
        return cls(
            trace_id=trace.trace_id,
            unit_span_id=trace.unit_span_id,
            trigger=trace.trigger,
            look=trace.revision,
            batch=batch,
            given=given,
            reported=reported,
            decided_after_ns=after_ns,
        )


def verdict_keys(report: TraceReport) -> Said:
    """Return what a report says of each check."""
    return tuple((verdict.criteria, verdict.evaluator, verdict.label, verdict.emitted_score) for verdict in report.verdicts)


class PriorVerdicts:
    """Makes the prior verdicts of trace after trace; traces in a row with the same verdicts, as most are, share one object."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        """Start without verdicts."""
        self._last = PriorVerdict(revision=0, said=(), bound=NOTHING_BOUND)

    def of(self, report: TraceReport, *, revision: int, bound: BoundCriteria) -> PriorVerdict:
        """Return the verdicts of a report."""
        given = PriorVerdict(revision=revision, said=verdict_keys(report), bound=bound)
        # Bindings that are equal may still give other verdicts: True is 1, and 0.0 is -0.0.
        if bound is not self._last.bound or given != self._last:
            self._last = given
        return self._last
