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

from otel_toolcall_eval.engine.buffer.agent_invocations import AgentInvocations
from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit, completion_deadline
from otel_toolcall_eval.engine.buffer.decided_traces import DecidedTraces, DecisionCache
from otel_toolcall_eval.engine.buffer.decision_maker import DecisionMaker
from otel_toolcall_eval.engine.buffer.memory import Memory
from otel_toolcall_eval.engine.buffer.open_trace import Arrival, OpenTrace
from otel_toolcall_eval.engine.buffer.restore import TraceRestorer
from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot, waiting_of
from otel_toolcall_eval.engine.buffer.span_counts import AddResult
from otel_toolcall_eval.engine.buffer.span_kinds import EVERY_SPAN_MATTERS, SpanKinds
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.compression import Compressor
    from otel_toolcall_eval.model.trace import Span, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLimits:
    """Bounds. What exceeds them is evaluated early or counted, never silently lost.

    Attributes:
        num_traces: open traces; beyond it the oldest is evaluated and evicted.
        limit_bytes: estimated bytes of all open traces; beyond it likewise. Above a quarter of it traces
            that wait for long are packed, above three eighths of it others, too.
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


class TraceBuffer:
    """All open traces. Owned by one thread; time in, values out."""

    def __init__(
        self,
        *,
        is_relevant: Callable[[Span], bool] | None = None,
        kinds: SpanKinds | None = None,
        policy: CompletionPolicy | None = None,
        limits: BufferLimits | None = None,
    ) -> None:
        """Start empty.

        Args:
            is_relevant: tells whether a span could matter to the verdict; the others only hold the tree together.
            kinds: the same, and what roots and agents are; in place of ``is_relevant``.
            policy: waiting times; the sidecar's by default.
            limits: bounds; the sidecar's by default.
        """
        self._kinds = kinds or (SpanKinds(is_relevant=is_relevant) if is_relevant else EVERY_SPAN_MATTERS)
        self._policy = policy or CompletionPolicy()
        self._limits = limits or BufferLimits()
        self._open: dict[bytes, OpenTrace] = {}  # by trace ID; insertion order is order of first arrival: the first is the oldest
        self._deadlines: list[tuple[int, bytes]] = []  # with the key of an open or a settled trace
        self._evicted: list[Trace] = []
        self._settled = DecidedTraces(self._policy)
        self._decided = self._cache()
        self._memory = Memory(self._limits.limit_bytes // 4)
        self._units: AgentInvocations | None = None
        if self._policy.unit is Unit.AGENT_INVOCATION:
            self._units = AgentInvocations(
                kinds=self._kinds,
                policy=self._policy,
                containers=self._open,
                settled=self._settled,
                decided=self._decided,
                lost=self._cache(),
                memory=self._memory,
            )
        self._decider = DecisionMaker(
            open_traces=self._open,
            deadlines=self._deadlines,
            settled=self._settled,
            decided=self._decided,
            memory=self._memory,
            units=self._units,
        )
        self.restorer = TraceRestorer(
            kinds=self._kinds,
            open_traces=self._open,
            settled=self._settled,
            decided=self._decided,
            decider=self._decider,
            by_unit=self._units is not None,
        )

    def pack_by(self, make: Callable[[memoryview | None], Compressor]) -> None:
        """Pack traces that wait by other packers from now on; see ``CompressorPool``."""
        self._memory.pack_by(make)

    def __len__(self) -> int:
        """Return how many traces are open."""
        return len(self._open)

    @property
    def size_bytes(self) -> int:
        """Return the estimated bytes of all traces that are kept, open or revisable."""
        return self._memory.size_bytes

    @property
    def revisable(self) -> int:
        """Return how many decided traces may still be revised."""
        return len(self._settled)

    @property
    def quiet_ns(self) -> int:
        """Return how long a trace waits after its root for what else may come."""
        return self._policy.wait_after_root_ns

    def attach(self, key: bytes, note: object) -> None:
        """Attach a note to a decided trace; it comes back if the trace is looked at again."""
        if (trace := self._settled.find(key)) is not None:
            trace.note = note

    def release(self, key: bytes) -> None:
        """Give up the chance to revise a decided trace, because nothing evaluates it."""
        self._decider.forget(key, now_ns=0)

    def reevaluate(self, trace_id: bytes, *, now_ns: int, after_ns: int = 0) -> None:
        """Look at a decided trace once more, ``after_ns`` from now: something else than a span changed what is to be said of it."""
        whole = self._settled.open_to(trace_id, now_ns=now_ns)
        for trace in [*([whole] if whole else []), *self._settled.units_of(trace_id, now_ns=now_ns)]:
            if trace.revisions < self._policy.max_revisions:
                trace.revise_ns = min(now_ns + after_ns, trace.keep_until_ns)
                heapq.heappush(self._deadlines, (trace.revise_ns, trace.key))

    def is_open(self, trace_id: bytes) -> bool:
        """Tell whether a trace is held that was not decided, or not in all of its units."""
        return trace_id in self._open

    def waiting(self, *, now_ns: int, limit: int) -> OpenTracesSnapshot:
        """Return what is open and what may be revised, the oldest first, at most ``limit`` of each."""
        return waiting_of(self._open, self._settled, self._due, now_ns=now_ns, limit=limit, size_bytes=self.size_bytes)

    def add(self, spans: Iterable[Span], *, now_ns: int, open_spans: Mapping[bytes, int] | None = None, evict: bool = True) -> AddResult:
        """Take in the spans of one request.

        Args:
            spans: of any traces, in any order, repeated or not.
            now_ns: monotonic time of arrival.
            open_spans: in process, how many local spans of a trace are still open, by trace ID.
            evict: False lets all stay that is open, whatever the bounds, until the next call.
        """
        result = AddResult()
        touched = set(open_spans or ())  # a trace with no span here hears of those that started since
        try:
            for span in spans:
                result.received += 1
                touched.add(span.trace_id)
                self._add(span, now_ns, result)
        finally:  # whatever one span does to us, the traces of the others get their deadlines
            for trace in [self._open[trace_id] for trace_id in touched if trace_id in self._open]:
                if open_spans is not None:
                    trace.open_spans = open_spans.get(trace.trace_id, 0)
                self._schedule(trace)
                self._memory.touch(trace)
            self._shed(now_ns, evict=evict)
        return result

    def next_due_ns(self) -> int | None:
        """Return a time before which nothing is due; None if nothing is open."""
        if self._evicted:
            return 0
        return self._deadlines[0][0] if self._deadlines else None

    def pop_due(self, *, now_ns: int, limit: int | None = None) -> list[Trace]:
        """Return traces that are due, oldest deadline first, after all that were evicted; at ``limit`` traces the rest stays due."""
        self._memory.compress_idle()  # not at the end: of what is decided now, much is released as soon as it is evaluated
        traces, self._evicted = self._evicted, []
        while self._deadlines and self._deadlines[0][0] <= now_ns and (limit is None or len(traces) < limit):
            _, key = heapq.heappop(self._deadlines)
            traces += self._reevaluate_decided(key, now_ns)
            trace = self._open.get(key)
            if trace is None:
                continue
            due_ns, trigger = self._due(trace)
            if due_ns <= now_ns:
                traces += self._decider.decide(trace, trigger, now_ns=now_ns)
            if self._open.get(key) is trace:  # not yet due, or there is more to come
                trace.scheduled_ns = None
                self._schedule(trace)
        return traces

    def drain(self, *, now_ns: int, trigger: Trigger = Trigger.SHUTDOWN) -> list[Trace]:
        """Return all traces, due or not, oldest first, and be empty."""
        traces, self._evicted = self._evicted, []
        for trace in list(self._open.values()):
            traces += self._decider.decide(trace, trigger, now_ns=now_ns)
        traces += self._settled.clear(now_ns=now_ns)
        self._deadlines.clear()
        self._memory.clear()
        return traces

    def _cache(self) -> DecisionCache:
        return DecisionCache(capacity=self._limits.decisions, keep_ns=self._limits.decisions_ns)

    def _due(self, trace: OpenTrace) -> tuple[int, Trigger]:
        if self._units is not None and trace.pending is not None:
            return self._units.agents_deadline(trace)
        return completion_deadline(trace, self._policy)

    def _add(self, span: Span, now_ns: int, result: AddResult) -> None:
        relevant = self._kinds.is_relevant(span)
        trace, decided_ns = self._home(span, now_ns)
        if trace is None:  # too late to revise anything, and never the start of a fresh trace
            result.count_late(now_ns - (decided_ns or 0))
            result.count(relevant=relevant)
            return
        before = trace.size_bytes
        arrival = trace.add(
            span,
            now_ns=now_ns,
            relevant=relevant,
            span_limit=self._limits.span_limit,
            max_bytes=self._limits.maximum_trace_size_bytes,
        )
        self._memory.changed(trace, before)
        if self._units is not None and arrival is not Arrival.DUPLICATE:
            self._units.sort_in(trace, span, arrival, now_ns=now_ns)
        if trace.decided_ns is not None:
            self._memory.touch(trace)
            self._decider.on_late_span(trace, now_ns=now_ns)
        if arrival is Arrival.DUPLICATE:
            result.duplicate += 1
            return
        if trace.decided_ns is not None:
            result.count_late(now_ns - trace.decided_ns)
        if arrival is Arrival.CONFLICT:
            result.conflict += 1
        else:
            result.dropped += arrival is Arrival.DROPPED
            result.count(relevant=relevant)

    def _home(self, span: Span, now_ns: int) -> tuple[OpenTrace | None, int | None]:
        """Return the trace that a span goes to, a new one if need be; or None and when its trace was decided."""
        if self._units is None:
            trace = self._open.get(span.trace_id) or self._settled.open_to(span.trace_id, now_ns=now_ns)
            decided_ns = self._decided.decided_ns(span.trace_id) if trace is None else None
        else:
            trace, decided_ns = self._units.home(span, now_ns=now_ns)
        if decided_ns is not None:
            return None, decided_ns
        if trace is None:
            trace = self._open[span.trace_id] = OpenTrace(span.trace_id, self._kinds, now_ns=now_ns)
            trace.damaged = self.restorer.is_damaged(span.trace_id)
            self._memory.track(trace)
        return trace, None

    def _reevaluate_decided(self, key: bytes, now_ns: int) -> list[Trace]:
        """Look at a decided trace; an entry of one that was evicted or forgotten meanwhile changes nothing."""
        trace = self._settled.find(key)
        if trace is None:
            return []
        if self._units is not None and trace.unit_span_id is not None:
            trace.outside = self._units.is_outside(trace, self._open.get(trace.trace_id))
        revised = self._settled.reevaluate(trace, now_ns=now_ns)
        if self._settled.is_expired(trace, now_ns=now_ns):
            self._decider.forget(key, now_ns=now_ns)
        return [revised] if revised else []

    def _schedule(self, trace: OpenTrace) -> None:
        """Push a deadline if it is the trace's first or comes before the one that stands in the heap."""
        due_ns, _ = self._due(trace)
        if trace.scheduled_ns is None or due_ns < trace.scheduled_ns:
            trace.scheduled_ns = due_ns
            heapq.heappush(self._deadlines, (due_ns, trace.trace_id))

    def _shed(self, now_ns: int, *, evict: bool) -> None:
        """Keep within bounds: first take less room, then give up revisions, then evaluate the oldest traces on what is there."""
        self._memory.compress_idle()
        if not evict:
            return
        limits = self._limits
        while len(self._settled) > limits.num_traces or (self.size_bytes > limits.limit_bytes and len(self._settled)):
            self._decider.forget(self._settled.oldest(), now_ns=now_ns)
        while len(self._open) > limits.num_traces:
            self._evict(Trigger.EVICTION, now_ns)
        while self.size_bytes > limits.limit_bytes and self._open:
            self._evict(Trigger.MEMORY, now_ns)

    def _evict(self, trigger: Trigger, now_ns: int) -> None:
        self._evicted += self._decider.decide(next(iter(self._open.values())), trigger, now_ns=now_ns)
