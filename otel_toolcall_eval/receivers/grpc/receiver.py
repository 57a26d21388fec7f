"""Serves the OTLP services over gRPC.

Choice: the synchronous server with handlers on raw bytes, so our decoder sees the message as it came. The asyncio server takes 10 to 30 %
more time per span, generated servicers parse every request in full. Decompression by gRPC is off and done here: gRPC versions that we
support unpack a message whole before they look at its size.
Reflection is off. Which signals are looked at is the intake's affair; the others are accepted and ignored: one endpoint serves an agent.
A message above the limit is refused by gRPC itself as RESOURCE_EXHAUSTED, and a TLS handshake that fails is its own affair; gRPC for Python
tells nobody of either, so neither is counted as refused.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import grpc

from otel_toolcall_eval.model.errors import IntakeError, SettingsError
from otel_toolcall_eval.otlp.replies import GRPC_SERVICES, Encoding, Signal, error_reply, retry_info
from otel_toolcall_eval.otlp.unpacking import gunzip, is_packed, too_large
from otel_toolcall_eval.receivers.grpc.calls import MESSAGE_SECONDS, MOST_CALLS, CallGate, TokenInterceptor, server_credentials
from otel_toolcall_eval.receivers.grpc.health import HEALTH_CALLS, HEALTH_READING, HEALTH_REQUEST_BYTES, HEALTH_SECONDS, Health
from otel_toolcall_eval.receivers.intake import DEFAULT_MAX_MESSAGE_BYTES, reason_of, wait_for
from otel_toolcall_eval.receivers.listening import ListenOptions, check_free, display_address

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_toolcall_eval.engine.work_items import PendingResponse
    from otel_toolcall_eval.receivers.intake import OtlpIntake, RejectionCounter

TRANSPORT = "grpc"

_logger = logging.getLogger(__name__)

_STREAMS_PER_CONNECTION = 100
_METADATA_BYTES = 16 << 10
_PING_FLOOR_MS = 9_000  # senders ping every 10 s by their clock; a second of jitter must not count against them
_HANDSHAKE_MS = 10_000
_IDLE_MS = 300_000  # a client whose connection is closed while it has no call opens another for its next, and loses nothing
_STOP_MARGIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcLimits:
    """What senders may take of a gRPC server.

    Attributes:
        max_message_bytes: largest message, packed and unpacked.
        max_pending_bytes: bytes of all messages that are held at the same time; beyond, senders are asked to resend.
        max_calls: at a time, beside those to the health service; beyond, one that is slow to send its message is ended, or senders are
            asked to resend.
        message_seconds: time for the message of a call.
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    max_pending_bytes: int = 4 * DEFAULT_MAX_MESSAGE_BYTES
    max_calls: int = MOST_CALLS
    message_seconds: float = MESSAGE_SECONDS


