"""What senders wait for their answers, under virtual time."""

from __future__ import annotations

import pytest

from otel_toolcall_eval.pace import FREE_SECONDS, MOST_SECONDS, Pace

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
SPANS = 500


def learned(*, take_us: int = 20, judge_us: int = 80, late_ns: int = 0) -> Pace:
    """Return a pace that knows what a span costs: by default 100 us, so a request of SPANS 50 ms."""
    pace = Pace()
    for _ in range(50):
        pace.took(10_000, ns=10_000 * 1_000 * take_us)
        pace.judged(10_000, ns=10_000 * 1_000 * judge_us, late_ns=late_ns)
    return pace


def test_nobody_waits_before_anything_is_known_or_while_there_is_nothing_to_do() -> None:
    assert [Pace().admit(SPANS, transport="grpc", now_ns=at) for at in range(10)] == [0.0] * 10
    pace = learned()
    assert [pace.admit(SPANS, transport="grpc", now_ns=at * SECOND_NS) for at in range(1, 10)] == [0.0] * 9


def test_who_sends_no_faster_than_it_is_judged_never_waits() -> None:
    pace = learned()
    assert [round(pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS + 50 * at * MILLISECOND_NS), 9) for at in range(1_000)] == [
        0.0
    ] * 1_000


def test_a_sender_without_rest_comes_into_step() -> None:
    pace, now_ns, sent = learned(), SECOND_NS, 0
    while now_ns < 101 * SECOND_NS:
        now_ns += int(pace.admit(SPANS, transport="grpc", now_ns=now_ns) * 1e9) + 1
        sent += SPANS
    assert sent == pytest.approx(1_000_000, rel=0.01)  # 100 s at 100 us a span


def test_a_flood_waits_as_long_as_is_bearable_and_is_forgotten_soon() -> None:
    pace = learned()
    waits = [pace.admit(100 * SPANS, transport="grpc", now_ns=SECOND_NS) for _ in range(100)]
    assert waits == [MOST_SECONDS] * 100
    assert pace.delayed == {"grpc": 100}
    assert pace.admit(0, transport="grpc", now_ns=SECOND_NS) == MOST_SECONDS
    owed = FREE_SECONDS + MOST_SECONDS
    assert pace.admit(SPANS // 10, transport="grpc", now_ns=SECOND_NS + int(owed * SECOND_NS)) == 0.0


def test_late_verdicts_make_it_slower_until_they_are_in_time_again() -> None:
    in_time, late = learned(), learned(late_ns=200 * MILLISECOND_NS)
    assert late.admit(10 * SPANS, transport="grpc", now_ns=SECOND_NS) == pytest.approx(
        2 * in_time.admit(10 * SPANS, transport="grpc", now_ns=SECOND_NS) + FREE_SECONDS
    )
    late.judged(0, ns=0, late_ns=0)
    again = learned()
    again.admit(0, transport="grpc", now_ns=SECOND_NS)
    assert (
        late.admit(SPANS, transport="grpc", now_ns=100 * SECOND_NS) == again.admit(SPANS, transport="grpc", now_ns=100 * SECOND_NS) == 0.0
    )


def test_the_first_span_of_all_which_warms_everything_up_is_not_the_measure_of_the_others() -> None:
    pace = Pace()
    pace.judged(1, ns=50 * MILLISECOND_NS, late_ns=0)
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == 0.0


def test_a_process_that_was_suspended_is_not_behind_for_ever() -> None:
    suspended = learned(late_ns=10_000 * SECOND_NS)
    assert suspended.admit(SPANS, transport="grpc", now_ns=SECOND_NS) < 6 * 0.05
    suspended.judged(0, ns=0, late_ns=0)
    assert suspended.admit(SPANS, transport="grpc", now_ns=10 * SECOND_NS) == 0.0


def test_a_forked_child_owes_nothing_and_waits_for_no_lock_of_its_parent() -> None:
    pace = learned()
    pace.admit(100 * SPANS, transport="grpc", now_ns=SECOND_NS)
    pace._lock.acquire()  # noqa: SLF001 - as a thread that the fork left in the parent
    pace.begin_anew()
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == 0.0
    assert pace.delayed == {"grpc": 1}


def test_what_it_costs_is_learned_anew_when_it_changes() -> None:
    pace = learned()
    for _ in range(100):
        pace.judged(1_000, ns=1_000 * 980_000, late_ns=0)
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == pytest.approx(SPANS * 1_000e-6 - FREE_SECONDS, rel=0.01)


def test_a_clock_that_stands_still_or_goes_back_changes_nothing() -> None:
    pace = learned()
    assert pace.admit(4 * SPANS, transport="grpc", now_ns=2 * SECOND_NS) == pytest.approx(0.1)
    assert pace.admit(0, transport="grpc", now_ns=SECOND_NS) == pytest.approx(0.1)
    assert pace.admit(0, transport="grpc", now_ns=2 * SECOND_NS) == pytest.approx(0.1)
