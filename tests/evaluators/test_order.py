from __future__ import annotations

from itertools import combinations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.order import MAX_NOTED, OrderEvaluator, OrderJustification
from otel_toolcall_eval.model.criteria import OrderCriteria, Parallel
from otel_toolcall_eval.model.score import ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.model.tool_call import CallLog
from tests.evaluators.calls import ABSENT, call, grouped, log

EXPECTED = st.text(alphabet="abc", min_size=1, max_size=3)
SHORT = st.text(alphabet="abc", min_size=1, max_size=2)
CALLS = st.lists(st.tuples(st.sampled_from("abcx"), st.sampled_from([None, 1, 2])), max_size=3)
BOOLEANS = st.booleans()
PARALLEL = st.sampled_from(Parallel)


def evaluate(expected: str, calls: CallLog, *, strict: bool = False, parallel: Parallel = Parallel.START_TIME) -> Score:
    return OrderEvaluator().evaluate(OrderCriteria(expected=tuple(expected), strict=strict, parallel=parallel), calls)


def justify(expected: str, calls: CallLog, *, strict: bool = False, parallel: Parallel = Parallel.START_TIME) -> OrderJustification:
    justification = evaluate(expected, calls, strict=strict, parallel=parallel).justification
    assert isinstance(justification, OrderJustification)
    return justification


@pytest.mark.parametrize(
    ("expected", "calls", "value", "lcs"),
    [
        pytest.param("abcd", log(*"axbd"), 0.75, "abd", id="guide"),
        pytest.param("ab", log(), 0.0, "", id="no-call"),
        pytest.param("abc", log(*"cba"), 1 / 3, "a", id="reversed"),
        pytest.param("Ab", log(*"ab"), 0.5, "b", id="names-are-exact"),
        pytest.param("ab", log(call("x", aliases=("a",)), "b"), 1.0, "ab", id="alias"),
        pytest.param("ab", log(call("x", aliases=("a", "b"))), 0.5, "b", id="a-call-counts-once"),
        pytest.param("a", log(call("a", ABSENT, ABSENT)), 1.0, "a", id="contents-do-not-matter"),
    ],
)
def test_score_is_the_share_that_stands_in_order(expected: str, calls: CallLog, value: float, lcs: str) -> None:
    score = evaluate(expected, calls)
    assert (score.value, score.lowest, score.highest, score.doubts) == (value, value, value, ())
    assert justify(expected, calls).lcs == list(lcs)


