"""Serves OTLP over HTTP, protobuf and JSON, and the pages beside it.

Choice: aiohttp on a thread and a loop of its own, driven through its connection class and without its application layer: the few paths need
no router, and the limits on headers, bodies and memory are ours. It leaves slow headers open; ``http_connection`` cuts them.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from aiohttp import web

from otel_toolcall_eval.sources.http_body import BodyReader
from otel_toolcall_eval.sources.http_connection import Connection
from otel_toolcall_eval.sources.http_service import HttpService
from otel_toolcall_eval.sources.listening import listen
from otel_toolcall_eval.sources.sink import DEFAULT_MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from otel_toolcall_eval.sources.http_pages import PageSource
    from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
    from otel_toolcall_eval.sources.sink import Refused

_LOOP_TURNS = 5  # asyncio needs three from an accepted socket to a connection, two from a close to a closed socket
_CLOSE_SECONDS = 1.0  # for connections that are cut anyway


class HttpReceiver:
    """An HTTP server for OTLP. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: Refused,
        pages: Mapping[str, PageSource] | None = None,
        host: str = "127.0.0.1",
        port: int = 4318,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        max_pending_bytes: int = 4 * DEFAULT_MAX_MESSAGE_BYTES,
        head_seconds: float = 10.0,
        body_seconds: float = 30.0,
        idle_seconds: float = 75.0,
        port_option: str = "--http-port",
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            intake: takes the requests.
            refused: counts the requests that were not taken.
            pages: path to page, for GET: ``/livez``, ``/readyz``, ``/metrics`` and others.
            host: address to listen on.
            port: 0 takes any free one.
            max_message_bytes: largest body, packed and unpacked.
            max_pending_bytes: bytes of all bodies that are held at the same time; beyond, senders are asked to resend.
            head_seconds: time for the headers of a request.
            body_seconds: time for its body.
            idle_seconds: how long a connection may stay unused.
            port_option: what the reader of an error about the port is told to change.
        """
        self._intake = intake
        self._refused = refused
        self._pages = dict(pages or {})
        self._host = host
        self._asked_port = port
        self._port_option = port_option
        self._head_seconds = head_seconds
        self._idle_seconds = idle_seconds
        self._bodies = BodyReader(max_body_bytes=max_message_bytes, max_pending_bytes=max_pending_bytes, body_seconds=body_seconds)
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
        listening = listen(self._host, self._asked_port, port_option=self._port_option)
        self._port = listening.getsockname()[1]
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(listening, started), name="otlp-http", daemon=True)
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
        service = HttpService(
            intake=self._intake,
            refused=self._refused,
            bodies=self._bodies,
            pages=self._pages,
        )
        server = web.Server(service.handle, loop=loop)

        def connection() -> Connection:
            return Connection(server, loop=loop, head_seconds=self._head_seconds, idle_seconds=self._idle_seconds)

        accepting = await loop.create_server(connection, sock=listening)
        self._loop, self._stop_asked = loop, loop.create_future()
        stop_asked = self._stop_asked
        started.set_result(None)
        grace_seconds = await stop_asked
        # A socket that asyncio has accepted but not yet made a connection of would be leaked by close().
        loop.remove_reader(listening)
        await _let_callbacks_run()
        accepting.close()
        await service.drain(grace_seconds)
        await server.shutdown(_CLOSE_SECONDS)
        await _let_callbacks_run()  # closed connections let go of their sockets
        service.close()


async def _let_callbacks_run() -> None:
    for _ in range(_LOOP_TURNS):
        await asyncio.sleep(0)
