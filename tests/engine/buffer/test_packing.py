"""Packed spans are equal to what they were, and packing is never a loss."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.engine.buffer.compression import MAX_KINDS, MAX_SHOWN, MAX_USES, Compressor, CompressorPool, ZlibPacker
from otel_toolcall_eval.engine.buffer.memory import Memory
from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
from otel_toolcall_eval.engine.buffer.packing import PackedSpans
from otel_toolcall_eval.engine.buffer.span_kinds import never
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.trace import Resource, Scope, SpanEvent, StatusCode, Trigger
from otel_toolcall_eval.sidecar.zstandard import zstandard_packer
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from collections.abc import Callable

RESOURCE, SCOPE = Resource(attributes={"service.name": "s"}), Scope(name="scope", version="1")
each_packer = pytest.mark.parametrize("make", [ZlibPacker, zstandard_packer()], ids=["zlib", "zstandard"])
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
    packed = PackedSpans(spans[0].trace_id, {s.span_id: s for s in spans}, CompressorPool())
    unpacked = packed.unpack()
    assert list(unpacked.values()) == spans
    assert [s.size_bytes for s in unpacked.values()] == [s.size_bytes for s in spans]
    assert packed.number == number
    assert all(s.resource is RESOURCE and s.scope is SCOPE and type(s.status) is StatusCode for s in unpacked.values())


def test_packing_twice_and_packing_that_gains_nothing_change_nothing() -> None:
    trace = OpenTrace(span(1).trace_id, now_ns=0)
    trace.add(span(1), now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    trace.pack(CompressorPool())
    size = trace.size_bytes
    trace.pack(CompressorPool())
    assert (trace.is_packed, trace.size_bytes, list(trace.spans.values())) == (True, size, [span(1)])
    small = OpenTrace(span(1).trace_id, now_ns=0)
    dense = span(1, size=0, attributes={"x": random.Random(1).randbytes(1_000)})  # noqa: S311 - repeatable, and no secret
    small.add(dense, now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    small.pack(CompressorPool())
    assert not small.is_packed


def test_packed_trace_that_is_touched_without_a_new_span_is_left_alone() -> None:
    memory, trace = Memory(0), OpenTrace(span(1).trace_id, now_ns=0)
    trace.add(span(1), now_ns=0, relevant=True, span_limit=9, max_bytes=10**6)
    trace.pack(CompressorPool())
    memory.track(trace)
    memory.touch(trace)
    memory.compress_idle()
    assert list(trace.spans.values()) == [span(1)]


def test_decided_trace_is_looked_at_again_when_something_else_than_a_span_says_more() -> None:
    buf = TraceBuffer(is_relevant=lambda _: True)
    buf.add([span(1)], now_ns=0)
    (first,) = buf.pop_due(now_ns=10 * SECOND_NS)
    for revision in (1, 2, 3):
        buf.reevaluate(first.trace_id, now_ns=20 * SECOND_NS)
        (again,) = buf.pop_due(now_ns=20 * SECOND_NS)
        assert (again.revision, again.trigger) == (revision, Trigger.LATE_SPAN)
    buf.reevaluate(first.trace_id, now_ns=20 * SECOND_NS)
    buf.reevaluate(span(1, trace=9).trace_id, now_ns=20 * SECOND_NS)
    assert buf.pop_due(now_ns=20 * SECOND_NS) == []


def test_without_a_reader_no_span_is_an_agents() -> None:
    assert not never(span(1))


@each_packer
def test_what_is_alike_takes_less_and_everything_is_read_again_whatever_came_between(
    make: Callable[[memoryview | None], Compressor],
) -> None:
    compressors, noise = CompressorPool(make), random.Random(1)  # noqa: S311 - repeatable, and no secret
    text = noise.randbytes(4_000)
    made = []
    for number in range(2 * MAX_USES + 10):
        kind = f"kind-{number % (MAX_KINDS + 4)}"
        data = kind.encode() + text + noise.randbytes(20)
        made.append((data, *compressors.compress(data, kind=kind)))
    assert all(expander.expand(blob) == data for data, blob, expander in made)
    shown_sizes = [len(blob) for _, blob, expander in made if expander.shown]
    assert max(shown_sizes) < 200
    # the first of each kind, twice anew; and all of the kinds that there is no room for
    firsts = 3 * MAX_KINDS + sum(number % (MAX_KINDS + 4) >= MAX_KINDS for number in range(len(made)))
    assert abs(len(made) - len(shown_sizes) - firsts) <= 3 * 4


@each_packer
def test_what_was_shown_is_bounded_however_long_something_made_with_it_is_kept(make: Callable[[memoryview | None], Compressor]) -> None:
    compressors, noise, kept = CompressorPool(make), random.Random(1), []  # noqa: S311 - repeatable, and no secret
    for number in range(12 * MAX_USES):
        data = b"%d" % number + noise.randbytes(8)
        made = compressors.compress(data, kind=f"kind-{number % MAX_KINDS}")
        if number % 51 == 50:  # of each kind at least one, whenever they are shown anew
            kept.append((data, *made))
    shown = {id(expander) for _, _, expander in kept if expander.shown is not None}
    assert len(shown) == MAX_SHOWN
    assert all(expander.expand(blob) == data for data, blob, expander in kept)
    kept.clear()
    del made
    again = {compressors.compress(b"%d" % number, kind="kind-1")[1] for number in range(2 * MAX_USES)}
    assert len(again) > 2  # what nothing is left of gives its place back


@each_packer
def test_a_packer_is_gone_once_others_are_shown_anew_whatever_is_left_of_what_it_made(
    make: Callable[[memoryview | None], Compressor],
) -> None:
    alive = 0

    class Watched:
        def __init__(self, shown: memoryview | None) -> None:
            nonlocal alive
            alive += 1
            self._packer = make(shown)
            self.expander, self.compress = self._packer.expander, self._packer.compress

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    compressors = CompressorPool(Watched)
    kept = [compressors.compress(b"%d" % number * 20, kind=f"kind-{number % 3}") for number in range(5 * MAX_USES)]
    assert alive == 4  # one of each kind, and one that knows nothing
    assert all(expander.expand(blob) == b"%d" % number * 20 for number, (blob, expander) in enumerate(kept))


@each_packer
@given(data=st.binary() | st.binary(max_size=9), shown=st.none() | st.binary() | st.binary(max_size=9))
def test_all_bytes_come_back_whatever_was_shown(make: Callable[[memoryview | None], Compressor], data: bytes, shown: bytes | None) -> None:
    packer = make(None if shown is None else memoryview(shown))
    assert [packer.expander.expand(packer.compress(one)) for one in (data, b"", data)] == [data, b"", data]


@each_packer
def test_megabytes_come_back_and_take_little_where_they_repeat(make: Callable[[memoryview | None], Compressor]) -> None:
    noise = random.Random(1).randbytes(10_000)  # noqa: S311 - repeatable, and no secret
    packer, data = make(memoryview(noise)), noise * 300
    assert packer.expander.expand(packed := packer.compress(data)) == data
    assert len(packed) < len(data) / 30


def test_what_is_released_once_it_is_judged_was_packed_for_nothing_and_is_not() -> None:
    packed = 0

    class Counting:
        def __init__(self, shown: memoryview | None) -> None:
            self._packer = ZlibPacker(shown)
            self.expander = self._packer.expander

        def compress(self, data: bytes) -> bytes:
            nonlocal packed
            packed += 1
            return self._packer.compress(data)

    buf = TraceBuffer(is_relevant=lambda _: True, limits=BufferLimits(limit_bytes=80_000))  # has room for what is open
    buf.pack_by(Counting)
    for kept in (False, True):
        for number in range(1, 1_000):
            now_ns = number * SECOND_NS
            buf.add([span(n, trace=number + 10_000 * kept, parent=1 if n > 1 else None, tool="t") for n in (2, 1)], now_ns=now_ns)
            for trace in buf.pop_due(now_ns=now_ns):
                if not kept:
                    buf.release(trace.key)
        assert (packed > 0) is kept


def test_what_was_decided_is_packed_though_nothing_more_comes() -> None:
    buf = TraceBuffer(is_relevant=lambda _: True, limits=BufferLimits(limit_bytes=80_000))
    traces = range(1, 31)
    buf.add([span(n, trace=number, parent=1 if n > 1 else None, tool="t") for number in traces for n in (2, 1)], now_ns=0)
    assert len(buf.pop_due(now_ns=10 * SECOND_NS)) == 30
    before = buf.size_bytes
    assert buf.pop_due(now_ns=11 * SECOND_NS) == []
    assert buf.size_bytes < before


def test_a_buffer_packs_by_what_it_is_told_to() -> None:
    made = list[memoryview | None]()

    def make(shown: memoryview | None) -> Compressor:
        made.append(shown)
        return ZlibPacker(shown)

    buf = TraceBuffer(is_relevant=lambda _: True, limits=BufferLimits(limit_bytes=8_000))
    buf.pack_by(make)
    for number in range(1, 6):
        buf.add([span(n, trace=number, parent=1 if n > 1 else None, tool="t") for n in (2, 1)], now_ns=0)
    assert len(buf.pop_due(now_ns=10 * SECOND_NS)) == 5
    buf.pop_due(now_ns=11 * SECOND_NS)
    assert made[0] is None
    assert len(made) == 2


def test_traces_of_services_with_any_name_or_none_come_back_equal() -> None:
    compressors = CompressorPool()
    for resource in (Resource(attributes={}), Resource(attributes={"service.name": 7}), Resource(attributes={"service.name": "s" * 500})):
        alone = replace(span(1, attributes={"x": "y" * 500}), resource=resource)
        packed = PackedSpans(alone.trace_id, {alone.span_id: alone}, compressors)
        assert list(packed.unpack().values()) == [alone]


def test_empty_trace_is_left_alone() -> None:
    trace = OpenTrace(span(1).trace_id, now_ns=0)
    trace.pack(CompressorPool())
    assert not trace.is_packed
