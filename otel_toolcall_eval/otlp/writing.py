"""Writes the log records, spans and events of verdicts as OTLP/protobuf bytes, from pieces.

Of a verdict's attributes most are the same for every verdict of a criterion, and all records of a report are of one moment, so the bytes of
both are made once and joined: each kind of record has a function for what it shares with others of its name (``..._title``), and one for
what it shares with others of its moment (``..._moment``). What stands before a content, which its length is part of, is made once for each
length (``Framing``, ``AttributeKey``). The order of fields and attributes means nothing. Rejected: building
messages with protobuf's classes, which takes 25 us for a log record of twelve attributes where joining bytes takes 3.
Source: opentelemetry-proto, ``common.proto``, ``logs.proto``, ``trace.proto``; repeated fields may be split and joined at any field.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.otlp.varint import FIXED32, FIXED64, LENGTH_DELIMITED, VARINT, field_of, varint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Written = str | bool | int | float | Sequence[str]

LOG_ATTRIBUTE: Final = bytes([6 << 3 | LENGTH_DELIMITED])
SPAN_ATTRIBUTE: Final = bytes([9 << 3 | LENGTH_DELIMITED])
EVENT_ATTRIBUTE: Final = bytes([3 << 3 | LENGTH_DELIMITED])
_RESOURCE_ATTRIBUTE: Final = bytes([1 << 3 | LENGTH_DELIMITED])

_KEY: Final = 1 << 3 | LENGTH_DELIMITED
_VALUE: Final = 2 << 3 | LENGTH_DELIMITED
_STRING: Final = bytes([1 << 3 | LENGTH_DELIMITED])
_BOOL: Final = bytes([2 << 3 | VARINT])
_INT: Final = bytes([3 << 3 | VARINT])
_DOUBLE: Final = bytes([4 << 3 | FIXED64])
_ARRAY: Final = 5 << 3 | LENGTH_DELIMITED
_MEMBER: Final = 1 << 3 | LENGTH_DELIMITED

_FIRST: Final = 1 << 3 | LENGTH_DELIMITED
_SECOND: Final = 2 << 3 | LENGTH_DELIMITED

_U64: Final = 0xFFFF_FFFF_FFFF_FFFF
_SAMPLED: Final = 1
_PARENT: Final = 0x100 | 0x200  # its locality is known: it is remote
_FIXED_32: Final = struct.Struct("<I")
_pack_time: Final = struct.Struct("<BQ").pack
_pack_times: Final = struct.Struct("<BQBQ").pack

_LOG_TIME: Final = 1 << 3 | FIXED64
_LOG_OBSERVED_TIME: Final = 11 << 3 | FIXED64
_LOG_FLAGS: Final = bytes([8 << 3 | FIXED32]) + _FIXED_32.pack(_SAMPLED)
_EVENT_TIME: Final = 1 << 3 | FIXED64
_SPAN_START: Final = 7 << 3 | FIXED64
_SPAN_END: Final = 8 << 3 | FIXED64
_SPAN_KIND: Final = bytes([6 << 3 | VARINT, 1])  # SPAN_KIND_INTERNAL
_SPAN_FLAGS: Final = varint(16 << 3 | FIXED32) + _FIXED_32.pack(_PARENT | _SAMPLED)  # only sampled spans are exported

_MOST_REMEMBERED: Final = 2_000  # bytes of a content; longer ones are rare
_NUMBER_BYTES: Final = 11  # of the longest number as a value
_DOUBLE_VALUE: Final = struct.Struct("<d")


class Framing:
    """The fields of one tag. What stands before a content of each length, up to a bound, is made once."""

    __slots__ = ("_heads", "_tag")

    def __init__(self, tag: int) -> None:
        """Take field number and wire type."""
        self._tag = varint(tag)
        self._heads = [b""] * (_MOST_REMEMBERED + 1)

    def head(self, size: int) -> bytes:
        """Return what stands before a content of so many bytes."""
        if size > _MOST_REMEMBERED:
            return self._tag + varint(size)
        found = self._heads[size]
        if not found:
            found = self._heads[size] = self._tag + varint(size)
        return found

    def field(self, content: bytes) -> bytes:
        """Return a field."""
        return self.head(len(content)) + content

    def put(self, pieces: list[bytes], moment: bytes, shared: bytes, own_head: bytes, own: bytes) -> int:
        """Append the pieces of a field, whose content they are one behind the other; return its length."""
        size = len(moment) + len(shared) + len(own_head) + len(own)
        head = self.head(size)
        pieces.append(head)
        pieces.append(moment)
        pieces.append(shared)
        pieces.append(own_head)
        pieces.append(own)
        return len(head) + size


LOG_RECORD: Final = Framing(_SECOND)
"""Log records as fields of ``ScopeLogs``; in each are a title, a moment and LOG_ATTRIBUTE fields."""

SPAN_EVENT: Final = Framing(11 << 3 | LENGTH_DELIMITED)
"""Events as fields of a span; in each are a title, a moment and EVENT_ATTRIBUTE fields."""

_SPAN: Final = Framing(_SECOND)
_TRACE_ID_OF_LOG: Final = Framing(9 << 3 | LENGTH_DELIMITED)
_SPAN_ID_OF_LOG: Final = Framing(10 << 3 | LENGTH_DELIMITED)
_TRACE_ID: Final = Framing(_FIRST)
_SPAN_ID: Final = Framing(_SECOND)
_PARENT_SPAN_ID: Final = Framing(4 << 3 | LENGTH_DELIMITED)


class AttributeKey:
    """An attribute's key, encoded once, and what stands before a value of each length, up to a bound."""

    __slots__ = ("_heads", "_key", "_size", "_tag", "_text_heads")

    def __init__(self, key: str, *, tag: bytes = b"") -> None:
        """Encode it; ``tag`` says what the attribute is of, and is left out for one that stands in several kinds of records."""
        encoded = field_of(_KEY, key.encode())
        self._tag = tag
        self._key = encoded + bytes([_VALUE])
        self._size = len(self._key)
        self._heads = [b""] * (_NUMBER_BYTES + 1)
        self._text_heads = [b""] * (_MOST_REMEMBERED + 1)

    def with_value(self, value: Written) -> bytes:
        """Return tag, length, key and value; ``value`` is as in ``any_value``."""
        encoded = any_value(value)
        size = len(encoded)
        if size > _NUMBER_BYTES:
            return self._before(size) + encoded
        found = self._heads[size]
        if not found:
            found = self._heads[size] = self._before(size)
        return found + encoded

    def with_text(self, text: str) -> bytes:
        """Return the same as ``with_value``, in half the time."""
        encoded = utf8(text)
        return self.text_head(len(encoded)) + encoded

    def text_head(self, size: int) -> bytes:
        """Return what stands before a text of so many bytes."""
        if size > _MOST_REMEMBERED:
            return self._before_text(size)
        found = self._text_heads[size]
        if not found:
            found = self._text_heads[size] = self._before_text(size)
        return found

    def _before_text(self, size: int) -> bytes:
        start = _STRING + varint(size)
        return self._before(len(start) + size) + start

    def _before(self, size: int) -> bytes:
        """Return what stands before a value of so many bytes."""
        length = varint(size)
        return self._tag + varint(self._size + len(length) + size) + self._key + length


