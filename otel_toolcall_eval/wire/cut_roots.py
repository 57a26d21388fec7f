"""Cuts root spans out of a trace request, so that they can wait for their verdict while everything else goes on.

Choice: on the bytes, along protobuf's framing, without decoding a span. What is not cut out keeps its bytes, what is cut out keeps all its
fields, unknown ones included; only the lengths around them change. Rejected: parse, change, serialise, which reorders fields.
A root goes on in a request of its own, in a copy of its resource and scope; its verdict is appended, which in protobuf is to add to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from otel_toolcall_eval.wire.any_value import read_key_value, text_of
from otel_toolcall_eval.wire.decoded import TRACE_ID_BYTES
from otel_toolcall_eval.wire.transcoding import span_to_protobuf
from otel_toolcall_eval.wire.varint import LENGTH_DELIMITED, MalformedError, field_of, fields_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from otel_toolcall_eval.model.trace import Attributes, SpanEvent, Value

_PATH = (1 << 3 | LENGTH_DELIMITED, 2 << 3 | LENGTH_DELIMITED, 2 << 3 | LENGTH_DELIMITED)  # resource_spans, scope_spans, spans
_TRACE_ID = 1 << 3 | LENGTH_DELIMITED
_SPAN_ID = 2 << 3 | LENGTH_DELIMITED
_ATTRIBUTE = 9 << 3 | LENGTH_DELIMITED


@dataclass(frozen=True, slots=True, kw_only=True)
class Additions:
    """What a verdict adds to its root span."""

    attributes: Attributes
    events: tuple[SpanEvent, ...]

    def as_json(self, *, known: Collection[str]) -> dict[str, list[Mapping[str, object]]]:
        """Return the fields of a span in OTLP/JSON; attributes that it has already are left to it, since keys must be unique."""
        events = [
            {"timeUnixNano": str(event.time_unix_ns), "name": event.name, "attributes": _attributes(event.attributes)}
            for event in self.events
        ]
        return {"attributes": _attributes({key: self.attributes[key] for key in self.attributes if key not in known}), "events": [*events]}


class CutRoot(Protocol):
    """A root span that was cut out of a request."""

    @property
    def trace_id(self) -> bytes:
        """Return its trace's ID."""
        ...

    @property
    def span_id(self) -> bytes:
        """Return its ID."""
        ...

    @property
    def size_bytes(self) -> int:
        """Return the length of the request that it becomes."""
        ...

    def request(self, additions: Additions | None) -> bytes:
        """Return it in a request of its own, with or without a verdict."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    trace_id: bytes
    span_id: bytes
    span: bytes = field(repr=False)
    resource: bytes = field(repr=False)  # the other fields of the ResourceSpans and ScopeSpans that it stood in
    scope: bytes = field(repr=False)

    @property
    def size_bytes(self) -> int:
        return len(self.span) + len(self.resource) + len(self.scope)

    def request(self, additions: Additions | None) -> bytes:
        span = self.span
        if additions is not None:
            span += span_to_protobuf(additions.as_json(known=_attribute_keys(span)))
        return field_of(_PATH[0], self.resource + field_of(_PATH[1], self.scope + field_of(_PATH[2], span)))


def cut_roots(body: bytes, wanted: Collection[bytes]) -> tuple[bytes, Sequence[CutRoot]]:
    """Cut spans out of a request that could be decoded.

    Args:
        body: an ``ExportTraceServiceRequest``.
        wanted: trace ID and span ID, joined, of the spans to cut out.

    Returns:
        What is left of the request, empty if it is nothing, and the spans. A request with fields of a kind that OTLP doesn't have
        (groups) is left whole.

    Cost: about that of decoding the request; to be asked only if a span is wanted.
    """
    cutter = _Cutter(body, frozenset(wanted))
    try:
        left = cutter.cut(0, len(body), 0)
    except MalformedError:
        return body, ()
    return (left if cutter.roots else body), cutter.roots


class _Cutter:
    def __init__(self, body: bytes, wanted: frozenset[bytes]) -> None:
        self._body = body
        self._wanted = wanted
        self._outer: list[tuple[int, int]] = []  # where the blocks around the current one lie
        self._other_fields: dict[tuple[int, int], bytes] = {}  # of blocks; the roots in one share them
        self.roots: list[CutRoot] = []

    def cut(self, start: int, end: int, level: int) -> bytes:
        """Return a block without the wanted spans, if there are any in it; empty if no span is left, unless it is the request itself."""
        pieces: list[bytes] = []
        kept = cut = 0
        run = position = start  # where what is taken over as it stands begins, and the current field
        for tag, inner_start, inner_end in fields_of(self._body, start, end):
            begin, position = position, inner_end
            if tag != _PATH[level]:
                continue
            before = len(self.roots)
            inner = self._inner(inner_start, inner_end, level, (start, end))
            if len(self.roots) > before:
                cut += 1
                pieces.append(self._body[run:begin])
                run = inner_end
                if inner:
                    pieces.append(field_of(tag, inner))
            kept += len(self.roots) == before or bool(inner)
        if not cut or (not kept and level):
            return b""
        pieces.append(self._body[run:end])
        return b"".join(pieces)

    def _inner(self, start: int, end: int, level: int, around: tuple[int, int]) -> bytes:
        if level < len(_PATH) - 1:
            self._outer.append(around)
            inner = self.cut(start, end, level + 1)
            self._outer.pop()
            return inner
        if self._ids(start, end, hasty=True) in self._wanted and (key := self._ids(start, end, hasty=False)) in self._wanted:
            resource, scope = self._others(*self._outer[-1], _PATH[1]), self._others(*around, _PATH[2])
            trace_id, span_id = key[:TRACE_ID_BYTES], key[TRACE_ID_BYTES:]
            self.roots.append(_Root(trace_id=trace_id, span_id=span_id, span=self._body[start:end], resource=resource, scope=scope))
        return b""

    def _ids(self, start: int, end: int, *, hasty: bool) -> bytes:
        """Return the IDs of a span, joined. They come first in nearly every span; that they don't come again, haste does not see."""
        trace_id = span_id = b""
        for tag, first, last in fields_of(self._body, start, end):
            if tag == _TRACE_ID:
                trace_id = self._body[first:last]
            elif tag == _SPAN_ID:
                span_id = self._body[first:last]
            if hasty and trace_id and span_id:
                break
        return trace_id + span_id

    def _others(self, start: int, end: int, without: int) -> bytes:
        """Return all fields of a block but those of one tag."""
        known = self._other_fields.get((start, end))
        if known is not None:
            return known
        pieces = []
        position = start
        for tag, _, inner_end in fields_of(self._body, start, end):
            if tag != without:
                pieces.append(self._body[position:inner_end])
            position = inner_end
        others = self._other_fields[start, end] = b"".join(pieces)
        return others


def _attribute_keys(span: bytes) -> set[str]:
    return {text_of(read_key_value(span, start, end)[0]) for tag, start, end in fields_of(span, 0, len(span)) if tag == _ATTRIBUTE}


def _attributes(attributes: Attributes) -> list[Mapping[str, object]]:
    return [{"key": key, "value": _any_value(value)} for key, value in attributes.items()]


def _any_value(value: Value) -> Mapping[str, object]:
    """Return a value of one of the types that verdicts have."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_any_value(member) for member in value]}}
    return {"stringValue": str(value)}
