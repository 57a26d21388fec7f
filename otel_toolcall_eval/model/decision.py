"""What was decided about a trace, and what was said of it: enough to take the decision up in another process."""

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
    """What was said of a trace, kept as long as it may be revised.

    Attributes:
        revision: of the report that said it.
        bound: what was bound to the trace's ID until then.
    """

    revision: int
    said: Said
    bound: BoundCriteria


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One look at a trace that is complete, or that late spans made worth another look.

    Attributes:
        unit_span_id: the agent span, where agent invocations are evaluated one by one; None for a whole trace.
        trigger: why it was evaluated then.
        look: 0 for the first look, then 1, 2, ...; a look that changes no verdict makes no revision.
        batch: equal for what was decided at the same moment.
        given: what holds of the trace since; None if a fault of ours kept it from being evaluated.
        reported: False if nothing was said, since nothing has changed, or because of a fault.
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
        """Return the decision on a trace as it was when it was looked at."""
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
    """Return what a report says."""
    return tuple((verdict.criteria, verdict.evaluator, verdict.label, verdict.emitted_score) for verdict in report.verdicts)


class PriorVerdicts:
    """Makes what was said of one trace after the other: one object for all those in a row that the same is said of, as of most."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        """Start with nothing said."""
        self._last = PriorVerdict(revision=0, said=(), bound=NOTHING_BOUND)

    def of(self, report: TraceReport, *, revision: int, bound: BoundCriteria) -> PriorVerdict:
        """Return what a report says."""
        given = PriorVerdict(revision=revision, said=verdict_keys(report), bound=bound)
        # Bindings that are equal may still give other verdicts: True is 1, and 0.0 is -0.0.
        if bound is not self._last.bound or given != self._last:
            self._last = given
        return self._last
