"""What waits for the worker: whole requests, in the order in which they came, bounded by bytes.

One condition guards all of it. Any thread puts in, one takes out.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_toolcall_eval.model.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
    from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, SnapshotRequest, SpanRequest, WakeUp, WorkItem


class LocalQueue(Protocol):
    """Keeps news that came without a lock, until the worker comes for it. All but ``mark`` and ``seconds_to_wait`` may take their time."""

    def mark(self) -> int:
        """Return how much news there is. Called with the queue's lock held: what was put in the queue before it is taken before it."""
        ...

    def take(self, count: int) -> Iterable[WorkItem]:
        """Return so much of it, the oldest first; never raises."""
        ...

    def on_batch_done(self) -> None:
        """Hear that all that was taken is dealt with, and what was due is evaluated; never raises."""
        ...

    def seconds_to_wait(self) -> float | None:
        """Return how long news may wait at most; None if there is none, and the next will ask for a look."""
        ...


class NoFeed:
    """Has no news."""

    def mark(self) -> int:
        """Return 0."""
        return 0

    def take(self, count: int) -> Iterable[WorkItem]:  # noqa: ARG002 - the protocol's signature
        """Return none."""
        return ()

    def on_batch_done(self) -> None:
        """Do nothing."""

    def seconds_to_wait(self) -> float | None:
        """Return None."""
        return None


class Taken(NamedTuple):
    """What waited: requests, how much news of the feed, and whether it is the last."""

    items: deque[WorkItem]
    news: int
    stopping: bool


MAX_SHED_TRACES = 100_000
"""Traces that are noted as shed between two looks of the worker: some 10 MB. Beyond it requests are refused after all."""


MAX_WAITING = 200_000
"""Items that may wait when one without weight is added; requests alone are bounded by their bytes, and are never so many by default."""


class WorkQueue:
    """A bounded queue that also knows when what was put in has been dealt with."""

    def __init__(self, limit_bytes: int) -> None:
        """Start empty; ``limit_bytes`` is the estimated size of the requests that may wait."""
        self._limit_bytes = limit_bytes
        self.feed: LocalQueue = NoFeed()
        self._stopping = False
        self._refused: Counter[tuple[str, str]] = Counter()
        self.reset()

    def reset(self) -> None:
        """Forget what waits, and whoever holds the lock: after a fork that thread is in the parent."""
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._items: deque[WorkItem] = deque()
        self._bytes = 0
        self._offered = 0
        self._done = 0
        self._shed: dict[str, SkippedRequest] = {}  # by transport; each is among the items, too

    @property
    def stopping(self) -> bool:
        """Return True once nothing more is taken."""
        return self._stopping

    @property
    def is_empty(self) -> bool:
        """Return True while nothing waits."""
        return not self._items

    @property
    def waiting_bytes(self) -> int:
        """Return the estimated size of what waits."""
        return self._bytes

    @property
    def refused(self) -> Mapping[tuple[str, str], int]:
        """Return how many requests were turned away, by transport and reason."""
        with self._changed:
            return dict(self._refused)

    def refuse(self, transport: str, reason: str) -> None:
        """Count a request that was turned away."""
        with self._changed:
            self._refused[transport, reason] += 1

    def put(self, request: SpanRequest | LogRequest) -> None:
        """Let a request wait.

        Raises:
            OverloadedError: it has no room, or the service is stopping; nothing of it was taken.
        """
        with self._changed:
            full = self._bytes > 0 and self._bytes + request.size_bytes > self._limit_bytes  # into an empty queue anything fits
            if self._stopping or full:
                what = "the service is stopping" if self._stopping else "the queue of spans to judge is full"
                raise OverloadedError(where=request.transport, what=what, fix="send the request again after a moment")
            self._bytes += request.size_bytes
            self._add(request)

    def put_unbounded(self, item: SnapshotRequest | BindRequest | WakeUp) -> bool:
        """Let wait what is no telemetry, and has no weight; False if the service is stopping, or far too much waits already."""
        with self._changed:
            taken = not self._stopping and len(self._items) < MAX_WAITING
            if taken:
                self._add(item)
            return taken

    def put_shed(self, shed: SkippedRequest) -> bool:
        """Let a note of what was passed on wait, beyond the bound; False if the service is stopping, or there are too many traces."""
        with self._changed:
            if self._stopping or sum(len(known.trace_ids) for known in self._shed.values()) + len(shed.trace_ids) > MAX_SHED_TRACES:
                return False
            known = self._shed.setdefault(shed.transport, shed)
            if known is shed:
                self._add(shed)
            else:
                known.add(shed)
            return True

    def take(self, seconds_to_wait: Callable[[], float | None]) -> Taken:
        """Return all that waits; waits for it as long as told (None: for ever), as long as news may, or until woken."""
        with self._changed:
            if not self._items and not self._stopping:
                waits = [seconds for seconds in (seconds_to_wait(), self.feed.seconds_to_wait()) if seconds is not None]
                self._changed.wait(min(waits, default=None))
            taken, self._items = self._items, deque()
            self._bytes = 0
            self._shed = {}
            return Taken(items=taken, news=self.feed.mark(), stopping=self._stopping)

    def mark_done(self, count: int) -> None:
        """Note that so many more items, in the order in which they were put in, have been dealt with."""
        with self._changed:
            self._done += count
            self._changed.notify_all()

    def wait_until_done(self, timeout_seconds: float, alive: Callable[[], bool]) -> bool:
        """Wait until all that was put in so far is dealt with; False if it isn't in time, or nobody is ``alive`` to do it."""
        with self._changed:
            target = self._offered
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._done >= target or not alive(), timeout_seconds)
            return self._done >= target

    def stop(self) -> None:
        """Take nothing more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def _add(self, item: WorkItem) -> None:
        self._items.append(item)
        self._offered += 1
        self._changed.notify_all()
