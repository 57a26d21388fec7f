"""One HTTP connection, and the pool of all connections of a listener.

A connection cuts clients that don't finish their headers or don't read their answers, and answers what is not HTTP.

The pool bounds how many there are: a connection costs a file, and where files run out nobody is served, gRPC's clients included. When one
more comes, the pool closes the connection that has kept us waiting longest: first a client that has not finished a request, then one that
has none to send; never one whose request is complete and unanswered. Rejected: turning only newcomers away (a few hundred silent sockets
would keep everybody out), a limit for each address (behind a proxy or a Kubernetes service all senders share one).
Threads: the receiver's event loop only.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aiohttp import web
from aiohttp.http_exceptions import LineTooLong

from otel_toolcall_eval.otlp.replies import Encoding, status_reply
from otel_toolcall_eval.receivers.intake import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from aiohttp import StreamReader


SERVER_HEADER = {"Server": "otel-toolcall-eval"}
"""Sent with every answer, in place of the library's own, which names versions."""

MOST_CONNECTIONS = 512
"""Open at a time: half of the files that most systems let a process open by default; the other half is for gRPC, which can't be bounded."""

MAX_HEADERS = 64
"""Headers of one request."""

_LARGEST_HEAD_LINE_BYTES = 8 << 10
_LARGEST_HEAD_BYTES = 64 << 10  # all headers of a request; the parser holds them until they are complete
_LINGER_SECONDS = 5.0  # after an answer that came early: lets the sender finish, else it may never read the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one client, and all clients together, may take of a listener.

    Attributes:
        head_seconds: time for the headers of a request, and before that for the TLS handshake.
        body_seconds: time for a request's body, and for the client to read the answer.
        idle_seconds: how long a connection may stay unused between requests.
        max_connections: open at a time; beyond, one that keeps us waiting is closed, or the new one is rejected with 503.
        max_message_bytes: largest body, packed and unpacked.
        max_pending_bytes: bytes of all bodies that are held at the same time; beyond, senders are asked to resend.
    """

    head_seconds: float = 10.0
    body_seconds: float = 30.0
    idle_seconds: float = 75.0
    max_connections: int = MOST_CONNECTIONS
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    max_pending_bytes: int = 4 * DEFAULT_MAX_MESSAGE_BYTES


class Connection(web.RequestHandler):
    """Adds to aiohttp's connection what it leaves open: a time limit on the headers of a request, from its first byte on."""

    __slots__ = (
        *("_answer_seconds", "_answer_timer", "_answered", "_pool", "_head_bytes", "_head_seconds", "_head_timer", "_refused"),
        *("_unread", "was_made"),
    )

    def __init__(
        self,
        server: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        pool: ConnectionPool,
        refused: Callable[[str], None],
        limits: HttpLimits,
    ) -> None:
        """Prepare for one client.

        Args:
            server: hands the requests on.
            loop: the receiver's loop.
            pool: all connections of the receiver.
            refused: counts, by reason, what is not HTTP, who was too slow, and who found no place.
            limits: of time.
        """
        super().__init__(
            server,
            loop=loop,
            keepalive_timeout=limits.idle_seconds,
            access_log=None,  # type: ignore[arg-type] # aiohttp's way of saying: none
            max_line_size=_LARGEST_HEAD_LINE_BYTES,
            max_field_size=_LARGEST_HEAD_LINE_BYTES,
            max_headers=MAX_HEADERS,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._pool = pool
        self._refused = refused
        self._head_seconds = limits.head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._answer_seconds = limits.body_seconds
        self._answer_timer: asyncio.TimerHandle | None = None
        self._answered = 0  # requests; aiohttp counts in _request_count those whose headers are complete
        self.was_made = False
        """Whether a client is or was there; with TLS, only after the handshake."""
        self._unread: StreamReader | None = None  # body of a request that was answered before it was here

    @property
    def request_is_here(self) -> bool:
        """Tell whether a request has come in whole and is not answered yet."""
        request = self._current_request
        return request is not None and request.content.is_eof()

    def cut(self) -> None:
        """Close the connection at once, with whatever the client has not read; counted if it owes us the rest of a request."""
        request = self._current_request
        if self._head_bytes or (request is not None and not request.content.is_eof()):
            self._refused("too_slow")
        if self.transport is not None:
            self.transport.abort()

    def serving(self, *, busy: bool) -> None:
        """Note that a request's headers are complete, or that its answer is."""
        self._stop_head_timer()
        if not busy:
            self._answered += 1
            self._unread = None if self._current_request is None else self._current_request.content
            self._pool.is_answered(self, now=self._loop.time())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the clock, or turn the client away if there is no place."""
        super().connection_made(transport)
        self.was_made = True
        if self._pool.admit(self, now=self._loop.time()):
            self._start_head_timer()
        else:
            self._refused("overloaded")
            self._turn_away("503 Service Unavailable", "UNAVAILABLE", "receiver: too many connections; resend after a delay", retry=1)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the clocks."""
        self._stop_head_timer()
        self._stop_answer_timer()
        self._pool.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass the bytes on; the first ones after an answer begin the headers of the next request."""
        if self._force_close:
            return  # turned away, and still talking
        in_head = self._in_head()
        if in_head and self._head_timer is None:
            self._pool.begins(self, now=self._loop.time())
            self._start_head_timer()
        super().data_received(data)
        self._head_bytes = self._head_bytes + len(data) if in_head and self._in_head() else 0
        if self._head_bytes > _LARGEST_HEAD_BYTES:
            self._refused("unsupported")
            what = "request: the headers are too long; send fewer or shorter headers"
            self._turn_away("431 Request Header Fields Too Large", "INVALID_ARGUMENT", what)

    def pause_writing(self) -> None:
        """Start the clock for a client that does not read its answer."""
        super().pause_writing()
        self._answer_timer = self._loop.call_later(self._answer_seconds, self.cut)

    def resume_writing(self) -> None:
        """Stop it: the client reads again."""
        super().resume_writing()
        self._stop_answer_timer()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer what aiohttp could not parse; without its words, which repeat the request."""
        del request, message
        self._refused("undecodable" if status < 500 else "internal")  # noqa: PLR2004 - the sender's fault
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

    def _in_head(self) -> bool:
        """Tell whether what comes in belongs to the headers of a request that has not been seen yet."""
        return self._request_count == self._answered and (self._unread is None or self._unread.is_eof())

    def _turn_away(self, status: str, code: str, message: str, *, retry: int | None = None) -> None:
        """Answer without a request, and close; a moment later, for as many clients as we have patience with."""
        body = status_reply(Encoding.JSON, code=code, message=message, retry_after_seconds=retry)
        headers = {**SERVER_HEADER, "Content-Type": Encoding.JSON.value, "Content-Length": str(len(body)), "Connection": "close"}
        if retry is not None:
            headers["Retry-After"] = str(retry)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        transport = self.transport
        if transport is None:
            return
        transport.write(f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body)
        if not self._pool.keep_for_response(self):
            self.force_close()
            return
        # Closed at once, with bytes of the client unread, the system would reset the connection, and the client never see the answer.
        self._force_close = True  # aiohttp reads and ignores what comes
        if transport.can_write_eof():
            transport.write_eof()
        self._loop.call_later(_LINGER_SECONDS, transport.abort)

    def _start_head_timer(self) -> None:
        self._head_bytes = 0
        self._head_timer = self._loop.call_later(self._head_seconds, self._cut_head)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _cut_head(self) -> None:
        self._head_timer = None
        self.cut()

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None


_MOST_LINGERING = 64
_PATIENCE_SECONDS = 2.0  # a client that has kept us waiting for less is not slow yet


class PooledConnection(Protocol):
    """One connection."""

    @property
    def request_is_here(self) -> bool:
        """Tell whether a request has come in whole and is not answered yet."""
        ...

    def cut(self) -> None:
        """Close the connection at once."""
        ...


class ConnectionPool:
    """Keeps the connections of one receiver in the order in which they keep us waiting."""

    def __init__(self, most: int) -> None:
        """Allow ``most`` connections."""
        self._most = most
        self._unfinished: OrderedDict[PooledConnection, float] = (
            OrderedDict()
        )  # since when it owes us the rest of a request, or its first one
        self._idle: OrderedDict[PooledConnection, float] = OrderedDict()  # since when its last request is answered
        self._lingering: set[PooledConnection] = set()

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._unfinished) + len(self._idle)

    def admit(self, member: PooledConnection, *, now: float) -> bool:
        """Take a new connection in, in place of another if need be; False if there is no place.

        Args:
            member: the connection.
            now: monotonic time in seconds.
        """
        if len(self) >= self._most and not (self._make_room(self._unfinished, now) or self._make_room(self._idle, now)):
            return False
        self._unfinished[member] = now
        return True

    def begins(self, member: PooledConnection, *, now: float) -> None:
        """Note that an idle connection has sent the first bytes of a request."""
        if self._idle.pop(member, None) is not None:
            self._unfinished[member] = now

    def is_answered(self, member: PooledConnection, *, now: float) -> None:
        """Note that its request is answered."""
        if self._unfinished.pop(member, None) is not None or self._idle.pop(member, None) is not None:
            self._idle[member] = now

    def keep_for_response(self, member: PooledConnection) -> bool:
        """Tell whether a connection that was turned away may stay open for the moment that it takes to read why."""
        self.leave(member)
        if len(self._lingering) >= _MOST_LINGERING:
            return False
        self._lingering.add(member)
        return True

    def leave(self, member: PooledConnection) -> None:
        """Note that a connection is closed."""
        self._lingering.discard(member)
        self._unfinished.pop(member, None)
        self._idle.pop(member, None)

    def _make_room(self, among: OrderedDict[PooledConnection, float], now: float) -> bool:
        """Cut the connection that has kept us waiting longest, if one has for long enough."""
        for member, since in among.items():
            if now - since < _PATIENCE_SECONDS:
                return False
            if not member.request_is_here:
                self.leave(member)
                member.cut()
                return True
        return False
