"""The library call: what it takes, what it refuses, and what a failed assertion shows."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from otel_toolcall_eval import AgentExecution, CriteriaError, Label, ToolCallCountEvaluator, ToolCallOrderEvaluator, evaluate

COUNT = {"tool_calls_count": {"search": ("=", 1), "delete": ("=", 0)}}


def spans(*tools: str) -> list[ReadableSpan]:
    return [ReadableSpan(name=tool, start_time=n, end_time=n + 1, attributes={"tool.name": tool}) for n, tool in enumerate(tools)]


def test_results_stand_under_the_names_that_were_asked_for() -> None:
    results = evaluate(spans("search"), {"ToolCallCountEvaluator": COUNT, "tool-call-order": {"tool_calls_order": ["search", "read"]}})
    assert {name: (result.score, result.label) for name, result in results.items()} == {
        "ToolCallCountEvaluator": (1.0, Label.PASS),
        "tool-call-order": (0.5, Label.FAIL),
    }


def test_configuration_holds_for_the_evaluator_of_its_name() -> None:
    results = evaluate(
        spans("search", "delete"), {"tool-call-count": COUNT}, config={"tool-call-count": {"strict": True, "pass_threshold": 0.0}}
    )
    assert (results["tool-call-count"].score, results["tool-call-count"].label) == (0.0, Label.PASS)


def test_result_shows_why_in_an_assertion() -> None:
    result = evaluate(spans("search", "delete"), {"tool-call-count": COUNT})["tool-call-count"]
    assert result.explanation == "1 of 2 counts hold; delete: called 1 time, expected exactly 0"
    assert repr(result) == f"EvaluationResult(evaluator='ToolCallCountEvaluator', score=0.5, label='fail': {result.explanation})"
    assert "Actual: 1, Expected: 0, Score: 0.0" in str(result.details)


def test_all_that_is_wrong_is_named_at_once() -> None:
    with pytest.raises(CriteriaError) as refused:
        evaluate([], {"tool-call-count": {"tool_calls_count": {"a": ["=>", 1]}}, "tool-call-order": {}, "tool-call-args": {"calls": []}})
    assert len(refused.value.problems) >= 3


@pytest.mark.parametrize(
    ("config", "words"),
    [
        pytest.param({"tool-call-count": {"strct": True}}, "did you mean 'strict'", id="key"),
        pytest.param({"tool-call-cuont": {"strict": True}}, "no criteria have this name", id="name"),
    ],
)
def test_configuration_that_would_have_no_effect_is_refused(config: dict[str, dict[str, object]], words: str) -> None:
    with pytest.raises(CriteriaError, match=words):
        evaluate([], {"tool-call-count": COUNT}, config=config)


def test_classes_of_the_guides_ignore_unknown_keys_and_say_so() -> None:
    with pytest.warns(UserWarning, match="did you mean 'strict'"):
        ToolCallCountEvaluator(config={"strct": True})
    with pytest.warns(UserWarning, match="unknown key 'other'"):
        ToolCallCountEvaluator().evaluate(spans("search"), {**COUNT, "other": 1})


def test_what_is_no_criteria_and_no_span_is_refused_in_words() -> None:
    with pytest.raises(TypeError, match="criteria is a str; give a mapping"):
        evaluate([], "criteria.yaml")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"spans\[0\] is a str; give ended spans"):
        evaluate("abc", {"tool-call-count": COUNT})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="wrap the spans"):
        asyncio.run(ToolCallCountEvaluator().validate_and_evaluate_criteria(spans("a"), COUNT))  # type: ignore[arg-type]


def test_evaluator_has_a_name_and_an_id() -> None:
    plain, named = ToolCallOrderEvaluator(), ToolCallOrderEvaluator(id="mine", config={"name": "Order"})
    assert (plain.id, plain.name, named.id, named.name) == ("tool-call-order", "ToolCallOrderEvaluator", "mine", "Order")
    execution = AgentExecution(agent_trace=spans("a"))
    assert asyncio.run(named.validate_and_evaluate_criteria(execution, {"tool_calls_order": ["a"]})).evaluator == "Order"
