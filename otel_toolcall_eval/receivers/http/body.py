"""Reads the body of a request within bounds: of size while unpacking, of time, and of memory over all requests.

Threads: the receiver's event loop only.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from otel_toolcall_eval.model.errors import DecodeError, IntakeError, OverloadedError
from otel_toolcall_eval.otlp.unpacking import gunzip, too_large

_INLINE_PACKED_BYTES = 8 << 10  # unpacked at most 8 MiB, in 20 ms; what is larger would keep health checks waiting


class TooSlowError(IntakeError):
    """The body did not arrive in time: 408, DEADLINE_EXCEEDED."""

    http_status = 408
    grpc_code = "DEADLINE_EXCEEDED"


class ExpectHeaderError(IntakeError):
    """The client expects what we can't do: 417, INVALID_ARGUMENT."""

    http_status = 417


class BodyReader:
    """Reads bodies for one receiver."""

    def __init__(self, *, max_body_bytes: int, max_pending_bytes: int, body_seconds: float) -> None:
        """Set the bounds.

        Args:
            max_body_bytes: of one body, packed and unpacked.
            max_pending_bytes: of all bodies that are held at the same time.
            body_seconds: from a request's headers to the end of its body.
        """
        self._max_body_bytes = max_body_bytes
        self._max_pending_bytes = max_pending_bytes
        self._body_seconds = body_seconds
        self._pending_bytes = 0
        self._unpacking = asyncio.Lock()  # one at a time, since what is being unpacked is not accounted for yet

    async def read(self, request: web.BaseRequest, *, packed: bool) -> Body:
        """Return the body, unpacked if ``packed``. The caller releases it.

        Raises:
            TooLargeError: it exceeds the limit.
            OverloadedError: too much is held already.
            TooSlowError: it took too long.
            DecodeError: it is not gzip, or its chunks are broken.
            ExpectationError: the client waits for something that we can't do.
        """
        body = Body(self)
        try:
            async with asyncio.timeout(self._body_seconds):
                await self._fill(body, request, packed=packed)
        except TimeoutError:
            body.release()
            what = f"the body did not arrive within {self._body_seconds:g} s"
            raise TooSlowError(where="request", what=what, fix="send smaller batches") from None
        except web.RequestPayloadError:
            body.release()
            raise DecodeError(where="request", what="the body is not framed as its headers say", fix="check proxies on the way") from None
        except BaseException:
            body.release()
            raise
        return body

    async def _fill(self, body: Body, request: web.BaseRequest, *, packed: bool) -> None:
        if (request.content_length or 0) > self._max_body_bytes:
            raise too_large(self._max_body_bytes)  # said before the sender has sent it all
        await _answer_expectation(request)
        received = 0
        async for chunk in request.content.iter_any():
            received += len(chunk)
            if received > self._max_body_bytes:
                raise too_large(self._max_body_bytes)
            body.add(chunk)
        if packed:
            unpacked = await self._unpacked(body.take())
            body.release()
            body.add(unpacked)

    async def _unpacked(self, packed: bytes) -> bytes:
        if len(packed) <= _INLINE_PACKED_BYTES:
            return gunzip(packed, self._max_body_bytes)
        async with self._unpacking:
            return await asyncio.to_thread(gunzip, packed, self._max_body_bytes)

    def hold(self, count: int) -> None:
        """Account for ``count`` more bytes; raises OverloadedError if they are too many."""
        if self._pending_bytes + count > self._max_pending_bytes:
            raise OverloadedError(where="receiver", what="too many bytes are being received", fix="resend after a delay")
        self._pending_bytes += count

    def let_go(self, count: int) -> None:
        """Account for ``count`` bytes less."""
        self._pending_bytes -= count


class Body:
    """One body, accounted for until it is released."""

    __slots__ = ("_held", "_pieces", "_reader")

    def __init__(self, reader: BodyReader) -> None:
        """Start empty."""
        self._reader = reader
        self._pieces: list[bytes] = []
        self._held = 0

    def add(self, piece: bytes) -> None:
        """Append bytes; raises OverloadedError."""
        self._reader.hold(len(piece))
        self._held += len(piece)
        self._pieces.append(piece)

    def take(self) -> bytes:
        """Return the bytes, once."""
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    def release(self) -> None:
        """Stop accounting for them."""
        self._reader.let_go(self._held)
        self._held = 0
        self._pieces.clear()


async def _answer_expectation(request: web.BaseRequest) -> None:
    """Tell a client that waits before it sends its body to go on, such as curl with more than 1 MiB."""
    expectation = request.headers.get("Expect", "").lower()
    if not expectation:
        return
    if expectation != "100-continue":
        raise ExpectHeaderError(where="Expect", what="this expectation can't be met", fix="leave the header out")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # what was written is no answer yet
