"""What each span of a trace is, by the dialects that match it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Dialect, Role
from otel_toolcall_eval.extraction.matching import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span

_TELLING = frozenset({Role.TOOL, Role.PART, Role.MODEL, Role.AGENT})

MAX_QUOTED = 80
"""How much of an attribute a reason quotes, in characters."""

_QUOTE = re.compile(r"\{([^{}]+)\}")


class Readings:
    """The role of each span, and the dialects that speak for it.

    One that says "ignore" is heard before all others, so nothing that looks like a call by a second convention gets past it.
    Else the first one asked decides what the span is, and those that agree with it read it together. Those that look at events
    are heard beside all others: what an event shows does not change what its span is.

    Attributes:
        barriers: IDs of model and agent spans.
        by_event: the dialects that read calls from a span's events, for each span that has any.
    """

    def __init__(self, tree: SpanTree, asked: Mapping[bytes, Sequence[Dialect]]) -> None:
        """Decide on each span; ``asked`` holds the dialects that match it, highest first."""
        self._speakers: dict[bytes, Sequence[Dialect]] = {}
        self.by_event: dict[bytes, Sequence[Dialect]] = {}
        for span in tree.top_down:
            dialects = asked[span.span_id]
            ignoring = [dialect for dialect in dialects if dialect.role is Role.IGNORE]
            if ignoring:
                dialects = ignoring
            elif dialects:
                events = [dialect for dialect in dialects if dialect.role is Role.EVENT]
                if events:
                    self.by_event[span.span_id] = events
                    dialects = [dialect for dialect in dialects if dialect.role in _TELLING] or dialects
                role = self._role_of(span, tree, dialects)
                dialects = [dialect for dialect in dialects if dialect.role is role]
            self._speakers[span.span_id] = dialects
        self.barriers = frozenset(
            span_id for span_id, dialects in self._speakers.items() if dialects and dialects[0].role in {Role.MODEL, Role.AGENT}
        )
        self.all_dialects = asked

    def _role_of(self, span: Span, tree: SpanTree, dialects: Sequence[Dialect]) -> Role:
        """Return the role of the first dialect that applies; a part needs its whole above it."""
        parent = tree.parent(span)
        above = {dialect.family for dialect in self._speakers.get(parent.span_id, ())} if parent is not None else set()
        for dialect in dialects:
            if dialect.role is not Role.PART or dialect.part_of & above:
                return dialect.role
        return Role.PART

    def dialects(self, span: Span) -> Sequence[Dialect]:
        """Return the dialects that read a span."""
        return self._speakers[span.span_id]

    def role(self, span: Span) -> Role | None:
        """Return what a span is; None if no dialect knows it."""
        dialects = self._speakers[span.span_id]
        return dialects[0].role if dialects else None

    def of(self, role: Role) -> Mapping[bytes, Sequence[Dialect]]:
        """Return the spans of one role, by ID."""
        return {span_id: dialects for span_id, dialects in self._speakers.items() if dialects and dialects[0].role is role}

    def reason(self, span: Span) -> str:
        """Say why a span that shows no call does not."""
        dialects = self._speakers[span.span_id]
        if not dialects:
            return "no tool marker"
        reason = dialects[0].reason or "it does not name its tool"
        return _QUOTE.sub(lambda found: (spelled(span.attributes.get(found[1])) or "?")[:MAX_QUOTED], reason)
