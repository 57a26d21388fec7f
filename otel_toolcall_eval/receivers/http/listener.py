"""An HTTP server on a thread and an event loop of its own, whatever it serves.

Choice: aiohttp, driven through its connection class and without its application layer. The few paths need no router, and the limits on
headers, bodies and memory are ours. aiohttp leaves slow headers open; ``connection`` cuts them. asyncio cuts slow TLS handshakes.
CPU a request, decoding included, on a busy machine (``tests/bench/bench_http_servers.py``): 0.36 ms with one span and 5.0 ms with 512;
hypercorn with starlette 0.76 and 8.0, and it cuts slow headers by itself; granian with starlette 0.46 and 5.3, it leaves them open, and
calls its embedding experimental.

TLS handshakes that fail are counted, and logged once an episode. A sender that does not trust our certificate, shows none, or speaks plain
HTTP retries for ever, and only its own log has the reason. Connections that close before their handshake has failed are not counted: a
load balancer's probes do that. gRPC does TLS by itself and reports no failures, so its handshakes are neither counted nor logged.
Threads: the receiver's event loop, except for ``start`` and ``stop``.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from aiohttp import web

from otel_toolcall_eval.receivers.http.connection import Connection, ConnectionPool
from otel_toolcall_eval.receivers.listening import listen

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from otel_toolcall_eval.receivers.http.answers import HttpAnswers
    from otel_toolcall_eval.receivers.http.connection import HttpLimits
    from otel_toolcall_eval.receivers.listening import ListenOptions


_LOOP_TURNS = 5  # asyncio needs three from an accepted socket to a connection, two from a close to a closed socket
_CLOSE_SECONDS = 1.0  # for connections that are cut anyway, and for a client's answer to the end of TLS


class HttpListener:
    """An HTTP server. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        service: Callable[[], HttpAnswers],
        *,
        listen: ListenOptions,
        thread_name: str,
        refused: Callable[[str], None],
        limits: HttpLimits,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            service: makes what answers the requests; called on the loop.
            listen: where, and with which TLS.
            thread_name: of the loop's thread.
            refused: counts, by reason, what is not HTTP, and clients that were too slow, could not begin TLS, or found no room.
            limits: of connections and of time.
        """
        self._service = service
        self._options = listen
        self._thread_name = thread_name
        self._refused = refused
        self._limits = limits
        self._port = 0
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked: asyncio.Future[float] | None = None

    @property
    def port(self) -> int:
        """Return the port that is listened on, 0 before the start."""
        return self._port

    def start(self) -> None:
        """Listen and serve; raises SettingsError if the port can't be had."""
        listening = listen(self._options.host, self._options.port, port_option=self._options.port_option)
        self._port = listening.getsockname()[1]
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listening, started), name=self._thread_name, daemon=True)
        self._thread.start()
        started.result()

    def stop(self, *, grace_seconds: float) -> None:
        """Take no more connections, finish the requests under way within ``grace_seconds``, and leave no thread behind."""
        thread, loop, stop_asked = self._thread, self._loop, self._stop_asked
        self._thread = self._loop = self._stop_asked = None
        if thread is None or loop is None or stop_asked is None:
            return
        loop.call_soon_threadsafe(stop_asked.set_result, grace_seconds)
        thread.join()

    def _run(self, listening: socket.socket, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(listening, started))
        except BaseException as error:  # belongs to whoever waits for the start
            if started.done():
                raise
            listening.close()
            started.set_exception(error)

    async def _serve(self, listening: socket.socket, started: Future[None]) -> None:
        loop = asyncio.get_running_loop()
        service = self._service()
        server = web.Server(service.handle, loop=loop)

        pool = ConnectionPool(self._limits.max_connections)

        handshakes = Handshakes(refused=self._refused, listener=self._thread_name, seconds=self._limits.head_seconds)

        def connection() -> Connection:
            made = Connection(
                server,
                loop=loop,
                pool=pool,
                refused=self._refused,
                limits=self._limits,
            )
            if self._options.tls is not None:
                handshakes.watch(lambda: made.was_made)
            return made

        accepting = await self._accept(connection, listening, handshakes)
        self._loop, self._stop_asked = loop, loop.create_future()
        stop_asked = self._stop_asked
        started.set_result(None)
        grace_seconds = await stop_asked
        # A socket that asyncio has accepted but not yet made a connection of would be leaked by close().
        loop.remove_reader(listening)
        await _let_callbacks_run()
        accepting.close()
        await service.drain(grace_seconds)
        transports = [connected.transport for connected in server.connections]
        await server.shutdown(_CLOSE_SECONDS)
        await _let_callbacks_run()  # closed connections let go of their sockets
        if self._options.tls is not None:
            await _cut_tls(transports)
        service.close()

    async def _accept(self, connection: Callable[[], Connection], listening: socket.socket, handshakes: Handshakes) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        if self._options.tls is None:
            return await loop.create_server(connection, sock=listening)
        return await loop.create_server(
            connection,
            sock=listening,
            ssl=self._options.tls.asyncio_context(failed=handshakes.failed),
            ssl_handshake_timeout=self._limits.head_seconds,
            ssl_shutdown_timeout=_CLOSE_SECONDS,
        )


async def _cut_tls(transports: list[asyncio.Transport | None]) -> None:
    """Let go of connections whose clients have not said their farewell, or are still in their handshake."""
    for transport in transports:
        if transport is not None:
            transport.abort()
    current = asyncio.current_task()
    handshakes = [task for task in asyncio.all_tasks() if task is not current]
    for task in handshakes:
        task.cancel()
    await asyncio.gather(*handshakes, return_exceptions=True)
    await _let_callbacks_run()


async def _let_callbacks_run() -> None:
    for _ in range(_LOOP_TURNS):
        await asyncio.sleep(0)


_logger = logging.getLogger(__name__)

QUIET_SECONDS = 600.0
"""Without a failure, end an episode. Senders retry within minutes, so one that fails for days is one episode."""

FAILED = "tls"
"""The reason under which a handshake that failed is counted; one that took too long is ``too_slow``."""


class Handshakes:
    """Those of one listener."""

    def __init__(self, *, refused: Callable[[str], None], listener: str, seconds: float) -> None:
        """Start with nothing told.

        Args:
            refused: counts, by reason.
            listener: its name in the log.
            seconds: how long a handshake may take; asyncio ends it then.
        """
        self._refused = refused
        self._listener = listener
        self._seconds = seconds
        self._latest: float | None = None

    def failed(self, reason: str) -> None:
        """Hear that one failed, and OpenSSL's word for it."""
        self._refused(FAILED)
        self._tell(reason)

    def watch(self, is_made: Callable[[], bool]) -> None:
        """Watch over the handshake of a connection that is being accepted; ``is_made`` tells whether it became one.

        To be called where asyncio asks for the connection's protocol: in the task that waits for the handshake and swallows its end.
        """
        loop, accepting = asyncio.get_running_loop(), asyncio.current_task()
        if accepting is None:
            return
        begun = loop.time()

        def ended(_accepted: asyncio.Task[object]) -> None:
            if not is_made() and loop.time() - begun >= self._seconds:
                self._refused("too_slow")
                self._tell("too slow")

        accepting.add_done_callback(ended)

    def _tell(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        begins = self._latest is None or now - self._latest > QUIET_SECONDS
        self._latest = now
        if begins:
            _logger.warning(
                "a client could not begin TLS; does it trust our certificate, speak TLS 1.2 or later, show a certificate where one is "
                "asked for? those that follow are counted in toolcall_eval.requests.rejected",
                extra={"listener": self._listener, "reason": reason},
            )
