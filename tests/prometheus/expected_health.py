"""What each panel of *Pipeline health* has to show of the invented hours, by its title; one entry for each of its queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.prometheus.truth import Quantile, above_zero, filled, ratio
from tests.prometheus.world import COUNTED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.prometheus.truth import Expectations, Truth, Vector

    Panels = Mapping[str, Sequence[Expectations]]

TRANSPORT, REASON, RESULT, SIGNAL = (f"toolcall_eval_{word}" for word in ("transport", "reason", "result", "signal"))


def gauge(name: str) -> Expectations:
    """Return what each sidecar says at a time."""

    def vector(at: int, window: int) -> Vector:
        del window
        values = {counted.sidecar: counted.value(at) for counted in COUNTED if counted.name == name}
        return {frozenset({("instance", f"sidecar-{sidecar}")}): value for sidecar, value in values.items() if value is not None}

    return vector


def none_yet(at: int, window: int) -> Vector:
    del at, window
    return {frozenset(): 0.0}


def a_second(one: Expectations) -> Expectations:
    """Return the growth of counters by the second, as ``rate`` does: what begins inside the window is not told."""
    return lambda at, window: {key: value / window for key, value in one(at, window).items()}


def pipeline_health(truth: Truth) -> Panels:
    def grown(name: str, *by: str, **where: str) -> Expectations:
        return truth.grown(f"toolcall_eval_{name}_total", *by, **where)

    def told(name: str) -> Expectations:
        return filled(grown(name))

    def together(*names: str) -> Expectations:
        return lambda at, window: {frozenset(): sum(told(name)(at, window)[frozenset()] for name in names)}

    def times(name: str, *fractions: float) -> list[Expectations]:
        return [Quantile(fraction=fraction, buckets=truth.grown(f"toolcall_eval_{name}_seconds_bucket", "le")) for fraction in fractions]

    return {
        "Spans received": [told("spans_received")],
        "Rejected requests": [told("requests_rejected")],
        "Rejected and dropped spans": [together("spans_rejected", "spans_dropped", "spans_skipped")],
        "Partial traces": [ratio(grown("traces_completed", toolcall_eval_completeness="partial"), grown("traces_completed"))],
        "Failed exports": [told("export_failures")],
        "Series that overflowed": [none_yet],
        "Received, by transport": [a_second(truth.risen("toolcall_eval_spans_received_total", TRANSPORT))],
        "What became of received spans": [
            a_second(truth.risen(f"toolcall_eval_spans_{fate}_total"))
            for fate in ("relevant", "ignored", "duplicate", "conflict", "rejected")
        ],
        "Rejected, by reason, and delayed": [grown("requests_rejected", TRANSPORT, REASON), grown("requests_delayed", TRANSPORT)],
        "Lost spans": [grown(f"spans_{fate}") for fate in ("dropped", "skipped", "rejected")],
        "Log records": [grown(f"log_records_{fate}") for fate in ("correlated", "ignored", "dropped")],
        "Rejected spans by reason": [above_zero(grown("spans_rejected", REASON))],
        "Open traces": [gauge("toolcall_eval.traces.active")],
        "Completion triggers": [grown("traces_completed", "toolcall_eval_trigger")],
        "Lag: from root to verdict": times("completion_delay", 0.5, 0.95),
        "Late spans": [grown("spans_late", TRANSPORT)],
        "Age of late spans": times("late_span_age", 0.5, 0.95),
        "Time to evaluate a trace": times("evaluation_duration", 0.5, 0.99),
        "Memory": [gauge("toolcall_eval.traces.memory"), gauge("toolcall_eval.queue.memory"), gauge("process.memory.usage")],
        "Forwarding queue": [gauge("toolcall_eval.forward.queue")],
        "Forwarded": [grown("forward_requests", RESULT)],
        "Journal": [gauge("toolcall_eval.journal.size")],
        "Export failures": [grown("export_failures", SIGNAL)],
        "Dropped on export": [grown("export_dropped", SIGNAL)],
        "Criteria reloads": [grown("criteria_reloads", RESULT)],
        "Faults": [grown(name) for name in ("internal_errors", "journal_failures", "journal_damaged", "journal_discarded")],
    }
