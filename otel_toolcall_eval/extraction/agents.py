"""Says which agents stand above a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.extraction.call_reader import text_of

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span

MAX_PATH: Final = 100
"""How many agents inside each other a call's path names. Without a bound, n agents inside each other take n times n names."""


class Agents:
    """The agents of a trace. Cost: linear in the spans.

    Attributes:
        names: the name of every agent span, by ID; None if it has none.
        top: name of the top-most agent; of several, the one that started first.
    """

    def __init__(self, tree: SpanTree, classifications: SpanClassifications) -> None:
        """Name every agent span."""
        self._tree = tree
        self.names: dict[bytes, str | None] = {
            span.span_id: text_of(span, tree, classifications.plan(span).name) for span in classifications.agents
        }
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
        """Return the names of the agents above a span, outermost first; one that is seen twice in a row counts once.

        Of more than ``MAX_PATH`` names the innermost are left.
        """
        agent = self.nearest(span)
        below: list[bytes] = []
        while agent is not None and agent not in self._paths:
            below.append(agent)
            agent = self.nearest(self._tree.by_id[agent])
        path = self._paths[agent]
        for inner in reversed(below):
            name = self.names[inner]
            if name is not None and path[-1:] != (name,):
                path = (*path, name)[-MAX_PATH:]
            self._paths[inner] = path
        return path
