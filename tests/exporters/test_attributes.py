from __future__ import annotations

import json
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.exporters.events.attributes import (
    FULL_BYTES,
    TRUNCATED_BYTES,
    ExplainValues,
    ExplanationPolicy,
    clean_name,
    event_attributes,
    explanation,
    shown_on_span,
    span_attributes,
    span_events,
)
from otel_toolcall_eval.model.payload.redaction import Redactor
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from tests.exporters.reports import CANARY, BrokenJustification, FakeJustification, inconclusive, report, score, verdict


def test_event_of_a_failed_verdict_has_all_its_attributes() -> None:
    assert event_attributes(report(verdict()), verdict()) == {
        "gen_ai.evaluation.name": "ToolCallCountEvaluator",
        "gen_ai.evaluation.score.value": 0.5,
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.explanation": "search: called once, expected twice",
        "toolcall_eval.id": verdict().evaluation_id,
        "toolcall_eval.criteria": "weather",
        "toolcall_eval.revision": 0,
        "toolcall_eval.trigger": "root_span",
        "toolcall_eval.completeness": "complete",
    }


def test_event_of_an_inconclusive_verdict_has_reasons_and_no_score() -> None:
    attributes = event_attributes(
        report(trigger=Trigger.EVICTION, revision=2), inconclusive(IncompletenessReason.ORPHAN, IncompletenessReason.EVICTED)
    )
    assert "gen_ai.evaluation.score.value" not in attributes
    assert attributes["gen_ai.evaluation.score.label"] == "inconclusive"
    assert attributes["toolcall_eval.completeness"] == "partial"
    assert attributes["toolcall_eval.completeness_reasons"] == ("orphan", "evicted")
    assert attributes["toolcall_eval.trigger"] == "eviction"
    assert attributes["toolcall_eval.revision"] == 2
    assert attributes["gen_ai.evaluation.explanation"] == "inconclusive (orphan, evicted): search: called once, expected twice"


def test_event_of_a_failed_evaluator_names_the_error_and_not_its_message() -> None:
    attributes = event_attributes(report(), verdict(Label.INCONCLUSIVE, failed=True))
    assert attributes["error.type"] == "ZeroDivisionError"
    assert "gen_ai.evaluation.score.value" not in attributes
    assert "ZeroDivisionError" in str(attributes["gen_ai.evaluation.explanation"])
    assert CANARY not in str(attributes)


def test_whole_number_score_leaves_as_a_double() -> None:
    assert type(event_attributes(report(), verdict(given=score(1)))["gen_ai.evaluation.score.value"]) is float


def test_verdict_without_score_or_failure_has_no_explanation() -> None:
    without = verdict(Label.INCONCLUSIVE, failed=True)
    bare = type(without)(
        evaluation_id="1",
        criteria="c",
        criteria_version="1",
        evaluator="e",
        evaluator_id="e",
        label=Label.INCONCLUSIVE,
        score=None,
    )
    assert "gen_ai.evaluation.explanation" not in event_attributes(report(), bare)


@pytest.mark.parametrize("values", list(ExplainValues))
def test_justification_that_raises_costs_only_its_explanation(values: ExplainValues) -> None:
    attributes = event_attributes(
        report(), verdict(given=score(justification=BrokenJustification())), explain=ExplanationPolicy(values=values)
    )
    assert attributes["gen_ai.evaluation.score.value"] == 0.5
    assert "KeyError" in str(attributes["gen_ai.evaluation.explanation"])
    assert CANARY not in str(attributes)


def test_values_show_only_on_request() -> None:
    assert CANARY not in explanation(verdict())
    assert CANARY not in explanation(inconclusive())
    assert CANARY in explanation(verdict(), explain=ExplanationPolicy(values=ExplainValues.TRUNCATE))
    assert CANARY in explanation(verdict(), explain=ExplanationPolicy(values=ExplainValues.FULL))


def test_details_are_json_of_any_mapping_and_sequence() -> None:
    details = {"lcs": ("a", "b"), "frozen": MappingProxyType({"x": frozenset({1})}), "bytes": b"\x01", "odd": CANARY.__class__}
    text = explanation(
        verdict(given=score(justification=FakeJustification(values=details))), explain=ExplanationPolicy(values=ExplainValues.TRUNCATE)
    )
    assert json.loads(text) == {"lcs": ["a", "b"], "frozen": {"x": [1]}, "bytes": [1], "odd": "<class 'str'>"}


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        pytest.param(ExplainValues.OFF, TRUNCATED_BYTES, id="off"),
        pytest.param(ExplainValues.TRUNCATE, TRUNCATED_BYTES, id="truncate"),
        pytest.param(ExplainValues.FULL, FULL_BYTES, id="full"),
    ],
)
@pytest.mark.parametrize("letter", ["a", "\u00e9", "\u6771", "\U0001f40d"], ids=["1-byte", "2-bytes", "3-bytes", "4-bytes"])
def test_explanation_is_cut_at_its_bound_with_a_sign(values: ExplainValues, limit: int, letter: str) -> None:
    text = letter * 100_000
    got = explanation(
        verdict(given=score(justification=FakeJustification(line=text, values={"a": text}))), explain=ExplanationPolicy(values=values)
    )
    assert limit - 6 <= len(got.encode()) <= limit
    assert got.endswith(f"{letter}...")


