"""Which traces are packed where memory is short: those that are looked at again last, and no more than has to be."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.memory import Memory
from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
from tests.fakes import span

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = "It rains in Oslo, and the wind is from the north. " * 40


def trace_of(number: int, *, root: bool = True, decided: bool = False) -> OpenTrace:
    """Return a trace of two spans that weighs as much as all others."""
    trace = OpenTrace(number.to_bytes(16, "big"), now_ns=0)
    for n in (2, 1):
        one = span(n, trace=number, parent=None if n == 1 and root else 9, attributes={"input.value": f"{number:06}{TEXT}"}, size=2_500)
        trace.add(one, now_ns=0, relevant=True, span_limit=10, max_bytes=1 << 20)
    trace.decided_ns = 0 if decided else None
    return trace


WEIGHT = trace_of(1).size_bytes


def kept_by(memory: Memory, traces: Sequence[OpenTrace]) -> list[int]:
    """Put traces on the books one by one, and return the places of those that are not packed in the end."""
    for trace in traces:
        memory.track(trace)
        memory.compress_idle()
    assert memory.size_bytes == sum(trace.size_bytes for trace in traces)
    return [place for place, trace in enumerate(traces) if not trace.is_packed]


def test_nothing_is_packed_while_there_is_room() -> None:
    assert kept_by(Memory(4 * WEIGHT), [trace_of(n) for n in range(6)]) == [0, 1, 2, 3, 4, 5]
    assert kept_by(Memory(4 * WEIGHT), [trace_of(n, decided=True) for n in range(4)]) == [0, 1, 2, 3]


def test_decided_traces_are_packed_first_and_the_oldest_of_them_before_others() -> None:
    traces = [trace_of(0), trace_of(1), *[trace_of(n, decided=True) for n in range(2, 6)], trace_of(6)]
    assert kept_by(Memory(4 * WEIGHT), traces) == [0, 1, 5, 6]


def test_traces_without_a_root_wait_longest_of_those_that_were_left_in_peace() -> None:
    traces = [trace_of(n, root=n % 2 == 1) for n in range(8)]
    assert kept_by(Memory(4 * WEIGHT), traces) == [1, 3, 4, 5, 6, 7]


def test_of_traces_with_roots_the_first_are_due_next_and_the_last_may_grow() -> None:
    traces = [trace_of(n) for n in range(12)]
    assert kept_by(Memory(4 * WEIGHT), traces) == [0, 1, 2, 9, 10, 11]


def test_if_few_were_touched_of_late_the_last_of_those_left_in_peace_is_packed_first() -> None:
    memory = Memory(3 * WEIGHT)
    traces = [trace_of(n) for n in range(4)]
    assert kept_by(memory, traces) == [0, 1, 2, 3]  # the first two have been left in peace
    for trace in traces[2:]:
        memory.untrack(trace)
    heavy = trace_of(4)
    heavy.size_bytes += 5 * WEIGHT // 2
    memory.track(heavy)
    memory.compress_idle()
    assert [trace.is_packed for trace in (heavy, *traces[:2])] == [False, False, True]
    heavy.size_bytes += WEIGHT
    memory.touch(heavy)
    memory.compress_idle()
    assert [trace.is_packed for trace in (heavy, *traces[:2])] == [False, True, True]


def test_the_last_one_is_left_alone_however_large_it_is() -> None:
    assert kept_by(Memory(WEIGHT // 3), [trace_of(1)]) == [0]
    assert kept_by(Memory(WEIGHT // 3), [trace_of(1, decided=True), trace_of(2)]) == [1]


def test_a_trace_that_is_touched_again_is_the_last_that_may_grow() -> None:
    memory = Memory(3 * WEIGHT)
    traces = [trace_of(n) for n in range(5)]
    assert kept_by(memory, traces[:4]) == [0, 1, 2, 3]
    memory.touch(traces[0])
    memory.track(traces[4])
    memory.compress_idle()
    assert [trace.is_packed for trace in traces] == [False, False, True, False, False]


def test_of_a_stream_that_nearly_has_room_few_are_packed() -> None:
    memory, waiting, packed = Memory(60 * WEIGHT), deque[OpenTrace](), 0
    for number in range(1_000):
        memory.track(trace := trace_of(number))
        waiting.append(trace)
        memory.compress_idle()
        if len(waiting) > 100:  # the first is due
            due = waiting.popleft()
            packed += due.is_packed
            memory.untrack(due)
    assert 50 < packed < 200  # a tenth has no room; where the first touched were packed first, all were
    memory.clear()
    assert memory.size_bytes == 0
