"""Makes spans fast: a span is filled in as a ``SpanDraft``, a class with the same slots, and then turned into a ``Span``.

The constructor of a frozen dataclass with so many fields sets each one through ``object.__setattr__`` and takes seven times as long,
twice what protobuf needs to parse the whole span. Cost: whoever fills a draft has to name every field; tests hold them to ``Span``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import Span

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Attributes, Resource, Scope, SpanEvent, StatusCode


class SpanDraft:
    """A span that can still be written to: the same slots, and none of the rules."""

    __slots__ = tuple(field.name for field in fields(Span))

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes | None
    name: str
    start_unix_ns: int
    end_unix_ns: int
    flags: int
    kind: int
    status: StatusCode
    status_message: str
    attributes: Attributes
    events: tuple[SpanEvent, ...]
    dropped_attributes: int
    resource: Resource
    scope: Scope
    linked: bool
    size_bytes: int

    def finish(self) -> Span:
        """Turn the draft, all of whose fields are set, into a span; it can't be written to any more."""
        self.look: object = None
        self.__class__ = Span  # type: ignore[assignment] # the two classes have the same layout
        return self  # type: ignore[return-value] # since the line above
