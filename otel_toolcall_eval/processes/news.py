"""What the other processes tell unasked: lines for standard output, rows for the status page, and that metrics are to be exported.

Whoever writes may be slow, or wait for ever (a pipe that nobody reads). So what is told has a thread of its own in the first process,
beside those that settle answers, and the others may be only so far ahead of it; then they wait, as a process that writes by itself would.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

from otel_toolcall_eval.notices import Notices
from otel_toolcall_eval.processes.channel import Kind, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.emission.console import ConsoleEmitter
    from otel_toolcall_eval.emission.metrics import CountKey
    from otel_toolcall_eval.processes.channel import Channel, Frame
    from otel_toolcall_eval.processes.link import Link
    from otel_toolcall_eval.status.condensing import ReportRow

    Handlers: TypeAlias = "Mapping[Kind, Callable[..., object]]"

LINES_AHEAD: Final = 500
ROWS_AHEAD: Final = 4  # of batches
FLUSH_SECONDS: Final = 10.0


class NewsSender:
    """The end that tells. ``hear`` is for the thread that reads the channel, all else for any other: it may wait."""

    def __init__(self, channel: Channel) -> None:
        """Use this channel, which is ended by somebody else."""
        self._channel = channel
        self._ahead = {Kind.LINE: threading.Semaphore(LINES_AHEAD), Kind.ROWS: threading.Semaphore(ROWS_AHEAD)}
        self._flushing = threading.Lock()
        self._flushes = 0
        self._flushed: Future[bool] = Future()

    def line(self, text: str) -> None:
        """Have a line written; waits if too many are not written yet."""
        self._send(Kind.LINE, text)

    def add(self, rows: Sequence[ReportRow], *, now_unix_ns: int) -> None:  # noqa: ARG002 - the clock of who writes them is asked
        """Have rows remembered, likewise; the method of a ``RowSink``."""
        self._send(Kind.ROWS, list(rows))

    def close(self) -> None:
        """Do nothing: the store is the first process's."""

    def flush_metrics(self) -> bool:
        """Have metrics exported, ours among them; False if that failed, or takes too long."""
        with self._flushing:
            self._flushed, self._flushes = Future(), self._flushes + 1
            self._channel.send(Kind.FLUSH, self._flushes)
            try:
                return self._flushed.result(FLUSH_SECONDS)
            except TimeoutError:
                return False

    def hear(self, frame: Frame) -> None:
        """Take what the first process says to it."""
        if frame.kind is Kind.WRITTEN:
            self._ahead[frame.value()].release()
            return
        number, done = frame.value()
        if number == self._flushes and not self._flushed.done():  # an answer that comes too late says nothing of what is asked now
            self._flushed.set_result(done)

    def _send(self, kind: Kind, value: object) -> None:
        self._ahead[kind].acquire()
        self._channel.send(kind, 0, packed(value))


class NewsDesk:
    """The end that writes. Any thread."""

    def __init__(self, *, console: ConsoleEmitter | None, remember: Callable[[Sequence[ReportRow]], object] | None) -> None:
        """Start the threads.

        Args:
            console: writes lines; None for nobody.
            remember: takes rows; None for nobody.
        """
        self._handlers: Handlers = {
            **({} if console is None else {Kind.LINE: console.relay}),
            **({} if remember is None else {Kind.ROWS: remember}),
        }
        self.flush_metrics: Callable[[], bool] = lambda: True
        self._notices = Notices()
        self._exporting = ThreadPoolExecutor(1, thread_name_prefix="otel-toolcall-eval-flush")
        self._queue: SimpleQueue[tuple[Link, Frame] | threading.Event | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="otel-toolcall-eval-news", daemon=True)
        self._thread.start()

    def take(self, link: Link, frame: Frame) -> None:
        """Take news; never waits."""
        if frame.kind is Kind.FLUSH:
            self._exporting.submit(self._flush, link, frame.number)
        else:
            self._queue.put((link, frame))

    def settle(self, timeout_seconds: float) -> bool:
        """Wait until all that was taken is written; False if it is not in time."""
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout_seconds)

    def counts(self) -> Mapping[CountKey, int]:
        """Return how often writing failed and was passed over."""
        return {("toolcall_eval.failures", ()): self._notices.failures}

    def close(self, timeout_seconds: float) -> bool:
        """Write what was taken, and end; False if that takes longer."""
        self._exporting.shutdown(wait=False, cancel_futures=True)
        self._queue.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (news := self._queue.get()) is not None:
            if isinstance(news, threading.Event):
                news.set()
                continue
            link, frame = news
            handler = self._handlers.get(frame.kind)
            with self._notices.passing_over(self):
                if handler is not None:
                    handler(frame.value())
            link.order(Kind.WRITTEN, frame.kind)

    def _flush(self, link: Link, number: int) -> None:
        done = False
        with self._notices.passing_over(self):
            done = self.flush_metrics()
        link.order(Kind.FLUSHED, (number, done))
