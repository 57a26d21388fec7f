"""Takes log records in, and hands a trace's spans out with the records on them. Source: docs/dialects.md, section 2e.

The store keeps, a joiner from the extraction room matches; this is what lies between them, so that the pipeline has one thing to ask.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from otel_toolcall_eval.engine.buffer.log_store import LogStore

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from otel_toolcall_eval.engine.buffer.log_store import LogLimits
    from otel_toolcall_eval.model.log_record import JoinedLogs, LogRecord
    from otel_toolcall_eval.model.trace import Span, Trace

_OVERLOAD = (("reason", "overload"),)

LogCount = tuple[str, tuple[tuple[str, str], ...]]
"""What is counted, and attributes."""


class LogRecordReader(Protocol):
    """Knows which record says something of which span."""

    def call_ids(self, spans: Sequence[Span]) -> Collection[str]:
        """Return the IDs of the calls that spans show."""
        ...

    def join(self, spans: Sequence[Span], records: Sequence[LogRecord], *, is_whole: bool = True) -> JoinedLogs:
        """Put records on spans."""
        ...


class LogCorrelator:
    """Log records on their way to spans. Owned by one thread, but for ``counts``.

    Attributes:
        counts: ``received`` and ``ignored`` by transport, ``correlated``, and ``dropped`` by reason; never changed but replaced, so that
            any thread reads those of one moment. received = ignored + correlated + dropped + those that still wait.
    """

    def __init__(self, joiner: LogRecordReader | None = None, limits: LogLimits | None = None) -> None:
        """Prepare; without a joiner every record is ignored."""
        self._joiner = joiner
        self._store = LogStore(limits)
        self._now_ns = 0
        self._taken: dict[LogCount, int] = {}
        self.counts: Mapping[LogCount, int] = {("correlated", ()): 0}

    @property
    def size_bytes(self) -> int:
        """Return the estimated size of what is kept."""
        return self._store.size_bytes

    def add(self, records: Sequence[LogRecord], *, received: int, transport: str, now_ns: int) -> None:
        """Take in the records of one request.

        Args:
            records: those that somebody asks for.
            received: how many the request held.
            transport: how they came; for the counts.
            now_ns: monotonic time of arrival.
        """
        kept = records if self._joiner is not None else ()
        by_transport = (("transport", transport),)
        for what, number in (("received", received), ("ignored", received - len(kept))):
            self._taken[what, by_transport] = self._taken.get((what, by_transport), 0) + number
        self.expire(now_ns=now_ns)
        self._store.add(kept, now_ns=now_ns)
        self._count()

    def shed(self, *, received: int, asked: int, transport: str) -> None:
        """Count the records of requests that were passed on and not taken in; ``asked`` of them somebody asks for."""
        by_transport = (("transport", transport),)
        taken = (("received", by_transport, received), ("ignored", by_transport, received - asked), ("dropped", _OVERLOAD, asked))
        for what, attributes, number in taken:
            self._taken[what, attributes] = self._taken.get((what, attributes), 0) + number
        self._count()

    def expire(self, *, now_ns: int) -> None:
        """Give up what has waited too long."""
        self._now_ns = now_ns
        if len(self._store):
            self._store.expire(now_ns=now_ns)
            self._count()

    def spans_of(self, trace: Trace) -> tuple[Span, ...]:
        """Return the spans of a trace with the records that say something of them. Cost: nothing if no record is kept."""
        if self._joiner is None:
            return trace.spans
        if self._store.has_uncorrelated:
            self._store.claim(trace.trace_id, self._joiner.call_ids(trace.spans), now_ns=self._now_ns)
        records = self._store.of(trace.trace_id)
        if not records:
            return trace.spans
        joined = self._joiner.join(trace.spans, records, is_whole=trace.unit_span_id is None)
        self._store.join(trace.trace_id, joined.used)
        self._count()
        return joined.spans

    def decide(self, trace: Trace, *, unbound: bool) -> None:
        """Note that a trace was evaluated, or that nothing evaluates it. Other parts of a trace that is evaluated in parts may follow."""
        if trace.unit_span_id is not None or not len(self._store):
            return
        if unbound:
            self._store.release(trace.trace_id)
        else:
            self._store.decide(trace.trace_id, now_ns=self._now_ns)
        self._count()

    def clear(self) -> None:
        """Give up everything: no trace is to follow."""
        self._store.clear()
        self._count()

    def _count(self) -> None:
        counts = {**self._taken, ("correlated", ()): self._store.joined}
        counts.update({("dropped", (("reason", reason.value),)): number for reason, number in self._store.dropped.items()})
        self.counts = counts
