from __future__ import annotations

from itertools import chain, combinations, combinations_with_replacement
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.model.criteria import EVERY_TOOL, CountCriteria, CountExpectation, Operator
from otel_toolcall_eval.model.score import ExpectationOutcome, Outcome, Score
from tests.evaluators.calls import ABSENT, call, log, names

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import CallLog, ToolCall

HOLDS = {
    "=": lambda count, wanted: count == wanted,
    "!=": lambda count, wanted: count != wanted,
    ">": lambda count, wanted: count > wanted,
    "<": lambda count, wanted: count < wanted,
    ">=": lambda count, wanted: count >= wanted,
    "<=": lambda count, wanted: count <= wanted,
}
TOOLS = ("a", "b", EVERY_TOOL)
# One added call, by the listed tools that it answers to: an alias may make it answer to several.
ADDED = [call("x", aliases=some) for some in chain.from_iterable(combinations("ab", size) for size in range(3))]

expectations = st.dictionaries(st.sampled_from(TOOLS), st.tuples(st.sampled_from(sorted(HOLDS)), st.integers(0, 2)), min_size=1, max_size=3)
recorded = st.lists(st.sampled_from([*names("abx"), call("a", aliases=("b",))]), max_size=3)


def criteria(wanted: dict[str, tuple[str, int]], *, strict: bool = False) -> CountCriteria:
    return CountCriteria(
        expectations=tuple(CountExpectation(tool=tool, operator=Operator(sign), count=count) for tool, (sign, count) in wanted.items()),
        strict=strict,
    )


def evaluate(wanted: dict[str, tuple[str, int]], calls: CallLog, *, strict: bool = False) -> Score:
    return CountEvaluator().evaluate(criteria(wanted, strict=strict), calls)


@pytest.mark.parametrize("sign", sorted(HOLDS))
@pytest.mark.parametrize("wanted", [0, 1, 2, 3])
def test_operators_compare_the_actual_with_the_expected_count(sign: str, wanted: int) -> None:
    assert evaluate({"a": (sign, wanted)}, log("a", "b", "a")).value == HOLDS[sign](2, wanted)


@pytest.mark.parametrize(
    ("wanted", "calls", "value"),
    [
        pytest.param({"a": ("=", 1), "b": ("=", 1), "c": ("=", 1)}, log("a", "b"), 2 / 3, id="never-rounded"),
        pytest.param({"b": ("=", 0)}, log(), 1.0, id="no-call-at-all-counts-0"),
        pytest.param({"A": ("=", 0)}, log("a"), 1.0, id="names-are-exact"),
        pytest.param({EVERY_TOOL: ("=", 3)}, log("a", "b", "a"), 1.0, id="every-tool"),
        pytest.param({EVERY_TOOL: ("=", 2)}, log(call("a", aliases=("b",)), "c"), 1.0, id="every-tool-counts-a-call-once"),
        pytest.param({"b": ("=", 1), "a": ("=", 1)}, log(call("a", aliases=("b",))), 1.0, id="alias"),
        pytest.param({"a": ("=", 1)}, log(call("a", ABSENT, ABSENT)), 1.0, id="contents-do-not-matter"),
        pytest.param({"a": ("<", 10**40)}, log("a"), 1.0, id="huge-count"),
    ],
)
def test_score_is_the_share_of_counts_that_hold(wanted: dict[str, tuple[str, int]], calls: CallLog, value: float) -> None:
    score = evaluate(wanted, calls)
    assert (score.value, score.lowest, score.highest) == (value, value, value)
    assert score.doubts == ()


def test_strict_is_all_or_nothing() -> None:
    wanted = {"a": ("=", 1), "b": ("=", 2)}
    assert evaluate(wanted, log("a", "b"), strict=True).value == 0.0
    assert evaluate(wanted, log("a", "b", "b"), strict=True).value == 1.0


