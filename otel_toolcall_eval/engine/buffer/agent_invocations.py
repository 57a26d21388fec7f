"""Evaluates agent invocations one by one, where many of them share a trace ID.

A session puts many turns under one trace ID, often below a root that is never exported. The unit is then the top-most agent
span with all that is below it. Its spans gather in a container, the open trace of that ID, until the agent span has come and
is quiet; then they leave it and have a life of their own, late spans and revisions included.

What is not known is waited for, up to the cap: an agent span whose own parent has not come may turn out to be part of another
unit. If it does so after it was evaluated alone, the outer unit takes its spans over, and says so if they are gone by then.
A container without any agent span is evaluated whole, by the rules for traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.agent_tree import AgentTree
from otel_toolcall_eval.engine.buffer.open_trace import Arrival, OpenTrace, PendingAgents
from otel_toolcall_eval.model.trace import Trigger

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
    from otel_toolcall_eval.engine.buffer.decided_traces import DecidedTraces, DecisionCache
    from otel_toolcall_eval.engine.buffer.memory import Memory
    from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds
    from otel_toolcall_eval.model.trace import Span

UNBOUNDED = 2**62


class AgentInvocations:
    """Parts containers into units. Owned by the buffer."""

    def __init__(
        self,
        *,
        kinds: SpanKinds,
        policy: CompletionPolicy,
        containers: Mapping[bytes, OpenTrace],
        settled: DecidedTraces,
        decided: DecisionCache,
        lost: DecisionCache,
        memory: Memory,
    ) -> None:
        """Work on the buffer's own tables; ``lost`` remembers the parents of spans that were given up."""
        self._kinds = kinds
        self._policy = policy
        self._containers = containers
        self._settled = settled
        self._decided = decided
        self._lost = lost
        self._memory = memory

    def agents_deadline(self, container: OpenTrace) -> tuple[int, Trigger]:
        """Return when units of a container may be complete if no other span arrives, and why then."""
        policy, pending = self._policy, container.pending
        idle_ns, limit_ns = container.last_ns + policy.idle_timeout_ns, container.first_ns + policy.trace_timeout_ns
        at_ns, trigger = (idle_ns, Trigger.IDLE_TIMEOUT) if idle_ns <= limit_ns else (limit_ns, Trigger.TRACE_TIMEOUT)
        if pending is not None and pending.arrived:
            unit_ns = min(pending.arrived.values()) + policy.wait_after_root_max_ns if pending.fresh else pending.retry_ns
            if pending.fresh and not container.open_spans:
                unit_ns = min(unit_ns, container.last_ns + policy.wait_after_root_ns)
            if unit_ns <= at_ns:
                return unit_ns, Trigger.ROOT_SPAN
        return at_ns, trigger

    def home(self, span: Span, *, now_ns: int) -> tuple[OpenTrace | None, int | None]:
        """Return the decided unit, decided whole trace or container that a span goes to; None if it has to be made.

        If the span is late for good, return None and when its unit was decided. Such a span is remembered as well, and what
        hangs on it in the container is let go: all of that is late, too.
        """
        container = self._containers.get(span.trace_id)
        if container is not None and span.span_id in container.spans:  # copies of a span are settled in one place
            return container, None
        units = [(unit, unit.spans) for unit in self._settled.units_of(span.trace_id, now_ns=now_ns)]
        for wanted in (span.span_id, span.parent_span_id):
            for unit, spans in units:
                if wanted in spans:
                    return unit, None
        whole = self._settled.open_to(span.trace_id, now_ns=now_ns)
        if whole is not None:
            return whole, None
        decided_ns = self._decided.decided_ns(span.trace_id + span.span_id)
        if decided_ns is None and span.parent_span_id is not None:
            decided_ns = self._decided.decided_ns(span.trace_id + span.parent_span_id)
        if decided_ns is None:
            return container, None
        self._decided.add(span.trace_id + span.span_id, now_ns=now_ns)
        if container is not None and container.awaits(span.span_id):
            self._take_below(container, span.span_id)
        return None, decided_ns

    def sort_in(self, trace: OpenTrace, span: Span, arrival: Arrival, *, now_ns: int) -> None:
        """Do what a span calls for that came into a container, or late into a unit."""
        if arrival is Arrival.DROPPED:
            self._lost.add(span.trace_id + (span.parent_span_id or b""), now_ns=now_ns)  # only roots have no parent, and are kept
        elif trace.decided_ns is None:
            self._note(trace, trace.spans[span.span_id], now_ns=now_ns)  # of two copies, the one that won
        else:
            container = self._containers.get(span.trace_id)
            if container is not None and container.awaits(span.span_id):
                before = trace.size_bytes
                self._put(trace, self._take_below(container, span.span_id), now_ns=now_ns)
                self._memory.changed(trace, before)

    def _note(self, container: OpenTrace, span: Span, *, now_ns: int) -> None:
        """Take notice of a span that came into a container."""
        if self._kinds.is_agent(span):
            if container.pending is None:
                container.pending = PendingAgents()
            container.pending.arrived.setdefault(span.span_id, now_ns)
        elif container.pending is not None:
            container.pending.arrived.pop(span.span_id, None)  # another copy won, which is no agent
        if container.pending is not None:
            container.pending.fresh = True

    def _take_below(self, container: OpenTrace, span_id: bytes) -> list[Span]:
        """Take out of a container, and return, what hangs on a span that turned out to belong elsewhere. Cost: its spans."""
        before = container.size_bytes
        tree = AgentTree(container.spans, (), self._kinds.is_root)
        taken = container.take({found for found, missing in tree.missing.items() if missing == span_id})
        self._memory.changed(container, before)
        self._memory.touch(container)  # it may have been packed
        if container.pending is not None:
            for span in taken:
                container.pending.arrived.pop(span.span_id, None)
        return taken

    def part(self, container: OpenTrace, *, now_ns: int, force: bool, only: Collection[bytes] | None = None) -> list[OpenTrace]:
        """Take the units that are due out of a container; all of them with ``force``, or ``only`` these.

        What is left keeps waiting: agent spans that are not due, and what hangs on parents that have not come.
        """
        pending = container.pending
        if pending is None or not pending.arrived:
            return []
        pending.fresh = False
        spans = container.spans
        tree = AgentTree(spans, pending.arrived, self._kinds.is_root)
        pending.above.update(missing for agent in tree.tops if (missing := tree.missing[agent]) is not None)
        tree.adopt_siblings(spans, self._kinds.is_relevant)
        outside = tree.is_outside(pending.above)
        cap_ns = now_ns - self._policy.wait_after_root_max_ns
        held = outside or container.open_spans > 0
        ready = [agent for agent in tree.tops if force or pending.arrived[agent] <= cap_ns or (tree.is_resolved(agent) and not held)]
        if only is not None:
            ready = [agent for agent in ready if agent in only]
        waiting = [pending.arrived[agent] for agent in set(tree.tops).difference(ready)]
        pending.retry_ns = min(waiting, default=0) + self._policy.wait_after_root_max_ns
        if not ready:
            return []
        members: dict[bytes | None, list[Span]] = {agent: [] for agent in ready}
        for span_id, span in spans.items():
            if tree.top[span_id] in members:
                members[tree.top[span_id]].append(span)
        units = [self._unit(container, spans[agent], members[agent], missing=tree.missing[agent], outside=outside) for agent in ready]
        before = container.size_bytes
        container.take(self._gone(tree, members, all_agents=len(ready) == len(tree.tops)))
        self._memory.changed(container, before)
        self._memory.touch(container)  # as above
        pending.arrived = {agent: ns for agent, ns in pending.arrived.items() if tree.top[agent] not in members}
        if not pending.arrived:
            container.truncated = False
        return units

    def give_up(self, container: OpenTrace, *, now_ns: int) -> None:
        """Remember, for whoever comes to stand above them, that the spans of a container are gone."""
        for missing in set(AgentTree(container.spans, (), self._kinds.is_root).missing.values()):
            if missing is not None:
                self._lost.add(container.trace_id + missing, now_ns=now_ns)

    def forgotten(self, unit: OpenTrace, *, now_ns: int) -> None:
        """Remember that a unit that may belong to another one can't be taken over any more."""
        if unit.provisional and unit.above is not None:
            self._lost.add(unit.trace_id + unit.above, now_ns=now_ns)

    def is_outside(self, unit: OpenTrace, container: OpenTrace | None) -> bool:
        """Tell whether spans that may belong to a decided unit still hang on parents that have not come."""
        if container is None:
            return False
        pending = container.pending or PendingAgents()
        tree = AgentTree(container.spans, pending.arrived, self._kinds.is_root)
        return tree.is_outside(pending.above if unit.above is None else {*pending.above, unit.above})

    def _unit(self, container: OpenTrace, agent: Span, spans: Iterable[Span], *, missing: bytes | None, outside: bool) -> OpenTrace:
        arrived_ns = container.pending.arrived[agent.span_id] if container.pending is not None else container.last_ns
        unit = OpenTrace(container.trace_id, self._kinds, now_ns=arrived_ns, unit_span_id=agent.span_id)
        unit.above = agent.parent_span_id
        unit.provisional = missing is not None
        unit.outside = outside
        unit.truncated = container.truncated
        unit.damaged = container.damaged
        # Where ancestors have not come, in process the open spans may be these; else they may be part of the unit.
        unit.open_spans = container.open_spans if missing is None else 0
        unit.last_ns = container.last_ns
        self._fill(unit, spans)
        unit.root_ns = arrived_ns
        return unit

    def _fill(self, unit: OpenTrace, spans: Iterable[Span]) -> None:
        """Put spans into a unit, and with them the units that were evaluated alone before and hang below one of these."""
        waiting = [spans]
        while waiting:
            self._put(unit, waiting.pop(), now_ns=unit.last_ns)
            for inner in self._settled.units_of(unit.trace_id, now_ns=unit.last_ns):
                if inner.above is not None and inner.above in unit.spans:
                    self._settled.forget(inner.key)
                    self._memory.untrack(inner)
                    unit.lost |= inner.lost
                    unit.damaged |= inner.damaged
                    waiting.append(inner.spans.values())
        if len(self._lost):
            unit.lost |= any(self._lost.decided_ns(unit.trace_id + span_id) is not None for span_id in unit.spans)

    def _put(self, unit: OpenTrace, spans: Iterable[Span], *, now_ns: int) -> None:
        """Put spans into a unit that were within bounds where they come from."""
        for span in spans:
            unit.add(span, now_ns=now_ns, relevant=self._kinds.is_relevant(span), span_limit=UNBOUNDED, max_bytes=UNBOUNDED)

    @staticmethod
    def _gone(tree: AgentTree, members: Collection[bytes | None], *, all_agents: bool) -> set[bytes]:
        """Return what leaves the container: the units, and once no agent waits, what is known to be part of none."""
        return {
            span_id
            for span_id, top in tree.top.items()
            if (top in members and top is not None) or (all_agents and top is None and tree.missing[span_id] is None)
        }