def test_explanation_of_exactly_the_bound_is_whole() -> None:
    text = "a" * TRUNCATED_BYTES
    assert explanation(verdict(given=score(justification=FakeJustification(line=text)))) == text


def test_rendering_stops_at_the_bound_however_much_there_is() -> None:
    class Endless:
        def __init__(self) -> None:
            self.asked = 0

        def __str__(self) -> str:
            self.asked += 1
            return "x" * 100

    endless = Endless()
    values = {"calls": [endless] * 1_000_000}
    explanation(verdict(given=score(justification=FakeJustification(values=values))), explain=ExplanationPolicy(values=ExplainValues.FULL))
    assert endless.asked < FULL_BYTES / 100 + 1


def test_details_nested_beyond_reason_cost_only_the_explanation() -> None:
    nested: object = 1
    for _ in range(100_000):
        nested = [nested]
    text = explanation(
        verdict(given=score(justification=FakeJustification(values={"deep": nested}))), explain=ExplanationPolicy(values=ExplainValues.FULL)
    )
    # Either it ends at the bound before it is too deep, or it is too deep; both are answers.
    assert text.endswith("...") or "RecursionError" in text


@given(st.text(st.characters(), max_size=600))
def test_every_name_and_explanation_can_be_encoded(text: str) -> None:
    assert len(clean_name(text)) <= 255
    clean_name(text).encode()
    for values in ExplainValues:
        explanation(
            verdict(given=score(justification=FakeJustification(line=text, values={text: text}))), explain=ExplanationPolicy(values=values)
        ).encode()


@pytest.mark.parametrize(
    ("name", "clean"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("search", "search", id="plain"),
        pytest.param("\ud83d\ude00 \u00e9", "?? \u00e9", id="lone-surrogates"),
        pytest.param("x" * 300, "x" * 255, id="long"),
    ],
)
def test_clean_name(name: str, clean: str) -> None:
    assert clean_name(name) == clean


def test_sixteen_verdicts_are_all_on_the_span() -> None:
    verdicts = [verdict(evaluator=f"e{number}") for number in range(16)]
    events = span_events(verdicts, [event_attributes(report(), item) for item in verdicts])
    assert [event.attributes["gen_ai.evaluation.name"] for event in events] == [f"e{number}" for number in range(16)]
    assert {event.name for event in events} == {"gen_ai.evaluation.result"}


def test_beyond_sixteen_the_least_urgent_verdicts_are_summed_up() -> None:
    verdicts = [
        *(verdict(Label.PASS, evaluator=f"p{number}") for number in range(20)),
        *(inconclusive(evaluator=f"i{number}") for number in range(15)),
        *(verdict(Label.FAIL, evaluator=f"f{number}") for number in range(3)),
    ]
    events = span_events(verdicts, [event_attributes(report(), item) for item in verdicts])
    assert len(events) == 17
    shown = [event.attributes["gen_ai.evaluation.name"] for event in events[:16]]
    assert shown == [*(f"f{number}" for number in range(3)), *(f"i{number}" for number in range(13))]
    assert events[16].name == "toolcall_eval.omitted_results"
    assert events[16].attributes == {
        "toolcall_eval.omitted": 22,
        "toolcall_eval.omitted.fail": 0,
        "toolcall_eval.omitted.inconclusive": 2,
        "toolcall_eval.omitted.pass": 20,
    }


@pytest.mark.parametrize("number", [0, 1, 2, 16, 17, 40])
@pytest.mark.parametrize("odd", [None, Label.FAIL, Label.INCONCLUSIVE])
def test_where_all_fell_alike_they_stand_as_they_came(number: int, odd: Label | None) -> None:
    verdicts = [verdict(Label.PASS)] * number
    if odd is not None:
        verdicts.append(verdict(odd))
    shown, omitted = shown_on_span(verdicts)
    ranked, left_out = shown_on_span(verdicts, room=1_000)
    assert (list(shown), omitted) == (list(ranked), left_out)


def test_no_verdicts_make_no_events() -> None:
    assert span_events([], []) == []


