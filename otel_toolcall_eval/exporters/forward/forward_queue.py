"""Requests that wait to be forwarded, bounded by bytes.

Room is reserved before anything is done with a request, so that one that can't be forwarded is rejected whole. Requests go in the order in
which they came, but for those that are tried again; order is not promised. Rejected: one queue for each sender, where one slow request
would hold up others at random.

A downstream that is down fails whatever it is sent; asking it for each of a thousand waiting requests helps nobody. So after a failure
all wait, and then one request goes ahead and tells how things are. But what fails may be the one request, so a single failure costs the
others little, and that request the more.
"""

from __future__ import annotations

import heapq
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.exporters.forward.downstream import Delivered, Refused
from otel_toolcall_eval.model.errors import ForwardQueueFullError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_toolcall_eval.exporters.forward.downstream import Outcome, QueuedRequest, RetryLater

DELIVERED: Final = "delivered"
REFUSED: Final = "refused"
EXPIRED: Final = "expired"
LOST: Final = "lost"

_SECOND_NS = 1_000_000_000
FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 5.0
"""So what was down is in use again within 5 s of its return."""
LONGEST_ASKED_SECONDS: Final = 60.0
"""Most that a downstream's own wish is followed; by the word of a confused one we would never ask again."""


@dataclass(slots=True, kw_only=True)
class Entry:
    """A parcel on its way.

    Attributes:
        room_bytes: what it takes of the bound.
        put_ns: when it was put in.
        first_ns: when it was first tried; None if it wasn't.
        began_ns: when it was last tried.
    """

    parcel: QueuedRequest
    room_bytes: int
    put_ns: int
    first_ns: int | None = None
    began_ns: int = 0
    tries: int = 0


def backoff_ns(tries: int, random: Callable[[], float]) -> int:
    """Return how long to wait after so many failures in a row: doubling, with a jitter of half of it.

    Args:
        tries: from 1.
        random: from 0 to 1.
    """
    seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(tries - 1, 10))
    return round(seconds * (0.5 + 0.5 * random()) * _SECOND_NS)


def asked_ns(after_seconds: float | None) -> int:
    """Return how long the downstream asks to wait, within reason."""
    return 0 if after_seconds is None else round(min(max(after_seconds, 0.0), LONGEST_ASKED_SECONDS) * _SECOND_NS)


class Gate:
    """Holds all requests back while the downstream fails. Guarded by its owner's lock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Start open."""
        self._random = random
        self._failed_ns = -1
        self._probing = False
        self.failures = 0
        self.opens_ns = 0

    @property
    def waits_for_probe(self) -> bool:
        """True while all depends on one request that is under way."""
        return self.failures > 0 and self._probing

    def passed(self) -> None:
        """Note that a request went; after failures it is the only one."""
        self._probing = self.failures > 0

    def answered(self) -> None:
        """Note an answer that shows that the downstream works."""
        self.failures = 0
        self._probing = False

    def failed(self, *, began_ns: int, now_ns: int, after_seconds: float | None) -> None:
        """Note a failure. What was under way beside another failure tells nothing new.

        What a downstream asks for is followed from the second failure on: the first may be about the one request alone.
        """
        self._probing = False
        if began_ns <= self._failed_ns:
            return
        self._failed_ns = now_ns
        self.failures += 1
        wait_ns = backoff_ns(self.failures, self._random)
        self.opens_ns = now_ns + (max(wait_ns, asked_ns(after_seconds)) if self.failures > 1 else wait_ns)


