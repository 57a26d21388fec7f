"""Packed spans are equal to what they were, and packing is never a loss."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.assembly.memory import Memory
from otel_toolcall_eval.assembly.open_trace import OpenTrace
from otel_toolcall_eval.assembly.packing import PackedSpans
from otel_toolcall_eval.assembly.span_kinds import never
from otel_toolcall_eval.assembly.trace_buffer import TraceBuffer
from otel_toolcall_eval.model.trace import Resource, Scope, SpanEvent, StatusCode, Trigger
from tests.fakes import SECOND_NS, span

RESOURCE, SCOPE = Resource(attributes={"service.name": "s"}), Scope(name="scope", version="1")
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
values = st.recursive(scalars, lambda inner: st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner), max_leaves=8)


@given(attributes=st.dictionaries(st.text(), values, max_size=4), number=st.integers(1, 9), status=st.sampled_from(StatusCode))
def test_spans_come_back_equal_in_their_order(attributes: dict[str, object], number: int, status: StatusCode) -> None:
    event = SpanEvent(name="exception", time_unix_ns=3, attributes=attributes)  # type: ignore[arg-type] # drawn to be values
    spans = [
        replace(
            span(n, attributes=attributes),  # type: ignore[arg-type] # likewise
            events=(event,),
            status=status,
            status_message="\ud800",
            dropped_attributes=n,
            linked=n % 2 == 0,
            resource=RESOURCE,
            scope=SCOPE,
        )
        for n in range(number, 0, -1)
    ]
    packed = PackedSpans(spans[0].trace_id, {s.span_id: s for s in spans})
    unpacked = packed.unpack()
    assert list(unpacked.values()) == spans
    assert [s.size_bytes for s in unpacked.values()] == [s.size_bytes for s in spans]
    assert packed.number == number
    assert all(s.resource is RESOURCE and s.scope is SCOPE and type(s.status) is StatusCode for s in unpacked.values())


def test_packing_twice_and_packing_that_gains_nothing_change_nothing() -> None:
    trace = OpenTrace(span(1).trace_id, now_ns=0)
    trace.add(span(1), now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    trace.pack()
    size = trace.size_bytes
    trace.pack()
    assert (trace.is_packed, trace.size_bytes, list(trace.spans.values())) == (True, size, [span(1)])
    small = OpenTrace(span(1).trace_id, now_ns=0)
    dense = span(1, size=0, attributes={"x": random.Random(1).randbytes(1_000)})  # noqa: S311 - repeatable, and no secret
    small.add(dense, now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    small.pack()
    assert not small.is_packed


def test_packed_trace_that_is_touched_without_a_new_span_is_left_alone() -> None:
    memory, trace = Memory(0), OpenTrace(span(1).trace_id, now_ns=0)
    trace.add(span(1), now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    trace.pack()
    memory.take_on(trace)
    memory.touch(trace)
    memory.chill()
    assert list(trace.spans.values()) == [span(1)]


def test_decided_trace_is_looked_at_again_when_something_else_than_a_span_says_more() -> None:
    buf = TraceBuffer(is_relevant=lambda _: True)
    buf.add([span(1)], now_ns=0)
    (first,) = buf.pop_due(now_ns=10 * SECOND_NS)
    for revision in (1, 2, 3):
        buf.look_at(first.trace_id, now_ns=20 * SECOND_NS)
        (again,) = buf.pop_due(now_ns=20 * SECOND_NS)
        assert (again.revision, again.trigger) == (revision, Trigger.LATE_SPAN)
    buf.look_at(first.trace_id, now_ns=20 * SECOND_NS)
    buf.look_at(span(1, trace=9).trace_id, now_ns=20 * SECOND_NS)
    assert buf.pop_due(now_ns=20 * SECOND_NS) == []


def test_without_a_reader_no_span_is_an_agents() -> None:
    assert not never(span(1))
