"""The buffer's books: close to what is really taken, back to zero, and linear in what comes in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from tests.fakes import SECOND_NS, span

ROOT = Path(__file__).resolve().parents[3]


def measured_growth(shape: str, traces: int, how: str) -> dict[str, float]:
    """Measure in a process without coverage, whose tables would grow meanwhile, too."""
    environment = {name: value for name, value in os.environ.items() if name != "COVERAGE_PROCESS_CONFIG"}
    command = [sys.executable, "-m", "tests.engine.buffer.growth", shape, str(traces), how]
    found: dict[str, float] = json.loads(subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True).stdout)
    return found


@pytest.mark.parametrize(
    ("shape", "traces", "how"),
    [
        pytest.param("ten_spans", 300, "plain", id="ten-spans-four-tools"),
        pytest.param("ten_spans", 2_000, "packed", id="packed", marks=pytest.mark.slow),
        pytest.param("small_spans", 150, "plain", id="small-spans"),
        pytest.param("large_payloads", 40, "plain", id="ten-kilobytes-a-tool-span"),
        pytest.param("tiny_traces", 1_500, "plain", id="one-span-a-trace"),
        pytest.param("wide_traces", 1, "plain", id="two-thousand-spans-a-trace", marks=pytest.mark.slow),
    ],
)
def test_estimate_keeps_to_the_measured_growth(shape: str, traces: int, how: str) -> None:
    measured = measured_growth(shape, traces, f"{how},traced")
    assert measured["open"] == traces
    assert measured["traced"] * 0.9 <= measured["estimate"] <= measured["traced"] * 1.1


def test_ten_spans_of_a_waiting_trace_fit_a_hundred_thousand_times_into_the_default_limit() -> None:
    measured = measured_growth("ten_spans", 400, "packed")
    assert measured["open"] == 400
    assert measured["estimate"] * 250 < BufferLimits().limit_bytes


def test_packing_starts_with_the_trace_that_was_touched_longest_ago_and_changes_nothing_that_is_judged() -> None:
    tight, roomy = (TraceBuffer(is_relevant=lambda _: True, limits=BufferLimits(limit_bytes=limit)) for limit in (60_000, 100_000_000))
    for buf in (tight, roomy):
        for number in range(1, 31):
            buf.add([span(n, trace=number, parent=1, tool="t", attributes={"x": (1, {"y": None})}) for n in (2, 3)], now_ns=0)
        for number in range(1, 31):
            buf.add([span(2, trace=number, parent=1, tool="t", attributes={"x": (1, {"y": None})}), span(1, trace=number)], now_ns=1)
    assert tight.size_bytes < 60_000 < roomy.size_bytes
    judged = [sorted(buf.pop_due(now_ns=10 * SECOND_NS + 1), key=lambda trace: trace.trace_id) for buf in (tight, roomy)]
    assert judged[0] == judged[1]
    for buf in (tight, roomy):
        buf.add([span(4, trace=number, parent=1, tool="late") for number in range(1, 31)], now_ns=20 * SECOND_NS)
    revised = [sorted(buf.pop_due(now_ns=30 * SECOND_NS), key=lambda trace: trace.trace_id) for buf in (tight, roomy)]
    assert revised[0] == revised[1]
    assert len(revised[0]) == 30
    for buf in (tight, roomy):
        buf.pop_due(now_ns=1_000 * SECOND_NS)
        assert (buf.size_bytes, buf.revisable, len(buf)) == (0, 0, 0)


def test_trace_with_a_value_that_can_not_be_packed_stays_as_it_is() -> None:
    buf = TraceBuffer(is_relevant=lambda _: True, limits=BufferLimits(limit_bytes=8_000))
    odd = span(1, attributes={"x": object()})  # type: ignore[dict-item] # what no decoder makes
    buf.add([odd], now_ns=0)
    buf.add([span(n, trace=2, parent=1) for n in range(2, 9)], now_ns=0)
    (trace,) = buf.pop_due(now_ns=10 * SECOND_NS)
    assert trace.spans == (odd,)


def seconds_for(traces: int, spans: int) -> float:
    """Run traces of one shape through a buffer, from their first span to oblivion, and check its gauges on the way."""
    buf = TraceBuffer(is_relevant=lambda candidate: "tool.name" in candidate.attributes, limits=BufferLimits(decisions=1_000))
    most, judged = 0, 0
    began = time.process_time()
    for number in range(1, traces + 1):
        now_ns = number * SECOND_NS // 50
        batch = [span(n, trace=number, parent=1 if n > 1 else None, tool="t" if n == 2 else None) for n in range(spans, 0, -1)]
        for first in range(0, spans, 500):
            buf.add(batch[first : first + 500], now_ns=now_ns)
        for trace in buf.pop_due(now_ns=now_ns):
            judged += 1
            buf.release(trace.key)
        most = max(most, buf.size_bytes)
    judged += len(buf.pop_due(now_ns=10**15)) + len(buf.pop_due(now_ns=2 * 10**15))
    assert (judged, len(buf), buf.size_bytes, buf.revisable, buf.next_due_ns()) == (traces, 0, 0, 0, None)
    assert most <= BufferLimits().limit_bytes
    return time.process_time() - began


@pytest.mark.parametrize(
    ("small", "large"), [pytest.param((400, 5), (4_000, 5), id="many-traces"), pytest.param((2, 2_000), (2, 20_000), id="long-traces")]
)
def test_ten_times_the_spans_take_about_ten_times_the_time_and_the_gauges_return_to_zero(
    small: tuple[int, int], large: tuple[int, int]
) -> None:
    seconds_for(*small)
    best = min(seconds_for(*small) for _ in range(3))
    assert seconds_for(*large) < 40 * best  # linear, with room for caches that are cold; quadratic would be 100
