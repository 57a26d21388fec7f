"""How long senders are kept waiting for their answer, so that no more comes in than can be evaluated.

Taking a span in costs a fraction of evaluating it, and that falls due seconds later. Without a brake senders that never rest fill the queue
first, and every verdict is late by all that waits: ten seconds at the default size. So each request is charged with the work that it will
have made, as measured, and once more is owed than ``FREE_SECONDS`` of it, its answer waits until the rest is worked off. Exporters
send their next batch after that, so they fall into step. If they are so many that each would have to wait longer than ``MOST_SECONDS``,
what is beyond is refused: taken in, it would be evaluated later and later (measured: with fifty senders, after half a minute).
Choice: a leaky bucket. Rejected: a smaller queue (refuses short bursts, which it is there for), a bound on what waits (what is due
later does not wait anywhere yet).
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from otel_toolcall_eval.model.errors import OverloadedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FREE_SECONDS = 0.1
"""Of work that may be owed before anybody waits: a batch of 512 spans is a twentieth of a second, so senders that pause notice nothing."""

MOST_SECONDS = 3.0
"""That one answer waits. The Collector's exporter gives up after five, those of SDKs after ten."""

_MEMORY_SPANS = 5_000  # after as many, what was measured before counts for half
_REST_SPANS = (
    5_000  # of which so many were evaluated while none came: then evaluation has the process to itself, and is cheaper than in a flood
)
_LONG_MEMORY_SPANS = 60_000
"""Of a lower cost that is measured at rest: it would brake the next flood too little for its first seconds, when nothing is due yet."""

BESIDES = 1.35
"""Times what the worker's thread takes: receiving and decoding, on other threads, take a third as long again. Counted by callgrind."""

_SPANS_BEFORE = 1_000  # of which the costs are supposed, not measured: the very first span of all warms everything up
_SECONDS_BEFORE = 50e-6  # of evaluation a span, until one is: after the quiet period, and a flood is as long unbraked
_HASTE = 5.0  # by a fifth of a second that verdicts are late already, work is charged twofold
_LATEST_SECONDS = 1.0  # what counts of it: a process that was suspended was not busy
_PAUSE_NS = 1_000_000_000  # a turn of the worker takes a fifteenth; a longer one most likely holds a pause of the process, or the machine
_MOST_SPAN_NS = 1_000_000  # what counts of a span in such a turn; spans that do cost more, for turns on end, are braked too little


class SpanCost(NamedTuple):
    """What a span makes of work, of late: seconds, and how late verdicts are already, in seconds."""

    span_seconds: float = 0.0
    late_seconds: float = 0.0


class AdmissionController:
    """Says how long senders wait. Any thread."""

    def __init__(self, transports: Iterable[str] = ()) -> None:
        """Owe nothing; senders by these transports are counted from the start, so that the first one is an increase."""
        self._delayed: Counter[str] = Counter(dict.fromkeys(transports, 0))  # guarded by _lock, as all in ``reset``
        self.reset()

    def reset(self) -> None:
        """Forget what is owed, and whoever holds the lock: after a fork that thread is in the parent."""
        self._lock = Lock()
        self._owed_seconds = 0.0
        self._at_ns = 0

    @property
    def delayed(self) -> Mapping[str, int]:
        """Return how many answers were told to wait, by transport."""
        with self._lock:
            return dict(self._delayed)

    def admit(self, spans: int, *, transport: str, now_ns: int) -> None:
        """Let a request with so many spans pass; nothing is charged before it is taken.

        Raises:
            OverloadedError: what is owed already is more than anybody waits for; the request is not to be taken.
        """
        with self._lock:
            self._pass_time(now_ns)
            if spans and self._owed_seconds >= FREE_SECONDS + MOST_SECONDS:
                raise OverloadedError(where=transport, what="more comes than can be judged", fix="send the request again after a moment")

    def charge(self, spans: int, burden: SpanCost, *, transport: str, now_ns: int) -> float:
        """Charge a request that was taken; returns for how many seconds its answer has to wait, 0 to MOST_SECONDS."""
        charged = spans * burden.span_seconds * (1.0 + _HASTE * burden.late_seconds)
        with self._lock:
            self._pass_time(now_ns)
            # Of what nobody waits for no more is owed than once: one flood must not brake the senders of an hour later.
            self._owed_seconds = min(self._owed_seconds + charged, 2 * MOST_SECONDS)
            seconds = min(max(0.0, self._owed_seconds - FREE_SECONDS), MOST_SECONDS)
            if seconds:
                self._delayed[transport] += 1
            return seconds

    def _pass_time(self, now_ns: int) -> None:
        """Let what was worked off meanwhile be owed no longer; under the lock."""
        self._owed_seconds = max(0.0, self._owed_seconds - max(0, now_ns - self._at_ns) / 1e9)
        self._at_ns = max(self._at_ns, now_ns)


class CostEstimator:
    """Measures the burden. The worker's thread tells, any may ask."""

    def __init__(self) -> None:
        """Know nothing yet, and suppose a little."""
        self.reset()

    def reset(self) -> None:
        """Forget what was measured."""
        self._taking = _Cost(0.0)
        self._judging = _Cost(_SECONDS_BEFORE)
        self._late_seconds = 0.0
        self._since_taken = 0  # spans that were evaluated since some came

    @property
    def burden(self) -> SpanCost:
        """Return what was measured."""
        return SpanCost((self._taking.seconds + self._judging.seconds) * BESIDES, self._late_seconds)

    def record_ingest(self, spans: int, *, ns: int) -> None:
        """Hear how long it took to take so many spans in."""
        self._since_taken = 0
        self._taking.update(spans, ns)

    def record_evaluation(self, spans: int, *, ns: int, late_ns: int) -> None:
        """Hear how long it took to evaluate the traces of so many spans, and how late that was."""
        self._judging.update(spans, ns, at_rest=self._since_taken >= _REST_SPANS)
        self._since_taken += spans
        self._late_seconds = min(late_ns / 1e9, _LATEST_SECONDS)


class _Cost:
    """What a span costs, of late."""

    def __init__(self, supposed_seconds: float) -> None:
        self._known_spans = _SPANS_BEFORE
        self.seconds = supposed_seconds  # for one; written in one step, so any thread may read it

    def update(self, spans: int, ns: int, *, at_rest: bool = False) -> None:
        if not spans:
            return
        if ns > _PAUSE_NS:  # a minute's pause, taken for work, would hold senders back for minutes: it is forgotten by spans that come
            ns = min(ns, spans * _MOST_SPAN_NS)
        found = ns / 1e9 / spans
        memory_spans = min(self._known_spans, _MEMORY_SPANS)
        if at_rest and found < self.seconds and memory_spans == _MEMORY_SPANS:
            memory_spans = _LONG_MEMORY_SPANS
        self._known_spans += spans
        self.seconds += (found - self.seconds) * spans / (memory_spans + spans)
