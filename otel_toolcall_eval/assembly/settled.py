"""Decided traces that late spans may still revise.

A span that matters within the window after the verdict makes the trace worth another look; the look waits for a quiet period
of its own, since what is late usually comes in one more batch. Past the window, or when memory is short, a trace is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from otel_toolcall_eval.assembly.completion import CompletionPolicy
    from otel_toolcall_eval.assembly.open_trace import OpenTrace
    from otel_toolcall_eval.model.trace import Trace

REVISABLE = frozenset({Trigger.ROOT_SPAN, Trigger.IDLE_TIMEOUT, Trigger.TRACE_TIMEOUT})
"""A trace that was evicted or drained was given up on purpose; keeping it would undo that."""


class SettledTraces:
    """Owned by the buffer."""

    def __init__(self, policy: CompletionPolicy) -> None:
        """Start empty."""
        self._policy = policy
        self._traces: dict[bytes, OpenTrace] = {}  # insertion order is order of decision
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many traces may still be revised."""
        return len(self._traces)

    def find(self, trace_id: bytes) -> OpenTrace | None:
        """Return a trace that may still be revised."""
        return self._traces.get(trace_id)

    def keep(self, trace: OpenTrace, *, now_ns: int) -> int:
        """Keep a trace that was decided now; returns when it is to be looked at again."""
        trace.decided_ns = now_ns
        trace.news = False
        self._traces[trace.trace_id] = trace
        self.size_bytes += trace.size_bytes
        return self._end_ns(trace)

    def forget(self, trace_id: bytes) -> None:
        """Let go of a trace, if it is kept."""
        trace = self._traces.pop(trace_id, None)
        if trace is not None:
            self.size_bytes -= trace.size_bytes

    def forget_oldest(self) -> None:
        """Let go of the trace that was decided first."""
        self.forget(next(iter(self._traces)))

    def grew(self, trace: OpenTrace, by_bytes: int, *, now_ns: int) -> int | None:
        """Note a late span; returns when the trace is to be looked at again, None if it made no difference."""
        self.size_bytes += by_bytes
        if not trace.news or trace.revisions >= self._policy.max_revisions:
            return None
        trace.news = False
        trace.revise_ns = min(now_ns + self._policy.wait_after_root_ns, self._end_ns(trace))
        return trace.revise_ns

    def look(self, trace: OpenTrace, *, now_ns: int) -> Trace | None:
        """Look at a trace whose time may have come; returns it if late spans call for another verdict.

        Nothing has to be scheduled afterwards: ``keep`` and ``grew`` name each time at which a look can make a difference.
        """
        revised = None
        if trace.revise_ns is not None and trace.revise_ns <= now_ns:
            trace.revise_ns = None
            trace.revisions += 1
            revised = trace.close(Trigger.LATE_SPAN, now_ns=now_ns)
        if self._end_ns(trace) <= now_ns:
            self.forget(trace.trace_id)
        return revised

    def clear(self) -> None:
        """Forget all."""
        self._traces.clear()
        self.size_bytes = 0

    def _end_ns(self, trace: OpenTrace) -> int:
        return (trace.decided_ns or 0) + self._policy.late_span_window_ns
