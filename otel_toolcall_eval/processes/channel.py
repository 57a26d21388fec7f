"""One end of a socket between two processes of a sidecar: frames out of any thread, frames in on one.

A frame is a kind, a number that pairs an answer with its question, and bytes. Sending never waits: what the socket does not take at once is
left to a thread, since some senders are event loops. How much may wait there is the affair of who sends (``Link`` bounds it).
Choice: a stream socket with frames of our own. Rejected: ``multiprocessing.Connection``, whose sends wait.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
import threading
from collections import deque
from enum import IntEnum, StrEnum
from typing import Any, Final, NamedTuple

from otel_toolcall_eval.wire.replies import Encoding

_HEAD: Final = struct.Struct("<IBQ")  # bytes that follow, kind, number
_BUFFER_BYTES: Final = 1 << 18
_SOCKET_BYTES: Final = 1 << 20


_ENCODINGS: Final = {"grpc": Encoding.PROTOBUF, "http/protobuf": Encoding.PROTOBUF, "http/json": Encoding.JSON}
TRANSPORTS: Final = tuple(_ENCODINGS)
"""How requests come; a frame has one as its place here."""


def encoding_of(transport: str) -> Encoding:
    """Return how the bodies are encoded that come by one of TRANSPORTS."""
    return _ENCODINGS[transport]


class Kind(IntEnum):
    """What a frame is. From the first process come requests, questions and orders; from the others answers and news."""

    SPANS = 1  # a request, behind a byte that numbers the transport, and one that says what to do if there is no room
    LOGS = 2  # likewise
    SHED = 3
    BIND = 4
    ASK = 5
    START = 6
    STOP = 7
    WRITTEN = 8  # news of some kind, so that more may come
    FLUSHED = 9
    READY = 10
    ANSWER = 11  # values, or an error that is to be raised
    LINE = 12
    ROWS = 13
    FLUSH = 14
    FREEZE = 15


class Question(StrEnum):
    """What the others are asked."""

    COUNTS = "counts"
    STATES = "states"
    WAITING = "waiting"
    REMEMBERED = "remembered"
    PROBLEMS = "problems"
    RELOAD = "reload"


class Frame(NamedTuple):
    """What came."""

    kind: Kind
    number: int
    content: bytes

    def value(self) -> Any:  # noqa: ANN401 - whoever knows the kind knows the type
        """Return the values that ``packed`` made bytes of. Only for what comes from a process of our own."""
        return pickle.loads(self.content) if self.content else None  # noqa: S301 - both ends are processes of ours, see the module


def packed(value: object) -> bytes:
    """Return values as bytes: what is no span and no request, so that its time does not count."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


class Channel:
    """One end. ``send`` and ``close`` are for any thread, ``receive`` for one."""

    def __init__(self, end: socket.socket) -> None:
        """Take the socket over."""
        end.setblocking(True)  # noqa: FBT003 - the socket's own signature
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
        self._socket = end
        self._incoming = end.makefile("rb", _BUFFER_BYTES)
        self._changed = threading.Condition()
        self._waiting: deque[bytes | memoryview] = deque()  # guarded by _changed, as the next two
        self._sender: threading.Thread | None = None
        self._closed = False

    def send(self, kind: Kind, number: int, *parts: bytes) -> None:
        """Send a frame. Nothing happens if the other end is gone, which ``receive`` tells."""
        frame = b"".join((_HEAD.pack(sum(map(len, parts)), kind, number), *parts))
        with self._changed:
            if self._closed:
                return
            rest = memoryview(frame) if self._waiting else self._send_now(frame)
            if rest:
                self._waiting.append(rest)
                if self._sender is None:
                    sender = threading.Thread(target=self._send_waiting, name="otel-toolcall-eval-channel", daemon=True)
                    sender.start()
                    self._sender = sender
                self._changed.notify_all()

    def receive(self) -> Frame | None:
        """Return the next frame; waits for it. None once the other end is gone, or this one is closed."""
        try:
            head = self._incoming.read(_HEAD.size)
            if len(head) < _HEAD.size:
                return None
            size, kind, number = _HEAD.unpack(head)
            content = self._incoming.read(size)
        except (OSError, ValueError):  # closed meanwhile
            return None
        return Frame(Kind(kind), number, content) if len(content) == size else None

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until the socket has taken all; False if it has not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting or self._closed, timeout_seconds)

    def close(self) -> None:
        """Let go of the socket; what waits is lost. May be called again."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # the other end is gone
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in ``receive``
        self._socket.close()
        self._incoming.close()  # it has the descriptor, too

    def _send_now(self, frame: bytes) -> memoryview | None:
        """Send what the socket takes at once; returns the rest."""
        try:
            sent = self._socket.send(frame, socket.MSG_DONTWAIT)
        except BlockingIOError:
            sent = 0
        except OSError:
            return None
        return memoryview(frame)[sent:] if sent < len(frame) else None

    def _send_waiting(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                frame = self._waiting[0]
            try:
                self._socket.sendall(frame)
            except OSError:
                self._give_up()
                return
            with self._changed:
                if self._waiting:
                    self._waiting.popleft()  # only now, so that no other frame gets before its end
                self._changed.notify_all()

    def _give_up(self) -> None:
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()


def pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends."""
    return socket.socketpair()
