"""HTTP/2 by hand, for what no gRPC client would send: frames, and the headers of a call."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING, BinaryIO

from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import TRACES

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_HEADERS = 4
HELLO = PREFACE + bytes((0, 0, 0, SETTINGS, 0, 0, 0, 0, 0))


def frame(kind: int, flags: int = 0, content: bytes = b"", *, stream: int = 0) -> bytes:
    """Return one frame."""
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


def frames(stream: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the kind and flags of each frame until the connection ends."""
    while len(head := stream.read(9)) == 9:
        stream.read(int.from_bytes(head[:3]))
        yield head[3], head[4]


def begun_call(method: str = TRACES, *, stream: int = 1, more: bytes = b"") -> bytes:
    """Return the headers of a gRPC call, and ``more`` of its data, without an end."""
    fields = {b":method": b"POST", b":scheme": b"http", b":path": method.encode(), b":authority": b"x", b"te": b"trailers"}
    fields[b"content-type"] = b"application/grpc"
    block = b"".join(b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in fields.items())
    return frame(HEADERS, END_HEADERS, block, stream=stream) + (frame(DATA, content=more, stream=stream) if more else b"")


def connected(port: int) -> socket.socket:
    """Return a connection that has said hello."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    connection.sendall(HELLO)
    return connection
