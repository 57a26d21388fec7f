"""Moves traces from open to decided, and from decided to forgotten; keeps the books in step."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.decided_traces import REVISABLE
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_toolcall_eval.engine.buffer.agent_invocations import AgentInvocations
    from otel_toolcall_eval.engine.buffer.decided_traces import DecidedTraces, DecisionCache
    from otel_toolcall_eval.engine.buffer.memory import Memory
    from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
    from otel_toolcall_eval.model.trace import Trace


class DecisionMaker:
    """Works on the buffer's own tables. Owned by the buffer."""

    def __init__(
        self,
        *,
        open_traces: dict[bytes, OpenTrace],
        deadlines: list[tuple[int, bytes]],
        settled: DecidedTraces,
        decided: DecisionCache,
        memory: Memory,
        units: AgentInvocations | None,
    ) -> None:
        """Take the tables; ``units`` is None where whole traces are evaluated."""
        self._open = open_traces
        self._deadlines = deadlines
        self._settled = settled
        self._decided = decided
        self._memory = memory
        self._units = units

    def decide(self, trace: OpenTrace, trigger: Trigger, *, now_ns: int) -> list[Trace]:
        """Return what is to be evaluated of an open trace now, and keep the rest open, if there is any and it may still wait."""
        if self._units is None:
            return [self._close(trace, trigger, now_ns)]
        whole = trace.pending is None
        force = trigger is not Trigger.ROOT_SPAN
        traces = [self.conclude(unit, trigger, now_ns=now_ns) for unit in self._units.part(trace, now_ns=now_ns, force=force)]
        if whole and self._decided.decided_ns(trace.trace_id) is None:
            traces.append(self._close(trace, trigger, now_ns))
        elif whole or force or not len(trace):
            self._units.give_up(trace, now_ns=now_ns)
            del self._open[trace.trace_id]
            self._memory.untrack(trace)
        return traces

    def decide_again(self, trace: OpenTrace, units: Collection[bytes], trigger: Trigger, *, now_ns: int) -> list[Trace]:
        """Decide as was decided before, whatever the time: these ``units`` of a trace, or all of it if there are none.

        What else is there stays open, since nothing is known of it; if nothing is left, the trace is not open any more.
        """
        if not units:
            return [self._close(trace, trigger, now_ns, again=True)]
        if self._units is None:  # agent invocations were evaluated one by one then, and are not now
            return []
        parts = self._units.part(trace, now_ns=now_ns, force=True, only=units)
        traces = [self.conclude(unit, trigger, now_ns=now_ns, again=True) for unit in parts]
        if not len(trace):
            del self._open[trace.trace_id]
            self._memory.untrack(trace)
        elif trace.pending is not None:
            trace.pending.fresh = True  # the others are to be looked at by the time of this process
        return traces

    def conclude(self, trace: OpenTrace, trigger: Trigger, *, now_ns: int, again: bool = False) -> Trace:
        """Decide a trace that is on no book, and keep it for late spans, unless it was given up on purpose.

        If it is decided ``again``, as an earlier process did at its end, that end is no longer one.
        """
        closed = trace.close(trigger, now_ns=now_ns)
        self.remember(trace, now_ns=now_ns)
        if trigger in REVISABLE or (again and trigger is Trigger.SHUTDOWN):
            self.keep(trace, now_ns=now_ns)
        elif self._units is not None:
            self._units.forgotten(trace, now_ns=now_ns)
        return closed

    def remember(self, trace: OpenTrace, *, now_ns: int) -> None:
        """Remember that a trace, or a unit of one, is decided."""
        self._decided.add(trace.trace_id, now_ns=now_ns)
        if trace.unit_span_id is not None:
            self._decided.add(trace.key, now_ns=now_ns)

    def keep(self, trace: OpenTrace, *, now_ns: int) -> None:
        """Keep a decided trace for late spans."""
        until_ns = self._settled.keep(trace, now_ns=now_ns)
        self._memory.track(trace)
        heapq.heappush(self._deadlines, (until_ns, trace.key))

    def on_late_span(self, trace: OpenTrace, *, now_ns: int) -> None:
        """Have another look at a decided trace, if what came late calls for one."""
        look_ns = self._settled.on_late_span(trace, now_ns=now_ns)
        if look_ns is not None:
            heapq.heappush(self._deadlines, (look_ns, trace.key))

    def forget(self, key: bytes, *, now_ns: int) -> None:
        """Let go of a decided trace, if it is kept."""
        trace = self._settled.forget(key)
        if trace is not None:
            self._memory.untrack(trace)
            if self._units is not None:
                self._units.forgotten(trace, now_ns=now_ns)

    def _close(self, trace: OpenTrace, trigger: Trigger, now_ns: int, *, again: bool = False) -> Trace:
        del self._open[trace.trace_id]
        self._memory.untrack(trace)
        return self.conclude(trace, trigger, now_ns=now_ns, again=again)
