"""Log records wait within bounds, and each is joined, dropped or waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.engine.buffer.log_store import LogDrop, LogLimits, LogStore
from otel_toolcall_eval.model.log_record import LogRecord

TRACE, OTHER = bytes(15) + b"\1", bytes(15) + b"\2"
LIMITS = LogLimits(limit_bytes=1000, records=8, trace_bytes=500, window_ns=100, late_window_ns=10, loose_window_ns=50)


def record(trace: bytes | None = TRACE, *, call: str | None = None, number: int = 0, size: int = 100) -> LogRecord:
    fields = {} if call is None else {"call_id": call}
    return LogRecord(trace_id=trace, span_id=None, event_name=f"e{number}", attributes=fields, size_bytes=size)


def test_records_of_a_trace_wait_for_it_and_outlive_the_verdict_by_the_late_window() -> None:
    store = LogStore(LIMITS)
    store.add([record(number=1), record(number=2)], now_ns=0)
    assert [kept.event_name for kept in store.of(TRACE)] == ["e1", "e2"]
    store.join(TRACE, [0])
    store.join(TRACE, [0])
    store.decide(TRACE, now_ns=40)
    store.expire(now_ns=49)
    assert (len(store.of(TRACE)), store.joined, store.waiting) == (2, 1, 1)
    store.expire(now_ns=50)
    assert (store.of(TRACE), store.dropped, len(store), store.size_bytes) == ((), {LogDrop.UNMATCHED: 1}, 0, 0)


@pytest.mark.parametrize(("now_ns", "kept"), [pytest.param(99, 1, id="in time"), pytest.param(100, 0, id="too late")])
def test_a_trace_that_never_comes_is_not_waited_for_longer_than_any_trace_lives(now_ns: int, kept: int) -> None:
    store = LogStore(LIMITS)
    store.add([record()], now_ns=0)
    store.expire(now_ns=now_ns)
    assert len(store) == kept


@pytest.mark.parametrize(("now_ns", "kept"), [pytest.param(49, 1, id="in time"), pytest.param(50, 0, id="too late")])
def test_a_record_without_a_trace_waits_for_a_short_time(now_ns: int, kept: int) -> None:
    store = LogStore(LIMITS)
    store.add([record(None, call="c"), record(None)], now_ns=0)
    assert store.dropped == {LogDrop.UNMATCHED: 1}  # nothing says what the second one is about
    store.expire(now_ns=now_ns)
    store.claim(TRACE, ["c", "d"], now_ns=now_ns)
    assert len(store.of(TRACE)) == kept


def test_a_trace_claims_the_records_about_its_calls_once() -> None:
    store = LogStore(LIMITS)
    store.add([record(None, call="c", number=1), record(None, call="d"), record(None, call="c", number=2)], now_ns=0)
    store.claim(TRACE, ["c"], now_ns=1)
    store.claim(OTHER, ["c"], now_ns=1)
    assert ([kept.event_name for kept in store.of(TRACE)], store.of(OTHER), store.waiting) == (["e1", "e2"], (), 3)


def test_records_that_come_after_a_verdict_open_the_trace_to_its_other_parts() -> None:
    store = LogStore(LIMITS)
    store.add([record()], now_ns=0)
    store.decide(TRACE, now_ns=1)
    store.decide(TRACE, now_ns=2)
    store.add([record()], now_ns=5)
    store.expire(now_ns=100)
    assert len(store.of(TRACE)) == 2


def test_an_unbound_trace_gives_its_records_up() -> None:
    store = LogStore(LIMITS)
    store.add([record(), record()], now_ns=0)
    store.join(TRACE, [1])
    store.release(TRACE)
    store.release(OTHER)
    store.decide(OTHER, now_ns=0)
    store.join(OTHER, [0])
    assert (store.joined, store.dropped, len(store)) == (1, {LogDrop.UNBOUND: 1}, 0)


def test_one_trace_does_not_push_the_others_out() -> None:
    store = LogStore(LIMITS)
    store.add([record(OTHER), *(record() for _ in range(7))], now_ns=0)
    assert (len(store.of(OTHER)), len(store.of(TRACE)), store.dropped) == (1, 5, {LogDrop.LIMIT: 2})


def test_beyond_the_bounds_judged_traces_go_first_then_what_is_in_no_trace_then_the_oldest_trace() -> None:
    store = LogStore(LIMITS)
    store.add([record(size=1), record(OTHER, size=1), record(None, call="c", size=1)], now_ns=0)
    store.decide(OTHER, now_ns=0)
    newest = [record(number.to_bytes(16), size=1) for number in range(3, 11)]
    store.add(newest[:6], now_ns=0)
    assert (store.of(OTHER), len(store.of(TRACE)), store.waiting) == ((), 1, 8)
    store.add(newest[6:7], now_ns=0)
    assert (len(store.of(TRACE)), store.waiting) == (1, 8)
    store.claim(TRACE, ["c"], now_ns=0)
    assert len(store.of(TRACE)) == 1  # what was in no trace is gone
    store.add(newest[7:8], now_ns=0)
    assert (store.of(TRACE), store.dropped) == ((), {LogDrop.LIMIT: 3})
    store.add([record(size=900)], now_ns=0)
    assert store.dropped == {LogDrop.LIMIT: 4}  # larger than a trace may be


def test_everything_is_given_up_in_the_end() -> None:
    store = LogStore(LIMITS)
    store.add([record(), record(OTHER), record(None, call="c"), record(None, call="c")], now_ns=0)
    store.decide(OTHER, now_ns=0)
    store.clear()
    assert (store.dropped, store.waiting, len(store), store.size_bytes) == ({LogDrop.UNMATCHED: 4}, 0, 0, 0)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "claim", "join", "decide", "release", "expire"]),
            st.integers(0, 3),
            st.sampled_from(["a", "b"]),
            st.integers(1, 300),
        ),
        max_size=40,
    )
)
def test_records_are_conserved_and_bounded(steps: list[tuple[str, int, str, int]]) -> None:
    store, added, now_ns = LogStore(LIMITS), 0, 0
    for step, trace, call, size in steps:
        trace_id = trace.to_bytes(16)
        now_ns += size // 20
        if step == "add":
            store.add([record(trace_id if trace else None, call=call, size=size)], now_ns=now_ns)
            added += 1
        elif step == "claim":
            store.claim(trace_id, [call], now_ns=now_ns)
        elif step == "join":
            store.join(trace_id, range(len(store.of(trace_id))))
        elif step == "decide":
            store.decide(trace_id, now_ns=now_ns)
        elif step == "release":
            store.release(trace_id)
        else:
            store.expire(now_ns=now_ns)
        assert added == store.joined + store.dropped.total() + store.waiting
        assert store.size_bytes <= LIMITS.limit_bytes
        assert len(store) <= LIMITS.records
