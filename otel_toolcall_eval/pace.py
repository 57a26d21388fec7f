"""How long senders are kept waiting for their answer, so that no more comes in than can be judged.

Taking a span in costs a fraction of judging it, and that falls due seconds later. Without a brake senders that never rest fill the queue
first, and every verdict is late by all that waits: ten seconds at the default size. So each request is charged with the work that it will
have made, as measured, and once more is owed than ``FREE_SECONDS`` of it, its answer waits until the rest is worked off. Exporters
send their next batch after that, so they fall into step; senders that don't are refused when the queue is full, as ever.
Choice: a leaky bucket. Rejected: a smaller queue (refuses short bursts, which it is there for), a bound on what waits (what is due
later does not wait anywhere yet).
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FREE_SECONDS = 0.1
"""Of work that may be owed before anybody waits: a batch of 512 spans is a twentieth of a second, so senders that pause notice nothing."""

MOST_SECONDS = 1.0
"""That one answer waits. Exporters give up after ten."""

_MEMORY_SPANS = 5_000  # after as many, what was measured before counts for half
_FREE_SPANS = 1_000  # what the first are taken to have cost nothing: the very first of all warms everything up
_HASTE = 5.0  # by a fifth of a second that verdicts are late already, work is charged twofold
_LATEST_SECONDS = 1.0  # what counts of it: a process that was suspended was not busy


class Pace:
    """Any thread may ask, the worker's tells."""

    def __init__(self) -> None:
        """Know nothing yet: work costs nothing."""
        self._delayed: Counter[str] = Counter()  # guarded by _lock, as all in ``begin_anew``
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget what is owed, and whoever holds the lock: after a fork that thread is in the parent."""
        self._lock = Lock()
        self._taking = _Cost()
        self._judging = _Cost()
        self._late_seconds = 0.0
        self._owed_seconds = 0.0
        self._at_ns = 0

    @property
    def delayed(self) -> Mapping[str, int]:
        """Return how many answers were told to wait, by transport."""
        with self._lock:
            return dict(self._delayed)

    def admit(self, spans: int, *, transport: str, now_ns: int) -> float:
        """Charge a request that was taken with so many spans; returns for how many seconds its answer has to wait, 0 to MOST_SECONDS."""
        with self._lock:
            passed = max(0, now_ns - self._at_ns) / 1e9
            self._at_ns = max(self._at_ns, now_ns)
            charged = spans * (self._taking.seconds + self._judging.seconds) * (1.0 + _HASTE * self._late_seconds)
            # What is not waited for is not owed for ever: one flood must not brake the senders of an hour later.
            self._owed_seconds = min(max(0.0, self._owed_seconds - passed) + charged, FREE_SECONDS + MOST_SECONDS)
            seconds = max(0.0, self._owed_seconds - FREE_SECONDS)
            if seconds:
                self._delayed[transport] += 1
            return seconds

    def took(self, spans: int, *, ns: int) -> None:
        """Hear how long it took to take so many spans in."""
        with self._lock:
            self._taking.learn(spans, ns)

    def judged(self, spans: int, *, ns: int, late_ns: int) -> None:
        """Hear how long it took to judge the traces of so many spans, and how late that was."""
        with self._lock:
            self._judging.learn(spans, ns)
            self._late_seconds = min(late_ns / 1e9, _LATEST_SECONDS)


class _Cost:
    """What a span costs, of late."""

    def __init__(self) -> None:
        self._spans = float(_FREE_SPANS)
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        return self._seconds / self._spans

    def learn(self, spans: int, ns: int) -> None:
        kept = _MEMORY_SPANS / (_MEMORY_SPANS + spans)
        self._spans = self._spans * kept + spans
        self._seconds = self._seconds * kept + ns / 1e9
