from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.evaluators.pairing import Expectations, pair_in_order
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, Matching, OutputCriteria, OutputExpectation
from tests.evaluators.calls import ABSENT, NO_ARGUMENTS, NO_OUTPUT, UNPARSED, call, full, log, said

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import Score
    from otel_toolcall_eval.model.tool_call import CallLog, Json, ToolCall

IDS = "1"
OBJECTS: list[dict[str, Json]] = [{}, {"a": 1}, {"a": True}, {"a": 1, "b": [1]}]
OUTPUTS: list[Json] = ["x", '"x"', None, "", {"a": 1}, '{"a": 1}', [1], {"content": "x"}]
TEXTS = ["x", "null", '{"a": 1}', "{'a': 1.0}", "[1]", '{"content": "x"}', '{"content": {"a": 1}}', '"x"']
ARGUMENTS = st.sampled_from([*map(full, OBJECTS), UNPARSED, ABSENT, NO_ARGUMENTS])
RETURNED = st.sampled_from([*map(said, TEXTS), ABSENT, NO_OUTPUT])
SPELLINGS = st.sampled_from([("f", ()), ("f", ()), ("g", ()), ("f", ("g",)), ("h", ("g",))])


@st.composite
def logs(draw: st.DrawFn) -> CallLog:
    calls = []
    for name, aliases in draw(st.lists(SPELLINGS, max_size=4)):
        calls.append(call(name, draw(ARGUMENTS), draw(RETURNED), aliases=aliases))
    return log(*calls, open_ended=draw(st.booleans()))


def told(score: Score) -> list[object]:
    """All that a score says."""
    why = score.justification
    return [
        *(score.value, score.lowest, score.highest, score.outcomes, score.doubts),
        *(why.details(), why.explain(), list(why.comparisons()), repr(why)),
    ]


def identified(calls: CallLog) -> CallLog:
    """The same calls, all with the ID that all expectations ask for then: so ``pair_in_order`` leaves them alone."""
    return replace(calls, calls=tuple(replace(made, call_id=IDS) for made in calls.calls))


@given(st.lists(st.tuples(st.sampled_from("ffg"), st.sampled_from(OBJECTS)), min_size=1, max_size=3), logs(), st.data())
def test_arguments_in_turn_score_as_all_others_do(wanted: list[tuple[str, dict[str, Json]]], calls: CallLog, data: st.DataObject) -> None:
    matching = data.draw(st.sampled_from(Matching))
    plain = ArgsCriteria(
        expectations=tuple(ArgsExpectation(tool=tool, arguments=arguments) for tool, arguments in wanted),
        strict=data.draw(st.booleans()),
        subset=data.draw(st.booleans()),
        matching=matching,
    )
    if calls.open_ended and matching is Matching.POSITIONAL:
        return  # what lasts when calls are missing depends on IDs
    with_ids = replace(plain, expectations=tuple(replace(one, call_id=IDS) for one in plain.expectations))
    assert told(ArgsEvaluator().evaluate(plain, calls)) == told(ArgsEvaluator().evaluate(with_ids, identified(calls)))


@given(st.lists(st.tuples(st.sampled_from("ffg"), st.sampled_from(OUTPUTS)), min_size=1, max_size=3), logs(), st.data())
def test_outputs_in_turn_score_as_all_others_do(wanted: list[tuple[str, Json]], calls: CallLog, data: st.DataObject) -> None:
    plain = OutputCriteria(
        expectations=tuple(OutputExpectation(tool=tool, output=output) for tool, output in wanted),
        strict=data.draw(st.booleans()),
        matching=data.draw(st.sampled_from(Matching)),
    )
    with_ids = replace(plain, expectations=tuple(replace(one, call_id=IDS) for one in plain.expectations))
    assert told(OutputEvaluator().evaluate(plain, calls)) == told(OutputEvaluator().evaluate(with_ids, identified(calls)))


@pytest.mark.parametrize(
    ("calls", "places"),
    [
        pytest.param(log("f", "f", "g"), [0, 1, 2], id="one-by-one"),
        pytest.param(log("f", "f", call("g", aliases=("x",))), [0, 1, 2], id="one-by-one-with-another-alias"),
        pytest.param(log("f", call("f", aliases=("g",)), "g"), None, id="one-by-one-with-an-alias-that-is-expected"),
        pytest.param(log("f", "g", "f"), [0, 2, 1], id="in-turn"),
        pytest.param(log("f", "f", "x", "g", "f"), [0, 1, 3], id="others-and-more"),
        pytest.param(log("f", call("h", aliases=("g",)), "f"), [0, 2, 1], id="by-alias"),
        pytest.param(log("f", "g"), None, id="one-too-few"),
        pytest.param(log("f", "f"), None, id="not-called"),
        pytest.param(log("f", "g", call("f", aliases=("g",))), None, id="answers-to-two-names"),
    ],
)
def test_calls_are_taken_in_turn(calls: CallLog, places: list[int] | None) -> None:
    expected = Expectations.of([ArgsExpectation(tool=tool, arguments={}) for tool in "ffg"])
    taken = pair_in_order(expected, calls, Matching.MAXIMUM)
    assert taken == (None if places is None else [calls.calls[place] for place in places])


@pytest.mark.parametrize(
    ("call_id", "matching", "open_ended", "left_alone"),
    [
        pytest.param(None, Matching.POSITIONAL, False, False, id="positional"),
        pytest.param(None, Matching.MAXIMUM, True, False, id="open-ended"),
        pytest.param(None, Matching.POSITIONAL, True, True, id="positional-and-open-ended"),
        pytest.param(IDS, Matching.MAXIMUM, False, True, id="ids"),
    ],
)
def test_what_depends_on_more_is_left_to_others(call_id: str | None, matching: Matching, open_ended: bool, left_alone: bool) -> None:  # noqa: FBT001 - columns of the table
    expected = Expectations.of([ArgsExpectation(tool="f", arguments={}, call_id=call_id)])
    assert (pair_in_order(expected, log("f", open_ended=open_ended), matching) is None) is left_alone


def test_nothing_expected_is_left_to_others() -> None:
    assert pair_in_order(Expectations.of([]), log("f"), Matching.MAXIMUM) is None


def test_contents_of_calls_that_come_after_a_mismatch_are_read_all_the_same() -> None:
    made: list[ToolCall] = [call("f", content) for content in (full({"a": 1}), full({"a": 2}))]
    wanted = [ArgsExpectation(tool="f", arguments={"a": number}) for number in (2, 1)]
    assert ArgsEvaluator().evaluate(ArgsCriteria(expectations=tuple(wanted)), log(*made)).value == 1.0
