"""A proxy that loses answers: the server has taken the request, and its client will never know."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FRAME_HEAD = 9
_HEADERS = 1  # type of the HTTP/2 frame that an answer begins with; those of the connection come before any request


class HttpAnswer:
    """Sees the beginning of an HTTP/1.1 answer."""

    def begins(self, data: bytes) -> bool:
        """Tell whether what the server sent holds the beginning of an answer: without a request it sends nothing."""
        return bool(data)


@dataclass
class GrpcAnswer:
    """Sees the beginning of a gRPC answer among the frames of its connection."""

    unread: bytearray = field(default_factory=bytearray)

    def begins(self, data: bytes) -> bool:
        """Tell whether a frame of headers has begun."""
        self.unread += data
        while len(self.unread) >= _FRAME_HEAD:
            if self.unread[3] == _HEADERS:
                return True
            end = _FRAME_HEAD + int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < end:
                return False
            del self.unread[:end]
        return False


class CuttingProxy:
    """Hands connections through, and cuts each of the first ``answers`` connections at the beginning of an answer."""

    def __init__(self, target: str, sees: Callable[[], HttpAnswer | GrpcAnswer], *, answers: int) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._sees = sees
        self._left = answers
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self.cut = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listening.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:  # a sender that connects again after the server has ended
                    client.close()
                    continue
                self._open += [client, server]
                for work in (lambda c=client, s=server: self._requests(c, s), lambda c=client, s=server: self._answers(c, s)):
                    self._threads.append(threading.Thread(target=work))
                    self._threads[-1].start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            _end(each)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65536):
                server.sendall(data)
        _end(client)
        _end(server)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        answer = self._sees()
        with suppress(OSError):
            while data := server.recv(65536):
                if answer.begins(data) and self._cuts():
                    break
                client.sendall(data)
        _end(client)
        _end(server)

    def _cuts(self) -> bool:
        with self._lock:
            if not self._left:
                return False
            self._left -= 1
            self.cut += 1
            return True


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def losing_answers(target: str, *, grpc: bool, answers: int) -> Iterator[CuttingProxy]:
    """Run a proxy before ``target`` until the end of the block."""
    proxy = CuttingProxy(target, GrpcAnswer if grpc else HttpAnswer, answers=answers)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