def test_span_says_what_its_verdicts_have_in_common() -> None:
    assert span_attributes(report(trigger=Trigger.IDLE_TIMEOUT, doubts=[IncompletenessReason.NO_ROOT], revision=1)) == {
        "toolcall_eval.revision": 1,
        "toolcall_eval.trigger": "idle_timeout",
        "toolcall_eval.completeness": "partial",
        "toolcall_eval.completeness_reasons": ("no_root",),
        "gen_ai.agent.name": "weather_agent",
        **fallen(0, 0, 0),
    }
    assert span_attributes(report(verdict(), inconclusive(), verdict(Label.PASS, given=score(0.75)), agent=None)) == {
        "toolcall_eval.revision": 0,
        "toolcall_eval.trigger": "root_span",
        "toolcall_eval.completeness": "complete",
        "toolcall_eval.score.min": 0.5,
        **fallen(1, 1, 1),
    }


def fallen(fail: int, inconclusive_: int, passed: int) -> dict[str, int]:
    names = (f"toolcall_eval.verdicts.{label}" for label in ("fail", "inconclusive", "pass"))
    return dict(zip(names, (fail, inconclusive_, passed), strict=True))


@pytest.mark.parametrize(
    ("room", "verdicts", "shown", "summary"),
    [
        pytest.param(0, 3, 0, False, id="none"),
        pytest.param(-1, 3, 0, False, id="less-than-none"),
        pytest.param(1, 3, 0, True, id="for-the-summary"),
        pytest.param(1, 1, 1, False, id="for-the-one"),
        pytest.param(3, 3, 3, False, id="for-all"),
        pytest.param(2, 3, 1, True, id="for-some"),
        pytest.param(16, 16, 16, False, id="sixteen"),
        pytest.param(16, 17, 15, True, id="one-too-many"),
        pytest.param(17, 17, 16, True, id="for-the-usual"),
        pytest.param(None, 17, 16, True, id="any"),
    ],
)
def test_events_fit_into_the_room_that_there_is(room: int | None, verdicts: int, shown: int, *, summary: bool) -> None:
    given = [verdict(evaluator=f"e{number}") for number in range(verdicts)]
    positions, omitted = shown_on_span(given, room=room)
    assert (len(positions), omitted is not None) == (shown, summary)
    assert omitted is None or omitted["toolcall_eval.omitted"] == verdicts - shown


def test_what_does_not_fit_on_a_span_is_told_in_a_last_event() -> None:
    given = [verdict(evaluator=f"e{number}") for number in range(17)]
    events = span_events(given, [event_attributes(report(), item) for item in given])
    assert [event.name for event in events] == ["gen_ai.evaluation.result"] * 16 + ["toolcall_eval.omitted_results"]
    assert events[-1].attributes["toolcall_eval.omitted"] == 1


SHOWN = list(ExplainValues)
TOKEN = "Bearer " + "abcdef123456"


@pytest.mark.parametrize("values", SHOWN)
def test_secrets_are_taken_out_of_all_that_is_explained(values: ExplainValues) -> None:
    line = f"search_0: $.{TOKEN} differs"
    details = {"explained": {f"search_{TOKEN}": f"Actual: {{'password': 'hunter2', 'q': '{TOKEN}', 'n': 3}}"}, "order": [TOKEN, 1, None]}
    judged = verdict(given=score(justification=FakeJustification(line=line, values=details)))
    shown = explanation(judged, explain=ExplanationPolicy(values=values))
    assert "[REDACTED]" in shown
    assert "abcdef" not in shown
    assert "hunter2" not in shown
    bare = explanation(judged, explain=ExplanationPolicy(values=values, redactor=Redactor(defaults=False)))
    assert TOKEN in bare
    assert ("hunter2" in bare) is (values is not ExplainValues.OFF)


@pytest.mark.parametrize("values", [ExplainValues.TRUNCATE, ExplainValues.FULL])
def test_secret_at_the_bound_is_taken_out_before_the_text_is_cut(values: ExplainValues) -> None:
    limit = TRUNCATED_BYTES if values is ExplainValues.TRUNCATE else FULL_BYTES
    for ahead in range(limit - 60, limit):
        judged = verdict(given=score(justification=FakeJustification(values={"a": "x" * ahead + f" {TOKEN} password=hunter2"})))
        shown = explanation(judged, explain=ExplanationPolicy(values=values))
        assert "abc" not in shown
        assert "hun" not in shown


def test_tool_that_has_the_name_of_a_secret_is_explained() -> None:
    details = {"explained_tool_calls_count": {"token": "Actual: 1, Expected: 2, Score: 0.0"}}
    judged = verdict(given=score(justification=FakeJustification(line="token: called once, expected exactly 2", values=details)))
    assert explanation(judged) == "token: called once, expected exactly 2"
    assert json.loads(explanation(judged, explain=ExplanationPolicy(values=ExplainValues.FULL))) == details
