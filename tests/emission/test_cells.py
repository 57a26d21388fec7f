from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.emission.cells import Counted, Distributed, add_all
from otel_toolcall_eval.emission.recording import RECORDED, Occasion

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from otel_toolcall_eval.emission.cells import AnyCell

BOUNDS = sorted({instrument.bounds for instrument in RECORDED} | {(0.0,), (0, 1)})
FLOATS = st.floats(-2, 70) | st.sampled_from(
    [float("nan"), float("inf"), float("-inf"), 0, 1, *{float(one) for some in BOUNDS for one in some}]
)


def _never() -> SpanContext:
    raise AssertionError


@given(st.sampled_from([some for some in BOUNDS if some]), FLOATS)
def test_value_falls_into_the_bucket_that_bisecting_finds(bounds: tuple[float, ...], value: float) -> None:
    cell = Distributed(Lock(), bounds)
    cell.record(value)
    expected = [0] * (len(bounds) + 1)
    expected[bisect_left(bounds, value)] = 1
    assert list(cell.state(take_extremes=False).counts) == expected


VALUES = st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 0.25, 7.5]), st.integers(1, 3), st.booleans()), max_size=12)


@given(VALUES)
def test_what_is_settled_counts_as_if_recorded_one_by_one(given_values: list[tuple[int, float, int, bool]]) -> None:
    at_once, one_by_one = (_cells(), _cells())
    for order, (place, value, times, is_settled) in enumerate(given_values, 1):
        occasion = Occasion(_never, order)
        occasion.order = order
        for _ in range(times):
            add_all([(one_by_one[place], value)], occasion)
        if is_settled:
            at_once[place].settle(value, occasion, times)
        else:
            add_all([(at_once[place], value)] * times, occasion)
    for one, other in zip(at_once, one_by_one, strict=True):
        assert one.state(take_extremes=True) == other.state(take_extremes=True)
        assert one.state(take_extremes=False) == other.state(take_extremes=False)


def _cells() -> list[AnyCell]:
    lock = Lock()
    return [Counted(lock), Distributed(lock, (0, 1)), Distributed(lock, (0.1, 5.0, 10.0))]


@pytest.mark.parametrize("place", range(3))
def test_what_was_only_counted_does_not_take_the_place_of_a_newer_exemplar(place: int) -> None:
    cell, older, newer = _cells()[place], Occasion(_never, 2), Occasion(_never, 1)
    older.order, newer.order = 1, 2
    cell.record(1, newer)
    cell.settle(1, older, 3)
    state = cell.state(take_extremes=False)
    assert (state.total, state.exemplars) == (4, ((1, newer),))
