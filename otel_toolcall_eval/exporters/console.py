"""Scores as lines of text: one for each verdict, for a person in front of a terminal or a program behind a pipe."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters.events.attributes import EXPLAIN, ExplanationPolicy, clean_name, explain_of, explanation
from otel_toolcall_eval.model.score import Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.model.score import TraceReport, Verdict
    from otel_toolcall_eval.settings.service import Settings


class ConsoleEmitter:
    """Writes verdicts as they are given. Unbound traces are written too, or a newcomer would wait for ever and not learn why."""

    def __init__(self, write: Callable[[str], object], *, as_json: bool = False, explain: ExplanationPolicy = EXPLAIN) -> None:
        """Choose the form.

        Args:
            write: takes one line, its newline included.
            as_json: JSON lines instead of text.
            explain: what explanations show.
        """
        self._write = write
        self._as_json = as_json
        self._explain = explain

    def emit(self, report: TraceReport) -> None:
        """Write one line for each verdict, or one for a trace that nothing is bound to."""
        trace_id = report.trace_id.hex()
        if report.unbound:
            named = f"; it asks for {', '.join(clean_name(name) for name in report.unknown_criteria)}" if report.unknown_criteria else ""
            if self._as_json:
                self._line({"trace_id": trace_id, "label": "unbound", "explanation": f"no criteria apply{named}"})
            else:
                self._write(f"{trace_id}  unbound       no criteria apply{named}\n")
            return
        for verdict in report.verdicts:
            if self._as_json:
                self._line(self._record(report, verdict))
            else:
                self._write(self._text(trace_id, verdict))

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002 - the emitters' common signature
        """Return True: a line is written at once."""
        return True

    def shutdown(self, timeout_seconds: float) -> None:
        """Do nothing: the stream is the caller's."""

    def _line(self, record: dict[str, object]) -> None:
        self._write(json.dumps(record) + "\n")

    def _record(self, report: TraceReport, verdict: Verdict) -> dict[str, object]:
        return {
            "trace_id": report.trace_id.hex(),
            "id": verdict.evaluation_id,
            "revision": report.revision,
            "agent": report.agent,
            "criteria": verdict.criteria,
            "evaluator": verdict.evaluator,
            "score": verdict.emitted_score,
            "label": verdict.label.value,
            "trigger": report.trigger.value,
            "completeness": verdict.completeness.value,
            "reasons": [doubt.value for doubt in verdict.doubts],
            "explanation": explanation(verdict, explain=self._explain),
        }

    def _text(self, trace_id: str, verdict: Verdict) -> str:
        score = "   -" if verdict.emitted_score is None else f"{verdict.emitted_score:4.2f}"
        why = "" if verdict.label is Label.PASS else f"  {explanation(verdict, explain=self._explain)}"
        return f"{trace_id}  {verdict.label.value:<12}  {score}  {clean_name(verdict.criteria)} / {clean_name(verdict.evaluator)}{why}\n"


def build_console(form: str, settings: Settings) -> ConsoleEmitter | None:
    """Return an emitter that writes to standard output as ``text`` or ``json``; None for ``off``."""
    if form == "off":
        return None
    return ConsoleEmitter(_write_line, as_json=form == "json", explain=explain_of(settings))


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
