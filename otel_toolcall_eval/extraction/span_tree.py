"""The tree of a trace's spans. Nothing that a peer sends (rings, self-parents, lost parents, skewed clocks) can trap a walk."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, cast

from otel_toolcall_eval.model.payload.equality import identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Resource, Span

_START: Final = attrgetter("start_unix_ns")
_MOST_MOVES: Final = 4
"""How often a span, on average, may change places with another before the usual sort is the faster one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where spans stand, by ID: a child never before its parent.

    A child that starts before its parent has a skewed clock and counts as starting with the parent; children
    from another process are moved together, so that they keep their order among themselves.

    Attributes:
        top_down: the spans, a parent before its children, which stand in order of time.
        depth: how many spans are above.
        start: the time at which the span counts as starting.
        tie: of a parent and a child that start together, the parent stands first, hence this: the end, but not before the parent's.
    """

    top_down: list[Span]
    depth: dict[bytes, int]
    start: dict[bytes, int]
    tie: dict[bytes, int]


class SpanTree:
    """Parents, children, depth and place in time of distinct spans.

    In nearly every trace each span starts after its parent. Then there are no rings, order of time puts parents first, and little else
    is asked for: so all that takes a walk through the tree is found out when it is first asked for.

    Cost: linear in the spans, apart from one sort.

    Attributes:
        by_id: the spans by ID.
        spans: the spans in order of time.
    """

    def __init__(self, spans: Sequence[Span]) -> None:
        """Index ``spans``; of several with one ID, the one that ends last counts, so that arrival does not matter."""
        by_id = {span.span_id: span for span in spans}
        if len(by_id) < len(spans):
            by_id = _without_copies(spans)
        ordered = list(by_id.values())
        if not _moved_in_order(ordered):
            ordered.sort(key=_START)  # alone it is ten times as fast as with what else decides
        alike, in_step = False, True
        parents: set[bytes] = set()
        last = ordered[0].start_unix_ns - 1 if ordered else 0
        for span in ordered:
            start, parent = span.start_unix_ns, span.parent_span_id
            alike = alike or start == last
            last = start
            above = None if parent is None else by_id.get(parent)
            if above is not None:
                parents.add(above.span_id)
                in_step = in_step and above.start_unix_ns < start
        if alike:
            ordered.sort(key=_by_time)
        self.by_id: dict[bytes, Span] = by_id
        self.spans: list[Span] = ordered
        self._in_step = in_step
        self._cut: set[bytes] = set()  # IDs of spans that count as roots although their parent is here
        self._parents = parents
        self._children: dict[bytes, list[Span]] | None = None
        self._placed: Placed | None = None
        if not in_step:
            self._cut_rings()

    def _cut_rings(self) -> None:
        """Cut every ring at its earliest span, which then counts as a root; a span that is its own parent is a ring, too."""
        state: dict[bytes, int] = {}
        for number, span in enumerate(self.spans):
            current: Span | None = span
            while current is not None and current.span_id not in state:
                state[current.span_id] = number
                current = self.parent(current)
            if current is not None and state[current.span_id] == number:
                ring = [current]
                while (above := self.parent(ring[-1])) is not None and above is not current:
                    ring.append(above)
                self._cut.add(min(ring, key=_by_time).span_id)
        if self._cut:
            self._parents = {parent for span in self.spans if (parent := self.parent_id(span)) is not None}

    def parent_id(self, span: Span) -> bytes | None:
        """Return the parent's ID, if the parent is in the trace."""
        parent = span.parent_span_id
        if parent is None or parent not in self.by_id or (self._cut and span.span_id in self._cut):
            return None
        return parent

    def parent(self, span: Span) -> Span | None:
        """Return the parent, if it is in the trace."""
        parent = self.parent_id(span)
        return None if parent is None else self.by_id[parent]

    def has_children(self, span: Span) -> bool:
        """Tell whether a span has any."""
        return span.span_id in self._parents

    def children(self, span: Span) -> Sequence[Span]:
        """Return the children in order of time."""
        return self._by_parent().get(span.span_id, ())

    def _by_parent(self) -> Mapping[bytes, list[Span]]:
        if self._children is None:
            found: defaultdict[bytes, list[Span]] = defaultdict(list)
            for span in self.spans:
                parent = self.parent_id(span)
                if parent is not None:
                    found[parent].append(span)
            self._children = dict(found)
        return self._children

    @property
    def parents_first(self) -> list[Span]:
        """Return the spans in an order in which every parent stands before its children."""
        return self.spans if self._in_step else self.placed.top_down

    def start(self, span: Span) -> int:
        """Return the time at which a span counts as starting, see ``Placed``."""
        return span.start_unix_ns if self._in_step else self.placed.start[span.span_id]

    @property
    def placed(self) -> Placed:
        """Return where the spans stand. It takes a walk; ``start`` and ``parents_first`` nearly always do without."""
        if self._placed is None:
            self._placed = self._walk()
        return self._placed

    def _walk(self) -> Placed:
        """Give every span its depth and its place in time."""
        placed = Placed(top_down=[], depth={}, start={}, tie={})
        below = self._by_parent()
        pending = [span for span in reversed(self.spans) if self.parent_id(span) is None]
        shift: dict[bytes, int] = {}
        while pending:
            span = pending.pop()
            placed.top_down.append(span)
            key, start, end = span.span_id, span.start_unix_ns, span.end_unix_ns
            moved = shift.get(key, 0)
            if moved:
                start, end = start + moved, end + moved
            parent = self.parent_id(span)
            if parent is None:
                placed.depth[key] = 0
            else:
                placed.depth[key] = placed.depth[parent] + 1
                begun = placed.start[parent]
                if start <= begun:
                    start, end = begun, max(end, placed.tie[parent])
            placed.start[key], placed.tie[key] = start, end
            if key in below:
                children = below[key]
                shift.update(_shifts(span, moved, start, children))
                pending.extend(reversed(children))
        return placed


