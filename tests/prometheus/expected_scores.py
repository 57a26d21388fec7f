"""What each panel of *Verdicts* and *Failures* has to show of the invented hours, by its title; one entry for each of its queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.prometheus.truth import Quantile, above_zero, filled, less, ratio
from tests.prometheus.world import HOUR

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.prometheus.truth import Expectations, Truth, Vector

    Panels = Mapping[str, Sequence[Expectations]]

EVALUATOR, CRITERIA, AGENT = "gen_ai_evaluation_name", "toolcall_eval_criteria", "gen_ai_agent_name"
TOOL, RESULT, REASON, SERVICE = "gen_ai_tool_name", "toolcall_eval_result", "toolcall_eval_reason", "toolcall_eval_service_name"
COUNT, SUM, BUCKET = (f"gen_ai_evaluation_score_{suffix}" for suffix in ("count", "sum", "bucket"))
EVALUATIONS, EXPECTATIONS = "toolcall_eval_evaluations_total", "toolcall_eval_expectations_total"
PASS, FAIL, INCONCLUSIVE = ({"gen_ai_evaluation_score_label": label} for label in ("pass", "fail", "inconclusive"))


def nothing(at: int, window: int) -> Vector:
    """Return no series: what a query that asks for exemplars alone draws."""
    del at, window
    return {}


def an_hour_before(one: Expectations) -> Expectations:
    return lambda at, window: one(at - HOUR, window)


def zero_at_least(one: Expectations, other: Expectations) -> Expectations:
    """Return 0 where there is only the other."""
    return lambda at, window: one(at, window) or dict.fromkeys(other(at, window), 0.0)


def worst(one: Expectations, number: int, *, lowest: bool) -> Expectations:
    def vector(at: int, window: int) -> Vector:
        ranked = sorted(one(at, window).items(), key=lambda pair: pair[1], reverse=not lowest)
        return dict(ranked[:number])

    return vector


def verdicts(truth: Truth) -> Panels:
    def passed(*by: str) -> Expectations:
        return ratio(truth.grown(COUNT, *by, **PASS), truth.grown(COUNT, *by))

    def mean(*by: str) -> Expectations:
        return ratio(truth.grown(SUM, *by), truth.grown(COUNT, *by))

    def perfect(*by: str) -> Expectations:
        scored, below = truth.grown(COUNT, *by), truth.grown(BUCKET, *by, le="0.999")
        return ratio(less(scored, below), scored)

    def of(label: str, heading: str) -> Panels:
        return {
            f"Scores by {heading}": [truth.grown(COUNT, label), passed(label), mean(label), perfect(label)],
            f"Mean score by {heading}": [mean(label), nothing],
            f"Perfect scores by {heading}": [perfect(label)],
        }

    buckets = truth.grown(BUCKET, "le")
    return {
        "Pass rate": [passed()],
        "Change of the pass rate": [less(passed(), an_hour_before(passed()))],
        "Mean score": [mean()],
        "Perfect scores": [perfect()],
        "Inconclusive": [ratio(truth.grown(EVALUATIONS, **INCONCLUSIVE), truth.grown(EVALUATIONS))],
        "Verdicts": [truth.grown(EVALUATIONS)],
        "Pass rate against the period before": [passed(), an_hour_before(passed())],
        "Scores that most traces reach": [Quantile(fraction=0.1, buckets=buckets), Quantile(fraction=0.5, buckets=buckets), mean()],
        "Distribution of scores": [buckets],
        **of(EVALUATOR, "evaluator"),
        **of(AGENT, "agent"),
        **of(CRITERIA, "criteria"),
    }


def failures(truth: Truth) -> Panels:
    failed = truth.grown(COUNT, **FAIL)
    inconclusive = truth.grown(EVALUATIONS, **INCONCLUSIVE)
    missed = {RESULT: "!matched"}
    failing = truth.grown(BUCKET, "le", **FAIL)

    def share(*by: str) -> Expectations:
        return ratio(truth.grown(EXPECTATIONS, *by, **missed), truth.grown(EXPECTATIONS, *by))

    def passed(*by: str) -> Expectations:
        return ratio(truth.grown(COUNT, *by, **PASS), truth.grown(COUNT, *by))

    return {
        "Failed verdicts": [zero_at_least(failed, truth.grown(COUNT))],
        "Failed expectations": [share()],
        "Inconclusive verdicts": [zero_at_least(inconclusive, truth.grown(COUNT))],
        "Revised verdicts": [filled(truth.grown("toolcall_eval_revisions_total"))],
        "Traces without criteria": [filled(truth.grown("toolcall_eval_traces_unbound_total"))],
        "Faults of ours": [filled(truth.grown("toolcall_eval_internal_errors_total"))],
        "By tool and kind of mismatch": [truth.grown(EXPECTATIONS, TOOL, RESULT, **missed)],
        "Tools that fail most often": [worst(above_zero(share(TOOL)), 10, lowest=False)],
        "Mismatches over time": [truth.grown(EXPECTATIONS, RESULT, **missed)],
        "Failing scores": [Quantile(fraction=fraction, buckets=failing) for fraction in (0.9, 0.5, 0.1)],
        "Worst criteria": [worst(passed(CRITERIA), 10, lowest=True)],
        "Failed verdicts by criteria": [truth.grown(COUNT, CRITERIA, **FAIL)],
        "Inconclusive by reason": [above_zero(truth.grown("toolcall_eval_inconclusive_total", REASON))],
        "Inconclusive over time": [truth.grown("toolcall_eval_inconclusive_total", REASON)],
        "Revisions": [truth.grown("toolcall_eval_revisions_total", "toolcall_eval_label_from", "toolcall_eval_label_to")],
        "Traces without criteria, by service": [
            worst(above_zero(truth.grown("toolcall_eval_traces_unbound_total", SERVICE)), 10, lowest=False)
        ],
    }
