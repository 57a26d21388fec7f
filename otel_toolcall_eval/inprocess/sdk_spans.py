"""Turns ended spans of the OpenTelemetry SDK into ours, keeping what the projection asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from otel_toolcall_eval.model.trace import FLAG_PARENT_IS_REMOTE, FLAG_PARENT_LOCALITY_KNOWN, Resource, Scope, Span, SpanEvent, StatusCode

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource as SdkResource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

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
        context, parent = span.get_span_context(), span.parent
        keys, prefixes = projection.keys, projection.prefixes
        attributes: dict[str, Value] = {}
        size = SPAN_BYTES
        for key, value in _recorded(span).items():
            if key in keys or key.startswith(prefixes):  # nearly all are text, and spared a call
                if type(value) is str:
                    attributes[key] = value
                    size += len(value)
                else:
                    attributes[key] = kept = plain(value)
                    size += len(kept) if isinstance(kept, str) else 64
        events, links = span.events if projection.event_names else (), span.links
        # The SDK takes any name and any number for a time, and hands them on.
        start = int(span.start_time or 0)
        return Span(
            trace_id=context.trace_id.to_bytes(16, "big") if context else bytes(16),
            span_id=context.span_id.to_bytes(8, "big") if context else position.to_bytes(8, "big"),
            parent_span_id=parent.span_id.to_bytes(8, "big") if parent else None,
            name=str(span.name),
            start_unix_ns=start,
            end_unix_ns=start if span.end_time is None else int(span.end_time),
            flags=FLAG_PARENT_LOCALITY_KNOWN | (FLAG_PARENT_IS_REMOTE if parent is not None and parent.is_remote else 0),
            kind=span.kind.value + 1,  # OTLP numbers kinds from 1; the SDK, from 0
            status=_STATUSES[span.status.status_code.value],
            status_message=span.status.description or "",
            attributes=attributes,
            events=tuple(_event(event) for event in events if event.name in projection.event_names) if events else (),
            dropped_attributes=span.dropped_attributes,
            resource=self._resource(span.resource),
            scope=self._scope(span.instrumentation_scope),
            linked=bool(links) and context is not None and any(link.context.trace_id != context.trace_id for link in links),
            size_bytes=size,
        )

    def _resource(self, resource: SdkResource) -> Resource:
        found = self._resources.get(id(resource))
        if found is None:
            if len(self._resources) >= MAX_SHARED:
                self._resources.clear()
            made = Resource(attributes={key: plain(value) for key, value in resource.attributes.items()})
            found = self._resources[id(resource)] = (resource, made)  # kept alive, or its id() could be given away
        return found[1]

    def _scope(self, scope: InstrumentationScope | None) -> Scope:
        if scope is None:
            return Scope()
        key = (scope.name, scope.version)  # older SDKs make a new object for each tracer, whatever its name
        found = self._scopes.get(key)
        if found is None:
            if len(self._scopes) >= MAX_SHARED:
                self._scopes.clear()
            found = self._scopes[key] = Scope(name=scope.name, version=scope.version or "")
        return found


def _recorded(span: ReadableSpan) -> Mapping[str, object]:
    """Return what attributes a span has; nearly always a dict, since the SDK's own mapping takes a microsecond for each look-up."""
    attributes: Any = span.attributes
    try:
        copied: Mapping[str, object] = attributes.copy()
    except AttributeError:  # none, or a mapping of somebody's own
        return attributes or {}
    return copied


def _event(event: Event) -> SpanEvent:
    attributes = {key: plain(value) for key, value in (event.attributes or {}).items()}
    return SpanEvent(name=event.name, time_unix_ns=int(event.timestamp), attributes=attributes)


def plain(value: object, depth: int = 0) -> Value:
    """Return an attribute's value as ours: sequences become tuples; what is deeper than 100 levels or of a foreign type, text."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if depth < MAX_DEPTH and isinstance(value, Sequence):
        return tuple(plain(item, depth + 1) for item in value)
    return str(type(value))
