"""One thread, one bounded queue, one clock: feeds the pipeline, hands reports to emitters.

Receivers offer whole requests; the thread takes what has come, then asks the pipeline what is due *now*. A wake-up carries
no news, so a spurious or a delayed one changes nothing. Nothing but this thread touches the pipeline's buffer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from otel_toolcall_eval.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Span
    from otel_toolcall_eval.pipeline import Pipeline
    from otel_toolcall_eval.wire.decoded import DecodedTraces

_logger = logging.getLogger(__name__)

DEFAULT_QUEUE_BYTES = 64 * 1024 * 1024
ITEM_OVERHEAD_BYTES = 500


class Clock(Protocol):
    """Monotonic time."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        ...


class MonotonicClock:
    """The system's monotonic clock."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        return time.monotonic_ns()


class Emitter(Protocol):
    """Creates telemetry out of reports. Called by the worker's thread alone."""

    def emit(self, report: TraceReport) -> None:
        """Emit one report; must not wait for the network."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Send what is emitted; False if that took too long."""
        ...

    def shutdown(self, timeout_seconds: float) -> None:
        """Send what is emitted and let go of everything, within the time-out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    spans: Sequence[Span]
    transport: str
    rejected: int
    open_spans: Mapping[bytes, int] | None
    size_bytes: int


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
    ) -> None:
        """Prepare; nothing runs before ``start``.

        Args:
            pipeline: owned by the worker's thread from ``start`` on.
            emitters: take each report, in this order.
            clock: the system's monotonic clock by default.
            queue_bytes: estimated bytes that may wait; beyond it requests are refused whole.
            on_late_span: is told of each late span how many seconds after the verdict it came.
        """
        self.pipeline = pipeline
        self._emitters = tuple(emitters)
        self._clock = clock or MonotonicClock()
        self._queue_limit = queue_bytes
        self._on_late_span = on_late_span
        self._wake = threading.Condition()
        # Guarded by _wake:
        self._queue: deque[_Request] = deque()
        self._queued_bytes = 0
        self._offered = 0
        self._settled = 0  # requests whose due verdicts were emitted
        self._stopping = False
        self._refused: Counter[tuple[str, str]] = Counter()
        # Owned by the thread:
        self._failing: set[tuple[str, str]] = set()
        self.failures = 0
        self._thread = threading.Thread(target=self._run, name="otel-toolcall-eval-worker", daemon=True)

    @property
    def alive(self) -> bool:
        """Return True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def offer(self, decoded: DecodedTraces, *, transport: str) -> None:
        """Queue a decoded request.

        Raises:
            OverloadedError: the queue is full, or the worker is stopping; nothing of the request was taken.
        """
        self._put(decoded.spans, transport, rejected=decoded.rejected)

    def offer_spans(self, spans: Sequence[Span], *, transport: str, open_spans: Mapping[bytes, int] | None = None) -> None:
        """Queue spans of this process; ``open_spans`` says how many of their traces' local spans are still open.

        Raises:
            OverloadedError: the queue is full, or the worker is stopping; nothing was taken.
        """
        self._put(spans, transport, open_spans=open_spans)

    def refuse(self, transport: str, reason: str) -> None:
        """Count a request that a receiver turned away."""
        with self._wake:
            self._refused[transport, reason] += 1

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was offered is taken in, what is due is judged, and the emitters have sent it; False if not in time."""
        deadline = time.monotonic() + timeout_seconds
        with self._wake:
            target = self._offered
            self._wake.notify_all()
            if not self._wake.wait_for(lambda: self._settled >= target, timeout_seconds):
                return False
        sent = [emitter.flush(max(0.0, deadline - time.monotonic())) for emitter in self._emitters]
        return all(sent)

    def shutdown(self, timeout_seconds: float) -> bool:
        """Take nothing more, judge everything that is open, emit it, and end; False if that took longer than allowed."""
        deadline = time.monotonic() + timeout_seconds
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)
        for emitter in self._emitters:
            try:
                emitter.shutdown(max(0.0, deadline - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - one emitter's fault must not keep the others from sending
                self._failed(emitter, error)
        return not self._thread.is_alive()

    def counts(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], int]:
        """Return what happened since the start: instrument name and attributes to a number. May be called from any thread."""
        found: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {
            ("toolcall_eval.traces.active", ()): self.pipeline.open_traces,
            ("toolcall_eval.traces.memory", ()): self.pipeline.buffered_bytes,
            ("toolcall_eval.failures", ()): self.failures,
        }
        for (what, transport), number in self.pipeline.counts.by.items():
            found[f"toolcall_eval.spans.{what}", (("transport", transport),)] = number
        with self._wake:
            refused = dict(self._refused)
        for (transport, reason), number in refused.items():
            found["toolcall_eval.requests.refused", (("reason", reason), ("transport", transport))] = number
        return found

    def _put(self, spans: Sequence[Span], transport: str, *, rejected: int = 0, open_spans: Mapping[bytes, int] | None = None) -> None:
        size = ITEM_OVERHEAD_BYTES + sum(span.size_bytes for span in spans)
        request = _Request(spans=spans, transport=transport, rejected=rejected, open_spans=open_spans, size_bytes=size)
        with self._wake:
            reason = (
                "shutdown" if self._stopping else "queue_full" if self._queue and self._queued_bytes + size > self._queue_limit else None
            )
            if reason is not None:
                self._refused[transport, reason] += 1
                raise OverloadedError(
                    where=transport,
                    what="the service is stopping" if reason == "shutdown" else "the queue of spans to judge is full",
                    fix="send the request again after a moment",
                )
            self._queue.append(request)
            self._queued_bytes += size
            self._offered += 1
            self._wake.notify_all()

    def _run(self) -> None:
        while True:
            with self._wake:
                due_ns = self.pipeline.next_due_ns()
                if not self._queue and not self._stopping:
                    self._wake.wait(None if due_ns is None else max(0.0, (due_ns - self._clock.now_ns()) / 1e9))
                requests, self._queue = self._queue, deque()
                self._queued_bytes = 0
                stopping = self._stopping
            self._turn(requests, stopping=stopping)
            with self._wake:
                self._settled += len(requests)
                self._wake.notify_all()
                if stopping and not self._queue:
                    return

    def _turn(self, requests: Iterable[_Request], *, stopping: bool) -> None:
        """Take in whole requests before asking what is due: half a request must not complete a trace."""
        for request in requests:
            try:
                result = self.pipeline.add(
                    request.spans,
                    now_ns=self._clock.now_ns(),
                    transport=request.transport,
                    rejected=request.rejected,
                    open_spans=request.open_spans,
                )
                if self._on_late_span is not None:
                    for age_ns in result.late_ages_ns:
                        self._on_late_span(age_ns / 1e9)
            except Exception as error:  # noqa: BLE001 - a bug of ours; the thread has to outlive it, or every later trace is lost
                self._failed(self.pipeline, error)
        now_ns = self._clock.now_ns()
        for report in self._reports(now_ns, stopping=stopping):
            for emitter in self._emitters:
                try:
                    emitter.emit(report)
                except Exception as error:  # noqa: BLE001 - the next emitter and the next trace go on
                    self._failed(emitter, error)

    def _reports(self, now_ns: int, *, stopping: bool) -> Iterator[TraceReport]:
        yield from self.pipeline.pop_due(now_ns=now_ns)
        if stopping:
            yield from self.pipeline.drain(now_ns=now_ns)

    def _failed(self, part: object, error: Exception) -> None:
        """Count a failure, and log the first one of each part and kind. The message may hold users' data, so it stays out."""
        self.failures += 1
        episode = (type(part).__name__, type(error).__qualname__)
        if episode not in self._failing:
            self._failing.add(episode)
            _logger.error("a part failed and was passed over; please report it", extra={"part": episode[0], "error_type": episode[1]})
