"""gRPC's health service behind bounds of its own.

Who asks has no token, so nothing that is sent may cost much, nor take a place that OTLP needs: the service has few places and threads,
which are its own, small messages, and a bound on those who watch. gRPC's bound on the size of a message holds for all methods, and it reads
a message whole before we see its size; so health messages are read by turns, and who lets others wait is ended. With 64 MiB as the largest,
eight clients at once made the process grow by 230 to 260 MB, one by 200 to 225, since gRPC copies; by 860 to 1,050 without turns.
Rejected: the servicer of ``grpc_health``. It keeps each name that a stranger invents, and those who watch and left early; it sends under
the lock that each answer takes, so one who watches and reads nothing would silence it for all, and hold up the end of the process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.receivers.grpc.calls import CallGate

HEALTH_CALLS = 8
"""Health calls under way at a time, beside those of OTLP."""

HEALTH_READING = 1
"""Of these, how many messages are on their way or held. gRPC has one largest size for all methods, and reads a message whole before we see
its size, so this is how many of the largest size strangers can make it hold."""

HEALTH_SECONDS = 2.0
"""For the message of one call; it comes with the headers of its call, unless somebody stalls."""

HEALTH_REQUEST_BYTES = 1 << 10
"""Largest request; it holds the name of a service."""

MOST_WATCHERS = 64
"""Who watches holds memory for as long as it likes. Those beyond are asked to come again."""

_NAME = "grpc.health.v1.Health"

_Status: TypeAlias = "health_pb2.HealthCheckResponse.ServingStatus"


@dataclass(eq=False, slots=True, kw_only=True)
class _Watcher:
    context: grpc.ServicerContext
    send: Callable[[bytes], None]
    service: str
    sending: threading.Lock = field(default_factory=threading.Lock)  # one at a time, so that the last to be sent is what holds


class Health:
    """What the health service answers, for the whole server (the empty name) and for each of some services. Any thread."""

    def __init__(self, services: Sequence[str]) -> None:
        """Say that nothing serves yet."""
        self._services = frozenset(("", *services))
        self._lock = threading.Lock()
        # Guarded by _lock:
        self._serving = False
        self._left = False
        self._watchers: dict[_Watcher, CallGate] = {}

    def set_serving(self, *, serving: bool) -> None:
        """Answer so from now on, and have those told who watch, without waiting for them."""
        with self._lock:
            if self._left:
                return
            self._serving = serving
            told = [(watcher, calls) for watcher, calls in self._watchers.items() if watcher.service in self._services]
        for watcher, calls in told:
            calls.news.submit(self._tell, watcher, calls)

    def leave(self) -> None:
        """Tell those who watch that nothing serves, for good."""
        self.set_serving(serving=False)
        with self._lock:
            self._left = True

    def handlers(self, calls: CallGate) -> Sequence[grpc.GenericRpcHandler]:  # type: ignore[type-arg] # generic in the stub alone
        """Return what gRPC asks for the handlers; they run within the bounds, and on the threads, of ``calls``."""

        def check(message: bytes, context: grpc.ServicerContext) -> bytes:
            status = self._status_of(_service_of(message, context))
            if status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN:
                context.abort(grpc.StatusCode.NOT_FOUND, "request: there is no such service; ask for one of ours, or for none")
            return _encoded(status)

        def watch(messages: Iterator[bytes], context: grpc.ServicerContext, send: Callable[[bytes | None], None]) -> None:
            with calls.message_of(messages, context) as message:
                service = _service_of(message, context)
            self._begin(_Watcher(context=context, send=send, service=service), calls)

        watch.experimental_non_blocking = True  # type: ignore[attr-defined] # answers when there is news, and holds no thread till then
        watch.experimental_thread_pool = calls.workers  # type: ignore[attr-defined] # as above
        watching: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(watch)
        return (
            calls.service({f"/{_NAME}/Check": check}),
            calls.bounded({f"/{_NAME}/Watch": watching}),
        )

    def _begin(self, watcher: _Watcher, calls: CallGate) -> None:
        with self._lock:
            full = len(self._watchers) >= MOST_WATCHERS
            if not full:
                self._watchers[watcher] = calls
        if full:
            calls.refuse_for_now("too many watch the health service", watcher.context)
        if not watcher.context.add_callback(partial(self._end, watcher)):  # it has ended since
            self._end(watcher)
        self._tell(watcher, calls)

    def _end(self, watcher: _Watcher) -> None:
        with self._lock:
            self._watchers.pop(watcher, None)

    def _tell(self, watcher: _Watcher, calls: CallGate) -> None:
        """Send what holds now; ends the call of one who does not read it."""
        with watcher.sending, calls.waiting(watcher.context):
            watcher.send(_encoded(self._status_of(watcher.service)))

    def _status_of(self, service: str) -> _Status:
        if service not in self._services:
            return health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
        return health_pb2.HealthCheckResponse.SERVING if self._serving else health_pb2.HealthCheckResponse.NOT_SERVING


def _encoded(status: _Status) -> bytes:
    return bytes(health_pb2.HealthCheckResponse(status=status).SerializeToString())


def _service_of(message: bytes, context: grpc.ServicerContext) -> str:
    if len(message) > HEALTH_REQUEST_BYTES:
        what = f"request: more than {HEALTH_REQUEST_BYTES} bytes; send the name of a service"
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, what)
    try:
        return str(health_pb2.HealthCheckRequest.FromString(message).service)
    except DecodeError:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "request: not a HealthCheckRequest; send one")
