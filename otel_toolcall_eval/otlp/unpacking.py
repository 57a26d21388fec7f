"""Gzip (and zlib, which gRPC calls deflate), unpacked piece by piece and counted while it grows.

A gzip of 300 KB can hold 300 MB, so what bounds a request is counted on its way out and never afterwards.
Several gzip members behind each other are one body, as RFC 1952 says; zero bytes behind the last one are padding.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP_MAGIC = b"\x1f\x8b"

_PIECE_BYTES = 1 << 20  # most that is unpacked before it is counted
_CHUNK_BYTES = 1 << 16
_HELD_BYTES = 4 << 20
_MAX_MEMBERS = 1000  # each costs 10 microseconds, however little it holds
_ANY_HEADER = 32 + zlib.MAX_WBITS  # zlib's way of saying: gzip or zlib, see for yourself
_ZLIB_MAGIC = b"\x78"
_ZLIB_CHECK = 31  # the first two bytes of zlib, as one number, are a multiple of it


def too_large(limit_bytes: int) -> TooLargeError:
    """Return the error for a message above the limit, unpacked or not."""
    return TooLargeError(where="request", what=f"the message exceeds {limit_bytes} bytes", fix="send smaller batches")


def is_packed(data: bytes) -> bool:
    """Tell whether ``data`` begins like gzip or zlib. No OTLP request does: it would begin with a field that OTLP doesn't have."""
    return data.startswith(GZIP_MAGIC) or (data[:1] == _ZLIB_MAGIC and int.from_bytes(data[:2]) % _ZLIB_CHECK == 0)


class Gunzip:
    """Unpacks one body. Feed it as it comes, then finish."""

    __slots__ = ("_left", "_limit", "_member", "_members_left", "_started")

    def __init__(self, limit_bytes: int) -> None:
        """Allow ``limit_bytes`` in all, unpacked."""
        self._limit = self._left = limit_bytes
        self._member = zlib.decompressobj(_ANY_HEADER)
        self._members_left = _MAX_MEMBERS
        self._started = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """Yield what ``packed`` holds, in pieces of at most 1 MiB.

        Raises DecodeError if it is not gzip, TooLargeError as soon as the limit is exceeded.
        """
        held_back = False  # zlib may have taken all of the input and still have output to give
        while packed or held_back:
            if self._member.eof:
                packed = packed.lstrip(b"\0")
                if not packed:
                    return
                self._next_member()
            self._started = True
            wanted = min(_PIECE_BYTES, self._left + 1)
            try:
                piece = self._member.decompress(packed, wanted)
            except zlib.error:
                raise _not_gzip(what="the body is not valid gzip") from None
            self._left -= len(piece)
            if self._left < 0:
                raise too_large(self._limit)
            if piece:
                yield piece
            held_back = len(piece) == wanted and not self._member.eof
            packed = self._member.unconsumed_tail or self._member.unused_data

    def _next_member(self) -> None:
        self._members_left -= 1
        if self._members_left == 0:
            raise _not_gzip(what=f"the body holds more than {_MAX_MEMBERS} gzip members")
        self._member = zlib.decompressobj(_ANY_HEADER)

    def finish(self) -> None:
        """Raise DecodeError if the last member is incomplete. An empty body is complete."""
        if self._started and not self._member.eof:
            raise _not_gzip(what="the gzip body ends early")


def gunzip(packed: bytes, limit_bytes: int) -> bytes:
    """Return what ``packed`` holds; raises as ``Gunzip`` does.

    What holds more than 4 MiB is unpacked twice, the first time to see whether it keeps the limit: a bomb takes no memory then.
    """
    held: list[bytes] = []
    size = 0
    for piece in _unpacked(packed, limit_bytes):
        size += len(piece)
        held.append(piece)
        if size > _HELD_BYTES:
            held.clear()
    return b"".join(held if size <= _HELD_BYTES else _unpacked(packed, limit_bytes))


def _unpacked(packed: bytes, limit_bytes: int) -> Iterator[bytes]:
    unpacker = Gunzip(limit_bytes)
    for start in range(0, len(packed), _CHUNK_BYTES):  # zlib copies the rest of its input after every piece
        yield from unpacker.feed(packed[start : start + _CHUNK_BYTES])
    unpacker.finish()


def _not_gzip(*, what: str) -> DecodeError:
    return DecodeError(where="request", what=what, fix="send it whole, or without Content-Encoding")
