"""Many short traces, and a few of 50,000 spans, through the buffer: the time per span, and what is taken at most."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.trace import Resource, Scope, Span
from tests.bench.results import Goal, Result, middle
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 3
RESOURCE, SCOPE = Resource(), Scope(name="bench")


def trace_of(number: int, spans: int) -> Iterator[Span]:
    """Yield a trace from its last span to its root; every third span is a tool call."""
    trace_id = number.to_bytes(16, "big")
    for n in range(spans, 0, -1):
        yield Span(
            trace_id=trace_id,
            span_id=n.to_bytes(8, "big"),
            parent_span_id=None if n == 1 else (1).to_bytes(8, "big"),
            start_unix_ns=n,
            end_unix_ns=n + 5,
            flags=0x100,
            attributes={"tool.name": "t"} if n % 3 == 2 else {},
            resource=RESOURCE,
            scope=SCOPE,
            size_bytes=500,
        )


def fill(traces: int, spans: int) -> tuple[float, float]:
    """Put so many traces through; return microseconds of CPU a span, and the most that the buffer held, in MiB."""
    buf = TraceBuffer(is_relevant=lambda candidate: bool(candidate.attributes), limits=BufferLimits())
    judged, most, busy = 0, 0, 0.0
    for number in range(1, traces + 1):
        now_ns = number * SECOND_NS // (1_000 if spans < 10 else 1)
        batch = list(trace_of(number, spans))
        began = time.process_time()
        for first in range(0, spans, 512):
            buf.add(batch[first : first + 512], now_ns=now_ns)
        for trace in buf.pop_due(now_ns=now_ns):
            judged += 1
            buf.release(trace.key)
        busy += time.process_time() - began
        most = max(most, buf.size_bytes)
    for later in (1, 2):
        judged += len(buf.pop_due(now_ns=now_ns + later * 10_000 * SECOND_NS))
    assert (judged, len(buf), buf.size_bytes, buf.revisable, buf.next_due_ns()) == (traces, 0, 0, 0, None)
    return busy / traces / spans * 1e6, most / 2**20


def results() -> Iterator[Result]:
    """Measure traces of few spans and of many, and twice as many traces of either."""
    for traces, spans in ((30_000, 3), (4, 50_000)):
        rounds = [(fill(traces // 2, spans), fill(traces, spans)) for _ in range(ROUNDS)]
        yield Result(
            name="buffer",
            load=f"{traces:,} traces of {spans:,} spans",
            ours=middle(whole for _, (whole, _) in rounds),
            yardstick=f"{traces // 2:,} traces",
            theirs=middle(half for (half, _), _ in rounds),
            goals=(Goal(limit=1.1),),  # for each span: 2.2 times the time for twice as many
            more={"held at most MiB": rounds[0][1][1]},
        )