class ForwardQueue:
    """One condition guards all of it. Any thread puts in, the senders take out."""

    def __init__(self, *, limit_bytes: int, max_elapsed_ns: int, clock: Callable[[], int], random: Callable[[], float]) -> None:
        """Start empty.

        Args:
            limit_bytes: of all that is reserved; a single request larger than this still fits into an empty queue.
            max_elapsed_ns: since it was first tried, until a request is given up.
            clock: monotonic nanoseconds.
            random: from 0 to 1.
        """
        self._limit_bytes = limit_bytes
        self._max_elapsed_ns = max_elapsed_ns
        self._clock = clock
        self._random = random
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._gate = Gate(random)
        self._waiting: list[tuple[int, int, Entry]] = []  # by when each is due, then in order
        self._under_way = 0
        self._number = 0
        self._bytes = 0
        self._wanted_bytes = 0  # what was last refused; 0 if it would fit now
        self._stopping = False
        self._cut = False
        self._results: Counter[tuple[str, str]] = Counter()
        self._retries: Counter[str] = Counter()
        self._undelivered = 0

    @property
    def is_full(self) -> bool:
        """True while what was refused last would be refused again."""
        with self._changed:
            return self._wanted_bytes > 0

    @property
    def failures(self) -> int:
        """Return how often the downstream failed in a row."""
        with self._changed:
            return self._gate.failures

    @property
    def size_bytes(self) -> int:
        """Return what is reserved."""
        with self._changed:
            return self._bytes

    def counts(self) -> tuple[Mapping[tuple[str, str], int], Mapping[str, int]]:
        """Return the numbers of requests by result and signal, and of repeated tries by signal."""
        with self._changed:
            return dict(self._results), dict(self._retries)

    @property
    def undelivered_items(self) -> int:
        """Return how many items were in the requests that were given up."""
        with self._changed:
            return self._undelivered

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until nothing waits and nothing is under way; False if that took longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._under_way, timeout_seconds)

    def reserve(self, room_bytes: int) -> None:
        """Reserve room; raises ForwardQueueFullError if there is none, or the service is stopping."""
        with self._changed:
            if self._stopping or (self._bytes and self._bytes + room_bytes > self._limit_bytes):
                self._wanted_bytes = 0 if self._stopping else room_bytes
                what = "the service is stopping" if self._stopping else "the queue of requests to pass on is full"
                raise ForwardQueueFullError(where="request", what=what, fix="send the request again after a moment")
            self._bytes += room_bytes

    def release(self, room_bytes: int) -> None:
        """Give up room that was reserved."""
        with self._changed:
            self._free(room_bytes)

    def put(self, parcel: QueuedRequest, *, room_bytes: int) -> None:
        """Put a parcel into room that was reserved."""
        with self._changed:
            now_ns = self._clock()
            entry = Entry(parcel=parcel, room_bytes=room_bytes, put_ns=now_ns)
            if self._cut:  # nobody will send it
                self._finish(entry, LOST)
                return
            self._push(entry, due_ns=now_ns)

    def take(self, *, wait: bool = True) -> Entry | None:
        """Return what is to be sent next, once it is due; None after ``stop``, and if nothing is due and nobody is to wait."""
        with self._changed:
            while not self._cut:
                now_ns = self._clock()
                wait_ns = self._wait_ns(now_ns)
                if wait_ns == 0:
                    return self._pop(now_ns)
                if not wait:
                    return None
                self._changed.wait(None if wait_ns is None else wait_ns / 1e9)
            return None

    @property
    def is_cut(self) -> bool:
        """True once nothing is sent any more."""
        return self._cut

    def settle(self, entry: Entry, outcome: Outcome) -> str | None:
        """Note what became of a parcel; returns its result, None if it is to be tried again."""
        with self._changed:
            self._under_way -= 1
            now_ns = self._clock()
            if isinstance(outcome, Delivered | Refused):
                self._gate.answered()
                return self._finish(entry, DELIVERED if isinstance(outcome, Delivered) else REFUSED)
            self._gate.failed(began_ns=entry.began_ns, now_ns=now_ns, after_seconds=outcome.after_seconds)
            return self._again(entry, outcome, now_ns)

    def stop(self, timeout_seconds: float) -> int:
        """Take nothing more, wait until all is sent or time is up, and return how many requests are left, which are counted as lost."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            self.wait_until_empty(timeout_seconds)
            self._cut = True
            left = len(self._waiting) + self._under_way
            for _, _, entry in self._waiting:
                self._finish(entry, LOST)
            self._waiting.clear()
            self._changed.notify_all()
            return left

    def _again(self, entry: Entry, outcome: RetryLater, now_ns: int) -> str | None:
        if self._cut:
            return self._finish(entry, LOST)
        if now_ns - (entry.first_ns or now_ns) >= self._max_elapsed_ns:
            return self._finish(entry, EXPIRED)
        self._retries[entry.parcel.signal.name.lower()] += 1
        self._push(entry, due_ns=now_ns + max(backoff_ns(entry.tries, self._random), asked_ns(outcome.after_seconds)))
        return None

    def _wait_ns(self, now_ns: int) -> int | None:
        """Return how long nothing can be sent; None: until something changes."""
        if not self._waiting or self._gate.waits_for_probe:
            return None
        due_ns = self._waiting[0][0]
        if self._gate.failures:
            due_ns = max(due_ns, self._gate.opens_ns)
        return max(0, due_ns - now_ns)

    def _pop(self, now_ns: int) -> Entry:
        _, _, entry = heapq.heappop(self._waiting)
        entry.began_ns = now_ns
        entry.first_ns = now_ns if entry.first_ns is None else entry.first_ns
        entry.tries += 1
        self._under_way += 1
        self._gate.passed()
        return entry

    def _push(self, entry: Entry, *, due_ns: int) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (due_ns, self._number, entry))
        self._changed.notify_all()

    def _finish(self, entry: Entry, result: str) -> str:
        self._results[result, entry.parcel.signal.name.lower()] += 1
        if result != DELIVERED:
            self._undelivered += entry.parcel.items
        self._free(entry.room_bytes)
        return result

    def _free(self, room_bytes: int) -> None:
        self._bytes -= room_bytes
        if not self._bytes or self._bytes + self._wanted_bytes <= self._limit_bytes:
            self._wanted_bytes = 0
        self._changed.notify_all()
