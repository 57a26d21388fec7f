"""Turns ended spans of the OpenTelemetry SDK into ours, keeping what the projection asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.trace import FLAG_PARENT_IS_REMOTE, FLAG_PARENT_LOCALITY_KNOWN, Resource, Scope, Span, SpanEvent, StatusCode

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from otel_toolcall_eval.model.trace import Projection, Value

SPAN_BYTES = 700
"""What a kept span takes beside its text: the record, its IDs, its times, the dict (measured with tracemalloc)."""

MAX_DEPTH = 100

_STATUSES = tuple(StatusCode)  # their values are 0, 1 and 2, as the SDK's

MAX_SHARED = 1000
"""Resources and scopes that are remembered; a process has a handful, unless it makes them up as it goes."""


class SpanConverter:
    """Converts spans; resources and scopes, which most spans share, are converted once."""

    def __init__(self) -> None:
        """Start with nothing shared."""
        self._resources: dict[int, tuple[object, Resource]] = {}
        self._scopes: dict[tuple[str, str | None], Scope] = {}

    def convert(self, span: ReadableSpan, projection: Projection, *, position: int = 0) -> Span:
        """Convert one ended span.

        Args:
            span: may lack a context and times, as spans made by hand do.
            projection: attributes and events to keep.
            position: stands in for the ID of a span without a context, so that such spans stay distinct and in order.
        """
        context = span.get_span_context()
        parent = span.parent
        recorded, keeps = span.attributes or {}, projection.keeps
        attributes = {key: plain(recorded[key]) for key in recorded if keeps(key)}
        start = span.start_time or 0
        return Span(
            trace_id=context.trace_id.to_bytes(16, "big") if context else bytes(16),
            span_id=context.span_id.to_bytes(8, "big") if context else position.to_bytes(8, "big"),
            parent_span_id=parent.span_id.to_bytes(8, "big") if parent else None,
            name=span.name,
            start_unix_ns=start,
            end_unix_ns=start if span.end_time is None else span.end_time,
            flags=_flags(span),
            kind=span.kind.value + 1,  # OTLP numbers kinds from 1; the SDK, from 0
            status=_STATUSES[span.status.status_code.value],
            status_message=span.status.description or "",
            attributes=attributes,
            events=tuple(
                SpanEvent(name=e.name, time_unix_ns=e.timestamp, attributes={k: plain(v) for k, v in (e.attributes or {}).items()})
                for e in (span.events if projection.event_names else ())
                if e.name in projection.event_names
            ),
            dropped_attributes=span.dropped_attributes,
            resource=self._resource(span),
            scope=self._scope(span),
            linked=context is not None and any(link.context.trace_id != context.trace_id for link in span.links),
            size_bytes=SPAN_BYTES + sum(len(v) if isinstance(v, str) else 64 for v in attributes.values()),
        )

    def _resource(self, span: ReadableSpan) -> Resource:
        found = self._resources.get(id(span.resource))
        if found is None:
            if len(self._resources) >= MAX_SHARED:
                self._resources.clear()
            made = Resource(attributes={key: plain(value) for key, value in span.resource.attributes.items()})
            found = self._resources[id(span.resource)] = (span.resource, made)  # kept alive, or its id() could be given away
        return found[1]

    def _scope(self, span: ReadableSpan) -> Scope:
        scope = span.instrumentation_scope
        if scope is None:
            return Scope()
        key = (scope.name, scope.version)  # older SDKs make a new object for each tracer, whatever its name
        found = self._scopes.get(key)
        if found is None:
            if len(self._scopes) >= MAX_SHARED:
                self._scopes.clear()
            found = self._scopes[key] = Scope(name=scope.name, version=scope.version or "")
        return found


def _flags(span: ReadableSpan) -> int:
    if span.parent is None:
        return FLAG_PARENT_LOCALITY_KNOWN
    return FLAG_PARENT_LOCALITY_KNOWN | (FLAG_PARENT_IS_REMOTE if span.parent.is_remote else 0)


def plain(value: object, depth: int = 0) -> Value:
    """Return an attribute's value as ours: sequences become tuples; what is deeper than 100 levels or of a foreign type, text."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if depth < MAX_DEPTH and isinstance(value, Sequence):
        return tuple(plain(item, depth + 1) for item in value)
    return str(type(value))
