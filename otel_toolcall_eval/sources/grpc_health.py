"""gRPC's health service behind the bounds of our calls.

As the library registers it, a client that asks and never says what would hold a worker's thread for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import DecodeError
from grpc_health.v1 import health, health_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from otel_toolcall_eval.sources.grpc_calls import Calls

_NAME = "grpc.health.v1.Health"


class Health:
    """What the health service answers, for the whole server (the empty name) and for each of some services."""

    def __init__(self, services: Sequence[str]) -> None:
        """Say that nothing serves yet."""
        self._servicer = health.HealthServicer()
        self._services = ("", *services)
        self.set_serving(serving=False)

    def set_serving(self, *, serving: bool) -> None:
        """Answer so from now on, and tell those who watch."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in self._services:
            self._servicer.set(service, status)

    def leave(self) -> None:
        """Tell those who watch that nothing serves, for good."""
        self._servicer.enter_graceful_shutdown()

    def handlers(self, calls: Calls) -> Sequence[grpc.GenericRpcHandler]:  # type: ignore[type-arg] # generic in the stub alone
        """Return what gRPC asks for the handlers."""

        def check(message: bytes, context: grpc.ServicerContext) -> bytes:
            response: bytes = self._servicer.Check(_request_of(message, context), context).SerializeToString()
            return response

        def watch(messages: Iterator[bytes], context: grpc.ServicerContext, send: Callable[[bytes | None], None]) -> None:
            try:
                message = calls.receive(messages, context)
            finally:
                calls.leave()

            def tell(response: health_pb2.HealthCheckResponse | None) -> None:
                send(None if response is None else response.SerializeToString())

            self._servicer.Watch(_request_of(message or b"", context), context, tell)

        watch.experimental_non_blocking = True  # type: ignore[attr-defined] # answers when there is news, and holds no thread till then
        watching: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(watch)
        return (
            calls.service({f"/{_NAME}/Check": check}),
            calls.bounded({f"/{_NAME}/Watch": watching}),
        )


def _request_of(message: bytes, context: grpc.ServicerContext) -> health_pb2.HealthCheckRequest:
    try:
        return health_pb2.HealthCheckRequest.FromString(message)
    except DecodeError:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "request: not a HealthCheckRequest; send one")
