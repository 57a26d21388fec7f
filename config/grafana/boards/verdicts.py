"""*Verdicts*: how well every agent uses its tools, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from boards import metrics
from boards.board import Board, Row
from boards.panels import (
    BAD_FROM_10,
    GOOD_FROM_90,
    SINKING_IS_BAD,
    Column,
    Query,
    against_previous,
    buckets,
    columns,
    graph,
    number,
)
from boards.promql import RANGE, STEP, mean, previous, quantile, select, share, total
from boards.traces import exemplars
from boards.variables import CHOSEN, OF_CRITERIA, OF_EVALUATOR, OF_SERVICE, data_sources, scores
from otel_toolcall_eval.exporters import names

if TYPE_CHECKING:
    from boards.board import Panel

_COUNT: Final = select(f"{metrics.SCORE}_count", CHOSEN)
_PASSED: Final = select(f"{metrics.SCORE}_count", CHOSEN, f'{metrics.LABEL}="pass"')
# All but the perfect ones, up to a thousand expectations. Scrapes and OTLP write this bound alike; that of 1 they do not.
_IMPERFECT: Final = select(f"{metrics.SCORE}_bucket", CHOSEN, 'le="0.999"')
# Draws no line, since no count is below zero: exemplars are with buckets, and a mean has none.
_TRACES: Final = Query(expr=f"{select(f'{metrics.SCORE}_bucket', CHOSEN)} < 0", exemplars=True)
_VERDICTS: Final = select(metrics.metric(names.EVALUATIONS), OF_SERVICE, OF_CRITERIA, OF_EVALUATOR)
_INCONCLUSIVE: Final = select(metrics.metric(names.EVALUATIONS), OF_SERVICE, OF_CRITERIA, OF_EVALUATOR, f'{metrics.LABEL}="inconclusive"')

HEAT_MAP: Final = 9
"""Number of the panel whose exemplars are listed; panels are numbered as they are read."""


def _pass_rate(window: str, *by: str) -> str:
    return share(_PASSED, _COUNT, window, *by)


def _mean(window: str, *by: str) -> str:
    return mean(metrics.SCORE, window, *by, matchers=CHOSEN)


def _perfect(window: str, *by: str) -> str:
    return f"1 - {total(_IMPERFECT, window, *by)} / ({total(_COUNT, window, *by)} > 0)"


def _summary() -> list[Panel]:
    before = (
        "If it drops, look at the marks of changed criteria and services, then at the tables below for the agent or criteria that dropped."
    )
    return [
        number(
            "Pass rate",
            f"Share of the verdicts with a score that are passes, in the period shown. {before}",
            unit="percentunit",
            expr=_pass_rate(RANGE),
            steps=GOOD_FROM_90,
            nothing="no verdicts",
            decimals=1,
        ),
        number(
            "Change of the pass rate",
            "Pass rate of the period shown, less that of the period of the same length before it. If it is below zero, something got "
            "worse: compare versions of services and criteria, and open the worst traces on the dashboard Failures.",
            unit="percentunit",
            expr=f"{_pass_rate(RANGE)} - {previous(_pass_rate(RANGE))}",
            steps=SINKING_IS_BAD,
            nothing="nothing before",
            decimals=1,
        ),
        number(
            "Mean score",
            "Mean of all scores, from 0 to 1. If it is low while the pass rate is high, thresholds are lenient; if it is high while the "
            "pass rate is low, most of each trace is right and one expectation fails: see Failures.",
            unit="short",
            expr=_mean(RANGE),
            steps=GOOD_FROM_90,
            nothing="no verdicts",
            decimals=2,
        ),
        number(
            "Perfect scores",
            f"Share of scores that are exactly 1 (above 0.999, which is the same up to a thousand expectations). {before}",
            unit="percentunit",
            expr=_perfect(RANGE),
            steps=GOOD_FROM_90,
            nothing="no verdicts",
            decimals=1,
        ),
        number(
            "Inconclusive",
            "Share of all verdicts that could not be given, since something was not recorded. Agents are not told apart here. If it "
            "grows, see the reasons on the dashboard Failures: most often contents are not captured, or roots do not come.",
            unit="percentunit",
            expr=share(_INCONCLUSIVE, _VERDICTS),
            steps=BAD_FROM_10,
            nothing="no verdicts",
            decimals=1,
        ),
        number(
            "Verdicts",
            "Number of verdicts in the period shown, inconclusive ones included. Agents are not told apart here. If there are none "
            "though agents run, look at Pipeline health: spans may not arrive, or no criteria may be bound to them.",
            unit="short",
            expr=total(_VERDICTS),
            nothing="none",
            decimals=0,
        ),
    ]


def _course() -> list[Panel]:
    return [
        against_previous(
            "Pass rate against the period before",
            "Share of verdicts that are passes; dashed, the same time of day or hour one period earlier. If the lines part, the mark "
            "nearest to the fork says which criteria or service changed.",
            unit="percentunit",
            expr=_pass_rate(STEP),
        ),
        graph(
            "Scores that most traces reach",
            "Lower end, median and mean of the scores, with traces as dots. If the lower end drops alone, a few traces fail badly: open "
            "a dot there. If all drop, everything got worse: look for a changed service or changed criteria.",
            unit="short",
            queries=[
                Query(expr=quantile(0.1, metrics.SCORE, matchers=CHOSEN), legend="nine of ten reach", exemplars=True),
                Query(expr=quantile(0.5, metrics.SCORE, matchers=CHOSEN), legend="half reach"),
                Query(expr=_mean(STEP), legend="mean"),
            ],
            most=1,
        ),
    ]


def _distribution() -> list[Panel]:
    return [
        buckets(
            "Distribution of scores",
            "How many verdicts were between a row's bound and the one below, over time; the topmost row with any are the perfect ones, "
            "dots are traces. If a band grows at the bottom, open one of its dots: it leads to a trace that scored so.",
            expr=total(select(f"{metrics.SCORE}_bucket", CHOSEN), STEP, "le"),
            width=14,
        ),
        exemplars(
            "Traces behind the scores",
            "Traces that the dots of the heat map stand for, newest first; a trace ID opens in Tempo or Jaeger, as chosen above. If it "
            "is empty, switch on Prometheus' exemplar storage (--enable-feature=exemplar-storage).",
            panel=HEAT_MAP,
            width=10,
            worst_first=False,
        ),
    ]


def _by(label: str, heading: str, cure: str) -> list[Panel]:
    word = heading.lower()
    legend = f"{{{{{label}}}}}"
    return [
        columns(
            f"Scores by {word}",
            f"One row for each {word}, the lowest pass rate first; inconclusive verdicts are left out. If one stands out, {cure}",
            label=label,
            heading=heading,
            of=[
                Column(title="Verdicts", expr=total(_COUNT, RANGE, label), unit="short", decimals=0),
                Column(title="Pass rate", expr=_pass_rate(RANGE, label), unit="percentunit", decimals=1),
                Column(title="Mean", expr=_mean(RANGE, label), unit="short", decimals=2),
                Column(title="Perfect", expr=_perfect(RANGE, label), unit="percentunit", decimals=1),
            ],
            sort="Pass rate",
        ),
        graph(
            f"Mean score by {word}",
            f"Mean of the scores, from 0 to 1, over time, with traces as dots. If one line drops, {cure}",
            unit="short",
            queries=[Query(expr=_mean(STEP, label), legend=legend), _TRACES],
            width=8,
            most=1,
        ),
        graph(
            f"Perfect scores by {word}",
            f"Share of scores that are exactly 1, over time. If one line drops, {cure}",
            unit="percentunit",
            queries=[Query(expr=_perfect(STEP, label), legend=legend)],
            width=8,
            most=1,
        ),
    ]


VERDICTS: Final = Board(
    name="verdicts",
    title="Tool calls / Verdicts",
    description="How well every agent uses its tools, what got worse, and when.",
    variables=[*data_sources(traces=True), *scores()],
    rows=[
        Row(title="This period", panels=_summary()),
        Row(title="Course", panels=_course()),
        Row(title="Distribution", panels=_distribution()),
        Row(
            title="By evaluator",
            panels=_by(
                metrics.EVALUATOR,
                "Evaluator",
                "that is the kind of mistake to look for: counts, order, arguments or outputs; Failures names the tools.",
            ),
        ),
        Row(
            title="By agent",
            panels=_by(
                metrics.AGENT,
                "Agent",
                "choose that agent above and see which criteria it fails; _OTHER stands for agents beyond the first 100.",
            ),
        ),
        Row(
            title="By criteria",
            panels=_by(
                metrics.CRITERIA, "Criteria", "either agents break it or it was made stricter: the marks show when its version changed."
            ),
        ),
    ],
    chosen=True,
)
