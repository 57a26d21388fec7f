from __future__ import annotations

import socket
import struct
import threading
from typing import TYPE_CHECKING, BinaryIO

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.sources import otlp_grpc
from tests.sources.receivers import Intake, call, grpc_receiver, running
from tests.wire.otlp_requests import numbered, request_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BODY = request_of(numbered(1)).SerializeToString()
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def health_of(port: int, service: str = "") -> int:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        return int(health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status)


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

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
PING, GOAWAY = 6, 7


def frame(kind: int, flags: int = 0, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + bytes(4) + content


def frames(stream: BinaryIO) -> Iterator[tuple[int, int]]:
    """Yield the kind and flags of each frame until the connection ends."""
    while len(head := stream.read(9)) == 9:
        stream.read(int.from_bytes(head[:3]))
        yield head[3], head[4]


def test_pings_without_a_call_that_keep_the_floor_are_answered_and_faster_ones_end_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_grpc, "_PING_FLOOR_MS", 10)
    assert pings_answered(20, pause_seconds=0.02) == 20
    monkeypatch.undo()
    assert pings_answered(20, pause_seconds=0.02) < 20


def pings_answered(count: int, *, pause_seconds: float) -> int:
    """Ping without any call; return how many pings were answered before the server went away."""
    with (
        running(grpc_receiver(Intake())) as port,
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(PREFACE + frame(4))
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
