"""*Pipeline health*: whether the scores can be trusted, because all that was sent came in, was evaluated in time, and went out again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from boards import metrics
from boards.board import Board, Row
from boards.metrics import metric
from boards.panels import BAD_ABOVE_0, BAD_FROM_10, NEUTRAL_BARS, Query, bars, graph, number
from boards.pipeline_ends import out, room
from boards.promql import RANGE, STEP, quantile, select, share, total
from boards.variables import OF_INSTANCE, data_sources, instances, sidecars
from otel_toolcall_eval.exporters import names

if TYPE_CHECKING:
    from boards.board import Panel

_OVERFLOWN: Final = select("", '__name__=~"gen_ai_evaluation_.+|toolcall_eval_.+"', f'{metrics.OVERFLOW}="true"', OF_INSTANCE)


def _rate(series: str, *by: str) -> str:
    grouped = f" by ({', '.join(by)}) " if by else ""
    return f"sum{grouped}(rate({series}[{STEP}]))"


def _zero(expression: str) -> str:
    return f"{expression} or vector(0)"


def _summary() -> list[Panel]:
    arriving = "If it is zero while agents run, their exporters do not reach the sidecar: check their endpoint, then rejected requests."
    return [
        number(
            "Spans received",
            f"Spans that arrived in the period shown, whatever became of them. {arriving}",
            unit="short",
            expr=_zero(total(sidecars(metric(names.SPANS_RECEIVED)))),
        ),
        number(
            "Rejected requests",
            "Requests rejected whole in the period shown. If there are any, the reasons below say why; senders come again after overload, "
            "and not after a missing token or a body that is no OTLP.",
            unit="short",
            expr=_zero(total(sidecars(metric(names.REQUESTS_REJECTED)))),
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
        number(
            "Rejected and dropped spans",
            "Spans that could not be used (rejected) or were not kept, to stay within bounds (dropped, skipped). If there are any, "
            "verdicts may lack evidence: reasons and bounds are below.",
            unit="short",
            expr=" + ".join(
                f"({_zero(total(sidecars(metric(one))))})" for one in (names.SPANS_REJECTED, names.SPANS_DROPPED, names.SPANS_SKIPPED)
            ),
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
        number(
            "Partial traces",
            "Share of completed traces from which something was missing. If it grows, roots or children come late or not at all: see "
            "completion triggers and late spans.",
            unit="percentunit",
            expr=share(
                sidecars(metric(names.TRACES_COMPLETED), f'{metrics.COMPLETENESS}="partial"'), sidecars(metric(names.TRACES_COMPLETED))
            ),
            steps=BAD_FROM_10,
            nothing="no traces",
            decimals=1,
        ),
        number(
            "Failed exports",
            "Exports of our own metrics, logs and spans that failed. If there are any, the Collector is down or refuses: scores are "
            "missing there, and /metrics still has them.",
            unit="short",
            expr=_zero(total(sidecars(metric(names.EXPORT_FAILURES)))),
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
        number(
            "Series that overflowed",
            "Metrics with more attribute sets than the SDK keeps; the rest is added up under otel_metric_overflow. If there are any, "
            "totals are right and details are not: fewer criteria or tools by one sidecar.",
            unit="short",
            expr=_zero(f"count({_OVERFLOWN})"),
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
    ]


def _intake() -> list[Panel]:
    became = (
        (names.SPANS_RELEVANT, "relevant"),
        (names.SPANS_IGNORED, "ignored"),
        (names.SPANS_DUPLICATE, "duplicate"),
        (names.SPANS_CONFLICT, "conflict"),
        (names.SPANS_REJECTED, "rejected"),
    )
    lost = ((names.SPANS_DROPPED, "dropped"), (names.SPANS_SKIPPED, "skipped"), (names.SPANS_REJECTED, "rejected"))
    return [
        graph(
            "Received, by transport",
            "Spans a second, by the way they came. If a line ends, that sender stopped or can't connect; look at its exporter's log.",
            unit="cps",
            queries=[Query(expr=_rate(sidecars(metric(names.SPANS_RECEIVED)), metrics.TRANSPORT), legend=f"{{{{{metrics.TRANSPORT}}}}}")],
            stacked=True,
        ),
        graph(
            "What became of received spans",
            "Spans a second, by what became of them; together they are those received. If all are ignored, no dialect reads this agent's "
            "tool calls: otel-toolcall-eval calls --explain says why. Duplicates come from retries; conflicts from faulty senders.",
            unit="cps",
            queries=[Query(expr=_rate(sidecars(metric(one))), legend=word) for one, word in became],
            stacked=True,
        ),
        graph(
            "Rejected, by reason, and delayed",
            "Requests rejected in the minutes before each point, by transport and reason, and those whose response was delayed because "
            "more arrived than could be evaluated. If that lasts, or the reason is overloaded, give the sidecar more CPU or split the load "
            "by trace ID; if too_large, lower the sender's batch; if unauthenticated, look at its token.",
            unit="short",
            queries=[
                Query(
                    expr=total(sidecars(metric(names.REQUESTS_REJECTED)), STEP, metrics.TRANSPORT, metrics.REASON),
                    legend=f"{{{{{metrics.TRANSPORT}}}}} {{{{{metrics.REASON}}}}}",
                ),
                Query(
                    expr=total(sidecars(metric(names.REQUESTS_DELAYED)), STEP, metrics.TRANSPORT),
                    legend=f"{{{{{metrics.TRANSPORT}}}}} delayed",
                ),
            ],
            stacked=True,
        ),
        graph(
            "Lost spans",
            "Spans in the minutes before each point that were rejected (the sender is faulty), dropped (a trace reached its bounds) or "
            "skipped (evaluation was behind). If dropped grows, raise limits; if skipped grows, give the sidecar more CPU.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(one)), STEP), legend=word) for one, word in lost],
            stacked=True,
        ),
        graph(
            "Log records",
            "Log records in the minutes before each point: correlated with spans, ignored, dropped. If contents come by log records and "
            "none are correlated, spans and records have different trace IDs, or come too late.",
            unit="short",
            queries=[
                Query(expr=total(sidecars(metric(one)), STEP), legend=word)
                for one, word in (
                    (names.LOG_RECORDS_CORRELATED, "correlated"),
                    (names.LOG_RECORDS_IGNORED, "ignored"),
                    (names.LOG_RECORDS_DROPPED, "dropped"),
                )
            ],
        ),
        bars(
            "Rejected spans by reason",
            "Spans that could not be used, by reason. If there are any, a sender writes IDs or times that OTLP does not allow: the "
            "sender was told in partial_success.",
            unit="short",
            query=Query(
                expr=f"sort_desc({total(sidecars(metric(names.SPANS_REJECTED)), RANGE, metrics.REASON)} > 0)",
                legend=f"{{{{{metrics.REASON}}}}}",
            ),
            steps=NEUTRAL_BARS,
        ),
    ]


def _evaluation() -> list[Panel]:
    return [
        graph(
            "Open traces",
            "Traces that are buffered and not yet completed. If it climbs without end, roots do not come: otel-toolcall-eval traces shows "
            "what each waits for.",
            unit="short",
            queries=[Query(expr=f"sum by (instance) ({sidecars(metric(names.TRACES_ACTIVE))})", legend="{{instance}}")],
        ),
        graph(
            "Completion triggers",
            "Traces completed in the minutes before each point, by what made them due. If idle_timeout or trace_timeout prevail, roots are "
            "lost or sampled away; if eviction or memory appear, raise limits.limit_mib or limits.num_traces.",
            unit="short",
            queries=[
                Query(expr=total(sidecars(metric(names.TRACES_COMPLETED)), STEP, metrics.TRIGGER), legend=f"{{{{{metrics.TRIGGER}}}}}")
            ],
            stacked=True,
        ),
        graph(
            "Lag: from root to verdict",
            "Time from a root's arrival to the completion of its trace (p50 and p95). If it is far above "
            "completion.decision_wait_after_root_received, spans trickle in or the sidecar is behind.",
            unit="s",
            queries=[
                Query(expr=quantile(0.5, metric(names.COMPLETION_DELAY), matchers=OF_INSTANCE), legend="p50"),
                Query(expr=quantile(0.95, metric(names.COMPLETION_DELAY), matchers=OF_INSTANCE), legend="p95"),
            ],
        ),
        graph(
            "Late spans",
            "Spans in the minutes before each point that came after their trace was completed. If there are many, evaluation is too early: "
            "raise completion.decision_wait_after_root_received to the age beside this.",
            unit="short",
            queries=[Query(expr=total(sidecars(metric(names.SPANS_LATE)), STEP, metrics.TRANSPORT), legend=f"{{{{{metrics.TRANSPORT}}}}}")],
            stacked=True,
        ),
        graph(
            "Age of late spans",
            "How long after their trace's completion late spans came (p50 and p95). If they come within a minute, a "
            "longer wait after the root would catch them; if much later, a sender is stuck in its retries.",
            unit="s",
            queries=[
                Query(expr=quantile(0.5, metric(names.LATE_SPAN_AGE), matchers=OF_INSTANCE), legend="p50"),
                Query(expr=quantile(0.95, metric(names.LATE_SPAN_AGE), matchers=OF_INSTANCE), legend="p95"),
            ],
        ),
        graph(
            "Time to evaluate a trace",
            "Time to read the calls of one trace and to evaluate them. If it climbs, traces got longer or criteria compare large values; a "
            "millisecond is normal.",
            unit="s",
            queries=[
                Query(expr=quantile(0.5, metric(names.EVALUATION_DURATION), matchers=OF_INSTANCE), legend="p50"),
                Query(expr=quantile(0.99, metric(names.EVALUATION_DURATION), matchers=OF_INSTANCE), legend="p99"),
            ],
        ),
    ]


PIPELINE_HEALTH: Final = Board(
    name="pipeline-health",
    title="Tool calls / Pipeline health",
    description="Whether the scores can be trusted: what came in, what was evaluated in time, what went out.",
    variables=[*data_sources(traces=False), *instances()],
    rows=[
        Row(title="This period", panels=_summary()),
        Row(title="What comes in", panels=_intake()),
        Row(title="Evaluation", panels=_evaluation()),
        Row(title="Room", panels=room()),
        Row(title="What goes out", panels=out()),
    ],
    chosen=False,
)
