from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.receivers.grpc import receiver as otlp_grpc
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS
from tests.receivers.http2 import GOAWAY, HELLO, PING, frame, frames
from tests.receivers.receivers import Intake, call, grpc_receiver, running

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = request_of(numbered(1)).SerializeToString()
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health_of(port: int, service: str = "") -> int:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return int(
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_SECONDS).status
        )


def test_the_health_service_answers_for_the_server_and_each_service() -> None:
    receiver = grpc_receiver(Intake())
    with running(receiver) as port:
        traces = "opentelemetry.proto.collector.trace.v1.TraceService"
        assert (health_of(port), health_of(port, traces)) == (SERVING, SERVING)
        receiver.set_serving(serving=False)
        assert (health_of(port), health_of(port, traces)) == (NOT_SERVING, NOT_SERVING)
        receiver.set_serving(serving=True)
        assert health_of(port) == SERVING


def test_deflate_is_taken_too() -> None:
    intake = Intake()
    with running(grpc_receiver(intake)) as port:
        assert call(port, BODY, compression=grpc.Compression.Deflate).code == "OK"
    assert intake.names == ["span 1"]


def test_a_message_above_the_limit_is_refused_even_if_grpc_lets_it_through(monkeypatch: pytest.MonkeyPatch) -> None:
    intake = Intake()
    receiver = grpc_receiver(intake, max_message_bytes=100)
    monkeypatch.setattr(receiver, "_options", list)
    with running(receiver) as port:
        assert call(port, bytes(101)).code == "RESOURCE_EXHAUSTED"
    assert intake.refusals == [("grpc", "too_large")]


def test_a_port_that_is_taken_while_we_look_is_still_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_grpc, "check_free", lambda *_, **__: None)
    with running(grpc_receiver(Intake())) as port, pytest.raises(SettingsError, match="the port is in use; stop the other process"):
        grpc_receiver(Intake(), port=port).start()


# --- a client that pings by hand, since a real one pings every ten seconds at most ------------------------------------------------------


def test_pings_without_a_call_that_keep_the_floor_are_answered_and_faster_ones_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_grpc, "_PING_FLOOR_MS", 10)
    assert pings_answered(20, pause_seconds=0.02) == 20
    monkeypatch.undo()
    assert pings_answered(20, pause_seconds=0.02) < 20


def pings_answered(count: int, *, pause_seconds: float) -> int:
    """Ping without any call; return how many pings were answered before the server went away."""
    with (
        running(grpc_receiver(Intake())) as port,
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(HELLO)
        received = frames(stream)
        for number in range(count):
            connection.sendall(frame(PING, content=number.to_bytes(8)))
            if not any(kind == PING and flags & 1 for kind, flags in until_goaway(received)):
                return number
            threading.Event().wait(pause_seconds)  # the distance of the pings is what is tested
    return count


def until_goaway(received: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for kind, flags in received:
        if kind == GOAWAY:
            return
        yield kind, flags


def test_senders_that_ping_every_ten_seconds_keep_the_floor() -> None:
    # A sender's pings every 10 s ended its connection
    options = dict(grpc_receiver(Intake())._options())  # noqa: SLF001 - gRPC does not tell what it was given
    assert options["grpc.http2.min_ping_interval_without_data_ms"] == 9_000
    assert options["grpc.keepalive_permit_without_calls"] == 1
