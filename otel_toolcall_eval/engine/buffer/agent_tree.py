"""Assigns the spans of a trace to its agent invocations."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from otel_toolcall_eval.model.trace import Span


class AgentTree:
    """Where each span of a container stands. Cost: linear in the spans; rings and self-parents end a walk, and count as known.

    Attributes:
        top: the top-most agent span at or above each span; None if no agent is above it.
        missing: the parent at the upper end of each span's chain that has not come; None if there is none.
        known: those of ``missing`` whose child is a root all the same: its parent is in another process, say.
        tops: the top-most agent spans.
    """

    def __init__(self, spans: Mapping[bytes, Span], agents: Collection[bytes], is_root: Callable[[Span], bool]) -> None:
        """Place all spans; ``agents`` are the IDs of the agent spans among them."""
        self.top: dict[bytes, bytes | None] = {}
        self.missing: dict[bytes, bytes | None] = {}
        self.known: set[bytes] = set()
        for span_id in spans:
            chain: dict[bytes, None] = {}
            current: bytes | None = span_id
            while current is not None and current in spans and current not in self.top and current not in chain:
                chain[current] = None
                parent = spans[current].parent_span_id
                if parent is not None and parent not in spans and is_root(spans[current]):
                    self.known.add(parent)
                current = parent
            if current is not None and current in self.top:
                top, missing = self.top[current], self.missing[current]
            else:  # the upper end of the chain: a root, a ring, or a parent that has not come
                top, missing = None, (None if current is None or current in chain else current)
            for member in reversed(chain):
                if top is None and member in agents:
                    top = member
                self.top[member], self.missing[member] = top, missing
        self.tops = tuple(agent for agent in agents if self.top.get(agent) == agent)

    def is_resolved(self, span_id: bytes) -> bool:
        """Tell whether the chain above a span is known up to a root."""
        missing = self.missing[span_id]
        return missing is None or missing in self.known

    def is_outside(self, above: Collection[bytes]) -> bool:
        """Tell whether something hangs on a parent that has not come and is none of ``above``, so that it may be part of a unit."""
        return any(
            self.top[span_id] is None and not self.is_resolved(span_id) and self.missing[span_id] not in above for span_id in self.top
        )

    def adopt_siblings(self, spans: Mapping[bytes, Span], is_relevant: Callable[[Span], bool]) -> None:
        """Count calls beside an agent to it, if it is the only one below their parent.

        Streaming detaches the current context, and tool spans become siblings of the agent span. Cost: as above.
        """
        agents: dict[bytes | None, bytes | None] = {}
        for top in self.tops:
            parent = spans[top].parent_span_id
            agents[parent] = None if parent in agents else top
        moved = {
            span_id: agent
            for span_id, span in spans.items()
            if self.top[span_id] is None and is_relevant(span) and (agent := agents.get(span.parent_span_id)) is not None
        }
        adopted: dict[bytes, bytes | None] = dict(moved)
        for span_id in spans if moved else ():
            chain: dict[bytes, None] = {}
            current: bytes | None = span_id
            while current is not None and current in spans and current not in chain and current not in adopted:
                chain[current] = None
                current = spans[current].parent_span_id
            adopted.update(dict.fromkeys(chain, None if current is None else adopted.get(current)))
            if self.top[span_id] is None:
                self.top[span_id] = adopted[span_id]
