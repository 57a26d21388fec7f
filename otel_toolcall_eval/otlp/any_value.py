"""KeyValue and AnyValue in protobuf, read out of the bytes that the slim schema left alone.

Choice: by hand, on positions in one ``bytes``. Protobuf's parser would limit nesting for us, but fails everything around a value that is
nested too deep, makes an object of every member, and refuses invalid UTF-8. A nesting limit of our own holds for both encodings alike.
Where a field that may stand once stands several times, the last one counts. Groups are malformed.
Source: opentelemetry-proto, common.proto.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from otel_toolcall_eval.otlp.varint import FIXED64, LENGTH_DELIMITED, VARINT, fields_of, read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_toolcall_eval.model.trace import Value
    from otel_toolcall_eval.otlp.limits import MemberBudget

MAX_NESTING = 100
"""Arrays and key-value lists inside each other. A value that is nested deeper is left out, and so is its key."""

_KEY = 1 << 3 | LENGTH_DELIMITED
_VALUE = 2 << 3 | LENGTH_DELIMITED
_MEMBER = 1 << 3 | LENGTH_DELIMITED

_STRING_VALUE = 1 << 3 | LENGTH_DELIMITED
_BOOL_VALUE = 2 << 3 | VARINT
_INT_VALUE = 3 << 3 | VARINT
_DOUBLE_VALUE = 4 << 3 | FIXED64
_ARRAY_VALUE = 5 << 3 | LENGTH_DELIMITED
_KVLIST_VALUE = 6 << 3 | LENGTH_DELIMITED
_BYTES_VALUE = 7 << 3 | LENGTH_DELIMITED

_SIGN_BIT = 1 << 63
_unpack_double = struct.Struct("<d").unpack_from


class NestedTooDeepError(Exception):
    """A value exceeds MAX_NESTING. Stays within this room."""


def text_of(data: bytes) -> str:
    """Return UTF-8 as text; what is not UTF-8 becomes U+FFFD, since one bad byte must not cost a batch."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace")


def read_key_value(data: bytes, position: int, end: int) -> tuple[bytes, int, int]:
    """Return the key of a ``KeyValue``, and from where to where its value lies; an absent value is empty.

    Raises MalformedError.
    """
    if end - position > 1 and data[position] == _KEY:  # as every encoder writes it: the key, then the value, then nothing
        length, key_start = read_varint(data, position + 1, end)
        key_end = key_start + length
        if key_end < end and data[key_end] == _VALUE:
            length, value_start = read_varint(data, key_end + 1, end)
            if value_start + length == end:
                return data[key_start:key_end], value_start, end
    key = b""
    value_start = value_end = position
    for tag, start, stop in fields_of(data, position, end):
        if tag == _KEY:
            key = data[start:stop]
        elif tag == _VALUE:
            value_start, value_end = start, stop
    return key, value_start, value_end


def read_value(data: bytes, position: int, end: int, budget: MemberBudget, depth: int = 0) -> Value:
    """Return the ``AnyValue`` that lies from ``position`` to ``end``; an empty one is None.

    Args:
        data: the bytes in which it lies.
        position: its first byte.
        end: the byte behind it.
        budget: members that the request may still hold.
        depth: arrays and key-value lists around it.

    Raises:
        MalformedError: it is not protobuf.
        NestedTooDeepError: it is nested deeper than MAX_NESTING.
        TooLargeError: the budget is spent.
    """
    if end - position > 1 and data[position] == _STRING_VALUE:  # nearly every value, in a quarter of the time
        length, start = read_varint(data, position + 1, end)
        if start + length == end:
            return text_of(data[start:end])
    value: Value = None
    for tag, start, stop in fields_of(data, position, end):
        if tag in {_ARRAY_VALUE, _KVLIST_VALUE}:
            if depth == MAX_NESTING:
                raise NestedTooDeepError
            read_members = _read_array if tag == _ARRAY_VALUE else _read_kvlist
            value = read_members(data, start, stop, budget, depth + 1)
        elif tag in _READ_SCALAR:
            value = _READ_SCALAR[tag](data, start, stop)
    return value


def _read_text(data: bytes, start: int, stop: int) -> Value:
    return text_of(data[start:stop])


def _read_bytes(data: bytes, start: int, stop: int) -> Value:
    return data[start:stop]


def _read_int(data: bytes, start: int, stop: int) -> Value:
    number, _ = read_varint(data, start, stop)
    return number - (1 << 64) if number & _SIGN_BIT else number


def _read_bool(data: bytes, start: int, stop: int) -> Value:
    return read_varint(data, start, stop)[0] != 0


def _read_double(data: bytes, start: int, _stop: int) -> Value:
    number: float = _unpack_double(data, start)[0]
    return number


_READ_SCALAR: Mapping[int, Callable[[bytes, int, int], Value]] = {
    _STRING_VALUE: _read_text,
    _BOOL_VALUE: _read_bool,
    _INT_VALUE: _read_int,
    _DOUBLE_VALUE: _read_double,
    _BYTES_VALUE: _read_bytes,
}


def _read_array(data: bytes, position: int, end: int, budget: MemberBudget, depth: int) -> Value:
    members: list[Value] = []
    for tag, start, stop in fields_of(data, position, end):
        if tag == _MEMBER:
            budget.spend()
            members.append(read_value(data, start, stop, budget, depth))
    return tuple(members)


def _read_kvlist(data: bytes, position: int, end: int, budget: MemberBudget, depth: int) -> Value:
    members: dict[str, Value] = {}
    for tag, start, stop in fields_of(data, position, end):
        if tag == _MEMBER:
            budget.spend()
            key, value_start, value_end = read_key_value(data, start, stop)
            members[text_of(key)] = read_value(data, value_start, value_end, budget, depth)
    return members
