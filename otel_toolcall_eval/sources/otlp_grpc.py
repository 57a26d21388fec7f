"""Serves the OTLP services over gRPC.

Choice: the synchronous server with handlers on raw bytes, so our decoder sees the message as it came. The asyncio server takes 10 to 30 %
more time per span, generated servicers parse every request in full. Decompression by gRPC is off and done here: gRPC versions that we
support unpack a message whole before they look at its size.
Reflection is off. Which signals are looked at is the intake's affair; the others are accepted and ignored: one endpoint serves an agent.
A message above the limit is refused by gRPC itself as RESOURCE_EXHAUSTED and never reaches us, so it is not counted as refused.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from otel_toolcall_eval.errors import IntakeError, SettingsError
from otel_toolcall_eval.sources.grpc_protection import TokenInterceptor, server_credentials
from otel_toolcall_eval.sources.listening import check_free, shown
from otel_toolcall_eval.sources.sink import DEFAULT_MAX_MESSAGE_BYTES, reason_of
from otel_toolcall_eval.wire.replies import Encoding, Signal, error_reply, retry_info
from otel_toolcall_eval.wire.services import GRPC_SERVICES
from otel_toolcall_eval.wire.unpacking import gunzip, is_packed, too_large

if TYPE_CHECKING:
    from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
    from otel_toolcall_eval.sources.server_tls import ServerTls
    from otel_toolcall_eval.sources.sink import Refused
    from otel_toolcall_eval.sources.tokens import Tokens

TRANSPORT = "grpc"

_logger = logging.getLogger(__name__)

_WORKERS = 4  # decoding holds the interpreter's lock, so more would only wait for each other
_STREAMS_PER_CONNECTION = 100
_METADATA_BYTES = 16 << 10
_PING_FLOOR_MS = 9_000  # senders ping every 10 s by their clock; a second of jitter must not count against them
_HANDSHAKE_MS = 10_000
_STOP_MARGIN_SECONDS = 5.0


class GrpcReceiver:
    """A gRPC server for OTLP. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: Refused,
        host: str = "127.0.0.1",
        port: int = 4317,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        port_option: str = "--grpc-port",
        tls: ServerTls | None = None,
        tokens: Tokens | None = None,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            intake: takes the requests.
            refused: counts the requests that were not taken.
            host: address to listen on.
            port: 0 takes any free one.
            max_message_bytes: largest message, packed and unpacked.
            port_option: what the reader of an error about the port is told to change.
            tls: without it, nothing is encrypted.
            tokens: every call but those to the health service needs one of them; without it, none does.
        """
        self._intake = intake
        self._refused = refused
        self._host = host
        self._asked_port = port
        self._max_message_bytes = max_message_bytes
        self._port_option = port_option
        self._tls = tls
        self._interceptors: list[grpc.ServerInterceptor[bytes, bytes]] = [] if tokens is None else [TokenInterceptor(tokens, self._refuse)]
        self._port = 0
        self._workers: ThreadPoolExecutor | None = None
        self._server: grpc.Server | None = None
        self._health = health.HealthServicer()

    @property
    def port(self) -> int:
        """Return the port that is listened on, 0 before the start."""
        return self._port

    def start(self) -> None:
        """Listen and serve; raises SettingsError if the port can't be had."""
        # gRPC itself would print to stderr and raise a RuntimeError without the reason.
        check_free(self._host, self._asked_port, port_option=self._port_option)
        workers = ThreadPoolExecutor(_WORKERS, thread_name_prefix="otlp-grpc")
        server = grpc.server(workers, interceptors=self._interceptors, options=self._options())
        server.add_generic_rpc_handlers(tuple(self._service(signal) for signal in GRPC_SERVICES))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        address = shown(self._host, self._asked_port)
        try:
            if self._tls is None:
                self._port = server.add_insecure_port(address)
            else:
                self._port = server.add_secure_port(address, server_credentials(self._tls))
        except RuntimeError as error:  # taken since we looked
            workers.shutdown()
            fix = f"stop the other process or choose another port with {self._port_option}"
            what = "the port is in use" if self._tls is None else "the port is in use, or gRPC can't use the certificate"
            raise SettingsError(where=address, what=what, fix=fix) from error
        self._workers, self._server = workers, server
        self.set_serving(serving=True)
        server.start()

    def set_serving(self, *, serving: bool) -> None:
        """Say what the health service answers, for the whole server and for each OTLP service."""
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for service in ("", *GRPC_SERVICES.values()):
            self._health.set(service, status)

    def stop(self, *, grace_seconds: float) -> None:
        """Take no more requests, finish those under way within ``grace_seconds``, and leave no thread behind."""
        server, workers = self._server, self._workers
        self._server = self._workers = None
        if server is None or workers is None:
            return
        self._health.enter_graceful_shutdown()
        server.stop(grace_seconds).wait(grace_seconds + _STOP_MARGIN_SECONDS)
        workers.shutdown(wait=True, cancel_futures=True)

    def _options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", self._max_message_bytes),
            ("grpc.max_metadata_size", _METADATA_BYTES),
            ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
            ("grpc.per_message_decompression", 0),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", _PING_FLOOR_MS),  # what gRPC listens to
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_FLOOR_MS),  # what its headers call it
            ("grpc.keepalive_permit_without_calls", 1),
        ]

    def _service(self, signal: Signal) -> grpc.GenericRpcHandler[bytes, bytes]:
        def export(message: bytes, context: grpc.ServicerContext) -> bytes:
            return self._answer(message, signal, context)

        return grpc.method_handlers_generic_handler(GRPC_SERVICES[signal], {"Export": grpc.unary_unary_rpc_method_handler(export)})

    def _answer(self, message: bytes, signal: Signal, context: grpc.ServicerContext) -> bytes:
        try:
            body = self._unpacked(message) if self._intake.wants(signal) else b""
            return self._intake.take(body, Encoding.PROTOBUF, signal, transport=TRANSPORT)
        except IntakeError as error:
            self._refuse(error, context)
        except Exception as error:  # noqa: BLE001 - gRPC would send the exception's text, which may hold what was sent
            _logger.error(  # noqa: TRY400 - without the traceback, whose last line is that text
                "a request failed inside the receiver", extra={"error_type": type(error).__qualname__}
            )
            self._refused(TRANSPORT, "internal")
            context.abort(grpc.StatusCode.INTERNAL, "internal error")

    def _unpacked(self, message: bytes) -> bytes:
        if is_packed(message):
            return gunzip(message, self._max_message_bytes)
        if len(message) > self._max_message_bytes:
            raise too_large(self._max_message_bytes)
        return message

    def _refuse(self, error: IntakeError, context: grpc.ServicerContext) -> NoReturn:
        self._refused(TRANSPORT, reason_of(error))
        trailers = [("grpc-status-details-bin", error_reply(Encoding.PROTOBUF, error))]
        if error.retry_after_seconds is not None:
            # Python's exporters look for the hint only here, all others only in the status above.
            trailers.append(("google.rpc.retryinfo-bin", retry_info(error.retry_after_seconds)))
        context.set_trailing_metadata(tuple(trailers))
        context.abort(grpc.StatusCode[error.grpc_code], str(error))
