from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.exporters.metrics.data_points import HistogramPoint
from otel_toolcall_eval.exporters.metrics.recording import RECORDED

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext


BOUNDS = sorted({instrument.bounds for instrument in RECORDED} | {(0.0,), (0, 1)})
FLOATS = st.floats(-2, 70) | st.sampled_from(
    [float("nan"), float("inf"), float("-inf"), 0, 1, *{float(one) for some in BOUNDS for one in some}]
)


def _never() -> SpanContext:
    raise AssertionError


@given(st.sampled_from([some for some in BOUNDS if some]), FLOATS)
def test_value_falls_into_the_bucket_that_bisecting_finds(bounds: tuple[float, ...], value: float) -> None:
    cell = HistogramPoint(Lock(), bounds)
    cell.record(value)
    expected = [0] * (len(bounds) + 1)
    expected[bisect_left(bounds, value)] = 1
    assert list(cell.state(take_extremes=False).counts) == expected
