"""Verdicts as lines: for people they fit a terminal, for programs they are JSON, and values stay out of both by default."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from otel_toolcall_eval.exporters.console import ConsoleEmitter
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import IncompletenessReason
from tests.exporters.reports import CANARY, TRACE_ID, report, score, verdict

PASSED = verdict(Label.PASS, given=score(1.0))
FAILED = verdict(Label.FAIL, given=score(0.5))
UNSURE = verdict(Label.INCONCLUSIVE, given=score(0.5), doubts=[IncompletenessReason.ORPHAN])


def lines(
    *, as_json: bool = False, values: ExplainValues = ExplainValues.OFF, unknown: tuple[str, ...] = (), empty: bool = False
) -> list[str]:
    written: list[str] = []
    emitter = ConsoleEmitter(written.append, as_json=as_json, explain=ExplanationPolicy(values=values))
    emitter.emit(replace(report(*([] if empty else [PASSED, FAILED, UNSURE])), unknown_criteria=unknown))
    assert emitter.flush(0.0)
    emitter.shutdown(0.0)
    return written


def test_text_says_why_where_a_verdict_is_no_pass() -> None:
    passed, failed, unsure = lines()
    assert passed == f"{TRACE_ID.hex()}  pass          1.00  weather / ToolCallCountEvaluator\n"
    assert failed == f"{TRACE_ID.hex()}  fail          0.50  weather / ToolCallCountEvaluator  search: called once, expected twice\n"
    assert unsure.startswith(f"{TRACE_ID.hex()}  inconclusive     -  weather")
    assert "inconclusive (orphan)" in unsure


def test_json_has_all_of_it() -> None:
    records = [json.loads(line) for line in lines(as_json=True)]
    assert [(r["label"], r["score"], r["reasons"]) for r in records] == [
        ("pass", 1.0, []),
        ("fail", 0.5, []),
        ("inconclusive", None, ["orphan"]),
    ]
    assert {r["trace_id"] for r in records} == {TRACE_ID.hex()}


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(("values", "shown"), [(ExplainValues.OFF, False), (ExplainValues.FULL, True)])
def test_values_stay_out_unless_asked_for(as_json: bool, values: ExplainValues, shown: bool) -> None:  # noqa: FBT001 - columns of the table
    assert (CANARY in "".join(lines(as_json=as_json, values=values))) is shown


def test_unbound_trace_has_a_line_too() -> None:
    assert lines(empty=True) == [f"{TRACE_ID.hex()}  unbound       no criteria apply\n"]
    assert lines(empty=True, unknown=("a", "b")) == [f"{TRACE_ID.hex()}  unbound       no criteria apply; it asks for a, b\n"]
    (line,) = lines(empty=True, as_json=True)
    assert json.loads(line) == {"trace_id": TRACE_ID.hex(), "label": "unbound", "explanation": "no criteria apply"}
