"""``evaluate``: judges recorded traces by criteria."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import console, counted, print_json, remark, text
from otel_toolcall_eval.cli.recorded import criteria_sources, load, read_pipeline
from otel_toolcall_eval.errors import CriteriaError, Problem
from otel_toolcall_eval.model.criteria import Reach
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Trigger
from otel_toolcall_eval.settings.service import ShownValues

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.score import TraceReport, Verdict

SHOWN_NAMES = 10
MAX_ROWS = 200
STYLES = {Label.PASS: "green", Label.FAIL: "bold red", Label.INCONCLUSIVE: "yellow"}


def run(arguments: argparse.Namespace) -> int:
    """Judge and report.

    Returns:
        0 if every verdict passed, 1 if one did not, 2 if a part of the input could not be used or nothing was judged.
    """
    settings = load(arguments.settings, arguments.criteria)
    if not settings.criteria:
        raise CriteriaError(where="command line", what="no criteria are given", fix="name a file or folder with --criteria PATH")
    pipeline, warnings = criteria_sources(settings)
    remark(warnings)
    problems = read_pipeline(arguments.traces, pipeline)
    reports = pipeline.drain(now_ns=0, trigger=Trigger.RECORDED)
    totals = summary(reports, pipeline.criteria)
    if arguments.format == "json":
        print_json({"traces": [_trace(report) for report in reports], "summary": totals})
    else:
        _print_table(reports, with_values=settings.show_values is not ShownValues.OFF)
        _print_summary(totals)
    if reports or not problems:  # else it's said already why there is nothing
        problems += _unjudged(reports, pipeline.criteria)
    remark(problems, "error")
    if problems:
        return 2
    unmet = arguments.require_all and totals["unused_criteria"]
    return 1 if unmet else _exit_code(reports, allow_inconclusive=arguments.allow_inconclusive)


def summary(reports: Sequence[TraceReport], criteria: Sequence[CriteriaSet]) -> dict[str, object]:
    """Return the totals of a run."""
    labels = Counter(verdict.label for report in reports for verdict in report.verdicts)
    used = {verdict.criteria for report in reports for verdict in report.verdicts}
    return {
        "traces": len(reports),
        "unbound": sum(report.unbound for report in reports),
        "evaluations": sum(labels.values()),
        **{label.value: labels[label] for label in Label},
        "unused_criteria": [found.name for found in criteria if found.name not in used and found.selector.reach is not Reach.FALLBACK],
    }


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


def _exit_code(reports: Sequence[TraceReport], *, allow_inconclusive: bool) -> int:
    good = {Label.PASS, Label.INCONCLUSIVE} if allow_inconclusive else {Label.PASS}
    return 0 if all(verdict.label in good for report in reports for verdict in report.verdicts) else 1


def _unjudged(reports: Sequence[TraceReport], criteria: Sequence[CriteriaSet]) -> list[Problem]:
    """Return why nothing was judged, if nothing was: a run that judges nothing must never look like one that passed."""
    asking = Counter(name for report in reports for name in report.unknown_criteria)
    found = [
        Problem(
            where="traces",
            what=f"{count} of {len(reports)} ask for the criteria {name!r}, which are not loaded",
            fix=f"load them with --criteria, or name one of {', '.join(known.name for known in criteria[:SHOWN_NAMES])}",
        )
        for name, count in sorted(asking.items())[:SHOWN_NAMES]
    ]
    if not reports:
        found.append(Problem(where="traces", what="there is no span to judge", fix="record the agent's spans as OTLP and name that file"))
    elif not found and all(report.unbound for report in reports):
        found.append(
            Problem(
                where="criteria",
                what=f"none of the {len(criteria)} criteria applies to any of the {len(reports)} traces "
                f"({_wanted(criteria)}; {_present(reports)})",
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


def _present(reports: Sequence[TraceReport]) -> str:
    spans = [report.judged_span for report in reports if report.judged_span]
    services = sorted({str(span.resource.attributes.get("service.name", "(none)")) for span in spans})
    return f"the traces come from {', '.join(services[:5])}, their roots are named {', '.join(sorted({span.name for span in spans})[:5])}"


def _print_table(reports: Sequence[TraceReport], *, with_values: bool) -> None:
    from rich.table import Table  # noqa: PLC0415 - an extra

    out = console()
    given = [(report, verdict) for report in reports for verdict in report.verdicts]
    table = Table(title=None, header_style="bold")
    for title in ("trace", "criteria", "evaluator"):
        table.add_column(title, overflow="fold")
    table.add_column("score", justify="right")
    table.add_column("label")
    # Nobody reads thousands of rows, and drawing them takes longer than judging: what did not pass goes first.
    shown = given if len(given) <= MAX_ROWS else sorted(given, key=lambda pair: pair[1].label is Label.PASS)[:MAX_ROWS]
    for report, verdict in shown:
        score = "-" if verdict.emitted_score is None else f"{verdict.emitted_score:.4g}"
        label = f"[{STYLES[verdict.label]}]{verdict.label.value}[/]"
        table.add_row(report.trace_id.hex()[:16], text(verdict.criteria), text(verdict.evaluator), score, label)
    if table.row_count:
        out.print(table)
    if len(given) > len(shown):
        out.print(f"and {len(given) - len(shown)} more; --format json has them all", markup=False)
    for report, verdict in shown:
        if verdict.label is not Label.PASS:
            _print_reason(report, verdict, with_values=with_values)
    for report in reports[:MAX_ROWS]:
        for hint in _hints(report):
            out.print(f"[cyan]hint[/] {report.trace_id.hex()[:16]}: {text(hint)}", soft_wrap=True)


def _print_reason(report: TraceReport, verdict: Verdict, *, with_values: bool) -> None:
    out = console()
    why = verdict.score.justification.explain() if verdict.score else "the evaluator failed; please report it"
    reasons = f" ({', '.join(doubt.value for doubt in verdict.doubts)})" if verdict.doubts else ""
    out.print(
        f"[{STYLES[verdict.label]}]{verdict.label.value}[/] {report.trace_id.hex()[:16]} "
        f"{text(verdict.criteria)} / {text(verdict.evaluator)}: {text(why)}{reasons}",
        soft_wrap=True,
    )
    if with_values and verdict.score:
        for key, value in verdict.score.justification.details().items():
            lines = [f"{name}: {line}" for name, line in value.items()] if isinstance(value, Mapping) else [f"{key}: {value}"]
            for line in lines:
                out.print(f"    {text(line)}", soft_wrap=True)


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
