"""One thread, one bounded queue, one clock: feeds the pipeline, hands reports to emitters.

Receivers offer whole requests; the thread takes what has come, then asks the pipeline what is due *now*. Wake-ups are
level-triggered: a spurious or late one is harmless. Nothing but this thread touches the pipeline's buffer.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.engine.admission import AdmissionController, CostEstimator
from otel_toolcall_eval.engine.counters import pipeline_counters
from otel_toolcall_eval.engine.operator_log import OperatorLog
from otel_toolcall_eval.engine.ports import MonotonicClock
from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, PendingResponse, SnapshotRequest, SpanRequest, WakeUp, dispatch
from otel_toolcall_eval.engine.work_queue import WorkQueue
from otel_toolcall_eval.model.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot
    from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
    from otel_toolcall_eval.engine.counters import Counts
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.ports import Clock, Emitter, Journal
    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.engine.work_queue import LocalQueue
    from otel_toolcall_eval.model.criteria import BoundCriteria
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs


DEFAULT_QUEUE_BYTES = 64 * 1024 * 1024
ITEM_OVERHEAD_BYTES = 500

TRACES_AT_A_TIME = 50
"""Evaluated before the queue is looked at again: some 65 ms. Traces that fall due all at once, a hundred thousand after a pause, would
otherwise keep senders waiting for minutes."""


class Worker:
    """Runs a pipeline on a thread of its own."""

    def __init__(
        self,
        pipeline: Pipeline,
        emitters: Iterable[Emitter],
        *,
        clock: Clock | None = None,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
        on_late_span: Callable[[float], None] | None = None,
        journal: Journal | None = None,
        brake: AdmissionController | None = None,
    ) -> None:
        """Prepare; nothing runs before ``start``.

        Args:
            pipeline: owned by the worker's thread from ``start`` on.
            emitters: take each report, in this order.
            clock: the system's monotonic clock by default.
            queue_bytes: estimated bytes that may wait; beyond it requests are refused whole.
            on_late_span: is told of each late span how many seconds after the verdict it came.
            journal: what is taken in and decided is written to it first.
            brake: keeps senders waiting that send more than can be evaluated.
        """
        self.pipeline = pipeline
        self._clock = clock or MonotonicClock()
        self._on_late_span = on_late_span
        self._journal = journal
        if journal is not None:
            pipeline.on_decision = journal.on_decision
        self._queue = WorkQueue(queue_bytes)
        self._thread = self._new_thread()
        self._pace = CostEstimator()
        self._brake = brake or AdmissionController()
        self._notices = OperatorLog()  # owned by the thread
        self._reporter = ReportDispatcher(emitters, self._notices)
        self._ending = ShutdownState()

    def _new_thread(self) -> threading.Thread:
        return threading.Thread(target=self._run, name="otel-toolcall-eval-worker", daemon=True)

    def restart_in_child(self, pipeline: Pipeline) -> None:
        """Begin anew after a fork: the thread stayed in the parent, which evaluates what was open, and its locks may be held for ever."""
        self.pipeline = pipeline
        self._queue.reset()
        self._pace.reset()
        self._brake.reset()
        self._ending.reset()
        self._thread = self._new_thread()
        if not self._queue.stopping:
            self._thread.start()

    @property
    def alive(self) -> bool:
        """Return True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse | None:
        """Queue a decoded request; returns what has to come to pass before its sender is answered, None if nothing.

        Raises:
            OverloadedError: the queue is full, more comes than can be evaluated, or the worker is stopping; nothing was taken.
        """
        spans, done = decoded.spans, self._new_completion()
        size, now_ns = ITEM_OVERHEAD_BYTES + decoded.size_bytes, self._clock.now_ns()
        self._brake.admit(len(spans), transport=transport, now_ns=now_ns)
        self._queue.put(
            SpanRequest(spans=spans, transport=transport, rejected=decoded.rejected_by, open_spans=None, size_bytes=size, done=done)
        )
        seconds = self._brake.charge(len(spans), self._pace.burden, transport=transport, now_ns=now_ns)
        return None if done is None and not seconds else PendingResponse(done=done, seconds=seconds)

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> PendingResponse | None:
        """Queue the log records of a request, behind the spans that wait and within the same bound; returns the same as ``offer``.

        Raises:
            OverloadedError: the queue is full, or the worker is stopping; nothing of the request was taken.
        """
        size, done = ITEM_OVERHEAD_BYTES + decoded.size_bytes, self._new_completion()
        self._queue.put(LogRequest(records=decoded.records, transport=transport, received=decoded.received, size_bytes=size, done=done))
        return None if done is None else PendingResponse(done=done)

    def shed(self, shed: SkippedRequest) -> bool:
        """Note what there was no room for, so that its traces are evaluated with a doubt; False if that failed."""
        return self._queue.put_shed(shed)

    def refuse(self, transport: str, reason: str) -> None:
        """Count a request that a receiver turned away."""
        self._queue.refuse(transport, reason)

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was offered is taken in, what is due is evaluated, and the emitters have sent it; False if not in time."""
        deadline = time.monotonic() + timeout_seconds
        return self._queue.wait_until_done(timeout_seconds, self._thread.is_alive) and self._reporter.flush(deadline)

    def stop_scheduling(self) -> None:
        """Let no trace fall due from now on, since nothing more is taken in; what is open waits for ``shutdown``."""
        self._ending.stop_scheduling(self._clock.now_ns())

    def shutdown(self, timeout_seconds: float) -> bool:
        """Take nothing more, evaluate everything that is open, emit it, and end; False if that took longer than allowed.

        Then what could not be evaluated stays open: ``counts`` tells of it, and in a journal it waits for the next start.
        """
        deadline = time.monotonic() + timeout_seconds
        self._queue.stop()
        if self._thread.ident is not None:
            self._thread.join(self._ending.evaluation_seconds(timeout_seconds))
            self._ending.time_is_over = True
            self._thread.join(max(0.0, deadline - time.monotonic()))
        self._reporter.shutdown(deadline)
        return self._thread.ident is None or (not self._thread.is_alive() and self._ending.left == 0)  # else it was cut short, or has died

    def waiting(self, *, limit: int, timeout_seconds: float) -> OpenTracesSnapshot:
        """Return what is open and why it waits, at most ``limit`` traces of each kind. May be called from any thread.

        Raises:
            OverloadedError: the thread is stopping, or too busy to answer in time.
        """
        question = SnapshotRequest(limit=limit)
        try:
            if self._queue.put_unbounded(question):
                return question.answer.result(timeout_seconds)
        except TimeoutError:
            question.answer.cancel()
        raise OverloadedError(where="traces", what="the service is stopping or too busy to tell", fix="ask again after a moment")

    def wake(self) -> None:
        """Ask for a turn: something else than what is offered may have changed what is due."""
        self._queue.put_unbounded(WakeUp())

    def attach(self, feed: LocalQueue) -> None:
        """Take in, at each turn, also what this has; before ``start``."""
        self._queue.feed = feed

    def bind(self, trace_id: bytes, bound: BoundCriteria) -> None:
        """Evaluate a trace by these criteria, too. Takes effect in turn with the spans that are offered before and after.

        Raises:
            OverloadedError: the worker is stopping, or far behind; the trace is not bound.
        """
        if not self._queue.put_unbounded(BindRequest(trace_id=trace_id, bound=bound)):
            raise OverloadedError(where="bind", what="the service is stopping or too busy", fix="bind the trace again after a moment")

    def counts(self) -> Counts:
        """Return what happened since the start: instrument name and attributes to a number. May be called from any thread."""
        queue, active = self._queue, self._ending.active(self.pipeline.open_traces)
        delayed, waiting, failures = self._brake.delayed, queue.waiting_bytes, self._notices.failures
        found = pipeline_counters(
            self.pipeline, active=active, refused=queue.refused, delayed=delayed, queued_bytes=waiting, failures=failures
        )
        return found if self._journal is None else found | self._journal.counts()

    def _new_completion(self) -> Future[None] | None:
        return Future() if self._journal is not None and self._journal.keeps_senders_waiting else None

    def _run(self) -> None:
        taken, journal = 0, self._journal
        if journal is not None:
            self._reporter.emit(journal.replay(self.pipeline, now_ns=self._clock.now_ns()), self.pipeline)
        while True:
            requests, news, stopping = self._queue.take(self._seconds_to_next)
            taken += len(requests)
            began_ns = self._clock.now_ns()
            self._take_all(requests if journal is None else journal.write(requests, self.pipeline, now_ns=began_ns))
            self._take_all(self._queue.feed.take(news))  # in process, where there is no journal
            if stopping:
                self.stop_scheduling()  # not before the last is taken in: in an agent's process nothing else comes
            if self._evaluate_due(at_least_ns=self._clock.now_ns() - began_ns) or stopping:
                if stopping:
                    self._drain()
                self._queue.feed.on_batch_done()
                self._queue.mark_done(taken)
                taken = 0
            if journal is not None:
                self._reporter.emit(journal.maintain(self.pipeline, now_ns=self._clock.now_ns(), last=stopping), self.pipeline)
            if stopping:
                return

    def _seconds_to_next(self) -> float | None:
        times = (self._ending.next_due_ns(self.pipeline.next_due_ns()), None if self._journal is None else self._journal.next_ns())
        due_ns = min((at_ns for at_ns in times if at_ns is not None), default=None)
        return None if due_ns is None else max(0.0, (due_ns - self._clock.now_ns()) / 1e9)

    def _take_all(self, requests: Iterable[WorkItem]) -> None:
        """Take in whole requests before asking what is due: half a request must not complete a trace."""
        with self._notices.catching(self):  # a fault where they come from: what had not come yet comes next time, or is lost
            for request in requests:
                with self._notices.catching(self.pipeline):
                    self._take(request)

    def _evaluate_due(self, *, at_least_ns: int) -> bool:
        """Evaluate what is due; False if there is more, but requests wait, too, and evaluation had its share of the time."""
        began_ns = now_ns = self._clock.now_ns()
        ending, due_ns = self._ending, self.pipeline.next_due_ns()
        while True:
            turn_ns, before = now_ns, self.pipeline.evaluated_spans
            late_ns = max(0, now_ns - due_ns) if due_ns else 0  # what was evicted is due at 0, and not late
            self._report(self.pipeline.pop_due(now_ns=ending.cutoff_ns(now_ns), limit=TRACES_AT_A_TIME))
            now_ns = self._clock.now_ns()
            due_ns = self.pipeline.next_due_ns()
            is_done = due_ns is None or due_ns > ending.cutoff_ns(now_ns) or ending.time_is_over
            self._pace.record_evaluation(self.pipeline.evaluated_spans - before, ns=now_ns - turn_ns, late_ns=0 if is_done else late_ns)
            if is_done or (not self._queue.is_empty and now_ns - began_ns >= at_least_ns):
                return is_done

    def _drain(self) -> None:
        """Evaluate all that is open, some traces at a time, since not all reports need be held; until there is no time left for it."""
        ending, left = self._ending, self.pipeline.open_traces
        ending.left = left
        reports = iter(()) if ending.time_is_over else self.pipeline.drain(now_ns=self._clock.now_ns())
        while not ending.time_is_over:
            some = list(islice(reports, TRACES_AT_A_TIME))
            self._report(some)  # though there is none: what was decided last may have made no report
            left -= len(some)
            ending.left = max(1, left) if some else 0  # an agent's invocations are more than the traces that they are of
            if not some:
                break

    def _report(self, reports: Sequence[TraceReport]) -> None:
        """Emit reports, after what was decided is in the journal."""
        self._reporter.emit(reports if self._journal is None else self._journal.release(reports), self.pipeline)

    def _take(self, request: WorkItem) -> None:
        """Hand one request to the pipeline."""
        now_ns = self._clock.now_ns()
        result = dispatch(self.pipeline, request, now_ns=self._ending.cutoff_ns(now_ns))
        if result is None:
            return
        self._pace.record_ingest(result.received, ns=self._clock.now_ns() - now_ns)
        if self._on_late_span is not None:
            for age_ns in result.late_ages_ns:
                self._on_late_span(age_ns / 1e9)


class ReportDispatcher:
    """Has the emitters. ``emit`` belongs to the worker's thread, all else to any."""

    def __init__(self, emitters: Iterable[Emitter], notices: OperatorLog) -> None:
        """Take the emitters, in the order in which each report goes to them."""
        self._emitters = tuple(emitters)
        self._notices = notices

    def emit(self, reports: Iterable[TraceReport], pipeline: Pipeline) -> None:
        """Emit reports, and tell of what kept the pipeline from making more."""
        for report in reports:
            for emitter in self._emitters:
                with self._notices.catching(emitter):
                    emitter.emit(report)
            self._notices.decided(report, criteria=len(pipeline.criteria))
        for fault in pipeline.take_faults():
            self._notices.failed(pipeline, fault)

    def flush(self, deadline_seconds: float) -> bool:
        """Have all send what was emitted, until this monotonic time; False if one could not."""
        sent = [emitter.flush(max(0.0, deadline_seconds - time.monotonic())) for emitter in self._emitters]
        return all(sent)

    def shutdown(self, deadline_seconds: float) -> None:
        """Have all send what was emitted, and end, until then."""
        for emitter in self._emitters:
            try:
                emitter.shutdown(max(0.0, deadline_seconds - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - one emitter's fault must not keep the others from sending
                self._notices.failed(emitter, error)


_LEAST_SECONDS: Final = 0.5  # for what comes behind evaluation
_LEAST_SHARE: Final = 0.1  # or so much of the time, if that is less


class ShutdownState:
    """Any thread.

    Attributes:
        time_is_over: nothing more is to be evaluated.
        left: once the end has begun, how many traces are still to be evaluated; before, None.
    """

    __slots__ = ("_frozen_ns", "left", "time_is_over")

    def __init__(self) -> None:
        """Begin as one that goes on."""
        self.reset()

    def reset(self) -> None:
        """Go on, in a child process say."""
        self._frozen_ns: int | None = None
        self.time_is_over = False
        self.left: int | None = None

    @staticmethod
    def evaluation_seconds(timeout_seconds: float) -> float:
        """Return how much of the time for ending may be taken by evaluation."""
        return timeout_seconds - min(_LEAST_SECONDS, _LEAST_SHARE * timeout_seconds)

    def stop_scheduling(self, now_ns: int) -> None:
        """Let nothing fall due after this moment: who is quiet because nobody listens would be evaluated as if nothing were missing."""
        if self._frozen_ns is None:
            self._frozen_ns = now_ns

    def cutoff_ns(self, now_ns: int) -> int:
        """Return the moment up to which traces fall due; what is still taken in after that comes at it, and waits as long as ever."""
        return now_ns if self._frozen_ns is None else min(now_ns, self._frozen_ns)

    def active(self, open_traces: int) -> int:
        """Return how many traces are open, of which so many are in the pipeline: at the end it gives all away before they are evaluated."""
        return open_traces if self.left is None else self.left

    def next_due_ns(self, due_ns: int | None) -> int | None:
        """Return when a trace falls due that would at ``due_ns``; None if it does not any more."""
        return None if due_ns is None or self.cutoff_ns(due_ns) < due_ns else due_ns
