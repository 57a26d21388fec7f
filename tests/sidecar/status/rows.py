"""Reports and rows for the tests of this room."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters.events.attributes import explanation
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Resource
from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail, ReportRow, VerdictRow, condense
from tests.exporters.reports import evaluated_span, report, score, verdict

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport

TELL = ReportDetail(explain=explanation)
NOW_NS = 1_800_000_000_000_000_000


def trace_id(number: int) -> bytes:
    return number.to_bytes(16)


def judged(
    number: int, *labels: Label, agent: str = "refunds", service: str = "order-desk", criteria: str = "policy", revision: int = 0
) -> TraceReport:
    """Return a report on trace ``number`` with one verdict for each label."""
    span = replace(evaluated_span(trace_id=trace_id(number)), resource=Resource(attributes={"service.name": service}))
    verdicts = [
        verdict(label, criteria=criteria, evaluator=f"Evaluator{position}", given=score(1.0 if label is Label.PASS else 0.5))
        for position, label in enumerate(labels)
    ]
    return replace(report(*verdicts, span=span, agent=agent), trace_id=trace_id(number), revision=revision, spans=(span,))


def row(number: int, *labels: Label, at_ns: int = NOW_NS, **parts: str) -> ReportRow:
    """Return the row of such a report."""
    return condense(judged(number, *(labels or (Label.PASS,)), **parts), evaluated_unix_ns=at_ns, tell=TELL)  # type: ignore[arg-type]


__all__ = ["NOW_NS", "TELL", "ReportRow", "VerdictRow", "judged", "row", "trace_id"]
