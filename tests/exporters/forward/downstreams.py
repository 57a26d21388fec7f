"""Downstreams on loopback that answer as they are told, over gRPC and HTTP, and keep what they get."""

from __future__ import annotations

import gzip
import socket
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import grpc

from otel_toolcall_eval.otlp.replies import GRPC_SERVICES
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from otel_toolcall_eval.otlp.replies import Signal


@dataclass(frozen=True, kw_only=True)
class Got:
    """A request that arrived, unpacked."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered; ``waits`` is waited for before."""

    status: int = 200
    code: grpc.StatusCode = grpc.StatusCode.OK
    headers: tuple[tuple[str, str | bytes], ...] = ()
    body: bytes = b""
    waits: threading.Event | None = None


@dataclass(kw_only=True)
class Behaviour:
    """What a downstream does, which outlives its restarts."""

    got: list[Got] = field(default_factory=list)
    answers: deque[Answer] = field(default_factory=deque)  # one for each request, then ``always``
    always: Answer = field(default_factory=Answer)
    answer_to: Callable[[Got], Answer | None] = lambda _: None

    def take(self, got: Got) -> Answer:
        """Keep a request and return the answer to it."""
        self.got.append(got)
        answer = self.answer_to(got) or (self.answers.popleft() if self.answers else self.always)
        if answer.waits is not None:
            answer.waits.wait(PATIENCE_SECONDS)
        return answer

    @property
    def bodies(self) -> list[bytes]:
        """Return what arrived."""
        return [got.body for got in self.got]


class _Service(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stub alone
    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        path = handler_call_details.method

        def export(message: bytes, context: grpc.ServicerContext) -> bytes:
            headers = {str(key): str(value) for key, value in context.invocation_metadata()}
            answer = self._behaviour.take(Got(path=path, headers=headers, body=message))
            if answer.headers:
                context.set_trailing_metadata(answer.headers)
            if answer.code is not grpc.StatusCode.OK:
                context.abort(answer.code, "secret words of the answer")
            return answer.body

        return grpc.unary_unary_rpc_method_handler(export)


@contextmanager
def grpc_downstream(behaviour: Behaviour, port: int = 0, credentials: grpc.ServerCredentials | None = None) -> Iterator[int]:
    """Serve over gRPC and give the port."""
    with ThreadPoolExecutor(max_workers=8) as pool:
        options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        server = grpc.server(pool, handlers=[_Service(behaviour)], options=options)
        address = f"127.0.0.1:{port}"
        port = server.add_insecure_port(address) if credentials is None else server.add_secure_port(address, credentials)
        server.start()
        try:
            yield port
        finally:
            server.stop(grace=0.2).wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that break off are what is tested."""


@contextmanager
def http_downstream(behaviour: Behaviour, port: int = 0, wrap: Callable[[Any], Any] = lambda socket: socket) -> Iterator[int]:
    """Serve over HTTP and give the port."""
    connections: list[socket.socket] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            connections.append(self.connection)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            answer = behaviour.take(Got(path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body))
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, str(value))
            self.send_header("content-length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with _Server(("127.0.0.1", port), Handler) as server:
        server.socket = wrap(server.socket)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
            for connection in connections:  # else those that are kept alive would be served on
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)


def grpc_path(signal: Signal) -> str:
    """Return the method that takes a signal."""
    return f"/{GRPC_SERVICES[signal]}/Export"