class GrpcReceiver:
    """A gRPC server for OTLP. Start it once, stop it as often as you like; both may be called from any thread."""

    def __init__(
        self,
        *,
        intake: OtlpIntake,
        refused: RejectionCounter,
        listen: ListenOptions | None = None,
        limits: GrpcLimits | None = None,
    ) -> None:
        """Prepare; nothing listens yet.

        Args:
            intake: takes the requests.
            refused: counts the requests that are rejected.
            listen: where, and whom it admits; without it, any free port of this machine.
            limits: without it, the defaults.
        """
        self._intake = intake
        self._refused = refused
        self._listen = listen or ListenOptions(port_option="--grpc")
        self._limits = limits or GrpcLimits()
        self._held_back = threading.BoundedSemaphore(max(1, self._limits.max_calls // 2))  # responses; other senders need room, too
        tokens = self._listen.tokens
        self._interceptors: list[grpc.ServerInterceptor[bytes, bytes]] = [] if tokens is None else [TokenInterceptor(tokens, self._refuse)]
        self._port = 0
        self._calls: Sequence[CallGate] = ()
        self._server: grpc.Server | None = None
        self._health = Health(list(GRPC_SERVICES.values()))

    @property
    def port(self) -> int:
        """Return the port that is listened on, 0 before the start."""
        return self._port

    def start(self) -> None:
        """Listen and serve; raises SettingsError if the port can't be had."""
        # gRPC itself would print to stderr and raise a RuntimeError without the reason.
        check_free(self._listen.host, self._listen.port, port_option=self._listen.port_option)
        calls = self._bounds(self._limits.max_calls, self._limits.max_pending_bytes, self._limits.message_seconds)
        seconds = min(self._limits.message_seconds, HEALTH_SECONDS)
        health = self._bounds(HEALTH_CALLS, HEALTH_CALLS * HEALTH_REQUEST_BYTES, seconds, reading=HEALTH_READING)
        server = grpc.server(calls.workers, interceptors=self._interceptors, options=self._options())
        exports = {f"/{name}/Export": partial(self._answer, signal) for signal, name in GRPC_SERVICES.items()}
        server.add_generic_rpc_handlers((calls.service(exports), *self._health.handlers(health)))
        address = display_address(self._listen.host, self._listen.port)
        try:
            if self._listen.tls is None:
                self._port = server.add_insecure_port(address)
            else:
                self._port = server.add_secure_port(address, server_credentials(self._listen.tls))
        except RuntimeError as error:  # taken since we looked
            calls.stop()
            health.stop()
            fix = f"stop the other process or choose another port with {self._listen.port_option}"
            what = "the port is in use" if self._listen.tls is None else "the port is in use, or gRPC can't use the certificate"
            raise SettingsError(where=address, what=what, fix=fix) from error
        self._calls, self._server = (calls, health), server
        self.set_serving(serving=True)
        for each in self._calls:
            each.start()
        server.start()

    def set_serving(self, *, serving: bool) -> None:
        """Say what the health service answers, for the whole server and for each OTLP service."""
        self._health.set_serving(serving=serving)

    def stop(self, *, grace_seconds: float) -> None:
        """Take no more requests, finish those under way within ``grace_seconds``, and leave no thread behind."""
        server, calls = self._server, self._calls
        self._server, self._calls = None, ()
        if server is None:
            return
        self._health.leave()
        server.stop(grace_seconds).wait(grace_seconds + _STOP_MARGIN_SECONDS)
        for each in calls:
            each.stop()

    def _bounds(self, most: int, max_pending_bytes: int, message_seconds: float, *, reading: int | None = None) -> CallGate:
        return CallGate(
            refuse=self._refuse,
            refused=self._refused,
            transport=TRANSPORT,
            max_pending_bytes=max_pending_bytes,
            most=most,
            reading=reading,
            message_seconds=message_seconds,
        )

    def _options(self) -> list[tuple[str, int]]:
        return [
            ("grpc.so_reuseport", 0),
            # Else gRPC widens the window of every call to megabytes, and holds what nobody has asked for yet. A message that is asked for
            # gets a window of its size in any case.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.max_receive_message_length", self._limits.max_message_bytes),
            ("grpc.max_metadata_size", _METADATA_BYTES),
            ("grpc.max_concurrent_streams", _STREAMS_PER_CONNECTION),
            ("grpc.per_message_decompression", 0),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
            ("grpc.max_connection_idle_ms", _IDLE_MS),
            ("grpc.http2.min_ping_interval_without_data_ms", _PING_FLOOR_MS),  # what gRPC listens to
            ("grpc.http2.min_recv_ping_interval_without_data_ms", _PING_FLOOR_MS),  # what its headers call it
            ("grpc.keepalive_permit_without_calls", 1),
        ]

    def _answer(self, signal: Signal, message: bytes, context: grpc.ServicerContext) -> bytes | Callable[[], bytes]:
        try:
            body = self._unpacked(message) if self._intake.wants(signal) else b""
            reply, receipt = self._intake.take(body, Encoding.PROTOBUF, signal, transport=TRANSPORT)
            return reply if receipt is None else partial(self._when_done, receipt, reply, context)
        except IntakeError as error:
            self._refuse(error, context)
        except Exception as error:  # noqa: BLE001 - gRPC would send the exception's text, which may hold what was sent
            _logger.error(  # noqa: TRY400 - without the traceback, whose last line is that text
                "a request failed inside the receiver", extra={"error_type": type(error).__qualname__}
            )
            self._refused(TRANSPORT, "internal")
            context.abort(grpc.StatusCode.INTERNAL, "internal error")

    def _when_done(self, receipt: PendingResponse, reply: bytes, context: grpc.ServicerContext) -> bytes:
        """Return the answer once what it says is true."""
        is_held_back = receipt.seconds > 0 and self._held_back.acquire(blocking=False)
        if receipt.seconds and not is_held_back:
            receipt = replace(receipt, seconds=0.0)
        try:
            wait_for(receipt, TRANSPORT)
        except IntakeError as error:
            self._refuse(error, context)
        finally:
            if is_held_back:
                self._held_back.release()
        return reply

    def _unpacked(self, message: bytes) -> bytes:
        if is_packed(message):
            return gunzip(message, self._limits.max_message_bytes)
        if len(message) > self._limits.max_message_bytes:
            raise too_large(self._limits.max_message_bytes)
        return message

    def _refuse(self, error: IntakeError, context: grpc.ServicerContext) -> NoReturn:
        self._refused(TRANSPORT, reason_of(error))
        trailers = [("grpc-status-details-bin", error_reply(Encoding.PROTOBUF, error))]
        if error.retry_after_seconds is not None:
            # Python's exporters look for the hint only here, all others only in the status above.
            trailers.append(("google.rpc.retryinfo-bin", retry_info(error.retry_after_seconds)))
        context.set_trailing_metadata(tuple(trailers))
        context.abort(grpc.StatusCode[error.grpc_code], str(error))
