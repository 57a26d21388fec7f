"""One row of the table: what is sent, and what the right answer is."""

from __future__ import annotations

from dataclasses import dataclass

from tests.otlp.otlp_requests import numbered, request_of, to_json

GOOD = request_of(numbered(1)).SerializeToString()
GOOD_JSON = to_json(request_of(numbered(1)))
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
HEALTHY = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: %d\r\n\r\n%s" % (len(GOOD), GOOD)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A request over HTTP, byte by byte.

    Attributes:
        id: what is odd about it.
        sent: all of it.
        status: of the answer; None if the connection is closed without one.
        answer: media type of the answer, in which it is a ``google.rpc.Status`` or, for 200, an ``ExportTraceServiceResponse``.
        spans: how many arrive.
        goes_on: whether the connection serves the next request.
        refused: the reason under which it is counted; None if it is not refused.
        slow: it is answered once a time limit has passed.
    """

    id: str
    sent: bytes
    status: int | None
    answer: str = PROTOBUF
    spans: int = 0
    goes_on: bool = False
    refused: str | None = None
    slow: bool = False


@dataclass(frozen=True, kw_only=True)
class Body:
    """The body of a request that is framed as it should be: over HTTP, and in protobuf over gRPC too.

    Attributes:
        id: what is odd about it.
        body: of a trace request.
        status: 200, 400 or 413.
        spans: how many arrive.
        rejected: how many are rejected in the answer.
        json: whether it is JSON, else protobuf.
    """

    id: str
    body: bytes
    status: int = 200
    spans: int = 0
    rejected: int = 0
    json: bool = False


def http(
    body: bytes = GOOD,
    line: bytes = b"POST /v1/traces HTTP/1.1",
    extra: bytes = b"",
    content_type: bytes | None = b"application/x-protobuf",
    *,
    length: bool = True,
    host: bytes = b"Host: localhost\r\n",
) -> bytes:
    """Write a request."""
    typed = b"" if content_type is None else b"Content-Type: " + content_type + b"\r\n"
    counted = b"Content-Length: %d\r\n" % len(body) if length else b""
    return line + b"\r\n" + host + typed + extra + counted + b"\r\n" + body


def chunks(*pieces: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    """Write a body in chunks."""
    return b"".join(b"%x\r\n" % len(piece) + piece + b"\r\n" for piece in pieces) + end
