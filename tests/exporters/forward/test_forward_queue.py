"""The queue under virtual time: bounds, order, back-off, and that no request can hold up the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.exporters.forward.downstream import Delivered, QueuedRequest, Refused, RetryLater
from otel_toolcall_eval.exporters.forward.forward_queue import EXPIRED, LONGEST_SECONDS, LOST, ForwardQueue, asked_ns, backoff_ns
from otel_toolcall_eval.model.errors import ForwardQueueFullError
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from tests.fakes import SECOND_NS, ManualClock

if TYPE_CHECKING:
    from otel_toolcall_eval.exporters.forward.forward_queue import Entry

DOWN = RetryLater(code="down")


@pytest.fixture
def clock() -> ManualClock:
    made = ManualClock()
    made.ns = SECOND_NS
    return made


def queue(clock: ManualClock, *, limit_bytes: int = 1000, max_elapsed: int = 300) -> ForwardQueue:
    return ForwardQueue(limit_bytes=limit_bytes, max_elapsed_ns=max_elapsed * SECOND_NS, clock=clock.now_ns, random=lambda: 1.0)


def put(made: ForwardQueue, *names: str, size: int = 10) -> None:
    for name in names:
        made.reserve(size)
        made.put(QueuedRequest(signal=Signal.TRACES, encoding=Encoding.PROTOBUF, body=name.encode()), room_bytes=size)


def take(made: ForwardQueue) -> Entry | None:
    return made.take(wait=False)


def taken(made: ForwardQueue) -> str | None:
    entry = take(made)
    return None if entry is None else entry.parcel.body.decode()


def test_requests_go_in_the_order_in_which_they_came(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, "a", "b", "c")
    assert [taken(made) for _ in range(4)] == ["a", "b", "c", None]


def test_room_is_reserved_before_and_freed_after(clock: ManualClock) -> None:
    made = queue(clock, limit_bytes=100)
    made.reserve(60)
    with pytest.raises(ForwardQueueFullError) as refused:
        made.reserve(41)
    assert (refused.value.http_status, refused.value.grpc_code, refused.value.retry_after_seconds) == (503, "UNAVAILABLE", 1)
    made.reserve(40)
    full = [made.is_full]
    made.release(60)
    full.append(made.is_full)
    made.put(QueuedRequest(signal=Signal.LOGS, encoding=Encoding.JSON, body=b"x"), room_bytes=40)
    entry = take(made)
    assert entry is not None
    assert (full, made.size_bytes) == ([True, False], 40)
    made.settle(entry, Delivered())
    assert made.size_bytes == 0
    assert made.counts() == ({("delivered", "logs"): 1}, {})


def test_a_request_larger_than_the_bound_fits_into_an_empty_queue(clock: ManualClock) -> None:
    made = queue(clock, limit_bytes=100)
    made.reserve(500)
    with pytest.raises(ForwardQueueFullError):
        made.reserve(1)


def test_only_one_request_asks_a_downstream_that_fails_and_one_success_lets_all_go(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, "a", "b", "c", "d")
    first, second = take(made), take(made)
    assert first is not None
    assert second is not None
    clock.ns += 1
    for entry in (first, second):  # under way at the same time: one failure
        assert made.settle(entry, DOWN) is None
    assert made.failures == 1
    assert take(made) is None
    clock.ns += SECOND_NS // 4
    probe = take(made)
    assert probe is not None
    assert probe.parcel.body == b"c"
    assert take(made) is None  # all depends on the probe
    made.settle(probe, Delivered())
    assert sorted(filter(None, (taken(made) for _ in range(4)))) == ["a", "b", "d"]


def test_what_was_down_is_asked_within_one_back_off_however_long_it_was_down(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, *"abcdefgh")
    for _ in range(60):
        clock.ns += round(LONGEST_SECONDS * SECOND_NS)
        entry = take(made)
        assert entry is not None
        made.settle(entry, DOWN)
    clock.ns += round(LONGEST_SECONDS * SECOND_NS)
    entry = take(made)
    assert entry is not None
    assert made.settle(entry, Delivered()) == "delivered"
    clock.ns += round(LONGEST_SECONDS * SECOND_NS)
    assert len([name for name in iter(lambda: taken(made), None) if name]) == 7


def test_a_request_that_always_fails_costs_the_others_little_and_is_given_up(clock: ManualClock) -> None:
    made = queue(clock, max_elapsed=20)
    put(made, "poison")
    delivered = 0
    for step in range(700):
        clock.ns += SECOND_NS // 10
        put(made, f"good {step}")
        while (entry := take(made)) is not None:
            poison = entry.parcel.body == b"poison"
            made.settle(entry, RetryLater(code="503", after_seconds=3600) if poison else Delivered())
            delivered += not poison
    assert delivered >= 690
    assert made.counts()[0]["expired", "traces"] == 1


def test_a_request_is_given_up_by_the_time_since_it_was_first_tried(clock: ManualClock) -> None:
    made = queue(clock, max_elapsed=10)
    put(made, "a")
    clock.ns += 100 * SECOND_NS  # waiting alone is no failure
    entry = take(made)
    assert entry is not None
    assert made.settle(entry, DOWN) is None
    clock.ns += 10 * SECOND_NS
    entry = take(made)
    assert entry is not None
    assert made.settle(entry, DOWN) == EXPIRED
    assert made.size_bytes == 0
    assert made.counts() == ({("expired", "traces"): 1}, {"traces": 1})


def test_what_a_downstream_asks_for_is_followed_within_reason(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, "a", "b")
    for _ in range(2):
        entry = take(made)
        assert entry is not None
        made.settle(entry, RetryLater(code="503", after_seconds=20))
        clock.ns += SECOND_NS
    clock.ns += 18 * SECOND_NS
    assert take(made) is None  # the second failure was about the downstream, so its wish holds for all
    clock.ns += SECOND_NS
    assert take(made) is not None
    assert [asked_ns(seconds) for seconds in (None, -1, 2.5, 1e12)] == [0, 0, 5 * SECOND_NS // 2, 60 * SECOND_NS]


def test_refusals_are_final_and_show_that_the_downstream_is_there(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, "a", "b", "c")
    entry = take(made)
    assert entry is not None
    made.settle(entry, DOWN)
    clock.ns += SECOND_NS
    entry = take(made)
    assert entry is not None
    assert made.settle(entry, Refused(code="400")) == "refused"
    assert made.failures == 0
    assert taken(made) is not None


def test_what_is_left_at_the_end_is_counted_and_nothing_goes_after_it(clock: ManualClock) -> None:
    made = queue(clock)
    put(made, "a", "b")
    under_way = take(made)
    assert under_way is not None
    made.reserve(10)
    assert made.stop(0.0) == 2
    assert take(made) is None
    assert made.is_cut
    assert made.settle(under_way, DOWN) == LOST
    made.put(QueuedRequest(signal=Signal.LOGS, encoding=Encoding.JSON, body=b"x"), room_bytes=10)
    assert made.counts()[0] == {("lost", "traces"): 2, ("lost", "logs"): 1}
    assert made.size_bytes == 0
    with pytest.raises(ForwardQueueFullError, match="stopping"):
        made.reserve(1)
    assert not made.is_full


def test_back_off_doubles_with_a_jitter_up_to_its_bound() -> None:
    most = [backoff_ns(tries, lambda: 1.0) / SECOND_NS for tries in (1, 2, 3, 4, 5, 6, 1000)]
    assert most == [0.25, 0.5, 1, 2, 4, 5, 5]
    assert [backoff_ns(tries, lambda: 0.0) / SECOND_NS for tries in (1, 6)] == [0.125, 2.5]
