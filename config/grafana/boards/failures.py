"""*Failures*: what goes wrong, with which tool, by which criteria, and in which trace to see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from boards import metrics
from boards.board import Board, Row
from boards.panels import BAD_ABOVE_0, BAD_FROM_10, GOOD_FROM_90, NEUTRAL_BARS, Query, bars, graph, matrix, number
from boards.promql import RANGE, STEP, quantile, select, share, total
from boards.traces import exemplars, jaeger_search, tempo_search
from boards.variables import CHOSEN, OF_CRITERIA, OF_EVALUATOR, OF_SERVICE, data_sources, scores
from otel_toolcall_eval.exporters import names

if TYPE_CHECKING:
    from boards.board import Panel

_FAIL: Final = f'{metrics.LABEL}="fail"'
_COUNT: Final = select(f"{metrics.SCORE}_count", CHOSEN)
_PASSED: Final = select(f"{metrics.SCORE}_count", CHOSEN, f'{metrics.LABEL}="pass"')
_FAILED: Final = select(f"{metrics.SCORE}_count", CHOSEN, _FAIL)
_EXPECTED: Final = select(metrics.metric(names.EXPECTATIONS), OF_EVALUATOR)
_MISSED: Final = select(metrics.metric(names.EXPECTATIONS), OF_EVALUATOR, f'{metrics.RESULT}!="matched"')
_DOUBTS: Final = select(metrics.metric(names.INCONCLUSIVE), OF_SERVICE, OF_CRITERIA, OF_EVALUATOR)
_INCONCLUSIVE: Final = select(metrics.metric(names.EVALUATIONS), OF_SERVICE, OF_CRITERIA, OF_EVALUATOR, f'{metrics.LABEL}="inconclusive"')
_UNBOUND: Final = select(metrics.metric(names.TRACES_UNBOUND), OF_SERVICE)
_REVISIONS: Final = select(metrics.metric(names.REVISIONS), OF_EVALUATOR)

FAILING_SCORES: Final = 10
"""Number of the panel whose exemplars are listed; panels are numbered as they are read."""


def _summary() -> list[Panel]:
    return [
        number(
            "Failed verdicts",
            "Verdicts labelled fail in the period shown. If there are more than usual, the tables below say with which tool and by which "
            "criteria.",
            unit="short",
            expr=f"{total(_FAILED)} or {total(_COUNT)} * 0",
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
        number(
            "Failed expectations",
            "Share of single expectations (of one tool each) that were not met, over all services, agents and criteria. If it is high, "
            "see by tool and kind below.",
            unit="percentunit",
            expr=share(_MISSED, _EXPECTED),
            steps=BAD_FROM_10,
            decimals=1,
        ),
        number(
            "Inconclusive verdicts",
            "Verdicts that could not be given since something was not recorded. If there are any, the reasons below say what to switch on.",
            unit="short",
            expr=f"{total(_INCONCLUSIVE)} or {total(_COUNT)} * 0",
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
        number(
            "Revised verdicts",
            "Verdicts given again because a span came late. If there are many, raise completion.decision_wait_after_root_received, or "
            "let senders export sooner.",
            unit="short",
            expr=f"{total(_REVISIONS)} or vector(0)",
            decimals=0,
        ),
        number(
            "Traces without criteria",
            "Traces that no criteria apply to; they are not scored. If agents of yours are among them, their match rules or the names "
            "they give are off: otel-toolcall-eval check says what criteria ask for.",
            unit="short",
            expr=f"{total(_UNBOUND)} or vector(0)",
            decimals=0,
        ),
        number(
            "Faults of ours",
            "Traces that could not be evaluated and reports that could not be sent, because of a fault in the sidecar. If there are any, "
            "its log has them: please report them.",
            unit="short",
            expr=f"{total(metrics.metric(names.INTERNAL_ERRORS))} or vector(0)",
            steps=BAD_ABOVE_0,
            decimals=0,
        ),
    ]


def _tools() -> list[Panel]:
    return [
        matrix(
            "By tool and kind of mismatch",
            "Expectations that were not met: a row for each tool that criteria name, a column for each kind. If wrong_arguments stands "
            "out, open a failing trace and read the explanation: it names the path that differs. missing and wrong_count point to "
            "instructions, wrong_order to planning.",
            expr=total(_MISSED, RANGE, metrics.TOOL, metrics.RESULT),
            rows=metrics.TOOL,
            across=metrics.RESULT,
        ),
        bars(
            "Tools that fail most often",
            "Share of each tool's expectations that were not met, the ten worst. If one is near 100 %, it was renamed or is never "
            "called: compare the criteria with the tool's name in a trace.",
            unit="percentunit",
            query=Query(expr=f"topk(10, {share(_MISSED, _EXPECTED, RANGE, metrics.TOOL)} > 0)", legend=f"{{{{{metrics.TOOL}}}}}"),
            steps=BAD_FROM_10,
            most=1,
        ),
        graph(
            "Mismatches over time",
            "Expectations that were not met in the minutes before each point, by kind. If one kind sets in all at once, a mark beside it "
            "says which criteria or service changed.",
            unit="short",
            queries=[Query(expr=total(_MISSED, STEP, metrics.RESULT), legend=f"{{{{{metrics.RESULT}}}}}")],
            width=24,
            stacked=True,
        ),
    ]


def _worst() -> list[Panel]:
    return [
        graph(
            "Failing scores",
            "Upper end, median and lower end of failing scores, with their traces as dots. If the lower end is 0, nothing expected was "
            "done at all: open such a dot first.",
            unit="short",
            queries=[
                Query(expr=quantile(0.9, metrics.SCORE, matchers=f"{CHOSEN}, {_FAIL}"), legend="one of ten is above", exemplars=True),
                Query(expr=quantile(0.5, metrics.SCORE, matchers=f"{CHOSEN}, {_FAIL}"), legend="half are above"),
                Query(expr=quantile(0.1, metrics.SCORE, matchers=f"{CHOSEN}, {_FAIL}"), legend="nine of ten are above"),
            ],
            most=1,
        ),
        exemplars(
            "Worst traces",
            "Failing traces, the lowest score first; a trace ID opens in Tempo or Jaeger, as chosen above, where the verdict stands with "
            "its explanation. If it is empty though verdicts fail, switch on Prometheus' exemplar storage "
            "(--enable-feature=exemplar-storage).",
            panel=FAILING_SCORES,
        ),
        bars(
            "Worst criteria",
            "Pass rate of each criteria, the ten lowest. If one is low for all agents, the criteria may ask for something that is no "
            "longer true: check it against a passing trace; if for one agent, choose that agent above.",
            unit="percentunit",
            query=Query(expr=f"sort(bottomk(10, {share(_PASSED, _COUNT, RANGE, metrics.CRITERIA)}))", legend=f"{{{{{metrics.CRITERIA}}}}}"),
            steps=GOOD_FROM_90,
            most=1,
        ),
        graph(
            "Failed verdicts by criteria",
            "Verdicts labelled fail in the minutes before each point. If one criteria sets in at a mark, that change broke it.",
            unit="short",
            queries=[Query(expr=total(_FAILED, STEP, metrics.CRITERIA), legend=f"{{{{{metrics.CRITERIA}}}}}")],
            stacked=True,
        ),
    ]


def _undecided() -> list[Panel]:
    return [
        bars(
            "Inconclusive by reason",
            "What was missing, by number of verdicts; one with several reasons is counted under each. content_not_captured: let the "
            "instrumentation record contents. value_redacted, value_truncated: exempt what criteria need. no_root, orphan, open_spans: "
            "see late spans on Pipeline health. If overload or evicted appear, the sidecar needs more room.",
            unit="short",
            query=Query(expr=f"sort_desc({total(_DOUBTS, RANGE, metrics.REASON)} > 0)", legend=f"{{{{{metrics.REASON}}}}}"),
            steps=NEUTRAL_BARS,
        ),
        graph(
            "Inconclusive over time",
            "Verdicts that could not be given in the minutes before each point, by reason. If one sets in at once, an instrumentation "
            "was changed: see the marks.",
            unit="short",
            queries=[Query(expr=total(_DOUBTS, STEP, metrics.REASON), legend=f"{{{{{metrics.REASON}}}}}")],
            stacked=True,
        ),
        matrix(
            "Revisions",
            "Verdicts given again because a span came late: a row for each first label, a column for each later one. If many passes "
            "become fails, the first verdict comes too early: raise completion.decision_wait_after_root_received.",
            expr=total(_REVISIONS, RANGE, "toolcall_eval_label_from", "toolcall_eval_label_to"),
            rows="toolcall_eval_label_from",
            across="toolcall_eval_label_to",
        ),
        bars(
            "Traces without criteria, by service",
            "Services whose traces nothing is bound to. If one should be evaluated, give criteria a match rule for it, or set "
            "toolcall_eval.criteria in its resource.",
            unit="short",
            query=Query(expr=f"topk(10, {total(_UNBOUND, RANGE, metrics.SERVICE)} > 0)", legend=f"{{{{{metrics.SERVICE}}}}}"),
            steps=NEUTRAL_BARS,
        ),
    ]


FAILURES: Final = Board(
    name="failures",
    title="Tool calls / Failures",
    description="What goes wrong, with which tool, by which criteria, and in which trace to see it.",
    variables=[*data_sources(traces=True), *scores()],
    rows=[
        Row(title="This period", panels=_summary()),
        Row(title="Tools", panels=_tools()),
        Row(title="Criteria and traces", panels=_worst()),
        Row(title="Without a verdict", panels=_undecided()),
        Row(
            title="Failing spans in Tempo",
            panels=[
                tempo_search(
                    "Failing verdicts in Tempo",
                    "Spans that carry a failing verdict, and its lowest score: evaluate_tool_calls, or the evaluated root itself. If it is "
                    "empty though verdicts fail, the sidecar's traces do not reach Tempo: set export.otlp.endpoint.",
                )
            ],
            folded=True,
        ),
        Row(
            title="Failing spans in Jaeger",
            panels=[
                jaeger_search(
                    "Failing verdicts in Jaeger",
                    "Traces with a span evaluate_tool_calls whose verdict is fail. If it is empty though verdicts fail, the sidecar's "
                    "traces do not reach Jaeger: set export.otlp.endpoint; with a service name of your own for the sidecar, change it in "
                    "this panel's query.",
                )
            ],
            folded=True,
        ),
    ],
    chosen=True,
)
