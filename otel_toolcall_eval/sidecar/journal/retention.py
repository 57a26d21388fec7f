"""Which rows are still needed. The file therefore has the same bounds as memory.

A row is needed while its trace is held, and until what was decided of the trace has reached whoever listens. After that the decision
alone is remembered, for as long as the decision cache remembers it. Log records and bindings may wait for a trace that never comes; they
have an age and a bound of their own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.decision import PriorVerdict
from otel_toolcall_eval.sidecar.journal.entries import decision_of, kept_of, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from otel_toolcall_eval.engine.buffer.restore import TraceRestorer
    from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
    from otel_toolcall_eval.sidecar.journal.entries import Draft


SECOND_NS = 1_000_000_000
LOG_BYTES = 128 << 20
LOG_WINDOW_NS = 3660 * SECOND_NS
"""A trace's longest life; see ``LogLimits``."""


@dataclass(slots=True, kw_only=True)
class TraceRecord:
    """What was decided of a trace whose rows are still here.

    Attributes:
        number: of the last decision.
        keys: of the trace, or of its units, and when each was decided first, as Unix time in nanoseconds.
    """

    number: int = 0
    keys: dict[bytes, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Removal:
    """What is to be removed at one go.

    Attributes:
        traces: trace IDs, each with the number of the last row to remove.
        remember: keys of their decisions, and when each was taken.
        rows: numbers of single rows.
    """

    traces: list[tuple[bytes, int]] = field(default_factory=list)
    remember: list[tuple[bytes, int]] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Tell whether there is anything to do."""
        return bool(self.traces or self.rows)


class Retention:
    """Owned by the worker's thread."""

    def __init__(self, *, late_window_ns: int, limits: BufferLimits, log_bytes: int = LOG_BYTES) -> None:
        """Start with no rows."""
        self._late_window_ns = late_window_ns
        self._most_gone = limits.num_traces
        self._log_bytes = log_bytes
        self._keep_ns = limits.decisions_ns
        self._most_decided = limits.decisions
        self.fates: dict[bytes, TraceRecord] = {}
        self._watched: deque[tuple[int, bytes]] = deque()  # when to look whether a decided trace is still held
        self._gone: deque[tuple[int, bytes]] = deque()  # the last row to remove, and the trace
        self._leaving: dict[bytes, int] = {}  # the traces in it, each with the greatest of those numbers
        self._loose: deque[tuple[int, int, int]] = deque()  # time, number and size of rows that may wait for a trace
        self._loose_bytes = 0
        self._marks: deque[tuple[int, int]] = deque()  # time, and the number of the last remembered decision then

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing will have to be removed."""
        return not (self._watched or self._gone or self._loose)

    def decided(self, trace_id: bytes, key: bytes, *, number: int, unix_ns: int) -> None:
        """Note a decision."""
        fate = self.fates.get(trace_id)
        if fate is None:
            fate = self.fates[trace_id] = TraceRecord()
            self._watched.appendleft((0, trace_id))  # the decision may have released the trace
        fate.number = number
        fate.keys.setdefault(key, unix_ns)

    def waits(self, number: int, size: int, *, now_ns: int) -> None:
        """Note a row that may wait for a trace that never comes."""
        self._loose.append((now_ns, number, size))
        self._loose_bytes += size

    def let_go(self, trace_ids: Iterable[bytes], *, last_number: int) -> None:
        """Note traces that are not held any more."""
        for trace_id in trace_ids:
            if self._leaving.get(trace_id, -1) < last_number:
                self._leaving[trace_id] = last_number
                self._gone.append((last_number, trace_id))

    def watch(self, holds: Callable[[bytes], bool], *, last_number: int, now_ns: int) -> None:
        """Look which decided traces are not held any more. Cost: O(1) for each trace, and again for each late window that it is held."""
        for _ in range(len(self._watched)):
            due_ns, trace_id = self._watched[0]
            if due_ns > now_ns:
                break
            self._watched.popleft()
            if holds(trace_id):
                self._watched.append((now_ns + self._late_window_ns + SECOND_NS, trace_id))
            else:
                self.let_go([trace_id], last_number=last_number)

    def removal(self, holds: Callable[[bytes], bool], *, delivered: int, now_ns: int) -> Removal:
        """Return, once, what can be removed now: rows of traces no longer held whose verdicts were delivered."""
        removal = Removal()
        while self._gone:
            last_number, trace_id = self._gone[0]
            fate = self.fates.get(trace_id)
            if fate is not None and fate.number > delivered and len(self._gone) <= self._most_gone:
                break
            self._gone.popleft()
            if self._leaving.get(trace_id) == last_number:
                del self._leaving[trace_id]
            if holds(trace_id):  # it is here again: a session that goes on
                self._watched.append((now_ns + self._late_window_ns, trace_id))
                continue
            removal.traces.append((trace_id, last_number))
            if fate is not None:
                removal.remember += fate.keys.items()
                del self.fates[trace_id]
        while self._loose and (self._loose_bytes > self._log_bytes or self._loose[0][0] + LOG_WINDOW_NS <= now_ns):
            _, number, size = self._loose.popleft()
            self._loose_bytes -= size
            removal.rows.append(number)
        return removal

    def settled(self, trace_ids: Iterable[bytes], *, delivered: int) -> set[bytes]:
        """Return those of these traces of which nothing is to be emitted again after a kill."""
        return {trace_id for trace_id in trace_ids if trace_id not in self.fates or self.fates[trace_id].number <= delivered}

    def forgotten(self, last_decided: int, *, now_ns: int) -> int:
        """Return the number up to which remembered decisions may be forgotten."""
        if not self._marks or self._marks[-1][1] < last_decided:
            self._marks.append((now_ns, last_decided))
        bound = last_decided - self._most_decided
        while len(self._marks) > 1 and self._marks[0][0] + self._keep_ns <= now_ns:
            bound = max(bound, self._marks.popleft()[1])
        return bound


@dataclass(slots=True, kw_only=True)
class Compaction:
    """What is to be written.

    Attributes:
        deleted: trace IDs, all of whose rows are replaced but for log records and bindings.
        drafts: the rows that take their place.
        past: keys of decisions that can't be revised any more, each with the time of the decision; they are only remembered.
    """

    deleted: list[bytes] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    past: list[tuple[bytes, int]] = field(default_factory=list)

    def done(self, fates: dict[bytes, TraceRecord]) -> None:
        """Note that the decisions that are only remembered have no rows any more."""
        past = {key for key, _ in self.past}
        for trace_id in self.deleted:
            if trace_id in fates:
                fates[trace_id].keys = {key: at for key, at in fates[trace_id].keys.items() if key not in past}


def compaction(trace_ids: Iterable[bytes], earlier: TraceRestorer, fates: dict[bytes, TraceRecord], *, unix_ns: int) -> Compaction:
    """Return the rows that replace all earlier rows of these traces: their present state. Writes nothing. Cost: linear in their spans."""
    made = Compaction()
    for trace_id in trace_ids:
        made.deleted.append(trace_id)
        keys = dict(fates[trace_id].keys) if trace_id in fates else {}
        for kept in earlier.kept(trace_id):
            made.drafts.append(kept_of(kept))
            if kept.decided:
                stands = standing(kept.note if isinstance(kept.note, PriorVerdict) else None, kept)
                made.drafts.append(decision_of(stands, unix_ns=keys.pop(stands.key, unix_ns)))
        made.past += keys.items()
    return made
