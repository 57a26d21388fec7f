"""Groups spans by trace ID within bounds, and says what it dropped.

Choice: one lazy heap of deadlines. A new span only ever moves a deadline back (the quiet period restarts), except that
the first root moves it forward; so a trace is pushed when it opens and when its deadline comes forward, and an entry that
surfaces too early is pushed again with the true one. Cost: O(1) for most spans, O(log open traces) for the others.
Rejected: a timer wheel (needs a tick, so a verdict is late by up to one), a timer for each trace (a thread or loop in core).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.completion import CompletionPolicy, due
from otel_toolcall_eval.assembly.decisions import DecisionCache
from otel_toolcall_eval.assembly.open_trace import Arrival, OpenTrace
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

    ``late`` and ``beyond_limit`` spans are counted as relevant or ignored, too.
    """

    received: int = 0
    relevant: int = 0
    ignored: int = 0
    duplicate: int = 0
    conflict: int = 0
    late: int = 0
    beyond_limit: int = 0


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
        self._decided = DecisionCache(capacity=self._limits.decisions, keep_ns=self._limits.decisions_ns)
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

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
                continue  # decided or evicted under an earlier entry
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
        self._deadlines.clear()
        return traces

    def _add(self, span: Span, now_ns: int, result: AddResult) -> None:
        relevant = self._is_relevant(span)
        trace = self._open.get(span.trace_id)
        if trace is None:
            if span.trace_id in self._decided:
                result.late += 1
                self._count(result, relevant=relevant)
                return
            trace = self._open[span.trace_id] = OpenTrace(span.trace_id, now_ns=now_ns)
            self.size_bytes += trace.size_bytes
        before = trace.size_bytes
        arrival = trace.add(
            span,
            now_ns=now_ns,
            relevant=relevant,
            span_limit=self._limits.span_limit,
            max_bytes=self._limits.maximum_trace_size_bytes,
        )
        self.size_bytes += trace.size_bytes - before
        if arrival is Arrival.DUPLICATE:
            result.duplicate += 1
        elif arrival is Arrival.CONFLICT:
            result.conflict += 1
        else:
            result.beyond_limit += arrival is Arrival.BEYOND_LIMIT
            self._count(result, relevant=relevant)

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
        """Evict the oldest traces, each with a verdict on what is there, until the bounds hold."""
        while len(self._open) > self._limits.num_traces:
            self._evict(Trigger.EVICTION, now_ns)
        while self.size_bytes > self._limits.limit_bytes and self._open:
            self._evict(Trigger.MEMORY, now_ns)

    def _evict(self, trigger: Trigger, now_ns: int) -> None:
        oldest = next(iter(self._open.values()))
        self._evicted.append(self._close(oldest, trigger, now_ns))

    def _close(self, trace: OpenTrace, trigger: Trigger, now_ns: int) -> Trace:
        del self._open[trace.trace_id]
        self.size_bytes -= trace.size_bytes
        self._decided.add(trace.trace_id, now_ns=now_ns)
        return trace.close(trigger, now_ns=now_ns)
