"""Keeps log records until the trace that they belong to is evaluated. Source: docs/dialects.md, section 2e.

Logs and spans travel apart, so either may come first. A record waits under its trace ID for as long as the trace may be evaluated; one
without a trace ID waits for a shorter time under the ID of the call that it is about, until a trace with that call claims it.

Choice: records are kept beside the spans and not with them, so that the buffer of traces knows nothing of them. Rejected: a log
record as a reason to evaluate again; one that comes after the verdict counts only if a late span has the trace evaluated anew.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from otel_toolcall_eval.model.log_record import LogRecord

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLimits:
    """Bounds on the records that wait.

    Attributes:
        limit_bytes: estimated size of all of them; beyond it the oldest go.
        records: how many; beyond it the oldest go.
        trace_bytes: estimated size of those of one trace; beyond it new ones are not kept.
        window_ns: how long those with a trace ID wait: a trace's longest life, with its late window.
        late_window_ns: how long they are kept once the trace is evaluated, in case that it is evaluated again.
        loose_window_ns: how long those without a trace ID wait. Long enough for an agent's turn, since only its end shows who wants them.
    """

    limit_bytes: int = 32 * 1024 * 1024
    records: int = 100_000
    trace_bytes: int = 8 * 1024 * 1024
    window_ns: int = 3660 * _SECOND_NS
    late_window_ns: int = 60 * _SECOND_NS
    loose_window_ns: int = 600 * _SECOND_NS


class LogDrop(StrEnum):
    """Why a record was given up."""

    UNMATCHED = "unmatched"  # its trace was evaluated, or its time is over, and no span was there that it says something of
    UNBOUND = "unbound"  # its trace is evaluated by no criteria
    LIMIT = "limit"  # to stay within the bounds


@dataclass(slots=True, kw_only=True, eq=False)
class _Held:
    """The records of one trace."""

    since_ns: int
    records: list[LogRecord] = field(default_factory=list)
    joined: set[int] = field(default_factory=set)
    size_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loose:
    """A record without a trace ID."""

    record: LogRecord
    call_id: str
    since_ns: int


class LogStore:
    """Records that wait. Owned by one thread, but for ``joined`` and ``dropped``, which any may read.

    ``added = joined + dropped + waiting`` holds at every moment. Cost: O(1) for each record, spread over all.

    Attributes:
        joined: records that said something of a span.
        dropped: records that were given up, by reason.
    """

    def __init__(self, limits: LogLimits | None = None) -> None:
        """Start empty."""
        self._limits = limits or LogLimits()
        # Each in the order in which its entries expire.
        self._waiting: OrderedDict[bytes, _Held] = OrderedDict()
        self._decided: OrderedDict[bytes, _Held] = OrderedDict()
        self._loose: OrderedDict[int, _Loose] = OrderedDict()
        self._loose_by_call: dict[str, deque[int]] = {}
        self._number = 0
        self._kept = 0
        self.size_bytes = 0
        self.joined = 0
        self.dropped: Counter[LogDrop] = Counter()

    def __len__(self) -> int:
        """Return how many records are kept, joined ones too."""
        return self._kept

    @property
    def waiting(self) -> int:
        """Return how many records are neither joined nor dropped. Cost: linear in the traces that have any."""
        held = (*self._waiting.values(), *self._decided.values())
        return len(self._loose) + sum(len(one.records) - len(one.joined) for one in held)

    @property
    def has_uncorrelated(self) -> bool:
        """Return True if records without a trace ID wait."""
        return bool(self._loose)

    def add(self, records: Iterable[LogRecord], *, now_ns: int) -> None:
        """Keep records, as far as the bounds allow."""
        self.expire(now_ns=now_ns)
        for record in records:
            if record.trace_id is not None:
                self._add_to(record.trace_id, record, now_ns)
            elif (call_id := record.call_id) is not None:
                self._number += 1
                self._loose[self._number] = _Loose(record=record, call_id=call_id, since_ns=now_ns)
                self._loose_by_call.setdefault(call_id, deque()).append(self._number)
                self._take_on(record)
            else:
                self.dropped[LogDrop.UNMATCHED] += 1
            while self.size_bytes > self._limits.limit_bytes or self._kept > self._limits.records:
                self._evict()

    def claim(self, trace_id: bytes, call_ids: Collection[str], *, now_ns: int) -> None:
        """Give a trace the records without a trace ID that are about these calls."""
        for call_id in call_ids:
            for number in self._loose_by_call.pop(call_id, ()):
                record = self._loose.pop(number).record
                self._write_off(record)
                self._add_to(trace_id, record, now_ns)

    def of(self, trace_id: bytes) -> Sequence[LogRecord]:
        """Return the records of a trace, in order of arrival."""
        held = self._waiting.get(trace_id) or self._decided.get(trace_id)
        return () if held is None else held.records

    def join(self, trace_id: bytes, positions: Iterable[int]) -> None:
        """Count the records at these positions of ``of`` as joined, each once."""
        held = self._waiting.get(trace_id) or self._decided.get(trace_id)
        if held is not None:
            before = len(held.joined)
            held.joined.update(positions)
            self.joined += len(held.joined) - before

    def decide(self, trace_id: bytes, *, now_ns: int) -> None:
        """Note that a trace was evaluated: its records are kept for the late window only."""
        held = self._waiting.pop(trace_id, None) or self._decided.pop(trace_id, None)
        if held is not None:
            held.since_ns = now_ns
            self._decided[trace_id] = held

    def release(self, trace_id: bytes) -> None:
        """Give up the records of a trace that nothing evaluates."""
        held = self._waiting.pop(trace_id, None) or self._decided.pop(trace_id, None)
        if held is not None:
            self._drop(held, LogDrop.UNBOUND)

    def expire(self, *, now_ns: int) -> None:
        """Give up what has waited too long."""
        limits = self._limits
        for held, window_ns in ((self._waiting, limits.window_ns), (self._decided, limits.late_window_ns)):
            while held and next(iter(held.values())).since_ns + window_ns <= now_ns:
                self._drop(held.popitem(last=False)[1], LogDrop.UNMATCHED)
        while self._loose and next(iter(self._loose.values())).since_ns + limits.loose_window_ns <= now_ns:
            self._drop_loose(LogDrop.UNMATCHED)

    def clear(self) -> None:
        """Give up everything."""
        for held in (*self._waiting.values(), *self._decided.values()):
            self._drop(held, LogDrop.UNMATCHED)
        self._waiting.clear()
        self._decided.clear()
        while self._loose:
            self._drop_loose(LogDrop.UNMATCHED)

    def _add_to(self, trace_id: bytes, record: LogRecord, now_ns: int) -> None:
        held = self._waiting.get(trace_id)
        if held is None:
            # A trace that was evaluated and gets records again may have parts that are still to be evaluated.
            held = self._decided.pop(trace_id, None) or _Held(since_ns=now_ns)
            held.since_ns = now_ns
            self._waiting[trace_id] = held
        if held.size_bytes + record.size_bytes > self._limits.trace_bytes:
            self.dropped[LogDrop.LIMIT] += 1
            return
        held.records.append(record)
        held.size_bytes += record.size_bytes
        self._take_on(record)

    def _evict(self) -> None:
        """Give up the oldest: of evaluated traces, then of no trace, then of traces that are open."""
        if self._decided:
            self._drop(self._decided.popitem(last=False)[1], LogDrop.LIMIT)
        elif self._loose:
            self._drop_loose(LogDrop.LIMIT)
        else:
            self._drop(self._waiting.popitem(last=False)[1], LogDrop.LIMIT)

    def _drop(self, held: _Held, reason: LogDrop) -> None:
        self.dropped[reason] += len(held.records) - len(held.joined)
        self._kept -= len(held.records)
        self.size_bytes -= held.size_bytes

    def _drop_loose(self, reason: LogDrop) -> None:
        _, loose = self._loose.popitem(last=False)
        numbers = self._loose_by_call[loose.call_id]
        numbers.popleft()  # this one: both stand in order of arrival
        if not numbers:
            del self._loose_by_call[loose.call_id]
        self._write_off(loose.record)
        self.dropped[reason] += 1

    def _take_on(self, record: LogRecord) -> None:
        self._kept += 1
        self.size_bytes += record.size_bytes

    def _write_off(self, record: LogRecord) -> None:
        self._kept -= 1
        self.size_bytes -= record.size_bytes
