"""Decided traces, and decided units of traces, that late spans may still revise.

A span that matters within the window after the verdict makes the trace worth another look; the look waits for a quiet period
of its own, since what is late usually comes in one more batch. Past the window, or when memory is short, a trace is forgotten.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
    from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
    from otel_toolcall_eval.model.trace import Trace


REVISABLE = frozenset({Trigger.ROOT_SPAN, Trigger.IDLE_TIMEOUT, Trigger.TRACE_TIMEOUT})
"""A trace that was evicted or drained was given up on purpose; keeping it would undo that."""


class DecidedTraces:
    """Owned by the buffer, which also adds up what they weigh."""

    def __init__(self, policy: CompletionPolicy) -> None:
        """Start empty."""
        self._policy = policy
        self._traces: OrderedDict[bytes, OpenTrace] = OrderedDict()  # by key, in order of decision
        self._units: dict[bytes, dict[bytes, OpenTrace]] = {}  # the units of each trace ID, by key

    def __len__(self) -> int:
        """Return how many traces may still be revised."""
        return len(self._traces)

    def __iter__(self) -> Iterator[OpenTrace]:
        """Yield them in order of decision."""
        return iter(self._traces.values())

    def find(self, key: bytes) -> OpenTrace | None:
        """Return a trace that is kept."""
        return self._traces.get(key)

    def open_to(self, key: bytes, *, now_ns: int) -> OpenTrace | None:
        """Return a trace that a span that arrives now may still revise, whether or not someone asked what was due meanwhile."""
        trace = self._traces.get(key)
        return trace if trace is not None and now_ns < trace.keep_until_ns else None

    def units_of(self, trace_id: bytes, *, now_ns: int) -> list[OpenTrace]:
        """Return the units of a trace that spans that arrive now may still revise."""
        return [unit for unit in self._units.get(trace_id, {}).values() if now_ns < unit.keep_until_ns]

    def kept_units(self, trace_id: bytes) -> Collection[OpenTrace]:
        """Return the units of a trace that are kept, in order of decision."""
        return self._units.get(trace_id, {}).values()

    def keep(self, trace: OpenTrace, *, now_ns: int) -> int:
        """Keep a trace that was decided now; returns when it is to be looked at again.

        A unit whose own parent has not come is kept for the idle time-out too: an outer agent may end minutes after the agent
        that it called, and then takes its spans over.
        """
        policy = self._policy
        window_ns = max(policy.late_span_window_ns, policy.idle_timeout_ns) if trace.provisional else policy.late_span_window_ns
        trace.decided_ns, trace.keep_until_ns = now_ns, now_ns + window_ns
        trace.news = False
        self._traces[trace.key] = trace
        if trace.unit_span_id is not None:
            self._units.setdefault(trace.trace_id, {})[trace.key] = trace
        return trace.keep_until_ns

    def forget(self, key: bytes) -> OpenTrace | None:
        """Let go of a trace and return it, if it is kept."""
        trace = self._traces.pop(key, None)
        if trace is not None and trace.unit_span_id is not None:
            units = self._units[trace.trace_id]
            del units[key]
            if not units:
                del self._units[trace.trace_id]
        return trace

    def oldest(self) -> bytes:
        """Return the key of the trace that was decided first."""
        return next(iter(self._traces))

    def on_late_span(self, trace: OpenTrace, *, now_ns: int) -> int | None:
        """Note a late span; returns when the trace is to be looked at again, None if it made no difference."""
        if not trace.news or trace.revisions >= self._policy.max_revisions:
            return None
        trace.news = False
        trace.revise_ns = min(now_ns + self._policy.wait_after_root_ns, trace.keep_until_ns)
        return trace.revise_ns

    def reevaluate(self, trace: OpenTrace, *, now_ns: int) -> Trace | None:
        """Look at a trace whose time may have come; returns it if late spans call for another verdict.

        Nothing has to be scheduled afterwards: ``keep`` and ``on_late_span`` name each time at which a look can make a difference.
        """
        if trace.revise_ns is None or trace.revise_ns > now_ns:
            return None
        trace.revise_ns = None
        trace.revisions += 1
        return trace.close(Trigger.LATE_SPAN, now_ns=now_ns)

    def is_expired(self, trace: OpenTrace, *, now_ns: int) -> bool:
        """Tell whether nothing can revise the trace any more."""
        return trace.keep_until_ns <= now_ns and trace.revise_ns is None

    def clear(self, *, now_ns: int) -> list[Trace]:
        """Forget all; returns those that late spans, which came a moment ago, call another verdict for."""
        pending = [trace for trace in self._traces.values() if trace.revise_ns is not None]
        self._traces.clear()
        self._units.clear()
        for trace in pending:
            trace.revise_ns = now_ns
        return [revised for trace in pending if (revised := self.reevaluate(trace, now_ns=now_ns)) is not None]


class DecisionCache:
    """Two generations of keys: when the young one is full or old, the old one is forgotten whole.

    So a key is kept for at least ``capacity / 2`` further ones and at most ``capacity``, and no entry needs a timer or
    a place in a queue. A key is a trace ID, or a trace ID and a span ID. Cost: O(1), about 120 bytes a key.
    """

    __slots__ = ("_half", "_keep_ns", "_old", "_since_ns", "_young")

    def __init__(self, *, capacity: int, keep_ns: int) -> None:
        """Start empty.

        Args:
            capacity: most keys kept.
            keep_ns: a key is forgotten after at most this time, unless nothing is decided meanwhile.
        """
        self._half = max(1, capacity // 2)
        self._keep_ns = keep_ns
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._since_ns = 0

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._young) + len(self._old)

    def add(self, key: bytes, *, now_ns: int, decided_ns: int | None = None) -> None:
        """Remember from now on that this was decided, now or at another time."""
        if len(self._young) >= self._half or now_ns - self._since_ns > self._keep_ns // 2:
            self._old, self._young = self._young, {}
            self._since_ns = now_ns
        self._young[key] = now_ns if decided_ns is None else decided_ns

    def decided_ns(self, key: bytes) -> int | None:
        """Return when this was decided; None if it was not, or is forgotten."""
        return self._young.get(key, self._old.get(key))
