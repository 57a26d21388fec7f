"""What each span of a trace is, by the dialects that match it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Role
from otel_toolcall_eval.extraction.dialect_cache import of_role
from otel_toolcall_eval.extraction.lookup_plan import LookupPlan
from otel_toolcall_eval.extraction.matching import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect
    from otel_toolcall_eval.extraction.dialect_cache import DialectCache, SpanClassification
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span

MAX_QUOTED = 80
"""How much of an attribute a reason quotes, in characters."""

_CALLS = frozenset({Role.TOOL, Role.PART})
_QUOTE = re.compile(r"\{([^{}]+)\}")


class SpanClassifications:
    """The role of each span, and the dialects that decide it; see ``SpanClassification``.

    Attributes:
        calls: the spans that stand for calls, or for parts of one, in order of time.
        models: the spans that asked models, in order of time.
        agents: the spans in which agents ran, in order of time.
        by_event: the dialects that read calls from a span's events, for each span that has any.
        tell_conversations: a span may name its conversation.
    """

    def __init__(self, tree: SpanTree, cache: DialectCache) -> None:
        """Decide on each span of ``tree``; ``cache`` classifies each by itself."""
        self._tree = tree
        self._classifications: dict[bytes, SpanClassification] = {}
        self._settled: dict[bytes, tuple[Dialect, ...]] = {}  # the deciding dialects of spans whose role depends on the span above
        self.calls: list[Span] = []
        self.models: list[Span] = []
        self.agents: list[Span] = []
        self.by_event: dict[bytes, Sequence[Dialect]] = {}
        self.tell_conversations = False
        all_settled = True
        for span in tree.spans:
            found = cache.classify(span)
            self._classifications[span.span_id] = found
            if found.deciding_dialects is None:
                all_settled = False
            elif found.is_call:
                self.calls.append(span)
            elif found.is_model:
                self.models.append(span)
            elif found.is_agent:
                self.agents.append(span)
            if found.by_event:
                self.by_event[span.span_id] = found.by_event
            if found.tells_conversation:
                self.tell_conversations = True
        if not all_settled:
            self._settle()

    def _settle(self) -> None:
        """Decide on the spans whose role depends on the span above."""
        for span in self._tree.parents_first:
            found = self._classifications[span.span_id]
            if found.deciding_dialects is None:
                self._settled[span.span_id] = of_role(found.candidates, self._role_of(span, found.candidates))
        role = {span.span_id: self.role(span) for span in self._tree.spans}
        self.calls = [span for span in self._tree.spans if role[span.span_id] in _CALLS]
        self.models = [span for span in self._tree.spans if role[span.span_id] is Role.MODEL]
        self.agents = [span for span in self._tree.spans if role[span.span_id] is Role.AGENT]

    def _role_of(self, span: Span, dialects: Sequence[Dialect]) -> Role:
        """Return the role of the first dialect that applies; a part needs its whole above it."""
        parent = self._tree.parent(span)
        above = {dialect.family for dialect in self.dialects(parent)} if parent is not None else set()
        for dialect in dialects:
            if dialect.role is not Role.PART or dialect.part_of & above:
                return dialect.role
        return Role.PART

    def all_dialects(self, span_id: bytes) -> Sequence[Dialect]:
        """Return all dialects that match a span and were not superseded."""
        return self._classifications[span_id].dialects

    def content_hint(self, span_id: bytes) -> str:
        """Return how content is switched on for a span's producer; empty if no dialect that matches it knows."""
        return self._classifications[span_id].content_hint

    @property
    def seen(self) -> Mapping[str, Dialect]:
        """Return every dialect that matches any span, by name."""
        distinct = {id(found): found for found in self._classifications.values()}
        return {dialect.name: dialect for found in distinct.values() for dialect in found.dialects}

    def dialects(self, span: Span) -> tuple[Dialect, ...]:
        """Return the dialects that read a span."""
        deciding_dialects = self._classifications[span.span_id].deciding_dialects
        return self._settled[span.span_id] if deciding_dialects is None else deciding_dialects

    def plan(self, span: Span) -> LookupPlan:
        """Return what is to be looked for on a span that stands for a call, a part of one or an agent."""
        return self._classifications[span.span_id].plan or LookupPlan.of(self.dialects(span), span)

    def role(self, span: Span) -> Role | None:
        """Return what a span is; None if no dialect knows it."""
        dialects = self.dialects(span)
        return dialects[0].role if dialects else None

    def reason(self, span: Span) -> str:
        """Say why a span that shows no call does not."""
        dialects = self.dialects(span)
        if not dialects:
            return "no tool marker"
        reason = dialects[0].reason or "it does not name its tool"
        if "{" not in reason:
            return reason
        return _QUOTE.sub(lambda found: (spelled(span.attributes.get(found[1])) or "?")[:MAX_QUOTED], reason)
