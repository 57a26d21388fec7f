"""The framing of protobuf: variable-length integers, and where each field begins and ends.

Used for the few bytes that protobuf's own parser is not asked to decode. Source: protobuf encoding guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, LENGTH_DELIMITED, FIXED32 = 0, 1, 2, 5

_CONTINUES: Final = 0x80  # the top bit of a byte says that more bytes follow
_PAYLOAD: Final = 0x7F
_VARINT_BYTES = 10  # the longest encoding of 64 bits
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


class MalformedError(Exception):
    """The bytes are not protobuf. Stays within this room: becomes a DecodeError that says where."""


def read_varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """Return the unsigned integer at ``position``, cut to 64 bits, and the position behind it.

    Raises MalformedError if it does not end before ``end`` or within ten bytes.
    """
    if position < end and (value := data[position]) < _CONTINUES:
        return value, position + 1
    if position + 1 < end and (byte := data[position + 1]) < _CONTINUES:  # up to 16,383, as most lengths are
        return value & _PAYLOAD | byte << 7, position + 2
    value = shift = 0
    for at in range(position, min(end, position + _VARINT_BYTES)):
        byte = data[at]
        value |= (byte & _PAYLOAD) << shift
        if byte < _CONTINUES:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + 1
        shift += 7
    what = "a varint does not end"
    raise MalformedError(what)


def fields_of(data: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield each field between ``position`` and ``end``: its tag, and from where to where its content lies.

    The tag is field number and wire type, ``number << 3 | wire_type``; the content of a length-delimited field begins behind its
    length. Raises MalformedError for a field that reaches beyond ``end``, and for wire types that OTLP does not have (groups).
    """
    while position < end:
        tag, position = read_varint(data, position, end)
        wire_type = tag & 7
        start = position
        if wire_type == LENGTH_DELIMITED:
            length, start = read_varint(data, position, end)
            position = start + length
        elif wire_type == VARINT:
            _, position = read_varint(data, position, end)
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        else:
            what = "a field of an unknown wire type"
            raise MalformedError(what)
        if position > end:
            what = "a field is longer than what it stands in"
            raise MalformedError(what)
        yield tag, start, position


_BYTES = tuple(bytes((number,)) for number in range(256))
_TWO_BYTES = 1 << 14


def varint(number: int) -> bytes:
    """Encode an unsigned integer."""
    if number < _CONTINUES:
        return _BYTES[number]
    if number < _TWO_BYTES:  # as most lengths are
        return _BYTES[number & _PAYLOAD | _CONTINUES] + _BYTES[number >> 7]
    encoded: list[bytes] = []
    while number > _PAYLOAD:
        encoded.append(_BYTES[number & _PAYLOAD | _CONTINUES])
        number >>= 7
    encoded.append(_BYTES[number])
    return b"".join(encoded)  # cheaper than to make bytes of so many numbers


def field_of(tag: int, content: bytes) -> bytes:
    """Encode a length-delimited field."""
    return varint(tag) + varint(len(content)) + content