@pytest.mark.parametrize(
    ("expected", "calls", "value"),
    [
        pytest.param("ab", log(*"ab"), 1.0, id="equal"),
        pytest.param("ab", log(*"abx"), 0.0, id="one-more"),
        pytest.param("ab", log(*"a"), 0.0, id="one-less"),
        pytest.param("ab", log(*"ba"), 0.0, id="swapped"),
    ],
)
def test_strict_takes_equal_sequences_only(expected: str, calls: CallLog, value: float) -> None:
    assert evaluate(expected, calls, strict=True).value == value


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("expected", "calls", "holds"),
    [
        pytest.param("ab", [("b", 1), ("a", 1)], True, id="swapped-in-a-group"),
        pytest.param("abcd", [("b", 1), ("a", 1), ("d", 2), ("c", 2)], True, id="group-by-group"),
        pytest.param("abcd", [("c", 1), ("d", 1), ("a", 2), ("b", 2)], False, id="groups-swapped"),
        pytest.param("ab", [("b", None), ("a", None)], False, id="one-after-the-other"),
        pytest.param("axb", [("a", 1), ("x", 2), ("b", 1)], True, id="as-started"),
        pytest.param("bxa", [("a", 1), ("x", 2), ("b", 1)], False, id="another-agent-between"),
    ],
)
def test_overlapping_calls_may_stand_in_any_order(
    expected: str,
    calls: list[tuple[str, int | None]],
    holds: bool,  # noqa: FBT001 - a column of the table
    strict: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert (evaluate(expected, log(*grouped(calls)), strict=strict, parallel=Parallel.ANY).value == 1.0) is holds


def with_added(calls: list[tuple[str, int | None]]) -> list[CallLog]:
    """Logs with up to two more calls, at any place; one of another agent parts a group, as group 3 does."""
    logs = []
    for number in range(3):
        for places in combinations(range(len(calls) + number), number):
            for added in product([("a", 3), ("b", 3), ("c", 3), ("x", 3)], repeat=number):
                left, extra = iter(calls), iter(added)
                logs.append(log(*grouped([next(extra) if place in places else next(left) for place in range(len(calls) + number)])))
    return logs


@settings(max_examples=40)  # each draws a hundred logs
@given(expected=SHORT, calls=CALLS, strict=BOOLEANS)
def test_bounds_are_what_added_calls_can_do(expected: str, calls: list[tuple[str, int | None]], strict: bool) -> None:  # noqa: FBT001 - hypothesis fills it in
    score = evaluate(expected, log(*grouped(calls), open_ended=True), strict=strict)
    values = [evaluate(expected, more, strict=strict).value for more in with_added(calls)]
    assert (score.lowest, score.highest) == (min(values), max(values))
    assert score.value == values[0]


@settings(max_examples=40)  # each draws a hundred logs
@given(expected=SHORT, calls=CALLS.filter(lambda calls: len(calls) < 3), strict=BOOLEANS)
def test_bounds_hold_for_overlapping_calls(expected: str, calls: list[tuple[str, int | None]], strict: bool) -> None:  # noqa: FBT001 - hypothesis fills it in
    score = evaluate(expected, log(*grouped(calls), open_ended=True), strict=strict, parallel=Parallel.ANY)
    values = {evaluate(expected, more, strict=strict, parallel=Parallel.ANY).value for more in with_added(calls)}
    # an added call may overlap all others, and so join everything to one group
    for more in with_added([(name, 3) for name, _ in calls]):
        if len(more.calls) > len(calls):
            values.add(evaluate(expected, more, strict=strict, parallel=Parallel.ANY).value)
    assert (score.lowest, score.highest) == (min(values), max(values))
    assert score.lowest <= score.value <= score.highest


@given(expected=EXPECTED, calls=st.lists(st.tuples(st.sampled_from("abcx"), st.sampled_from([None, 1, 2])), max_size=6), parallel=PARALLEL)
def test_laws(expected: str, calls: list[tuple[str, int | None]], parallel: Parallel) -> None:
    loose = evaluate(expected, log(*grouped(calls)), parallel=parallel).value
    strict = evaluate(expected, log(*grouped(calls)), strict=True, parallel=parallel).value
    assert 0.0 <= strict <= loose <= 1.0
    assert evaluate(expected, log(*grouped(calls))).value <= loose or parallel is Parallel.START_TIME
    rest = iter(name for name, _ in calls)
    if parallel is Parallel.START_TIME:
        assert (loose == 1.0) is all(name in rest for name in expected)


@given(
    expected=EXPECTED,
    calls=st.lists(st.tuples(st.sampled_from("abcx"), st.sampled_from([None, 1, 2])), max_size=6),
    data=st.data(),
    strict=BOOLEANS,
    parallel=PARALLEL,
)
def test_log_that_lacks_calls_is_never_certain_of_another_score(
    expected: str,
    calls: list[tuple[str, int | None]],
    data: st.DataObject,
    strict: bool,  # noqa: FBT001 - hypothesis fills it in
    parallel: Parallel,
) -> None:
    kept = [entry for entry in calls if data.draw(st.booleans())]
    score = evaluate(expected, log(*grouped(kept), open_ended=True), strict=strict, parallel=parallel)
    assert score.lowest <= evaluate(expected, log(*grouped(calls)), strict=strict, parallel=parallel).value <= score.highest


@given(
    expected=EXPECTED,
    made=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "", "a", "bc"])), max_size=3),
    follow=BOOLEANS,
    strict=BOOLEANS,
    open_ended=BOOLEANS,
)
def test_calls_that_are_just_those_expected_score_as_all_others_do(
    *, expected: str, made: list[tuple[str, str]], follow: bool, strict: bool, open_ended: bool
) -> None:
    names = expected if follow else "".join(name for name, _ in made)
    aliases = [tuple(made[place][1]) if place < len(made) else () for place in range(len(names))]
    plain = log(*(call(name, aliases=other) for name, other in zip(names, aliases, strict=True)), open_ended=open_ended)
    # By other names, which only aliases tell, nothing can be seen at a glance.
    renamed = log(*(call("x", aliases=(name, *other)) for name, other in zip(names, aliases, strict=True)), open_ended=open_ended)
    one, other = (evaluate(expected, calls, strict=strict) for calls in (plain, renamed))
    assert (one.value, one.lowest, one.highest, one.outcomes, one.doubts) == (
        *(other.value, other.lowest, other.highest),
        *(other.outcomes, other.doubts),
    )
    why, also = (justify(expected, calls, strict=strict) for calls in (plain, renamed))
    assert (why.lcs, why.explain(), list(why.comparisons())) == (also.lcs, also.explain(), list(also.comparisons()))


@pytest.mark.parametrize(
    ("expected", "actual", "outcomes"),
    [
        pytest.param("abc", "abc", [Outcome.MATCHED] * 3, id="all"),
        pytest.param("abc", "acb", [Outcome.MATCHED, Outcome.MATCHED, Outcome.WRONG_ORDER], id="out-of-order"),
        pytest.param("abc", "a", [Outcome.MATCHED, Outcome.MISSING, Outcome.MISSING], id="missing"),
        pytest.param("aab", "ba", [Outcome.MISSING, Outcome.MATCHED, Outcome.WRONG_ORDER], id="missing-and-out-of-order"),
    ],
)
def test_outcomes_tell_missing_from_out_of_order(expected: str, actual: str, outcomes: list[Outcome]) -> None:
    assert evaluate(expected, log(*actual)).outcomes == tuple(
        ExpectationOutcome(tool=tool, outcome=outcome) for tool, outcome in zip(expected, outcomes, strict=True)
    )


