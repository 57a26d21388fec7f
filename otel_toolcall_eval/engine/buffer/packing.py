"""Keeps the spans of a trace that waits in a fifth of their memory, or less.

A trace waits ten seconds for its last spans and up to five minutes for its root, and nobody looks at its spans meanwhile. As
objects ten spans take 6 to 12 KB; marshalled and compressed, 0.5 to 2 KB.
Choice: ``marshal``, which writes exactly the types that a span's values have and is three times as fast as ``pickle``; it reads
only what it wrote a moment ago in the same process. Then a compressor at a fast level; see ``compressing``.
Cost: under a flood most traces are packed once they are decided, so this is a part of what a trace costs.

``StoredSpanWriter`` and ``StoredSpanReader`` do the same for bytes that outlive the process: with resources and scopes, and uncompressed,
since
the disk has more room than the core has time. ``marshal`` may crash on damaged bytes, so whoever reads them holds a checksum first.
"""

from __future__ import annotations

import marshal
from sys import getsizeof
from typing import TYPE_CHECKING, TypeAlias, cast

from otel_toolcall_eval.model.trace import STATUS_CODES, Resource, Scope, Span, SpanEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_toolcall_eval.engine.buffer.compression import CompressorPool
    from otel_toolcall_eval.model.trace import Attributes

_KIND_CHARS = 200  # of a service's name, which may be megabytes and is kept

FORMAT = 4
"""Version of ``marshal``'s format that is written; later Pythons read it, too."""

_REMEMBERED = 1000  # resources and scopes that come again and again; they hold some hundred bytes each

_Events: TypeAlias = "tuple[tuple[str, int, Attributes], ...]"
_Row: TypeAlias = "tuple[bytes, bytes | None, str, int, int, int, int, int, str, Attributes, _Events, int, int, int, bool, int]"


class PackedSpans:
    """Spans of one trace, equal to the originals when they are unpacked."""

    __slots__ = ("_blob", "_expander", "_shared", "_trace_id", "number", "size_bytes")

    def __init__(self, trace_id: bytes, spans: Mapping[bytes, Span], compressors: CompressorPool) -> None:
        """Pack spans, of which there is one at least; raises ValueError if a value is of a type that no decoder makes."""
        places: dict[int, int] = {}
        shared: list[Resource | Scope] = []
        rows = [_row(span, _place(span.resource, places, shared), _place(span.scope, places, shared)) for span in spans.values()]
        self._blob, self._expander = compressors.compress(marshal.dumps(rows), kind=_kind_of(spans))
        self._shared = tuple(shared)
        self._trace_id = trace_id
        self.number = len(rows)
        self.size_bytes = getsizeof(self) + getsizeof(self._blob) + getsizeof(self._shared)

    def unpack(self) -> dict[bytes, Span]:
        """Return the spans by ID, in the order in which they were packed."""
        rows: Iterable[_Row] = marshal.loads(self._expander.expand(self._blob))  # noqa: S302 - our own bytes of a moment ago
        return {row[0]: _span(self._trace_id, row, self._shared) for row in rows}


def _kind_of(spans: Mapping[bytes, Span]) -> str:
    """Return what traces have in common that are alike: the service that tells of them."""
    name = next(iter(spans.values())).resource.attributes.get("service.name")
    return name[:_KIND_CHARS] if isinstance(name, str) else ""


def _place(thing: Resource | Scope, places: dict[int, int], shared: list[Resource | Scope]) -> int:
    """Return the place of a resource or scope among those that are kept beside the bytes; spans of one request share them."""
    place = places.get(id(thing))
    if place is None:
        place = places[id(thing)] = len(shared)
        shared.append(thing)
    return place


def _row(span: Span, resource: int, scope: int) -> _Row:
    return (
        span.span_id,
        span.parent_span_id,
        span.name,
        span.start_unix_ns,
        span.end_unix_ns,
        span.flags,
        span.kind,
        int(span.status),
        span.status_message,
        span.attributes if type(span.attributes) is dict else dict(span.attributes),
        tuple((event.name, event.time_unix_ns, dict(event.attributes)) for event in span.events),
        span.dropped_attributes,
        resource,
        scope,
        span.linked,
        span.size_bytes,
    )


def _span(trace_id: bytes, row: _Row, shared: Sequence[Resource | Scope]) -> Span:
    (
        span_id,
        parent_span_id,
        name,
        start_unix_ns,
        end_unix_ns,
        flags,
        kind,
        status,
        status_message,
        attributes,
        events,
        dropped_attributes,
        resource,
        scope,
        linked,
        size_bytes,
    ) = row
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_span_id,
        name=name,
        start_unix_ns=start_unix_ns,
        end_unix_ns=end_unix_ns,
        flags=flags,
        kind=kind,
        status=STATUS_CODES[status],
        status_message=status_message,
        attributes=attributes,
        events=tuple([SpanEvent(name=event, time_unix_ns=time, attributes=members) for event, time, members in events]),
        dropped_attributes=dropped_attributes,
        resource=cast("Resource", shared[resource]),
        scope=cast("Scope", shared[scope]),
        linked=linked,
        size_bytes=size_bytes,
    )


class StoredSpanWriter:
    """Writes spans of one trace at a time, resources and scopes included. One for each request, whose spans share these."""

    def __init__(self) -> None:
        """Start with nothing written."""
        self._written: dict[int, bytes] = {}

    def write(self, spans: Iterable[Span]) -> bytes:
        """Return spans of one trace as bytes; raises ValueError if a value is of a type that no decoder makes."""
        places: dict[int, int] = {}
        shared: list[Resource | Scope] = []
        rows = [_row(span, _place(span.resource, places, shared), _place(span.scope, places, shared)) for span in spans]
        return marshal.dumps(([self.origin(thing) for thing in shared], rows), FORMAT)

    def origin(self, thing: Resource | Scope) -> bytes:
        """Return a resource or a scope as bytes."""
        written = self._written.get(id(thing))
        if written is None:
            plain = (thing.name, thing.version) if isinstance(thing, Scope) else dict(thing.attributes)
            written = self._written[id(thing)] = marshal.dumps(plain, FORMAT)
        return written


class StoredSpanReader:
    """Reads what a writer wrote. Equal resources and scopes become one again."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._read: dict[bytes, Resource | Scope] = {}

    def read(self, trace_id: bytes, data: bytes) -> list[Span]:
        """Return the spans in the order in which they were written. ``data`` has to be what a writer wrote, bit for bit."""
        origins, rows = marshal.loads(data)  # noqa: S302 - see above
        shared = [self.origin(origin) for origin in origins]
        return [_span(trace_id, row, shared) for row in rows]

    def origin(self, data: bytes) -> Resource | Scope:
        """Return a resource or a scope."""
        known = self._read.get(data)
        if known is None:
            plain = marshal.loads(data)  # noqa: S302 - see above
            known = Scope(name=plain[0], version=plain[1]) if isinstance(plain, tuple) else Resource(attributes=plain)
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            self._read[data] = known
        return known