def _moved_in_order(spans: list[Span]) -> bool:
    """Put spans in the order of their start by moving each to the front, past those that start later, if that takes few moves.

    It does where spans come as they start, and where they come as they end: then each passes what is below it alone, in a tenth of the time
    of a sort that is given keys. Equal starts keep their order, as in any sort of Python's.
    """
    left = _MOST_MOVES * len(spans)
    for place in range(1, len(spans)):
        span = spans[place]
        start = span.start_unix_ns
        to = place
        while to and spans[to - 1].start_unix_ns > start:
            spans[to] = spans[to - 1]
            to -= 1
            left -= 1
            if not left:
                spans[to] = span
                return False
        spans[to] = span
    return True


def _without_copies(spans: Iterable[Span]) -> dict[bytes, Span]:
    """Return the spans by ID; of several with one ID, the one of the highest rank."""
    kept: dict[bytes, Span] = {}
    for span in spans:
        known = kept.get(span.span_id)
        if known is None or _rank(span) > _rank(known):
            kept[span.span_id] = span
    return kept


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
    return span.start_unix_ns, span.end_unix_ns, span.span_id


def _rank(span: Span) -> tuple[int, int, int, str]:
    """Order copies of one span: later end first, then what else may differ, so that the choice does not depend on arrival."""
    attributes = sorted(span.attributes.items(), key=itemgetter(0))
    told = (span.name, span.parent_span_id, span.kind, span.status, span.status_message, attributes, span.events)
    resource = sorted(span.resource.attributes.items(), key=itemgetter(0))
    rest = (*told, span.scope, resource, span.flags, span.dropped_attributes, span.linked)
    try:
        text = repr(rest)
    except RecursionError:  # nested deeper than any dialect reads
        text = ""
    return span.end_unix_ns, span.start_unix_ns, len(attributes), text
