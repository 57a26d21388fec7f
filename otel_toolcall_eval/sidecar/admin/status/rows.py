"""Condenses a report to what the pages show. Bounded whatever the trace holds, and without recorded values.

Names of spans, tools, agents and criteria, times, states and reasons are kept; attributes, arguments, outputs, status messages and
errors' texts are not. Explanations are those of ``exporters.events.attributes.explanation``, which has the rules on values.
Threads: that of ``RecentReports``. An explanation may decode payloads that the worker's thread has not decoded; both get the same values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_toolcall_eval.exporters.events.attributes import clean_name
from otel_toolcall_eval.exporters.metrics.evaluated_services import service_of
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.model.score import Comparison, TraceReport, Verdict
    from otel_toolcall_eval.model.tool_call import IgnoredSpan, ToolCall
    from otel_toolcall_eval.model.trace import Span

Plain: TypeAlias = "str | int | float | bool | Sequence[Plain] | Mapping[str, Plain] | None"
"""What JSON can hold."""

MAX_VERDICTS: Final = 100
MAX_COMPARISONS: Final = 100  # of one verdict
MAX_CALLS: Final = 200
MAX_SPANS: Final = 200
MAX_IGNORED: Final = 200
MAX_HINTS: Final = 10
MAX_HINT_CHARS: Final = 500
_MAX_REDACTED_CHARS: Final = 4096  # of a name, before it is cut

_URGENCY: Final = {Label.FAIL: 0, Label.INCONCLUSIVE: 1, Label.PASS: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDetail:
    """The rules on what may be shown.

    Attributes:
        explain: says why a verdict is what it is; never raises.
        redact: takes secrets out of names and reasons.
    """

    explain: Callable[[Verdict], str]
    redact: Callable[[str], str] = str

    def name(self, text: str) -> str:
        """Return a name without secrets, such as any page can show."""
        return clean_name(self.redact(text[:_MAX_REDACTED_CHARS]))  # in this order: half a secret is none that a rule knows

    def text(self, text: str) -> str:
        """Return text of ours that may hold names, likewise."""
        return self.redact(text[:_MAX_REDACTED_CHARS])[:MAX_HINT_CHARS].encode(errors="replace").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """One verdict, as the list of recent ones shows it."""

    criteria: str
    evaluator: str
    label: str
    score: float | None
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """One report.

    Attributes:
        evaluated_unix_ns: our clock.
        unit: the evaluated span, which distinguishes reports on agent runs of one trace; empty if there is none.
        passed: every verdict is a pass.
        document: what the page of the trace shows beyond the verdicts.
    """

    evaluated_unix_ns: int
    trace_id: bytes
    unit: bytes
    revision: int
    agent: str
    service: str
    passed: bool
    verdicts: Sequence[VerdictRow]
    document: Mapping[str, Plain]


def condense(report: TraceReport, *, evaluated_unix_ns: int, tell: ReportDetail) -> ReportRow:
    """Return what is kept of a report.

    Cost: 0.25 ms for a trace of ten spans and four verdicts, a third of it for explanations.
    """
    ranked = sorted(report.verdicts, key=lambda verdict: _URGENCY[verdict.label])[:MAX_VERDICTS]
    return ReportRow(
        evaluated_unix_ns=evaluated_unix_ns,
        trace_id=report.trace_id,
        unit=b"" if report.evaluated_span is None else report.evaluated_span.span_id,
        revision=report.revision,
        agent=tell.name(report.agent or ""),
        service=tell.name(service_of(report) or ""),
        passed=all(verdict.label is Label.PASS for verdict in report.verdicts),
        verdicts=[_verdict_row(verdict, tell) for verdict in ranked],
        document=_document(report, ranked, tell),
    )


def _verdict_row(verdict: Verdict, tell: ReportDetail) -> VerdictRow:
    return VerdictRow(
        criteria=tell.name(verdict.criteria),
        evaluator=tell.name(verdict.evaluator),
        label=verdict.label.value,
        score=verdict.emitted_score,
        explanation=tell.explain(verdict),
    )


def _document(report: TraceReport, verdicts: Sequence[Verdict], tell: ReportDetail) -> Mapping[str, Plain]:
    extraction = report.extraction
    spans = sorted(report.spans, key=lambda span: (span.start_unix_ns, -span.end_unix_ns))
    calls = extraction.calls[:MAX_CALLS]
    # Spans with calls first, and those that say why others have none: of 10,000 spans the ones that matter are shown.
    shown = {call.span_id for call in calls}
    if report.evaluated_span is not None:
        shown.add(report.evaluated_span.span_id)
    chosen = [span for span in spans if span.span_id in shown][:MAX_SPANS]
    chosen += islice((span for span in spans if span.span_id not in shown), MAX_SPANS - len(chosen))
    return {
        "trigger": report.trigger.value,
        "completeness": report.completeness.value,
        "doubts": [doubt.value for doubt in report.doubts],
        "decided_after": report.decided_after_ns / 1e9,
        "evaluation": report.evaluation_seconds,
        "conversation": None if report.conversation_id is None else tell.name(report.conversation_id),
        "unknown": [tell.name(name) for name in report.unknown_criteria[:MAX_HINTS]],
        "verdicts": [_verdict(verdict, tell) for verdict in verdicts],
        "verdicts_total": len(report.verdicts),
        "spans": [_span(span, tell) for span in sorted(chosen, key=lambda span: (span.start_unix_ns, -span.end_unix_ns))],
        "spans_total": len(spans),
        "calls": [_call(call, tell) for call in calls],
        "calls_total": len(extraction.calls),
        "ignored": [_ignored(span, tell) for span in extraction.ignored[:MAX_IGNORED]],
        "ignored_total": len(extraction.ignored),
        "hints": [tell.text(hint) for hint in extraction.hints[:MAX_HINTS]],
    }


def _verdict(verdict: Verdict, tell: ReportDetail) -> Mapping[str, Plain]:
    comparisons = _comparisons(verdict)
    return {
        "id": verdict.evaluation_id,
        "version": tell.name(verdict.criteria_version),
        "evaluator_id": tell.name(verdict.evaluator_id),
        "threshold": verdict.pass_threshold,
        "completeness": verdict.completeness.value,
        "doubts": [doubt.value for doubt in verdict.doubts],
        "comparisons": [_comparison(comparison, tell) for comparison in comparisons],
        "comparisons_total": len(comparisons) if verdict.score is None else max(len(comparisons), len(verdict.score.outcomes)),
    }


def _comparisons(verdict: Verdict) -> list[Comparison]:
    """Return what is shown of a verdict's expectations; nothing if a fault of ours prevents it."""
    if verdict.score is None:
        return []
    try:
        return list(islice(verdict.score.justification.comparisons(), MAX_COMPARISONS))
    except Exception:  # noqa: BLE001 - as in ``explanation``, which tells of it: one justification must not cost the page
        return []