def attributes(tag: bytes, given: Mapping[str, Written]) -> bytes:
    """Return attributes as fields; ``tag`` is LOG_ATTRIBUTE, SPAN_ATTRIBUTE or EVENT_ATTRIBUTE."""
    return b"".join([_attribute(tag, key, any_value(value)) for key, value in given.items()])


def _attribute(tag: bytes, key: str, value: bytes) -> bytes:
    pair = field_of(_KEY, key.encode()) + field_of(_VALUE, value)
    return tag + varint(len(pair)) + pair


def any_value(value: Written) -> bytes:
    """Return an ``AnyValue``: text, a truth value, an integer of 64 bits, a number, or a list of texts."""
    if isinstance(value, str):
        encoded = utf8(value)
        return _STRING + varint(len(encoded)) + encoded
    if isinstance(value, bool):
        return _BOOL + (b"\x01" if value else b"\x00")
    if isinstance(value, int):
        return _INT + varint(value if value >= 0 else value & _U64)
    if isinstance(value, float):
        return _DOUBLE + _DOUBLE_VALUE.pack(value)
    return field_of(_ARRAY, b"".join(field_of(_MEMBER, any_value(member)) for member in value))


def utf8(text: str) -> bytes:
    """Return a text's bytes; a question mark stands for each lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate can't be encoded, and must not cost the others their bytes
        return text.encode(errors="replace")


def log_title(event_name: str) -> bytes:
    """Return what log records of an event have in common, whenever and wherever it happens: its name, and severity INFO."""
    return b"\x10\x09\x1a\x04INFO" + field_of(12 << 3 | LENGTH_DELIMITED, event_name.encode())  # severity_number 9, severity_text


def log_moment(*, time_unix_ns: int, trace_id: bytes, span_id: bytes) -> bytes:
    """Return what log records have in common that are observed when they happen, in the context of a span.

    Args:
        time_unix_ns: when.
        trace_id: 16 bytes; empty, as ``span_id`` then, for records without a span.
        span_id: 8 bytes.
    """
    times = _pack_times(_LOG_TIME, time_unix_ns, _LOG_OBSERVED_TIME, time_unix_ns)
    if not trace_id:
        return times
    return b"".join((times, _LOG_FLAGS, _TRACE_ID_OF_LOG.head(len(trace_id)), trace_id, _SPAN_ID_OF_LOG.head(len(span_id)), span_id))


def event_title(name: str) -> bytes:
    """Return what events of a name have in common."""
    return field_of(_SECOND, name.encode())


def event_moment(time_unix_ns: int) -> bytes:
    """Return what events of a moment have in common."""
    return _pack_time(_EVENT_TIME, time_unix_ns)


def span_title(name: str) -> bytes:
    """Return what internal spans of a name, each below a span of another process, have in common."""
    return field_of(5 << 3 | LENGTH_DELIMITED, name.encode()) + _SPAN_KIND + _SPAN_FLAGS


def span(*, trace_id: bytes, span_id: bytes, parent_span_id: bytes, time_unix_ns: int, content: bytes, events: Sequence[bytes]) -> bytes:
    """Return a span without duration, as a field of ``ScopeSpans``.

    Args:
        trace_id: 16 bytes.
        span_id: 8 bytes.
        parent_span_id: 8 bytes.
        time_unix_ns: its start and its end.
        content: a title and SPAN_ATTRIBUTE fields.
        events: SPAN_EVENT fields, or the pieces that they are made of.
    """
    times = _pack_times(_SPAN_START, time_unix_ns, _SPAN_END, time_unix_ns)
    ids = _TRACE_ID.head(len(trace_id)), trace_id, _SPAN_ID.head(len(span_id)), span_id, _PARENT_SPAN_ID.head(len(parent_span_id))
    pieces = [b"", *ids, parent_span_id, times, content, *events]
    size = 0
    for piece in pieces:
        size += len(piece)
    pieces[0] = _SPAN.head(size)
    return b"".join(pieces)


class Envelope:
    """What stands around the spans or log records of one scope of one resource."""

    __slots__ = ("_resource", "_scope")

    def __init__(self, *, resource: Mapping[str, Written], scope_name: str) -> None:
        """Encode resource and scope once."""
        self._resource = field_of(_FIRST, attributes(_RESOURCE_ATTRIBUTE, resource))
        self._scope = field_of(_FIRST, field_of(_FIRST, scope_name.encode()))

    def request(self, items: Sequence[bytes]) -> bytes:
        """Return an ``ExportTraceServiceRequest`` of spans, or an ``ExportLogsServiceRequest`` of log records."""
        # The lengths are added up first, so that a batch, which is large, is copied once and not with each message around it.
        scoped = len(self._scope) + sum([len(item) for item in items])
        head = varint(_SECOND) + varint(scoped)
        resourced = len(self._resource) + len(head) + scoped
        return b"".join([varint(_FIRST), varint(resourced), self._resource, head, self._scope, *items])
