"""What senders wait for their answers, under virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.admission import BESIDES, FREE_SECONDS, MOST_SECONDS, AdmissionController, CostEstimator
from otel_toolcall_eval.model.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Mapping

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000 * MILLISECOND_NS
SPANS = 500


class Paced:
    """A brake that asks one pace, as a worker has them."""

    def __init__(self) -> None:
        self.pace, self.brake = CostEstimator(), AdmissionController()
        self.record_ingest, self.record_evaluation = self.pace.record_ingest, self.pace.record_evaluation

    @property
    def delayed(self) -> Mapping[str, int]:
        return self.brake.delayed

    def admit(self, spans: int, *, transport: str, now_ns: int) -> float:
        self.brake.admit(spans, transport=transport, now_ns=now_ns)
        return self.brake.charge(spans, self.pace.burden, transport=transport, now_ns=now_ns)

    def reset(self) -> None:
        self.pace.reset()
        self.brake.reset()


def learned(*, late_ns: int = 0) -> Paced:
    """Return a pace that knows what a span costs: 100 us in all, so a request of SPANS 50 ms."""
    paced = Paced()
    for _ in range(200):
        paced.record_ingest(10_000, ns=int(10_000 * 20_000 / BESIDES))
        paced.record_evaluation(10_000, ns=int(10_000 * 80_000 / BESIDES), late_ns=late_ns)
    return paced


def test_nobody_waits_before_anything_is_known_or_while_there_is_nothing_to_do() -> None:
    new = Paced()
    assert [new.admit(SPANS, transport="grpc", now_ns=at) for at in range(2)] == [0.0] * 2  # what is supposed of a span is little
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
    waits = [pace.admit(10 * SPANS, transport="grpc", now_ns=SECOND_NS) for _ in range(7)]
    assert waits == [pytest.approx(0.5 * number - FREE_SECONDS, rel=0.01) for number in range(1, 7)] + [MOST_SECONDS]
    assert pace.delayed == {"grpc": 7}
    with pytest.raises(OverloadedError, match="more comes than can be judged"):
        pace.admit(1, transport="grpc", now_ns=SECOND_NS)
    assert pace.admit(0, transport="grpc", now_ns=SECOND_NS) == MOST_SECONDS  # an empty request makes no work
    assert pace.admit(SPANS, transport="grpc", now_ns=2 * SECOND_NS) == pytest.approx(3.5 - 1 + 0.05 - FREE_SECONDS, rel=0.01)


def test_one_that_is_larger_than_anybody_waits_for_is_taken_and_others_wait_their_turn() -> None:
    pace = learned()
    assert pace.admit(1_000_000, transport="grpc", now_ns=SECOND_NS) == MOST_SECONDS  # 100 s of work
    with pytest.raises(OverloadedError):
        pace.admit(1, transport="grpc", now_ns=SECOND_NS)
    assert pace.admit(1, transport="grpc", now_ns=int((1 + 2 * MOST_SECONDS) * SECOND_NS)) == 0.0


def test_however_many_senders_there_are_no_more_is_taken_than_can_be_judged() -> None:
    pace, taken = learned(), 0
    waiting = [SECOND_NS] * 500  # each with 25 s of work for all of them, a second after the answer or the refusal
    while (now_ns := min(waiting)) < 61 * SECOND_NS:
        at = waiting.index(now_ns)
        try:
            seconds = pace.admit(SPANS, transport="grpc", now_ns=now_ns)
            taken += SPANS
        except OverloadedError:
            seconds = 1.0
        waiting[at] = now_ns + int(seconds * SECOND_NS) + 1
    assert taken == pytest.approx(60 * 10_000, rel=0.1)


def test_late_verdicts_make_it_slower_until_they_are_in_time_again() -> None:
    in_time, late = learned(), learned(late_ns=200 * MILLISECOND_NS)
    assert late.admit(10 * SPANS, transport="grpc", now_ns=SECOND_NS) == pytest.approx(
        2 * in_time.admit(10 * SPANS, transport="grpc", now_ns=SECOND_NS) + FREE_SECONDS
    )
    late.record_evaluation(0, ns=0, late_ns=0)
    again = learned()
    again.admit(0, transport="grpc", now_ns=SECOND_NS)
    assert (
        late.admit(SPANS, transport="grpc", now_ns=100 * SECOND_NS) == again.admit(SPANS, transport="grpc", now_ns=100 * SECOND_NS) == 0.0
    )


def test_the_first_span_of_all_which_warms_everything_up_is_not_the_measure_of_the_others() -> None:
    pace = Paced()
    pace.record_evaluation(1, ns=50 * MILLISECOND_NS, late_ns=0)
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == 0.0


def test_a_process_that_was_suspended_is_not_behind_for_ever() -> None:
    suspended = learned(late_ns=10_000 * SECOND_NS)
    assert suspended.admit(SPANS, transport="grpc", now_ns=SECOND_NS) < 6 * 0.05
    suspended.record_evaluation(0, ns=0, late_ns=0)
    assert suspended.admit(SPANS, transport="grpc", now_ns=10 * SECOND_NS) == 0.0


@pytest.mark.parametrize("stage", ["taking", "judging"])
def test_a_pause_in_the_midst_of_work_is_not_taken_for_work(stage: str) -> None:
    pace = learned()
    if stage == "taking":
        pace.record_ingest(SPANS, ns=600 * SECOND_NS)
    else:
        pace.record_evaluation(SPANS, ns=600 * SECOND_NS, late_ns=0)
    # It counts as a millisecond a span, within a memory of some thousand spans: twice or thrice what a span costs, for a moment.
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) < 3 * 0.05
    for _ in range(40):
        pace.record_evaluation(SPANS, ns=int(SPANS * 80_000 / BESIDES), late_ns=0)
        pace.record_ingest(SPANS, ns=int(SPANS * 20_000 / BESIDES))
    assert pace.admit(SPANS, transport="grpc", now_ns=10 * SECOND_NS) == 0.0


def test_turns_that_are_long_since_their_spans_are_many_count_whole() -> None:
    pace = learned()
    for _ in range(100):
        pace.record_evaluation(10_000, ns=int(10_000 * 480_000 / BESIDES), late_ns=0)  # 3.6 s each
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == pytest.approx(SPANS * 500e-6 - FREE_SECONDS, rel=0.02)


def test_a_forked_child_owes_nothing_and_waits_for_no_lock_of_its_parent() -> None:
    pace = learned()
    pace.admit(100 * SPANS, transport="grpc", now_ns=SECOND_NS)
    pace.brake._lock.acquire()  # noqa: SLF001 - as a thread that the fork left in the parent
    pace.reset()
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == 0.0
    assert pace.delayed == {"grpc": 1}


def test_what_it_costs_is_learned_anew_when_it_changes() -> None:
    pace = learned()
    for _ in range(100):
        pace.record_evaluation(1_000, ns=int(1_000 * 980_000 / BESIDES), late_ns=0)
    assert pace.admit(SPANS, transport="grpc", now_ns=SECOND_NS) == pytest.approx(SPANS * 1_000e-6 - FREE_SECONDS, rel=0.02)


def cost_of(pace: Paced) -> float:
    """Return microseconds that a span is charged with, taking and judging together."""
    return pace.pace.burden.span_seconds * 1e6


def test_what_judging_costs_while_nothing_comes_says_little_of_the_next_flood() -> None:
    pace = learned()
    half_ns = int(1_000 * 40_000 / BESIDES)
    for _ in range(45):
        pace.record_evaluation(1_000, ns=half_ns, late_ns=0)  # what came before the senders stopped, in half the time
    assert 75 < cost_of(pace) < 83
    for _ in range(2_000):
        pace.record_evaluation(1_000, ns=half_ns, late_ns=0)
    assert cost_of(pace) == pytest.approx(60, rel=0.02)


def test_what_judging_costs_while_spans_come_is_learned_at_once_though_it_be_less() -> None:
    pace = learned()
    for _ in range(45):
        pace.record_ingest(1_000, ns=int(1_000 * 20_000 / BESIDES))
        pace.record_evaluation(1_000, ns=int(1_000 * 40_000 / BESIDES), late_ns=0)
    assert cost_of(pace) == pytest.approx(60, rel=0.02)


def test_a_clock_that_stands_still_or_goes_back_changes_nothing() -> None:
    pace = learned()
    assert pace.admit(4 * SPANS, transport="grpc", now_ns=2 * SECOND_NS) == pytest.approx(0.1, rel=0.02)
    assert pace.admit(0, transport="grpc", now_ns=SECOND_NS) == pytest.approx(0.1, rel=0.02)
    assert pace.admit(0, transport="grpc", now_ns=2 * SECOND_NS) == pytest.approx(0.1, rel=0.02)
