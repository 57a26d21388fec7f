"""``evaluate``: evaluates recorded traces by criteria."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import console, counted, json_ready, remark, text
from otel_toolcall_eval.cli.recorded import criteria_sources, load, read_pipeline
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, explain_of
from otel_toolcall_eval.model.criteria import SelectorScope
from otel_toolcall_eval.model.errors import CriteriaError, Problem
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from otel_toolcall_eval.exporters.events.attributes import ExplanationPolicy
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.score import TraceReport, Verdict

SHOWN_NAMES = 10
MAX_ROWS = 200
STYLES = {Label.PASS: "green", Label.FAIL: "bold red", Label.INCONCLUSIVE: "yellow"}


def run(arguments: argparse.Namespace) -> int:
    """Evaluate and report.

    Returns:
        0 if every verdict passed, 1 if one did not, 2 if a part of the input could not be used or nothing was evaluated.
    """
    settings = load(arguments.settings, arguments.criteria)
    if not settings.criteria:
        raise CriteriaError(where="command line", what="no criteria are given", fix="name a file or folder with --criteria PATH")
    pipeline, warnings = criteria_sources(settings)
    remark(warnings)
    problems = read_pipeline(arguments.traces, pipeline)
    tally = RunTotals(pipeline.criteria)
    reports = tally.counting(pipeline.drain(now_ns=0, trigger=Trigger.RECORDED))
    if arguments.format == "json":
        _write_json(reports, tally)
    else:
        _print_table(reports, tally, explain_of(settings))
    for fault in pipeline.take_faults():
        raise fault  # a bug of ours: the run must not look like one that evaluated everything
    if tally.traces or not problems:  # else it's said already why there is nothing
        problems += _unevaluated(tally)
    remark(problems, "error")
    if problems:
        return 2
    good = {Label.PASS, Label.INCONCLUSIVE} if arguments.allow_inconclusive else {Label.PASS}
    unmet = arguments.require_all and tally.unused
    return 1 if unmet or set(tally.labels) - good else 0


class RunTotals:
    """The totals of a run, counted as reports go by."""

    def __init__(self, criteria: Sequence[CriteriaSet]) -> None:
        """Start with nothing evaluated by ``criteria``."""
        self.criteria = criteria
        self.traces = 0
        self.unbound = 0
        self.labels: Counter[Label] = Counter()
        self.asking: Counter[str] = Counter()  # names that traces ask for and that are not loaded
        self.services: set[str] = set()
        self.roots: set[str] = set()
        self._used: set[str] = set()

    def counting(self, reports: Iterable[TraceReport]) -> Iterator[TraceReport]:
        """Yield the reports, and count each."""
        for report in reports:
            self.traces += 1
            self.unbound += report.unbound
            self.labels.update(verdict.label for verdict in report.verdicts)
            self._used.update(verdict.criteria for verdict in report.verdicts)
            self.asking.update(report.unknown_criteria)
            if report.evaluated_span is not None and len(self.roots) < SHOWN_NAMES:
                self.services.add(str(report.evaluated_span.resource.attributes.get("service.name", "(none)")))
                self.roots.add(report.evaluated_span.name)
            yield report

    @property
    def unused(self) -> list[str]:
        """Return the criteria that no trace met; those that only fill gaps need not be met."""
        return [
            found.name for found in self.criteria if found.name not in self._used and found.selector.reach is not SelectorScope.FALLBACK
        ]

    def summary(self) -> dict[str, object]:
        """Return the totals under the names of the JSON form."""
        return {
            "traces": self.traces,
            "unbound": self.unbound,
            "evaluations": self.labels.total(),
            **{label.value: self.labels[label] for label in Label},
            "unused_criteria": self.unused,
        }


def _write_json(reports: Iterable[TraceReport], tally: RunTotals) -> None:
    """Write one trace a line, each as it is evaluated: a long recording's document is never held."""
    sys.stdout.write('{"traces": [')
    for number, report in enumerate(reports):
        sys.stdout.write(",\n" if number else "\n")
        sys.stdout.write(json.dumps(json_ready(_trace(report)), allow_nan=False))
    sys.stdout.write(f'\n], "summary": {json.dumps(tally.summary())}}}\n')


def _trace(report: TraceReport) -> dict[str, object]:
    return {
        "trace_id": report.trace_id,
        "agent": report.agent,
        "results": [_result(verdict) for verdict in report.verdicts],
        "unknown_criteria": report.unknown_criteria,
        "hints": _hints(report),
    }


def _result(verdict: Verdict) -> dict[str, object]:
    return {
        "criteria": verdict.criteria,
        "evaluator": verdict.evaluator,
        "evaluator_id": verdict.evaluator_id,
        "score": verdict.emitted_score,
        "label": verdict.label.value,
        "pass_threshold": verdict.pass_threshold,
        "details": verdict.score.justification.details() if verdict.score else {"error": verdict.failure and verdict.failure.error_type},
        "explanation": verdict.score.justification.explain() if verdict.score else "",
        "completeness": verdict.completeness.value,
        "reasons": [doubt.value for doubt in verdict.doubts],
    }