def _comparison(comparison: Comparison, tell: ReportDetail) -> Mapping[str, Plain]:
    return {
        "label": tell.name(comparison.label),
        "expected": tell.text(comparison.expected),
        "actual": tell.text(comparison.actual),
        "matched": comparison.matched,
        "span": _hex(comparison.span_id),
    }


def _span(span: Span, tell: ReportDetail) -> Mapping[str, Plain]:
    return {
        "id": span.span_id.hex(),
        "parent": _hex(span.parent_span_id),
        "name": tell.name(span.name),
        "start": span.start_unix_ns,
        "end": span.end_unix_ns,
        "error": span.status is StatusCode.ERROR,
    }


def _call(call: ToolCall, tell: ReportDetail) -> Mapping[str, Plain]:
    return {
        "name": tell.name(call.name),
        "kind": call.kind.value,
        "phase": call.phase.value,
        "status": call.status.value,
        "agent": None if call.agent is None else tell.name(call.agent),
        "seconds": (call.end_unix_ns - call.start_unix_ns) / 1e9 if call.duration_known else None,
        "attempts": call.attempts,
        "dialects": [tell.name(dialect) for dialect in call.dialects],
        "evidence": call.evidence.value,
        "span": _hex(call.span_id),
        "merged": [_hex(span_id) for span_id in call.merged_span_ids[:MAX_HINTS]],
    }


def _ignored(span: IgnoredSpan, tell: ReportDetail) -> Mapping[str, Plain]:
    return {
        "span": span.span_id.hex(),
        "name": tell.name(span.name),
        "reason": tell.text(span.reason),
        "dialect": None if span.dialect is None else tell.name(span.dialect),
    }


def _hex(span_id: bytes | None) -> str | None:
    return span_id.hex() if span_id else None
