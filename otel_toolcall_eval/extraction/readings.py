"""What each span of a trace is, by the dialects that match it."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Role
from otel_toolcall_eval.extraction.looks import of_role
from otel_toolcall_eval.extraction.matching import spelled
from otel_toolcall_eval.extraction.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect
    from otel_toolcall_eval.extraction.looks import Reading
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span

MAX_QUOTED = 80
"""How much of an attribute a reason quotes, in characters."""

_QUOTE = re.compile(r"\{([^{}]+)\}")


class Readings:
    """The role of each span, and the dialects that speak for it; see ``Reading``.

    Attributes:
        calls: IDs of the spans that stand for calls, or for parts of one.
        barriers: IDs of model and agent spans.
        by_event: the dialects that read calls from a span's events, for each span that has any.
    """

    def __init__(self, tree: SpanTree, readings: Mapping[bytes, Reading]) -> None:
        """Decide on each span; ``readings`` holds what dialects make of it by itself."""
        self._speakers: dict[bytes, Sequence[Dialect]] = {}
        self._readings = readings
        self._tree = tree
        self._of: defaultdict[Role, dict[bytes, Sequence[Dialect]]] = defaultdict(dict)
        self.by_event: dict[bytes, Sequence[Dialect]] = {}
        for span in tree.top_down:
            span_id = span.span_id
            reading = readings[span_id]
            speakers = reading.speakers
            if speakers is None:
                speakers = of_role(reading.candidates, self._role_of(span, tree, reading.candidates))
            self._speakers[span_id] = speakers
            if speakers:
                self._of[speakers[0].role][span_id] = speakers
            if reading.by_event:
                self.by_event[span_id] = reading.by_event
        self.calls = self._of[Role.TOOL].keys() | self._of[Role.PART].keys()
        self.barriers = frozenset((*self._of[Role.MODEL], *self._of[Role.AGENT]))

    def _role_of(self, span: Span, tree: SpanTree, dialects: Sequence[Dialect]) -> Role:
        """Return the role of the first dialect that applies; a part needs its whole above it."""
        parent = tree.parent(span)
        above = {dialect.family for dialect in self._speakers.get(parent.span_id, ())} if parent is not None else set()
        for dialect in dialects:
            if dialect.role is not Role.PART or dialect.part_of & above:
                return dialect.role
        return Role.PART

    def all_dialects(self, span_id: bytes) -> Sequence[Dialect]:
        """Return all dialects that match a span and were not superseded."""
        return self._readings[span_id].dialects

    def content_hint(self, span_id: bytes) -> str:
        """Return how content is switched on for a span's producer; empty if no dialect that matches it knows."""
        return self._readings[span_id].content_hint

    @property
    def seen(self) -> Mapping[str, Dialect]:
        """Return every dialect that matches any span, by name."""
        distinct = {id(reading): reading for reading in self._readings.values()}
        return {dialect.name: dialect for reading in distinct.values() for dialect in reading.dialects}

    def dialects(self, span: Span) -> Sequence[Dialect]:
        """Return the dialects that read a span."""
        return self._speakers[span.span_id]

    def plan(self, span_id: bytes) -> Plan:
        """Return what is to be looked for on a span that stands for a call, a part of one or an agent."""
        return self._readings[span_id].plan or Plan.of(self._speakers[span_id], self._tree.by_id[span_id])

    def role(self, span: Span) -> Role | None:
        """Return what a span is; None if no dialect knows it."""
        dialects = self._speakers[span.span_id]
        return dialects[0].role if dialects else None

    def of(self, role: Role) -> Mapping[bytes, Sequence[Dialect]]:
        """Return the spans of one role, by ID."""
        return self._of[role]

    def reason(self, span: Span) -> str:
        """Say why a span that shows no call does not."""
        dialects = self._speakers[span.span_id]
        if not dialects:
            return "no tool marker"
        reason = dialects[0].reason or "it does not name its tool"
        if "{" not in reason:
            return reason
        return _QUOTE.sub(lambda found: (spelled(span.attributes.get(found[1])) or "?")[:MAX_QUOTED], reason)