def test_details_read_as_in_the_guide() -> None:
    calls = CallLog(calls=(call("tool1"), call("tool2"), call("tool3")))
    criteria = OrderCriteria(expected=("tool1", "tool2", "tool3", "tool4"))
    assert OrderEvaluator().evaluate(criteria, calls).justification.details() == {
        "actual_tool_calls_order": ["tool1", "tool2", "tool3"],
        "expected_tool_calls_order": ["tool1", "tool2", "tool3", "tool4"],
        "lcs": ["tool1", "tool2", "tool3"],
    }


@pytest.mark.parametrize(
    ("expected", "actual", "strict", "explanation"),
    [
        pytest.param("ab", "ab", True, "2 of 2 expected calls are in order", id="all"),
        pytest.param("abc", "ca", False, "1 of 3 expected calls are in order; missing: b; out of order: c", id="loose"),
        pytest.param(
            "ab", "axb", True, "2 of 2 expected calls are in order; 1 further call, which strict mode does not allow", id="one-more"
        ),
        pytest.param(
            "ab", "axbx", True, "2 of 2 expected calls are in order; 2 further calls, which strict mode does not allow", id="two-more"
        ),
        pytest.param("ab", "ba", True, "1 of 2 expected calls are in order; out of order: b", id="swapped"),
        pytest.param("abcdefg", "", False, "0 of 7 expected calls are in order; missing: a, b, c, d, e and 2 more", id="bounded"),
    ],
)
def test_explanation_names_what_is_wrong(expected: str, actual: str, strict: bool, explanation: str) -> None:  # noqa: FBT001 - a column of the table
    assert justify(expected, log(*actual), strict=strict).explain() == explanation


@given(EXPECTED, CALLS, BOOLEANS, PARALLEL)
def test_explanation_names_exactly_what_the_outcomes_tell(
    expected: str,
    calls: list[tuple[str, int | None]],
    strict: bool,  # noqa: FBT001 - drawn
    parallel: Parallel,
) -> None:
    score = evaluate(expected, log(*grouped(calls)), strict=strict, parallel=parallel)
    assert isinstance(score.justification, OrderJustification)
    told = score.justification.explain().split("; ")
    for outcome, words in ((Outcome.MISSING, "missing"), (Outcome.WRONG_ORDER, "out of order")):
        tools = dict.fromkeys(entry.tool for entry in score.outcomes if entry.outcome is outcome)
        assert [one for one in told if one.startswith(f"{words}: ")] == ([f"{words}: {', '.join(tools)}"] if tools else [])
    others = len(calls) - sum(entry.outcome is not Outcome.MISSING for entry in score.outcomes)
    assert [int(one.split()[0]) for one in told if " further call" in one] == ([others] if strict and others else [])


def test_note_says_that_another_order_would_score_more() -> None:
    calls = log(*grouped([("b", 1), ("a", 1), ("c", None)]))
    note = "in another order of the calls that overlap in time the score would be 1 (parallel: any)"
    for strict in (False, True):
        justification = justify("abc", calls, strict=strict)
        assert justification.details()["parallel_note"] == note
        assert justification.explain().endswith("; " + note)


@pytest.mark.parametrize(
    ("expected", "calls", "strict", "parallel"),
    [
        pytest.param("ab", [("a", 1), ("b", 1)], False, Parallel.START_TIME, id="nothing-to-gain"),
        pytest.param("abc", [("a", 1), ("b", 1)], False, Parallel.START_TIME, id="order-is-not-the-fault"),
        pytest.param("abc", [("b", 1), ("a", 1)], True, Parallel.START_TIME, id="strict-fails-either-way"),
        pytest.param("ba", [("a", None), ("b", None)], False, Parallel.START_TIME, id="no-overlap"),
        pytest.param("abc", [("b", 1), ("a", 1)], False, Parallel.ANY, id="already-any"),
    ],
)
def test_no_note_where_another_order_gains_nothing(
    expected: str,
    calls: list[tuple[str, int | None]],
    strict: bool,  # noqa: FBT001 - a column of the table
    parallel: Parallel,
) -> None:
    assert "parallel_note" not in justify(expected, log(*grouped(calls)), strict=strict, parallel=parallel).details()


def test_note_is_not_looked_for_in_huge_logs() -> None:
    expected = "ab" + "y" * (MAX_NOTED // 200 - 2)
    calls = grouped([("b", 1), ("a", 1)] + [("x", None)] * 198)
    assert len(expected) * len(calls) == MAX_NOTED
    assert "parallel_note" in justify(expected, log(*calls)).details()
    assert "parallel_note" not in justify(expected, log(*calls, "x")).details()
