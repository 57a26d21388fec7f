from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, Matching
from otel_toolcall_eval.model.score import Outcome, Score
from tests.evaluators.calls import call, log

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import CallLog, Json


def want(tool: str, call_id: str | None = None, **arguments: Json) -> ArgsExpectation:
    return ArgsExpectation(tool=tool, arguments=arguments, call_id=call_id)


def evaluate(calls: CallLog, *wanted: ArgsExpectation, matching: Matching = Matching.MAXIMUM) -> Score:
    return ArgsEvaluator().evaluate(ArgsCriteria(expectations=wanted, matching=matching), calls)


def shown(score: Score) -> list[str]:
    entries = score.justification.details()["explained_tool_calls_args"]
    assert isinstance(entries, dict)
    return [entry.split(", Expected")[0] for entry in entries.values()]


@pytest.mark.parametrize(
    ("calls", "wanted", "explanation"),
    [
        pytest.param(log(call("f", {"a": 1})), [want("f", a=1)], "1 of 1 expected arguments match", id="all-match"),
        pytest.param(log("g"), [want("f", a=1)], "0 of 1 expected arguments match; f_0: not called", id="not-called"),
        pytest.param(
            log(call("f", {"a": 1})), [want("f", a=1), want("f", a=1)], "1 of 2 expected arguments match; f_1: no call left", id="too-few"
        ),
        pytest.param(
            log(call("f", {"a": 1}, call_id="2")),
            [want("f", "1", a=1)],
            "0 of 1 expected arguments match; f_0: the call ID differs",
            id="id",
        ),
        pytest.param(
            log(call("f", {"a": 2}, call_id="1")),
            [want("f", "1", a=1)],
            "0 of 1 expected arguments match; f_0: $.a differs",
            id="not-the-id",
        ),
        pytest.param(
            log(call("f", {"a": 2})),
            [want("f", a=1), want("g", "1")],
            "0 of 2 expected arguments match; f_0: $.a differs; g_0: not called",
            id="no-id-expected",
        ),
        pytest.param(
            log(),
            [want(tool) for tool in "abcde"],
            "0 of 5 expected arguments match; a_0: not called; b_0: not called; c_0: not called; and 2 more",
            id="bounded",
        ),
    ],
)
def test_explanation_names_what_is_unmatched(calls: CallLog, wanted: list[ArgsExpectation], explanation: str) -> None:
    assert evaluate(calls, *wanted).justification.explain() == explanation


def test_position_decides_what_stands_beside_an_expectation() -> None:
    calls = log(call("f", {"a": 1, "b": 2}), call("f", {"a": 2, "b": 1}))
    wanted = [want("f", a=2, b=9), want("f", a=1, b=9), want("f", a=1)]
    positional = evaluate(calls, *wanted, matching=Matching.POSITIONAL)
    assert shown(positional) == ["Actual: {'a': 1, 'b': 2}", "Actual: {'a': 2, 'b': 1}", "Actual: None"]
    assert [outcome.outcome for outcome in positional.outcomes] == [Outcome.WRONG_ARGUMENTS, Outcome.WRONG_ARGUMENTS, Outcome.MISSING]
    nearest = evaluate(calls, *wanted[:2])
    assert shown(nearest) == ["Actual: {'a': 2, 'b': 1}", "Actual: {'a': 1, 'b': 2}"]


def test_earliest_of_equally_near_calls_is_shown() -> None:
    calls = log(call("f", {"a": 5}), call("f", {"a": 6}), call("f", {"a": 7}))
    assert shown(evaluate(calls, want("f", a=1), want("f", a=2))) == ["Actual: {'a': 5}", "Actual: {'a': 6}"]


def test_each_call_is_shown_once_even_if_it_answers_to_two_names() -> None:
    calls = log(call("f", {"n": 1}, aliases=("g",)), call("f", {"n": 2}, aliases=("g",)), call("g", {"n": 3}))
    score = evaluate(calls, want("f", n=1, m=1), want("g", n=1, m=1), want("g", n=2, m=1))
    assert shown(score) == ["Actual: {'n': 1}", "Actual: {'n': 2}", "Actual: {'n': 3}"]
    assert [outcome.outcome for outcome in score.outcomes] == [Outcome.WRONG_ARGUMENTS] * 3


def test_search_for_the_nearest_is_bounded() -> None:
    calls = log(*(call("f", {"n": number}) for number in range(2_000)))
    score = evaluate(calls, *(want("f", n=1_999 - number, m=1) for number in range(1_999)))
    entries = shown(score)
    assert len(set(entries)) == 1_999
    assert entries[0] == "Actual: {'n': 0}"  # the nearest one stands too far back to be looked at
    assert score.justification.explain().endswith("; and 1996 more")


def test_payloads_in_details_are_bounded() -> None:
    score = evaluate(log(call("f", {"text": "x" * 10_000_000})), want("f", text="y" * 10_000_000))
    (entry,) = score.justification.details()["explained_tool_calls_args"].values()  # type: ignore[attr-defined]  # a dictionary
    assert len(entry) < 5_000
    assert entry.startswith("Actual: {'text': 'xxx")
    assert score.justification.explain() == "0 of 1 expected arguments match; f_0: $.text differs"
