"""Says which agents stand above a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_reader import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.extraction.plans import Plan
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span


class Agents:
    """The agents of a trace. Cost: linear in the spans.

    Attributes:
        names: the name of each agent span, if it tells.
        nearest: the nearest agent span above each span.
        top: name of the top-most agent; of several, the one that started first.
    """

    def __init__(self, tree: SpanTree, plans: Mapping[bytes, Plan]) -> None:
        """Name every agent span; ``plans`` says for each of them, by ID, where its name is looked for."""
        self.names: dict[bytes, str | None] = {span_id: text_of(tree.by_id[span_id], tree, plan.name) for span_id, plan in plans.items()}
        self.nearest: dict[bytes, bytes | None] = {}
        for span in tree.top_down:
            parent = tree.parent_id(span)
            self.nearest[span.span_id] = parent if parent is None or parent in self.names else self.nearest[parent]
        self._paths: dict[bytes | None, tuple[str, ...]] = {None: ()}
        self.top = next((name for span in tree.top_down if (name := self.names.get(span.span_id))), None)

    def path(self, span: Span) -> tuple[str, ...]:
        """Return the names of the agents above a span, outermost first; one that is seen twice in a row counts once."""
        nearest = self.nearest.get(span.span_id)
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
            agent = self.nearest[agent]
        return tuple(reversed(names))