@pytest.mark.parametrize(
    ("wanted", "calls", "lowest", "highest"),
    [
        pytest.param({"a": (">=", 1)}, log("a", open_ended=True), 1.0, 1.0, id="at-least-once-seen"),
        pytest.param({"a": ("<=", 1)}, log("a", "a", open_ended=True), 0.0, 0.0, id="at-most-once-exceeded"),
        pytest.param({"a": ("<=", 1)}, log("a", open_ended=True), 0.0, 1.0, id="at-most-once-so-far"),
        pytest.param({"a": ("=", 1)}, log("a", open_ended=True), 0.0, 1.0, id="exactly-so-far"),
        pytest.param({"a": ("!=", 1)}, log("a", "a", open_ended=True), 1.0, 1.0, id="past-the-wrong-count"),
        pytest.param({"a": (">=", 2), "*": ("<=", 1)}, log(open_ended=True), 0.0, 0.5, id="total-forbids-what-a-tool-needs"),
        pytest.param({"a": (">=", 2), "*": ("<", 2)}, log(open_ended=True), 0.0, 0.5, id="total-below-what-a-tool-needs"),
        pytest.param({"a": (">=", 1), "*": ("=", 1)}, log(open_ended=True), 0.0, 1.0, id="total-is-what-a-tool-needs"),
        pytest.param({"a": (">=", 1), "*": (">", 0)}, log(open_ended=True), 0.0, 1.0, id="total-without-a-bound"),
        pytest.param({"a": ("<", 2), "*": ("!=", 1)}, log(open_ended=True), 0.5, 1.0, id="total-can't-fail-with-it"),
    ],
)
def test_missing_calls_leave_open_what_they_could_change(
    wanted: dict[str, tuple[str, int]], calls: CallLog, lowest: float, highest: float
) -> None:
    score = evaluate(wanted, calls)
    assert (score.lowest, score.highest) == (lowest, highest)


@given(wanted=expectations, calls=recorded, strict=st.booleans())
def test_bounds_are_what_added_calls_can_do(wanted: dict[str, tuple[str, int]], calls: list[ToolCall], strict: bool) -> None:  # noqa: FBT001 - hypothesis fills it in
    score = evaluate(wanted, log(*calls, open_ended=True), strict=strict)
    values = [
        evaluate(wanted, log(*calls, *added), strict=strict).value
        for number in range(5)
        for added in combinations_with_replacement(ADDED, number)
    ]
    assert (score.lowest, score.highest) == (min(values), max(values))
    assert score.value == values[0]


@given(wanted=expectations, calls=recorded)
def test_strict_never_scores_more(wanted: dict[str, tuple[str, int]], calls: list[ToolCall]) -> None:
    assert 0.0 <= evaluate(wanted, log(*calls), strict=True).value <= evaluate(wanted, log(*calls)).value <= 1.0


def test_details_read_as_in_the_guide() -> None:
    score = evaluate({"fetch": ("=", 1), "work": ("=", 5), "send": (">=", 2), "*": ("<", 9)}, log("fetch", "work", "work", "work"))
    assert score.justification.details() == {
        "explained_tool_calls_count": {
            "fetch": "Actual: 1, Expected: 1, Score: 1.0",
            "work": "Actual: 3, Expected: 5, Score: 0.0",
            "send": "Actual: 0, Expected: >=2, Score: 0.0",
            "*": "Actual: 4, Expected: <9, Score: 1.0",
        }
    }
    assert score.outcomes == (
        ExpectationOutcome(tool="fetch", outcome=Outcome.MATCHED),
        ExpectationOutcome(tool="work", outcome=Outcome.WRONG_COUNT),
        ExpectationOutcome(tool="send", outcome=Outcome.WRONG_COUNT),
        ExpectationOutcome(tool="*", outcome=Outcome.MATCHED),
    )


@pytest.mark.parametrize(
    ("wanted", "explanation"),
    [
        pytest.param({"b": ("=", 1)}, "1 of 1 counts hold", id="all-hold"),
        pytest.param({"a": ("=", 5), "b": ("=", 1)}, "1 of 2 counts hold; a: called 3 times, expected exactly 5", id="one-fails"),
        pytest.param({"b": (">", 1)}, "0 of 1 counts hold; b: called 1 time, expected more than 1", id="once"),
        pytest.param({"*": ("<=", 1)}, "0 of 1 counts hold; all tools: called 4 times, expected at most 1", id="every-tool"),
        pytest.param(
            {f"t{number}": (">=", 1) for number in range(7)},
            "0 of 7 counts hold; " + "; ".join(f"t{number}: called 0 times, expected at least 1" for number in range(5)) + "; and 2 more",
            id="bounded",
        ),
    ],
)
def test_explanation_names_what_fails(wanted: dict[str, tuple[str, int]], explanation: str) -> None:
    assert evaluate(wanted, log("a", "b", "a", "a")).justification.explain() == explanation
