"""The tree of a trace's spans. Nothing that a peer sends (rings, self-parents, lost parents, skewed clocks) can trap a walk."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.values.equality import identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Resource, Span


class SpanTree:
    """Parents, children, depth and place in time of distinct spans.

    Cost: linear in the spans, apart from one sort.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        """Index ``spans``; of several with one ID, the one that ends last counts, so that arrival does not matter."""
        self.by_id: dict[bytes, Span] = {}
        for span in spans:
            known = self.by_id.get(span.span_id)
            if known is None or _rank(span) > _rank(known):
                self.by_id[span.span_id] = span
        self.spans: Sequence[Span] = sorted(self.by_id.values(), key=_by_time)
        self._parent: dict[bytes, bytes] = {}
        self._children: defaultdict[bytes, list[Span]] = defaultdict(list)
        for span in self.spans:
            parent = span.parent_span_id
            if parent is not None and parent != span.span_id and parent in self.by_id:
                self._parent[span.span_id] = parent
        self._cut_rings()
        roots: list[Span] = []
        for span in self.spans:
            above = self._parent.get(span.span_id)
            (roots if above is None else self._children[above]).append(span)
        self.roots: Sequence[Span] = roots
        self.depth: dict[bytes, int] = {}
        self.start: dict[bytes, int] = {}
        self.tie: dict[bytes, int] = {}
        self.top_down: list[Span] = []
        self._walk()

    def _cut_rings(self) -> None:
        """Cut every ring at its earliest span, which then counts as a root."""
        state: dict[bytes, int] = {}
        for number, span in enumerate(self.spans):
            current = span.span_id
            while current not in state:
                state[current] = number
                if current not in self._parent:
                    break
                current = self._parent[current]
            if state[current] == number and current in self._parent:
                ring = [current]
                while self._parent[ring[-1]] != current:
                    ring.append(self._parent[ring[-1]])
                del self._parent[min(ring, key=lambda span_id: _by_time(self.by_id[span_id]))]

    def _walk(self) -> None:
        """Give every span its depth and its place in time: a child never stands before its parent.

        A child that starts before its parent has a skewed clock (FAULTS A 30) and counts as starting with the parent; children
        from another process are moved together, so that they keep their order among themselves. Of a
        parent and a child that start together, the parent stands first, hence the tie: the end, but not before the parent's.
        """
        pending = list(reversed(self.roots))
        shift: dict[bytes, int] = {}
        while pending:
            span = pending.pop()
            self.top_down.append(span)
            key, start, end = span.span_id, span.start_unix_ns, span.end_unix_ns
            moved = shift.get(key, 0)
            if moved:
                start, end = start + moved, end + moved
            parent = self._parent.get(key)
            if parent is None:
                self.depth[key] = 0
            else:
                self.depth[key] = self.depth[parent] + 1
                begun = self.start[parent]
                if start <= begun:
                    start, end = begun, max(end, self.tie[parent])
            self.start[key], self.tie[key] = start, end
            if key in self._children:
                children = self._children[key]
                shift.update(_shifts(span, moved, start, children))
                pending.extend(reversed(children))

    def parent(self, span: Span) -> Span | None:
        """Return the parent, if it is in the trace."""
        parent = self._parent.get(span.span_id)
        return None if parent is None else self.by_id[parent]

    def parent_id(self, span: Span) -> bytes | None:
        """Return the parent's ID, if the parent is in the trace."""
        return self._parent.get(span.span_id)

    def has_children(self, span_ids: Iterable[bytes]) -> bool:
        """Tell whether any of these spans has any."""
        return not self._children.keys().isdisjoint(span_ids)

    def children(self, span: Span) -> Sequence[Span]:
        """Return the children in order of time."""
        return self._children.get(span.span_id, ())


def _shifts(span: Span, shift: int, start: int, children: Sequence[Span]) -> Mapping[bytes, int]:
    """Return by how much children are moved in time: with their parent, and those of another process until none starts before it.

    ``children`` stand in order of time; there is one at least. Resources are compared by what they say: the same process has another
    object in each request.
    """
    if not shift and children[0].start_unix_ns >= start:
        return {}
    own = _process(span.resource)
    shifts: dict[bytes, int] = {}
    by_process: dict[Hashable, int] = {own: shift}
    for child in children:  # the first of each other process is its earliest
        process = own if child.resource is span.resource else _process(child.resource)
        shifts[child.span_id] = by_process.setdefault(process, max(0, start - child.start_unix_ns))
    return shifts


def _process(resource: Resource) -> Hashable:
    return identity(cast("Json", resource.attributes))


def _by_time(span: Span) -> tuple[int, int, bytes]:
    """Order spans by start, then end, then ID."""
    return span.start_unix_ns, span.end_unix_ns, span.span_id


def _rank(span: Span) -> tuple[int, int, int, str]:
    """Order copies of one span: later end first, then what else may differ, so that the choice does not hang on arrival."""
    attributes = sorted(span.attributes.items(), key=itemgetter(0))
    told = (span.name, span.parent_span_id, span.kind, span.status, span.status_message, attributes, span.events)
    resource = sorted(span.resource.attributes.items(), key=itemgetter(0))
    rest = (*told, span.scope, resource, span.flags, span.dropped_attributes, span.linked)
    try:
        text = repr(rest)
    except RecursionError:  # nested deeper than any dialect reads
        text = ""
    return span.end_unix_ns, span.start_unix_ns, len(attributes), text
