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
            parent = tree.parent(span)
            if parent is None:
                self.nearest[span.span_id] = None
            elif parent.span_id in self.names:
                self.nearest[span.span_id] = parent.span_id
            else:
                self.nearest[span.span_id] = self.nearest[parent.span_id]
        self.top = next((name for span in tree.top_down if (name := self.names.get(span.span_id))), None)

    def path(self, span: Span) -> tuple[str, ...]:
        """Return the names of the agents above a span, outermost first; one that is seen twice in a row counts once."""
        names: list[str] = []
        agent = self.nearest.get(span.span_id)
        while agent is not None:
            name = self.names[agent]
            if name is not None and (not names or names[-1] != name):
                names.append(name)
            agent = self.nearest[agent]
        return tuple(reversed(names))