def _unevaluated(tally: RunTotals) -> list[Problem]:
    """Return why nothing was evaluated, if nothing was: such a run must never look like one that passed."""
    known = ", ".join(found.name for found in tally.criteria[:SHOWN_NAMES])
    found = [
        Problem(
            where="traces",
            what=f"{count} of {tally.traces} ask for the criteria {name!r}, which are not loaded",
            fix=f"load them with --criteria, or name one of {known}",
        )
        for name, count in sorted(tally.asking.items())[:SHOWN_NAMES]
    ]
    if not tally.traces:
        found.append(
            Problem(where="traces", what="there is no span to evaluate", fix="record the agent's spans as OTLP and name that file")
        )
    elif not found and tally.unbound == tally.traces:
        present = f"the traces come from {', '.join(sorted(tally.services))}, their roots are named {', '.join(sorted(tally.roots))}"
        found.append(
            Problem(
                where="criteria",
                what=f"none of the {len(tally.criteria)} criteria applies to any of the {tally.traces} traces "
                f"({_wanted(tally.criteria)}; {present})",
                fix="mend `match` or `inputs`, or set the attribute toolcall_eval.criteria to a criteria's name on the agent's span",
            )
        )
    return found


def _wanted(criteria: Sequence[CriteriaSet]) -> str:
    services = sorted({service for found in criteria for service in _services(found)})
    return f"they ask for service.name {', '.join(services)}" if services else "they select by other conditions"


def _services(criteria_set: CriteriaSet) -> set[str]:
    named = criteria_set.selector.resource.get("service.name")
    return {*criteria_set.selector.services, *([named] if isinstance(named, str) else [])}


def _print_table(reports: Iterable[TraceReport], tally: RunTotals, explain: ExplanationPolicy) -> None:
    from rich.table import Table  # noqa: PLC0415 - an extra

    out = console()
    shown, hints = _worth_showing(reports)
    table = Table(title=None, header_style="bold")
    for title in ("trace", "criteria", "evaluator"):
        table.add_column(title, overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("label")
    for trace, verdict in shown:
        score = "-" if verdict.emitted_score is None else f"{verdict.emitted_score:.4g}"
        label = f"[{STYLES[verdict.label]}]{verdict.label.value}[/]"
        table.add_row(trace, text(verdict.criteria), text(verdict.evaluator), score, label)
    if table.row_count:
        out.print(table)
    if tally.labels.total() > len(shown):
        out.print(f"and {tally.labels.total() - len(shown)} more; --format json has them all", markup=False)
    for trace, verdict in shown:
        if verdict.label is not Label.PASS:
            _print_reason(trace, verdict, explain)
    for hint in hints:
        out.print(f"[cyan]hint[/] {text(hint)}", soft_wrap=True)
    _print_summary(tally.summary())


def _worth_showing(reports: Iterable[TraceReport]) -> tuple[list[tuple[str, Verdict]], list[str]]:
    """Return the verdicts that fit a table, with their traces, and what users should know.

    Nobody reads thousands of rows, and drawing them takes longer than evaluating: what did not pass goes first.
    """
    passed: list[tuple[int, str, Verdict]] = []
    others: list[tuple[int, str, Verdict]] = []
    hints: list[str] = []
    total = 0
    for report in reports:
        trace = report.trace_id.hex()[:16]
        for verdict in report.verdicts:
            total += 1
            chosen = passed if verdict.label is Label.PASS else others
            if len(chosen) < MAX_ROWS:
                chosen.append((total, trace, verdict))
        hints += [f"{trace}: {hint}" for hint in _hints(report) if len(hints) < MAX_ROWS]
    rows = others + passed if total > MAX_ROWS else sorted(others + passed, key=lambda row: row[0])
    return [(trace, verdict) for _, trace, verdict in rows[:MAX_ROWS]], hints


def _print_reason(trace: str, verdict: Verdict, explain: ExplanationPolicy) -> None:
    out, redactor = console(), explain.redactor
    why = redactor.in_text(verdict.score.justification.explain()) if verdict.score else "the evaluator failed; please report it"
    reasons = f" ({', '.join(doubt.value for doubt in verdict.doubts)})" if verdict.doubts else ""
    out.print(
        f"[{STYLES[verdict.label]}]{verdict.label.value}[/] {trace} "
        f"{text(verdict.criteria)} / {text(verdict.evaluator)}: {text(why)}{reasons}",
        soft_wrap=True,
    )
    if explain.values is not ExplainValues.OFF and verdict.score:
        for key, value in verdict.score.justification.details().items():
            for name, line in value.items() if isinstance(value, Mapping) else ((key, value),):
                out.print(f"    {text(f'{name}: {redactor.in_value(str(line))}')}", soft_wrap=True)


def _hints(report: TraceReport) -> Sequence[str]:
    """Return what a user should know of a trace; above all that nothing was read out of it, since "not called" scores 1.0 then."""
    extraction = report.extraction
    if report.unbound or extraction.calls or extraction.hints:
        return extraction.hints
    return [f"no tool call was read from its {len(extraction.ignored)} spans; `calls` says why"]


def _print_summary(totals: Mapping[str, object]) -> None:
    unused = totals["unused_criteria"]
    console().print(
        f"{counted(totals['traces'], 'trace')}, {counted(totals['evaluations'], 'evaluation')}: "
        f"{totals['pass']} pass, {totals['fail']} fail, {totals['inconclusive']} inconclusive; "
        f"{counted(totals['unbound'], 'trace')} unbound"
        + (f"; criteria that no trace met: {', '.join(map(str, unused))}" if isinstance(unused, list) and unused else ""),
        soft_wrap=True,
        markup=False,
    )
