"""The loop: bounded, alive whatever its parts do, and quiet when nothing happens."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from typing import TYPE_CHECKING
from unittest.mock import create_autospec

import pytest

from otel_toolcall_eval.engine.admission import AdmissionController
from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.engine.ports import Journal
from otel_toolcall_eval.engine.work_queue import NoFeed, WorkQueue
from otel_toolcall_eval.engine.worker import TRACES_AT_A_TIME, Worker
from otel_toolcall_eval.model.criteria import BoundCriteria, CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.model.trace import Trigger
from otel_toolcall_eval.otlp.decoded import DecodedTraces
from tests.fakes import SECOND_NS, ListEmitter, ManualClock, PlainReader, PlainSurvey, decoded, span
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Span, Value


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def emitter() -> ListEmitter:
    return ListEmitter()


@pytest.fixture
def worker(clock: ManualClock, emitter: ListEmitter) -> Iterator[Worker]:
    made = Worker(Pipeline(reader=PlainReader(), evaluators={}), [emitter], clock=clock)
    made.start()
    yield made
    made.shutdown(PATIENCE_SECONDS)
    assert not made.alive


def test_due_trace_reaches_the_emitters(worker: Worker, clock: ManualClock, emitter: ListEmitter) -> None:
    worker.offer(decoded([span(1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    assert emitter.reports == []
    clock.ns = 10 * SECOND_NS
    worker.offer(decoded([]), transport="test")  # any wake-up will do
    assert worker.flush(PATIENCE_SECONDS)
    assert [report.trace_id for report in emitter.reports] == [span(1).trace_id]
    assert emitter.flushed == 2


def test_deadline_wakes_the_worker_by_itself(emitter: ListEmitter) -> None:
    seen = threading.Event()

    class ReportDetail(ListEmitter):
        def emit(self, report: TraceReport) -> None:
            super().emit(report)
            seen.set()

    quick = CompletionPolicy(wait_after_root_ns=SECOND_NS // 50)
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, policy=quick), [emitter, ReportDetail()])
    worker.start()
    worker.offer(decoded([span(1)]), transport="test")
    assert seen.wait(PATIENCE_SECONDS)
    assert worker.shutdown(PATIENCE_SECONDS)


def test_requests_are_taken_in_between_while_many_traces_are_due(clock: ManualClock) -> None:
    taken: list[str] = []
    offered = threading.Event()

    class Reader(PlainReader):
        def is_relevant(self, span: Span) -> bool:
            taken.append(span.name)
            return super().is_relevant(span)

    class ReportDetail(ListEmitter):
        def emit(self, report: TraceReport) -> None:
            super().emit(report)
            if len(self.reports) == 1:
                judging.offer(decoded([span(1, trace=9999, name="waiting")]), transport="test")
            if taken[-1] == "waiting":
                offered.set()

    emitter = ReportDetail()
    judging = Worker(Pipeline(reader=Reader(), evaluators={}), [emitter], clock=clock)
    judging.start()
    many = 5 * TRACES_AT_A_TIME
    judging.offer(decoded([span(1, trace=number) for number in range(1, many + 1)]), transport="test")
    assert judging.flush(PATIENCE_SECONDS)
    clock.ns = 10 * SECOND_NS
    judging.offer(decoded([]), transport="test")
    assert judging.flush(PATIENCE_SECONDS)
    assert offered.is_set()  # so it was taken in before the last of them was judged
    assert len(emitter.reports) == many  # a flush that was asked for before they were all judged waits for them
    judging.shutdown(PATIENCE_SECONDS)


def test_shutdown_judges_what_is_open_and_refuses_what_comes_later(worker: Worker, emitter: ListEmitter) -> None:
    worker.offer(decoded([span(1)]), transport="test")
    assert worker.shutdown(PATIENCE_SECONDS)
    assert worker.shutdown(PATIENCE_SECONDS)
    assert [report.trigger.value for report in emitter.reports] == ["shutdown"]
    assert emitter.stopped == 2
    with pytest.raises(OverloadedError, match="stopping"):
        worker.offer(decoded([span(2)]), transport="test")


def test_worker_that_never_started_shuts_down(emitter: ListEmitter) -> None:
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [emitter])
    assert worker.shutdown(PATIENCE_SECONDS)
    assert emitter.stopped == 1


def test_full_queue_refuses_whole_requests_and_recovers(emitter: ListEmitter) -> None:
    held, release = threading.Event(), threading.Event()

    class Slow(PlainReader):
        def is_relevant(self, span: Span) -> bool:
            held.set()
            release.wait(PATIENCE_SECONDS)
            return super().is_relevant(span)

    worker = Worker(Pipeline(reader=Slow(), evaluators={}), [emitter], queue_bytes=3_000)
    worker.start()
    worker.offer(decoded([span(1, size=10_000)]), transport="test")  # larger than the queue, taken since it's empty
    assert held.wait(PATIENCE_SECONDS)
    worker.offer(decoded([span(2, size=2_000)]), transport="test")
    with pytest.raises(OverloadedError) as refused:
        worker.offer(decoded([span(3, size=2_000)]), transport="test")
    assert (refused.value.http_status, refused.value.grpc_code, refused.value.retry_after_seconds) == (503, "UNAVAILABLE", 1)
    assert worker.flush(0.0) is False
    assert 2_000 < worker.counts()["toolcall_eval.queue.memory", ()] < 3_000
    release.set()
    assert worker.flush(PATIENCE_SECONDS)
    assert worker.counts()["toolcall_eval.queue.memory", ()] == 0
    worker.offer(decoded([span(3, size=2_000)]), transport="test")
    assert worker.shutdown(PATIENCE_SECONDS)
    assert sorted(s.span_id[-1] for r in emitter.reports for s in [r.evaluated_span] if s) == [1]
    counts = worker.counts()
    assert counts["toolcall_eval.spans.received", (("transport", "test"),)] == 3


def test_failing_parts_are_passed_over_counted_and_logged_once_without_their_message(
    clock: ManualClock, emitter: ListEmitter, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(ListEmitter):
        def emit(self, report: TraceReport) -> None:
            raise RuntimeError(report)

        def shutdown(self, timeout_seconds: float) -> None:
            raise OSError(timeout_seconds)

    class Reader(PlainReader):
        def is_relevant(self, span: Span) -> bool:
            if span.name == "poison":
                message = "secret"
                raise ValueError(message)
            return False

    worker = Worker(Pipeline(reader=Reader(), evaluators={}), [Broken(), emitter], clock=clock)
    worker.start()
    with caplog.at_level(logging.ERROR):
        for number in (1, 2):
            worker.offer(decoded([span(1, trace=9, name="poison")]), transport="test")
            worker.offer(decoded([span(1, trace=number)]), transport="test")
        worker.shutdown(PATIENCE_SECONDS)
    assert [report.trace_id[-1] for report in emitter.reports] == [1, 2]
    assert len(caplog.records) == 3
    assert "secret" not in caplog.text
    assert worker.counts()["toolcall_eval.internal_errors", ()] == 5


def test_thread_outlives_news_that_can_not_be_read(worker: Worker, clock: ManualClock, emitter: ListEmitter) -> None:
    class LocalQueue(NoFeed):
        broken = True

        def take(self, count: int) -> Iterator[WorkItem]:
            del count
            if self.broken:
                self.broken = False
                raise RuntimeError
            yield from ()

    worker.attach(LocalQueue())
    worker.wake()
    assert worker.flush(PATIENCE_SECONDS)
    worker.offer(decoded([span(1)]), transport="test")
    clock.ns = 10 * SECOND_NS
    assert worker.flush(PATIENCE_SECONDS)
    assert worker.shutdown(PATIENCE_SECONDS)
    assert ([report.trace_id for report in emitter.reports], worker.counts()["toolcall_eval.internal_errors", ()]) == (
        [span(1).trace_id],
        1,
    )


def test_flush_reports_an_emitter_that_could_not_send(clock: ManualClock) -> None:
    class Slow(ListEmitter):
        def flush(self, timeout_seconds: float) -> bool:
            return timeout_seconds < 0

    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [Slow()], clock=clock)
    worker.start()
    assert worker.flush(1.0) is False
    worker.shutdown(PATIENCE_SECONDS)


def test_requests_that_receivers_turn_away_are_counted_by_reason(worker: Worker) -> None:
    worker.refuse("http", "too_large")
    worker.refuse("http", "too_large")
    assert worker.counts()["toolcall_eval.requests.rejected", (("reason", "too_large"), ("transport", "http"))] == 2


def test_what_waits_is_told_by_the_thread_that_owns_it(worker: Worker, clock: ManualClock) -> None:
    worker.offer(decoded([span(1), span(2, parent=1, tool="a"), span(3, trace=2, parent=9)]), transport="test")
    clock.ns = 4 * SECOND_NS
    waiting = worker.waiting(limit=10, timeout_seconds=PATIENCE_SECONDS)
    assert [(t.trace_id[-1], t.state, t.waits_for, t.spans) for t in waiting.open] == [
        (1, "root_seen", "quiet", 2),
        (2, "active", "its root span", 1),
    ]
    assert (waiting.open_traces, waiting.revisable, waiting.decided) == (2, 0, ())
    assert worker.waiting(limit=1, timeout_seconds=PATIENCE_SECONDS).open == waiting.open[:1]


def test_worker_that_is_too_busy_or_stopping_says_so(worker: Worker) -> None:
    idle = Worker(Pipeline(reader=PlainReader(), evaluators={}), [])
    with pytest.raises(OverloadedError, match="too busy"):
        idle.waiting(limit=1, timeout_seconds=0.0)
    worker.shutdown(PATIENCE_SECONDS)
    with pytest.raises(OverloadedError, match="stopping"):
        worker.waiting(limit=1, timeout_seconds=PATIENCE_SECONDS)
    idle.start()
    assert idle.shutdown(PATIENCE_SECONDS)  # the question that nobody waits for is passed over


def test_trace_that_can_not_be_bound_is_refused(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.engine.work_queue.MAX_WAITING", 1)
    idle = Worker(Pipeline(reader=PlainReader(), evaluators={}), [])
    idle.bind(bytes(16), BoundCriteria(names=("a",)))
    with pytest.raises(OverloadedError, match="too busy"):
        idle.bind(bytes(16), BoundCriteria(names=("a",)))
    worker.shutdown(PATIENCE_SECONDS)
    with pytest.raises(OverloadedError, match="stopping"):
        worker.bind(bytes(16), BoundCriteria(names=("a",)))


def test_trace_that_can_not_be_judged_costs_only_itself(clock: ManualClock, emitter: ListEmitter) -> None:
    class Reader(PlainReader):
        def survey(self, spans: Sequence[Span]) -> PlainSurvey:
            if spans[0].name == "poison":
                raise TypeError(spans)
            return super().survey(spans)

    worker = Worker(Pipeline(reader=Reader(), evaluators={}), [emitter], clock=clock)
    worker.start()
    worker.offer(decoded([span(1, trace=1), span(1, trace=2, name="poison"), span(1, trace=3)]), transport="test")
    worker.shutdown(PATIENCE_SECONDS)
    assert [report.trace_id[-1] for report in emitter.reports] == [1, 3]
    assert worker.counts()["toolcall_eval.internal_errors", ()] == 1


def test_service_that_nothing_judges_is_named_once(clock: ManualClock, emitter: ListEmitter, caplog: pytest.LogCaptureFixture) -> None:
    never = CriteriaSet(name="never", checks=(), selector=Selector(reach=SelectorScope.NAMED))
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, criteria=[never]), [emitter], clock=clock)
    worker.start()
    with caplog.at_level(logging.WARNING):
        services: tuple[Value, ...] = ("a", "a", "b", {"not": "text"})
        for number, service in enumerate(services, start=1):
            worker.offer(decoded([span(1, trace=number, resource={"service.name": service})]), transport="test")
        assert worker.flush(PATIENCE_SECONDS)
        clock.ns += 1_000 * SECOND_NS
        worker.offer(decoded([span(2, trace=9, parent=1, resource={"service.name": "not yet"})]), transport="test")
        worker.shutdown(PATIENCE_SECONDS)  # before its root, and what it says of criteria, has come
    assert [record.__dict__["service"] for record in caplog.records] == ["a", "b", "{'not': 'text'}"]


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        pytest.param(BufferLimits(num_traces=1), "more are open than `limits.num_traces`", id="too many"),
        pytest.param(BufferLimits(limit_bytes=1_500), "more memory than `limits.limit_mib`", id="too large"),
    ],
)
def test_that_there_is_no_room_is_told_once_for_ten_minutes(
    limits: BufferLimits, told: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, limits=limits), [])
    worker.start()
    for trace in (1, 2, 3, 4):
        worker.offer(decoded([span(2, trace=trace, parent=1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    assert [record.levelname for record in caplog.records if told in record.getMessage()] == ["WARNING"]
    monkeypatch.setattr("otel_toolcall_eval.engine.operator_log.PRESSED_SECONDS", 0.0)
    worker.offer(decoded([span(2, trace=5, parent=1)]), transport="test")
    assert worker.shutdown(PATIENCE_SECONDS)
    assert len([record for record in caplog.records if told in record.getMessage()]) == 2


def test_criteria_that_a_trace_asks_for_and_nobody_loaded_are_named_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [], clock=clock)
    worker.start()
    with caplog.at_level(logging.WARNING):
        for number in (1, 2):
            worker.offer(decoded([span(1, trace=number, attributes={"toolcall_eval.criteria": "refund_polcy"})]), transport="test")
        worker.shutdown(PATIENCE_SECONDS)
    assert [record.__dict__["asked_for"] for record in caplog.records] == ["refund_polcy"]


def test_flush_does_not_wait_for_a_thread_that_is_gone(worker: Worker) -> None:
    worker.shutdown(PATIENCE_SECONDS)
    assert worker.flush(PATIENCE_SECONDS) is True
    never_started = Worker(Pipeline(reader=PlainReader(), evaluators={}), [])
    never_started.offer(decoded([]), transport="test")
    assert never_started.flush(PATIENCE_SECONDS) is False


def test_child_process_begins_anew(worker: Worker, emitter: ListEmitter) -> None:
    worker.offer(decoded([span(1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    worker.restart_in_child(Pipeline(reader=PlainReader(), evaluators={}))
    worker.offer(decoded([span(1, trace=2)]), transport="test")
    assert worker.shutdown(PATIENCE_SECONDS)
    assert [report.trace_id[-1] for report in emitter.reports] == [2]


def test_nothing_falls_due_once_intake_has_ended(worker: Worker, clock: ManualClock, emitter: ListEmitter) -> None:
    worker.offer(decoded([span(1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    clock.ns = 10 * SECOND_NS
    worker.stop_scheduling()
    worker.offer(decoded([span(1, trace=2)]), transport="test")  # a call that was under way
    assert worker.flush(PATIENCE_SECONDS)
    clock.ns = 1_000 * SECOND_NS
    worker.stop_scheduling()  # the first time counts
    worker.wake()
    assert worker.flush(PATIENCE_SECONDS)
    assert [(report.trace_id[-1], report.trigger) for report in emitter.reports] == [(1, Trigger.ROOT_SPAN)]
    assert worker.shutdown(PATIENCE_SECONDS)
    assert [(report.trace_id[-1], report.trigger) for report in emitter.reports[1:]] == [(2, Trigger.SHUTDOWN)]


def test_what_was_offered_before_the_end_falls_due_as_ever(emitter: ListEmitter) -> None:
    for _ in range(20):
        worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, policy=CompletionPolicy(wait_after_root_ns=0)), [emitter])
        worker.start()
        worker.offer(decoded([span(1)]), transport="test")
        assert worker.shutdown(PATIENCE_SECONDS)
    assert {report.trigger for report in emitter.reports} == {Trigger.ROOT_SPAN}


def test_what_waits_for_nothing_falls_due_though_it_is_taken_in_after_intake_has_ended(clock: ManualClock, emitter: ListEmitter) -> None:
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, policy=CompletionPolicy(wait_after_root_ns=0)), [emitter], clock=clock)
    worker.start()
    worker.stop_scheduling()
    clock.ns = 10 * SECOND_NS
    worker.offer(decoded([span(1)]), transport="test")  # a call that was under way
    assert worker.shutdown(PATIENCE_SECONDS)
    assert [report.trigger for report in emitter.reports] == [Trigger.ROOT_SPAN]


def test_what_there_is_no_time_for_at_the_end_stays_open_and_is_counted(clock: ManualClock) -> None:
    begun, gate = threading.Event(), threading.Event()

    class Slow(ListEmitter):
        def emit(self, report: TraceReport) -> None:
            begun.set()
            assert gate.wait(PATIENCE_SECONDS)
            super().emit(report)

    slow = Slow()
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [slow], clock=clock)
    worker.start()
    worker.offer(decoded([span(1, trace=trace) for trace in range(1, 4 * TRACES_AT_A_TIME + 1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    assert worker.counts()["toolcall_eval.traces.active", ()] == 4 * TRACES_AT_A_TIME
    assert not worker.shutdown(0.01)
    assert begun.wait(PATIENCE_SECONDS)
    gate.set()
    wait_for(lambda: not worker.alive, "the end of the thread")
    assert len(slow.reports) == TRACES_AT_A_TIME
    assert worker.counts()["toolcall_eval.traces.active", ()] == 3 * TRACES_AT_A_TIME
    assert not worker.shutdown(PATIENCE_SECONDS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # which is what is asked for
def test_an_end_after_a_fault_of_ours_does_not_pass_for_a_good_one() -> None:
    broken = create_autospec(Journal, instance=True, keeps_senders_waiting=False)
    broken.replay.return_value, broken.counts.return_value, broken.next_ns.return_value = (), {}, None
    broken.write.side_effect = KeyError
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [], journal=broken)
    assert worker.shutdown(PATIENCE_SECONDS)  # nothing has begun
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [], journal=broken)
    worker.start()
    worker.wake()
    wait_for(lambda: not worker.alive, "its end")
    assert not worker.shutdown(PATIENCE_SECONDS)


def test_who_is_told_to_end_when_the_time_is_over_already_judges_nothing(worker: Worker, emitter: ListEmitter) -> None:
    worker.offer(decoded([span(1)]), transport="test")
    assert worker.flush(PATIENCE_SECONDS)
    worker._ending.time_is_over = True  # noqa: SLF001 - as a thread that was busy for all of the time finds it
    assert not worker.shutdown(PATIENCE_SECONDS)
    assert emitter.reports == []
    assert worker.counts()["toolcall_eval.traces.active", ()] == 1


def test_what_is_not_taken_is_not_charged_and_keeps_nobody_waiting() -> None:
    brake = AdmissionController(["grpc"])
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [], queue_bytes=1, brake=brake)
    worker._pace.record_evaluation(1_000_000, ns=500_000_000_000, late_ns=0)  # noqa: SLF001 - half a millisecond a span, so no clock matters
    worker.offer(decoded([span(1)]), transport="grpc")
    for _ in range(20):
        with pytest.raises(OverloadedError, match="queue of spans to judge is full"):
            worker.offer(decoded([span(number) for number in range(2, 3_002)]), transport="grpc")
    assert brake.delayed == {"grpc": 0}
    worker.start()
    assert worker.flush(PATIENCE_SECONDS)
    assert worker.offer(decoded([span(2)]), transport="grpc") is None
    assert worker.shutdown(PATIENCE_SECONDS)


def test_what_is_shed_is_noted_beyond_the_bound_in_one_item_for_each_transport_and_counted() -> None:
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [], queue_bytes=1)
    worker.offer(decoded([span(1)]), transport="grpc")
    with pytest.raises(OverloadedError):
        worker.offer(decoded([span(2)]), transport="grpc")
    for number in range(3):
        shed = SkippedRequest(transport="grpc", trace_ids={span(number + 2).trace_id}, spans=1, rejected=Counter(end=1))
        assert worker.shed(shed)
    assert worker.shed(SkippedRequest(transport="http/json", trace_ids=set(), records=4))
    worker.start()
    assert worker.flush(PATIENCE_SECONDS)
    counts = worker.counts()
    grpc = (("transport", "grpc"),)
    assert counts["toolcall_eval.spans.received", grpc] == 7
    assert counts["toolcall_eval.spans.skipped", grpc] == 3
    assert counts["toolcall_eval.spans.rejected", (*grpc, ("reason", "end"))] == 3
    assert counts["toolcall_eval.log_records.received", (("transport", "http/json"),)] == 4
    assert worker.shutdown(PATIENCE_SECONDS)
    assert not worker.shed(shed)


def test_notes_of_what_is_shed_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.engine.work_queue.MAX_SHED_TRACES", 2)
    queue = WorkQueue(1)
    notes = [
        SkippedRequest(transport=transport, trace_ids={bytes([number])}) for number, transport in enumerate(("grpc", "http/json", "grpc"))
    ]
    assert [queue.put_shed(note) for note in notes] == [True, True, False]
    assert list(queue.take(lambda: 0.0).items) == notes[:2]
    assert queue.put_shed(notes[2])


def test_senders_wait_for_their_answer_while_verdicts_are_behind_and_not_after(clock: ManualClock) -> None:
    class Slow(ListEmitter):
        def emit(self, report: TraceReport) -> None:
            super().emit(report)
            clock.ns += SECOND_NS // 100

    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}), [Slow()], clock=clock)
    worker.start()

    def offer(first: int, traces: int) -> float:
        decoded = DecodedTraces(spans=tuple(span(1, trace=number) for number in range(first, first + traces)))
        receipt = worker.offer(decoded, transport="grpc")
        assert worker.flush(PATIENCE_SECONDS)
        return 0.0 if receipt is None else receipt.seconds

    assert offer(1, 1_000) == 0.0  # nothing is known yet
    clock.ns = 10 * SECOND_NS
    assert offer(1_001, 1) == 0.0  # the first are judged, 10 ms each, half of the spans of which the costs are supposed
    assert offer(1_002, 30) == pytest.approx(0.2, abs=0.15)
    clock.ns = 1_000 * SECOND_NS
    assert offer(1_032, 1) == 0.0
    assert worker.shutdown(PATIENCE_SECONDS)


def test_what_was_evicted_long_before_its_time_is_not_late(clock: ManualClock) -> None:
    clock.ns = 864_000 * SECOND_NS  # up for ten days
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, limits=BufferLimits(num_traces=2)), [ListEmitter()], clock=clock)
    worker.start()
    for number in range(1, 50):
        receipt = worker.offer(DecodedTraces(spans=(span(1, trace=number),)), transport="grpc")
        assert worker.flush(PATIENCE_SECONDS)
        assert receipt is None
        clock.ns += SECOND_NS // 1_000
    assert worker.shutdown(PATIENCE_SECONDS)
