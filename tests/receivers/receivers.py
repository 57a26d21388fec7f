"""Both receivers under one interface, with a sink that remembers, and clients that say exactly what they send."""

from __future__ import annotations

import http.client
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import grpc

from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.receivers.grpc.receiver import GrpcLimits, GrpcReceiver
from otel_toolcall_eval.receivers.http.connection import HttpLimits
from otel_toolcall_eval.receivers.http.receiver import HttpReceiver
from otel_toolcall_eval.receivers.intake import OtlpIntake
from otel_toolcall_eval.receivers.listening import ListenOptions
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.receivers.http.pages import PageSource, StatusPages
    from otel_toolcall_eval.receivers.tls import ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens

KEEP = Projection(keys=frozenset({"tool.name", "input.value"}))
TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"


class Receiver(Protocol):
    """What both receivers have."""

    @property
    def port(self) -> int: ...

    def start(self) -> None: ...

    def stop(self, *, grace_seconds: float) -> None: ...


@dataclass
class Intake:
    """Remembers what was offered and refused; refuses itself as often as told, or fails."""

    decoded: list[DecodedTraces] = field(default_factory=list)
    transports: list[str] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    refuse: int = 0
    failure: Exception | None = None

    def offer(self, decoded: DecodedTraces, *, transport: str) -> None:
        if self.failure is not None:
            raise self.failure
        if self.refuse:
            self.refuse -= 1
            raise OverloadedError(where="queue", what="the queue is full", fix="resend after a delay")
        self.decoded.append(decoded)
        self.transports.append(transport)

    def refused(self, transport: str, reason: str) -> None:
        self.refusals.append((transport, reason))

    @property
    def names(self) -> list[str]:
        return [span.name for decoded in self.decoded for span in decoded.spans]


def otlp(sink: Intake) -> OtlpIntake:
    """Decode for a sink of spans alone."""
    return OtlpIntake(sink=sink, projection=lambda: KEEP)


def grpc_receiver(
    intake: Intake,
    *,
    port: int = 0,
    max_message_bytes: int = 64 << 20,
    max_pending_bytes: int = 256 << 20,
    max_calls: int = 64,
    message_seconds: float = PATIENCE_SECONDS,
    tls: ServerTls | None = None,
    tokens: Tokens | None = None,
) -> GrpcReceiver:
    return GrpcReceiver(
        intake=otlp(intake),
        refused=intake.refused,
        listen=ListenOptions(port=port, port_option="--grpc-port", tls=tls, tokens=tokens),
        limits=GrpcLimits(
            max_message_bytes=max_message_bytes,
            max_pending_bytes=max_pending_bytes,
            max_calls=max_calls,
            message_seconds=message_seconds,
        ),
    )


def http_receiver(
    intake: Intake,
    *,
    port: int = 0,
    pages: Mapping[str, PageSource] | None = None,
    site: StatusPages | None = None,
    max_message_bytes: int = 64 << 20,
    max_pending_bytes: int = 256 << 20,
    head_seconds: float = PATIENCE_SECONDS,
    body_seconds: float = PATIENCE_SECONDS,
    idle_seconds: float = 75,
    max_connections: int = 512,
    tls: ServerTls | None = None,
    tokens: Tokens | None = None,
    allowed_origins: frozenset[str] = frozenset(),
    host: str = "127.0.0.1",
    allowed_hosts: frozenset[str] = frozenset(),
) -> HttpReceiver:
    return HttpReceiver(
        intake=otlp(intake),
        refused=intake.refused,
        pages=pages,
        site=site,
        listen=ListenOptions(
            host=host,
            port=port,
            port_option="--http-port",
            tls=tls,
            tokens=tokens,
            allowed_hosts=allowed_hosts,
            allowed_origins=allowed_origins,
        ),
        limits=HttpLimits(
            max_message_bytes=max_message_bytes,
            max_pending_bytes=max_pending_bytes,
            head_seconds=head_seconds,
            body_seconds=body_seconds,
            idle_seconds=idle_seconds,
            max_connections=max_connections,
        ),
    )


@contextmanager
def running(receiver: Receiver) -> Iterator[int]:
    """Start, give the port, stop."""
    receiver.start()
    try:
        yield receiver.port
    finally:
        receiver.stop(grace_seconds=5)


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str | None:
        return self.headers.get("Content-Type")


def ask(port: int, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
    """Send one HTTP request; underscores in header names become hyphens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Reply(status=response.status, headers=dict(response.getheaders()), body=response.read())
    finally:
        connection.close()


def post(port: int, body: bytes, content_type: str = PROTOBUF, path: str = "/v1/traces", **headers: str) -> Reply:
    return ask(port, "POST", path, body, Content_Type=content_type, **headers)


@dataclass(frozen=True, kw_only=True)
class Called:
    """The end of a gRPC call."""

    code: str
    details: str
    body: bytes
    trailers: Mapping[str, str | bytes]


def call(port: int, message: bytes, method: str = TRACES, compression: grpc.Compression = grpc.Compression.NoCompression) -> Called:
    """Make one gRPC call with raw bytes."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_send_message_length", -1)]) as channel:
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method, None, None)
        try:
            body, ended = export.with_call(message, timeout=PATIENCE_SECONDS, compression=compression)
        except grpc.RpcError as error:
            trailers = {each.key: each.value for each in error.trailing_metadata() or ()}
            return Called(code=error.code().name, details=error.details() or "", body=b"", trailers=trailers)
        return Called(code=ended.code().name, details="", body=body, trailers={})
