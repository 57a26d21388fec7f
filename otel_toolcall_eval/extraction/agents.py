"""Says which agents stand above a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_reader import text_of

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.readings import Readings
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span


class Agents:
    """The agents of a trace. Cost: linear in the spans.

    Attributes:
        names: the name of every agent span, by ID; None if it has none.
        top: name of the top-most agent; of several, the one that started first.
    """

    def __init__(self, tree: SpanTree, readings: Readings) -> None:
        """Name every agent span."""
        self._tree = tree
        self.names: dict[bytes, str | None] = {span.span_id: text_of(span, tree, readings.plan(span).name) for span in readings.agents}
        self._nearest: dict[bytes, bytes | None] | None = None
        self._paths: dict[bytes | None, tuple[str, ...]] = {None: ()}
        named = [name for name in self.names.values() if name]
        self.top = (named[0] if named else None) if len(named) < 2 else self._first()  # noqa: PLR2004 - one has no rival

    def _first(self) -> str | None:
        return next((name for span in self._tree.placed.top_down if (name := self.names.get(span.span_id))), None)

    def nearest(self, span: Span) -> bytes | None:
        """Return the ID of the nearest agent span above a span; None if there is none."""
        if not self.names:
            return None
        parent = self._tree.parent_id(span)
        if parent is None or parent in self.names:  # as for most calls
            return parent
        if self._nearest is None:
            self._nearest = self._all_nearest()
        return self._nearest[parent]

    def _all_nearest(self) -> dict[bytes, bytes | None]:
        nearest: dict[bytes, bytes | None] = {}
        for span in self._tree.parents_first:
            parent = self._tree.parent_id(span)
            nearest[span.span_id] = parent if parent is None or parent in self.names else nearest[parent]
        return nearest

    def path(self, span: Span) -> tuple[str, ...]:
        """Return the names of the agents above a span, outermost first; one that is seen twice in a row counts once."""
        nearest = self.nearest(span)
        path = self._paths.get(nearest)
        if path is None:
            path = self._paths[nearest] = self._path(nearest)
        return path

    def _path(self, agent: bytes | None) -> tuple[str, ...]:
        names: list[str] = []
        while agent is not None:
            name = self.names[agent]
            if name is not None and (not names or names[-1] != name):
                names.append(name)
            agent = self.nearest(self._tree.by_id[agent])
        names.reverse()
        return tuple(names)
