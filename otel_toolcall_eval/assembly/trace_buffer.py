"""Groups spans by trace ID within bounds, and says what it dropped.

Choice: one lazy heap of deadlines. A new span only ever moves a deadline back (the quiet period restarts), except that
the first root moves it forward; so a trace is pushed when it opens and when its deadline comes forward, and an entry that
surfaces too early is pushed again with the true one. Cost: O(1) for most spans, O(log open traces) for the others.
Rejected: a timer wheel (needs a tick, so a verdict is late by up to one), a timer for each trace (a thread or loop in core).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.completion import CompletionPolicy, due
from otel_toolcall_eval.assembly.decisions import DecisionCache
from otel_toolcall_eval.assembly.open_trace import Arrival, OpenTrace
from otel_toolcall_eval.assembly.settled import REVISABLE, SettledTraces
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_toolcall_eval.model.trace import Span, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLimits:
    """Bounds. What exceeds them is judged early or counted, never silently lost.

    Attributes:
        num_traces: open traces; beyond it the oldest is judged and evicted.
        limit_bytes: estimated bytes of all open traces; beyond it likewise.
        maximum_trace_size_bytes: estimated bytes of one trace; beyond it spans are counted and not kept.
        span_limit: tool, model and agent spans kept of one trace.
        decisions: trace IDs remembered after their decision, so that a late span never opens a fresh trace.
        decisions_ns: how long they are remembered.
    """

    num_traces: int = 100_000
    limit_bytes: int = 256 * 1024 * 1024
    maximum_trace_size_bytes: int = 8 * 1024 * 1024
    span_limit: int = 10_000
    decisions: int = 1_000_000
    decisions_ns: int = 3600 * 1_000_000_000


@dataclass(slots=True, kw_only=True)
class AddResult:
    """What became of the spans of one call: ``received = relevant + ignored + duplicate + conflict``.

    ``late`` and ``dropped`` spans are counted as relevant or ignored, too.
    """

    received: int = 0
    relevant: int = 0
    ignored: int = 0
    duplicate: int = 0
    conflict: int = 0
    late: int = 0
    late_ages_ns: list[int] = field(default_factory=list)  # how long after the verdict, one for each late span
    dropped: int = 0


class TraceBuffer:
    """All open traces. Owned by one thread; time in, values out."""

    def __init__(
        self,
        *,
        is_relevant: Callable[[Span], bool],
        policy: CompletionPolicy | None = None,
        limits: BufferLimits | None = None,
    ) -> None:
        """Start empty.

        Args:
            is_relevant: tells whether a span could matter to the verdict; the others only hold the tree together.
            policy: waiting times; the sidecar's by default.
            limits: bounds; the sidecar's by default.
        """
        self._is_relevant = is_relevant
        self._policy = policy or CompletionPolicy()
        self._limits = limits or BufferLimits()
        self._open: dict[bytes, OpenTrace] = {}  # insertion order is order of first arrival: the first is the oldest
        self._deadlines: list[tuple[int, bytes]] = []
        self._evicted: list[Trace] = []
        self._settled = SettledTraces(self._policy)
        self._decided = DecisionCache(capacity=self._limits.decisions, keep_ns=self._limits.decisions_ns)
        self._open_bytes = 0

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    @property
    def size_bytes(self) -> int:
        """Return the estimated bytes of all traces that are kept, open or revisable."""
        return self._open_bytes + self._settled.size_bytes

    @property
    def revisable(self) -> int:
        """Return how many decided traces may still be revised."""
        return len(self._settled)

    def attach(self, trace_id: bytes, note: object) -> None:
        """Attach a note to a decided trace; it comes back if the trace is looked at again."""
        trace = self._settled.find(trace_id)
        if trace is not None:
            trace.note = note

    def release(self, trace_id: bytes) -> None:
        """Give up the chance to revise a decided trace, because nothing judges it."""
        self._settled.forget(trace_id)

    def add(self, spans: Iterable[Span], *, now_ns: int, open_spans: Mapping[bytes, int] | None = None) -> AddResult:
        """Take in the spans of one request.

        Args:
            spans: of any traces, in any order, repeated or not.
            now_ns: monotonic time of arrival.
            open_spans: in process, how many local spans of a trace are still open, by trace ID.
        """
        result = AddResult()
        touched: set[bytes] = set()
        for span in spans:
            result.received += 1
            self._add(span, now_ns, result)
            touched.add(span.trace_id)
        for trace_id in touched:
            trace = self._open.get(trace_id)
            if trace is not None:
                if open_spans is not None:
                    trace.open_spans = open_spans.get(trace_id, 0)
                self._schedule(trace)
        self._shed(now_ns)
        return result

    def next_due_ns(self) -> int | None:
        """Return a time before which nothing is due; None if nothing is open."""
        if self._evicted:
            return 0
        return self._deadlines[0][0] if self._deadlines else None

    def pop_due(self, *, now_ns: int) -> list[Trace]:
        """Return the traces that are due, oldest deadline first, after those that were evicted meanwhile."""
        traces, self._evicted = self._evicted, []
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            _, trace_id = heapq.heappop(self._deadlines)
            trace = self._open.get(trace_id)
            if trace is None:
                traces += self._look_again(trace_id, now_ns)
                continue
            due_ns, trigger = due(trace.progress(), self._policy)
            if due_ns > now_ns:
                trace.scheduled_ns = due_ns
                heapq.heappush(self._deadlines, (due_ns, trace_id))
                continue
            traces.append(self._close(trace, trigger, now_ns))
        return traces

    def drain(self, *, now_ns: int, trigger: Trigger = Trigger.SHUTDOWN) -> list[Trace]:
        """Return all traces, due or not, oldest first, and be empty."""
        traces, self._evicted = self._evicted, []
        traces += [self._close(trace, trigger, now_ns) for trace in list(self._open.values())]
        self._settled.clear()
        self._deadlines.clear()
        return traces

    def _add(self, span: Span, now_ns: int, result: AddResult) -> None:
        relevant = self._is_relevant(span)
        trace = self._open.get(span.trace_id) or self._settled.find(span.trace_id)
        if trace is None:
            decided_ns = self._decided.decided_ns(span.trace_id)
            if decided_ns is not None:  # too late to revise anything, and never the start of a fresh trace
                self._count_late(result, now_ns - decided_ns)
                self._count(result, relevant=relevant)
                return
            trace = self._open[span.trace_id] = OpenTrace(span.trace_id, now_ns=now_ns)
            self._open_bytes += trace.size_bytes
        before = trace.size_bytes
        arrival = trace.add(
            span,
            now_ns=now_ns,
            relevant=relevant,
            span_limit=self._limits.span_limit,
            max_bytes=self._limits.maximum_trace_size_bytes,
        )
        self._account(trace, trace.size_bytes - before, now_ns)
        if arrival is Arrival.DUPLICATE:
            result.duplicate += 1
            return
        if trace.decided_ns is not None:
            self._count_late(result, now_ns - trace.decided_ns)
        if arrival is Arrival.CONFLICT:
            result.conflict += 1
        else:
            result.dropped += arrival is Arrival.DROPPED
            self._count(result, relevant=relevant)

    def _account(self, trace: OpenTrace, grown_bytes: int, now_ns: int) -> None:
        if trace.decided_ns is None:
            self._open_bytes += grown_bytes
            return
        look_ns = self._settled.grew(trace, grown_bytes, now_ns=now_ns)
        if look_ns is not None:
            heapq.heappush(self._deadlines, (look_ns, trace.trace_id))

    def _look_again(self, trace_id: bytes, now_ns: int) -> list[Trace]:
        """Look at a decided trace; an entry of one that was evicted or forgotten meanwhile changes nothing."""
        trace = self._settled.find(trace_id)
        revised = trace and self._settled.look(trace, now_ns=now_ns)
        return [revised] if revised else []

    @staticmethod
    def _count_late(result: AddResult, age_ns: int) -> None:
        result.late += 1
        result.late_ages_ns.append(age_ns)

    @staticmethod
    def _count(result: AddResult, *, relevant: bool) -> None:
        if relevant:
            result.relevant += 1
        else:
            result.ignored += 1

    def _schedule(self, trace: OpenTrace) -> None:
        """Push a deadline if it is the trace's first or comes before the one that stands in the heap."""
        due_ns, _ = due(trace.progress(), self._policy)
        if trace.scheduled_ns is None or due_ns < trace.scheduled_ns:
            trace.scheduled_ns = due_ns
            heapq.heappush(self._deadlines, (due_ns, trace.trace_id))

    def _shed(self, now_ns: int) -> None:
        """Keep within bounds: first give up revisions, then judge the oldest traces on what is there."""
        limits = self._limits
        while len(self._settled) > limits.num_traces or (self.size_bytes > limits.limit_bytes and len(self._settled)):
            self._settled.forget_oldest()
        while len(self._open) > limits.num_traces:
            self._evict(Trigger.EVICTION, now_ns)
        while self.size_bytes > limits.limit_bytes and self._open:
            self._evict(Trigger.MEMORY, now_ns)

    def _evict(self, trigger: Trigger, now_ns: int) -> None:
        oldest = next(iter(self._open.values()))
        self._evicted.append(self._close(oldest, trigger, now_ns))

    def _close(self, trace: OpenTrace, trigger: Trigger, now_ns: int) -> Trace:
        del self._open[trace.trace_id]
        self._open_bytes -= trace.size_bytes
        closed = trace.close(trigger, now_ns=now_ns)
        self._decided.add(trace.trace_id, now_ns=now_ns)
        if trigger in REVISABLE:
            heapq.heappush(self._deadlines, (self._settled.keep(trace, now_ns=now_ns), trace.trace_id))
        return closed
