"""The bounds for calls whose clocks disagree hold for every order that the calls may have had."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators import clocks
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.model.criteria import OrderCriteria, Parallel
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason

NOTHING = Payload.of(Content(state=ContentState.FULL, value={}, nothing=True))


def call(position: int, name: str, *, inside: int | None = None) -> ToolCall:
    return ToolCall(
        name=name,
        arguments=NOTHING,
        output=NOTHING,
        span_id=bytes([position]),
        nested_in=None if inside is None else bytes([inside]),
        parallel_group=0,
    )


def allowed(order: tuple[int, ...], numbers: list[int], inside: list[int | None]) -> bool:
    """Tell whether calls may have had an order: each clock keeps its own, and a call comes after the one around it."""
    place = {position: rank for rank, position in enumerate(order)}
    return all(
        place[earlier] < place[later]
        for later in range(len(order))
        for earlier in range(later)
        if numbers[earlier] == numbers[later] or inside[later] == earlier
    )


@pytest.mark.parametrize("short", [False, True], ids=["all-chains", "single-clocks-only"])
@given(data=st.data())
def test_bounds_hold_for_every_order(short: bool, data: st.DataObject) -> None:  # noqa: FBT001 - a parameter of the table
    number = data.draw(st.integers(0, 5))
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=number, max_size=number))
    numbers = data.draw(st.lists(st.integers(0, 2), min_size=number, max_size=number))
    inside = [data.draw(st.none() | st.integers(0, position - 1)) if position else None for position in range(number)]
    criteria = OrderCriteria(
        expected=tuple(data.draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=4))),
        strict=data.draw(st.booleans()),
        parallel=data.draw(st.sampled_from(Parallel)),
    )
    calls = tuple(call(position, name, inside=inside[position]) for position, name in enumerate(names))
    evaluator = OrderEvaluator()
    with pytest.MonkeyPatch.context() as patch:
        if short:
            patch.setattr(clocks, "MAX_STEPS", 0)
        score = evaluator.evaluate(criteria, CallLog(calls=calls, clocks=tuple(numbers)))
    assert score.lowest <= score.value <= score.highest
    assert (score.lowest != score.highest) is (IncompletenessReason.CLOCK_SKEW in score.doubts)
    for order in permutations(range(number)):
        if allowed(order, numbers, inside):
            value = evaluator.evaluate(criteria, CallLog(calls=tuple(calls[position] for position in order))).value
            assert score.lowest <= value <= score.highest


def test_missing_calls_widen_what_clocks_leave_open() -> None:
    calls = (call(0, "a"), call(1, "b"))
    log = CallLog(calls=calls, clocks=(0, 1), open_ended=True)
    strict = OrderEvaluator().evaluate(OrderCriteria(expected=("b", "x", "a"), strict=True), log)
    assert (strict.lowest, strict.highest, strict.doubts) == (0.0, 1.0, (IncompletenessReason.CLOCK_SKEW,))
    loose = OrderEvaluator().evaluate(OrderCriteria(expected=("a", "b")), log)
    assert (loose.lowest, loose.highest) == (0.5, 1.0)


def test_ring_of_calls_that_run_inside_each_other_ends() -> None:
    calls = (call(0, "a", inside=1), call(1, "b", inside=0))
    assert OrderEvaluator().evaluate(OrderCriteria(expected=("a", "b")), CallLog(calls=calls, clocks=(0, 1))).highest == 1.0
