"""What is kept of a report: names, times and reasons, within bounds, and no recorded value."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy, explanation
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import Extraction, IgnoredSpan, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason, Span, StatusCode
from otel_toolcall_eval.sidecar.admin.status import rows
from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail, ReportRow, condense
from tests.exporters.reports import CANARY, SPAN_ID, BrokenJustification, evaluated_span, inconclusive, report, score, verdict
from tests.sidecar.status.rows import NOW_NS, TELL, judged


def call(number: int, name: str = "search") -> ToolCall:
    (one,) = report().extraction.calls
    span_id = number.to_bytes(8)
    return replace(
        one, name=name, span_id=span_id, start_unix_ns=0, end_unix_ns=2_500_000, dialects=("otel_genai",), merged_span_ids=(b"m" * 8,)
    )


def span(number: int, *, name: str = "step") -> Span:
    return replace(evaluated_span(span_id=number.to_bytes(8)), name=name, start_unix_ns=1000 * number, end_unix_ns=1000 * number + 500)


def rich(**changes: Any) -> ReportRow:  # noqa: ANN401 - parts of a report
    calls = (call(2), replace(call(3), duration_known=False, agent="planner"))
    ignored = (IgnoredSpan(span_id=(4).to_bytes(8), name="chat", reason="a model span", dialect="otel_genai"),)
    found = replace(
        report(
            verdict(), inconclusive(), verdict(failed=True), verdict(Label.PASS, given=score(1.0)), doubts=[IncompletenessReason.ORPHAN]
        ),
        extraction=Extraction(calls=calls, ignored=ignored, hints=("write tool spans",)),
        spans=(evaluated_span(), span(2), replace(span(3), status=StatusCode.ERROR), span(4, name="chat")),
        **changes,
    )
    return condense(found, evaluated_unix_ns=NOW_NS, tell=TELL)


def document(row: ReportRow) -> Any:  # noqa: ANN401 - as the pages read it
    return json.loads(json.dumps(row.document))


def test_what_pages_show_is_kept() -> None:
    row = rich(unknown_criteria=("typo",), conversation_id="c-1")
    assert (row.agent, row.service, row.unit, row.revision, row.passed) == ("weather_agent", "", SPAN_ID, 0, False)
    kept = document(row)
    assert (kept["trigger"], kept["completeness"], kept["doubts"]) == ("root_span", "partial", ["orphan"])
    assert (kept["decided_after"], kept["evaluation"], kept["conversation"], kept["unknown"]) == (10.0, 0.0002, "c-1", ["typo"])
    assert [found["name"] for found in kept["calls"]] == ["search", "search"]
    assert [found["seconds"] for found in kept["calls"]] == [0.0025, None]
    assert kept["calls"][0]["merged"] == [(b"m" * 8).hex()]
    assert kept["ignored"] == [{"span": f"{4:016x}", "name": "chat", "reason": "a model span", "dialect": "otel_genai"}]
    assert kept["hints"] == ["write tool spans"]
    assert [(found["id"], found["error"]) for found in kept["spans"]][:3] == [
        (f"{2:016x}", False),
        (f"{3:016x}", True),
        (f"{4:016x}", False),
    ]
    assert kept["verdicts"][0]["comparisons"] == [
        {"label": "search", "expected": "exactly 2 calls", "actual": "1 call", "matched": False, "span": SPAN_ID.hex()}
    ]


def test_the_worst_verdicts_come_first_and_go_with_their_details() -> None:
    row = rich()
    assert [found.label for found in row.verdicts] == ["fail", "fail", "inconclusive", "pass"]
    assert [found.score for found in row.verdicts] == [0.5, None, None, 1.0]
    assert len(document(row)["verdicts"]) == 4
    assert [bool(found["comparisons"]) for found in document(row)["verdicts"]] == [True, False, True, True]


def test_no_recorded_value_is_kept() -> None:
    row = rich()
    assert CANARY not in json.dumps([document(row), [found.explanation for found in row.verdicts]])


def test_values_are_shown_where_explanations_may_show_them() -> None:
    def explain(found: Any) -> str:  # noqa: ANN401 - a verdict
        return explanation(found, explain=ExplanationPolicy(values=ExplainValues.TRUNCATE))

    row = condense(report(verdict()), evaluated_unix_ns=NOW_NS, tell=ReportDetail(explain=explain))
    assert CANARY in row.verdicts[0].explanation


def test_a_justification_that_fails_costs_its_own_details_alone() -> None:
    row = condense(report(verdict(given=score(justification=BrokenJustification()))), evaluated_unix_ns=NOW_NS, tell=TELL)
    assert document(row)["verdicts"][0]["comparisons"] == []
    assert row.verdicts[0].explanation == "the explanation failed with KeyError; this is a fault of otel-toolcall-eval"


def test_everything_is_bounded_and_what_shows_calls_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MAX_VERDICTS", "MAX_CALLS", "MAX_IGNORED"):
        monkeypatch.setattr(rows, name, 3)
    monkeypatch.setattr(rows, "MAX_SPANS", 5)
    many = replace(
        report(*(verdict(evaluator=f"e{number}") for number in range(9))),
        extraction=Extraction(
            calls=tuple(call(number, "x" * 9_000) for number in range(100, 109)),
            ignored=tuple(IgnoredSpan(span_id=bytes(8), name="n" * 9_000, reason="r" * 9_000) for _ in range(9)),
            hints=("h" * 9_000,) * 99,
        ),
        spans=tuple(span(number) for number in range(1, 200)),
        unknown_criteria=("u" * 9_000,) * 99,
    )
    kept = document(condense(many, evaluated_unix_ns=NOW_NS, tell=TELL))
    totals = {name: (len(kept[name]), kept[f"{name}_total"]) for name in ("verdicts", "calls", "ignored", "spans")}
    assert totals == {"verdicts": (3, 9), "calls": (3, 9), "ignored": (3, 9), "spans": (5, 199)}
    assert [int(found["id"], 16) for found in kept["spans"]] == [1, 2, 100, 101, 102]
    assert len(json.dumps(kept)) < 20_000


def test_names_that_cant_be_encoded_are_kept_in_another_form() -> None:
    row = condense(judged(1, Label.FAIL, agent="a\ud800", service="s\udfff"), evaluated_unix_ns=NOW_NS, tell=TELL)
    assert (row.agent, row.service) == ("a?", "s?")


@pytest.mark.parametrize("recorded", [None, 7, ("a",)])
def test_a_service_name_that_is_no_text_is_none(recorded: Any) -> None:  # noqa: ANN401 - whatever was recorded
    assert condense(judged(1, Label.PASS, service=recorded), evaluated_unix_ns=NOW_NS, tell=TELL).service == ""


def test_secrets_are_taken_out_of_all_names_and_reasons_before_they_are_cut() -> None:
    secret = "sk-0123456789"  # noqa: S105 - a secret of the test
    long = "x" * 250 + secret
    found = judged(1, Label.FAIL, agent=long, service=long, criteria=long)
    told = replace(
        found,
        spans=(replace(found.spans[0], name=long),),
        extraction=Extraction(
            calls=(call(1, long),), ignored=(IgnoredSpan(span_id=bytes(8), name=long, reason=long, dialect=long),), hints=(long,)
        ),
        unknown_criteria=(long,),
        conversation_id=long,
        verdicts=[replace(found.verdicts[0], evaluation_id="a hash")],
    )
    tell = ReportDetail(explain=explanation, redact=lambda text: text.replace(secret, "***"))
    row = condense(told, evaluated_unix_ns=NOW_NS, tell=tell)
    kept = json.dumps([document(row), row.agent, row.service, [found.criteria for found in row.verdicts]])
    assert "sk-" not in kept
    assert kept.count("x***") == 11
