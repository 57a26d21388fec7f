"""Which alerts the invented hours give cause for at their end, before any waiting, and with what value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.prometheus.truth import NOTHING, Quantile, above_zero, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.prometheus.truth import Expectations, Labels, Truth, Vector

MINUTE, HOUR, DAY = 60, 3600, 86_400
OBJECTIVE = 0.95
JUDGED = ("toolcall_eval_service_name", "toolcall_eval_criteria")
SIDECAR = ("job", "instance")
REASON, SIGNAL, TRANSPORT = "toolcall_eval_reason", "toolcall_eval_signal", "toolcall_eval_transport"


def causes(truth: Truth, at: int) -> Mapping[str, Vector]:
    """Return the vector of each alert's expression."""
    scored = truth.grown("gen_ai_evaluation_score_count", *JUDGED)
    failed = ratio(truth.grown("gen_ai_evaluation_score_count", *JUDGED, gen_ai_evaluation_score_label="fail"), scored)

    def burning(budgets: float, long: int, short: int, *, least: int) -> Vector:
        most = min(budgets * (1 - OBJECTIVE), 0.9)
        return {
            judged: value
            for judged, value in failed(at, long).items()
            if value > most and failed(at, short).get(judged, 0) > most and scored(at, long)[judged] >= least
        }

    def grown(name: str, minutes: int, *by: str, **where: str) -> Vector:
        return above_zero(truth.grown(f"toolcall_eval_{name}_total", *SIDECAR, *by, **where))(at, minutes * MINUTE)

    received, judged = grown("spans_received", 15), grown("evaluations", 60)
    return {
        "ToolCallPassRateBurnsFast": burning(14.4, HOUR, 5 * MINUTE, least=10),
        "ToolCallPassRateBurns": burning(6, 6 * HOUR, 30 * MINUTE, least=20),
        "ToolCallPassRateBurnsSlowly": burning(1, 3 * DAY, 6 * HOUR, least=50),
        "ToolCallNoVerdicts": {sidecar: value for sidecar, value in received.items() if sidecar not in judged},
        "ToolCallRequestsRejected": grown("requests_rejected", 5, TRANSPORT, REASON),
        "ToolCallSpansRejected": grown("spans_rejected", 5, REASON),
        "ToolCallSpansLost": {**grown("spans_skipped", 5), **grown("spans_dropped", 5)},
        "ToolCallVerdictsLag": _lag(truth.grown("toolcall_eval_completion_delay_seconds_bucket", *SIDECAR, "le"), at),
        "ToolCallExportFailing": grown("export_failures", 5, SIGNAL),
        "ToolCallExportDropped": grown("export_dropped", 15, SIGNAL),
        "ToolCallSeriesOverflow": {},
        "ToolCallCriteriaRejected": _rejected_last(truth, at),
        "ToolCallFaults": {**grown("journal_damaged", 15), **grown("journal_failures", 15), **grown("failures", 15)},
    }


def _lag(buckets: Expectations, at: int) -> Vector:
    """Return the time that one in twenty traces of a sidecar waits longer than, if that is two minutes."""
    grown = buckets(at, 10 * MINUTE)

    def seconds(sidecar: Labels) -> float:
        own = {labels - sidecar: value for labels, value in grown.items() if sidecar < labels}
        return Quantile(fraction=0.95, buckets=lambda _at, _window: own)(at, 0).get(NOTHING, 0.0)

    sidecars = {frozenset(pair for pair in labels if pair[0] != "le") for labels in grown}
    return {sidecar: waited for sidecar in sidecars if (waited := seconds(sidecar)) > 120}


def _rejected_last(truth: Truth, at: int) -> Vector:
    """Return when criteria were last rejected by a sidecar, to five minutes, where they were not loaded since."""

    def last(result: str) -> Vector:
        growth = above_zero(truth.grown("toolcall_eval_criteria_reloads_total", *SIDECAR, toolcall_eval_result=result))
        found: dict[Labels, float] = {}
        for minute in range(at - at % MINUTE, at - DAY, -MINUTE):
            for sidecar in growth(minute, 5 * MINUTE):
                found.setdefault(sidecar, float(minute))
        return found

    loaded = last("loaded")
    return {sidecar: when for sidecar, when in last("rejected").items() if when > loaded.get(sidecar, 0)}
