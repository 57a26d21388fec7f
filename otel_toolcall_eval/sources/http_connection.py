"""One HTTP connection: cuts clients that don't finish their headers, and answers what is not HTTP.

Threads: the receiver's event loop only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from otel_toolcall_eval.wire.replies import Encoding, status_reply

if TYPE_CHECKING:
    import asyncio

SERVER_HEADER = {"Server": "otel-toolcall-eval"}
"""Sent with every answer, in place of the library's own, which names versions."""

MAX_HEADERS = 64
"""Headers of one request."""

_LARGEST_HEAD_LINE_BYTES = 8 << 10
_LINGER_SECONDS = 5.0  # after an answer that came early: lets the sender finish, else it may never read the answer


class Connection(web.RequestHandler):
    """Adds to aiohttp's connection what it leaves open: a time limit on the headers of a request, from its first byte on."""

    __slots__ = ("_head_seconds", "_head_timer", "_serving")

    def __init__(self, server: web.Server, *, loop: asyncio.AbstractEventLoop, head_seconds: float, idle_seconds: float) -> None:
        """Prepare for one client.

        Args:
            server: hands the requests on.
            loop: the receiver's loop.
            head_seconds: time for the headers of a request, the first counting from the connection.
            idle_seconds: how long the client may leave the connection unused between requests.
        """
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=idle_seconds,
            access_log=None,  # type: ignore[arg-type] # aiohttp's way of saying: none
            max_line_size=_LARGEST_HEAD_LINE_BYTES,
            max_field_size=_LARGEST_HEAD_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._serving = False

    def serving(self, *, busy: bool) -> None:
        """Note that a request's headers are complete, or that its answer is."""
        self._serving = busy
        self._stop_timer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on; the first ones after an answer begin the headers of the next request."""
        if not self._serving and self._head_timer is None:
            self._start_timer()
        super().data_received(data)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what aiohttp could not parse; without its words, which repeat the request."""
        del request, message
        if isinstance(exc, LineTooLong):
            status, text = 431, "request: a header is too long; send shorter headers"
        elif status < 500:  # noqa: PLR2004 - the sender's fault
            text = "request: not valid HTTP/1.1; use an OTLP exporter for HTTP"
        else:
            text = "internal error"
        code = "INVALID_ARGUMENT" if status < 500 else "INTERNAL"  # noqa: PLR2004 - as above
        body = status_reply(Encoding.JSON, code=code, message=text)
        response = web.Response(status=status, body=body, content_type=Encoding.JSON.value, headers=SERVER_HEADER)
        response.force_close()
        return response

    def log_exception(self, *_: object, **__: object) -> None:
        """Log nothing: the exceptions of a broken connection repeat what was sent."""

    def _start_timer(self) -> None:
        self._head_timer = self._loop.call_later(self._head_seconds, self._cut)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cut(self) -> None:
        self._head_timer = None
        if self.transport is not None:
            self.transport.abort()
