"""What holds for both receivers: start, stop, ports, and the exporters of the SDK as their peers."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval.model.errors import SettingsError
from tests.e2e.ports import held_ports
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import Intake, Receiver, call, grpc_receiver, http_receiver, post, running

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace.export import SpanExporter

BOTH = pytest.mark.parametrize("make", [pytest.param(grpc_receiver, id="grpc"), pytest.param(http_receiver, id="http")])
BODY = request_of(numbered(1)).SerializeToString()


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.is_alive()}


@contextmanager
def held_port() -> Iterator[int]:
    """Give a port that nobody else gets while nobody listens there."""
    with held_ports(1) as (address,):
        yield int(address.rpartition(":")[2])


def answers(receiver: Receiver, port: int) -> bool:
    if isinstance(receiver, type(grpc_receiver(Intake()))):
        return call(port, BODY).code == "OK"
    return post(port, BODY).status == 200


@BOTH
def test_a_receiver_starts_answers_stops_stops_again_and_leaves_no_thread(make: Callable[..., Receiver]) -> None:
    before = threads()
    intake = Intake()
    with held_port() as port:
        receiver = make(intake, port=port)
        assert receiver.port == 0
        receiver.start()
        assert receiver.port == port
        assert answers(receiver, port)
        receiver.stop(grace_seconds=5)
        receiver.stop(grace_seconds=5)
        wait_for(lambda: threads() <= before)
        assert intake.names == ["span 1"]
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on the system
            socket.create_connection(("127.0.0.1", port), timeout=1).close()


@BOTH
def test_a_receiver_takes_any_free_port(make: Callable[..., Receiver]) -> None:
    receiver = make(Intake())
    with running(receiver) as port:
        assert port > 0
        assert answers(receiver, port)


@BOTH
def test_a_receiver_that_never_started_can_be_stopped(make: Callable[..., Receiver]) -> None:
    make(Intake()).stop(grace_seconds=5)


@BOTH
def test_a_port_in_use_says_what_to_do(make: Callable[..., Receiver], capfd: pytest.CaptureFixture[str]) -> None:
    before = threads()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(SettingsError) as refused:
            make(Intake(), port=port).start()
    option = "--grpc-port" if make is grpc_receiver else "--http-port"
    assert str(refused.value) == f"127.0.0.1:{port}: the port is in use; stop the other process or choose another port with {option}"
    assert capfd.readouterr() == ("", "")
    assert threads() <= before  # those of another test may have ended meanwhile


@BOTH
def test_two_receivers_never_share_a_port(make: Callable[..., Receiver]) -> None:
    with running(make(Intake())) as port, pytest.raises(SettingsError, match="in use"):
        make(Intake(), port=port).start()


@BOTH
def test_a_port_can_be_taken_again_at_once(make: Callable[..., Receiver]) -> None:
    with held_port() as port:
        for _ in range(2):
            receiver = make(Intake(), port=port)
            with running(receiver) as same:
                assert same == port
                assert answers(receiver, port)


@BOTH
def test_a_request_under_way_at_the_stop_is_finished(make: Callable[..., Receiver]) -> None:
    class OpenTracesSnapshot(Intake):
        inside = threading.Event()
        go_on = threading.Event()

        def offer(self, decoded: object, *, transport: str) -> None:
            self.inside.set()
            assert self.go_on.wait(PATIENCE_SECONDS)
            super().offer(decoded, transport=transport)  # type: ignore[arg-type]

    intake = OpenTracesSnapshot()
    receiver = make(intake)
    receiver.start()
    port = receiver.port
    results: list[bool] = []
    # Above the size that is decoded on the HTTP receiver's own loop, which the waiting sink would hold up.
    body = request_of(*(numbered(number) for number in range(1, 6000))).SerializeToString()
    sender = threading.Thread(
        target=lambda: results.append(call(port, body).code == "OK" if make is grpc_receiver else post(port, body).status == 200)
    )
    sender.start()
    assert intake.inside.wait(PATIENCE_SECONDS)
    stopper = threading.Thread(target=lambda: receiver.stop(grace_seconds=20))
    stopper.start()
    wait_for(lambda: not listens(port))
    intake.go_on.set()
    stopper.join(PATIENCE_SECONDS)
    sender.join(PATIENCE_SECONDS)
    assert results == [True]
    assert len(intake.names) == 5999


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def ended_spans() -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("agent", "1.0")
    with tracer.start_as_current_span("agent"), tracer.start_as_current_span("tool", attributes={"tool.name": "get_weather", "other": 1}):
        pass
    provider.shutdown()
    return list(memory.get_finished_spans())


EXPORTERS = [
    pytest.param(grpc_receiver, lambda port: GrpcExporter(endpoint=f"127.0.0.1:{port}", insecure=True), id="grpc"),
    pytest.param(
        grpc_receiver,
        lambda port: GrpcExporter(endpoint=f"127.0.0.1:{port}", insecure=True, compression=grpc.Compression.Gzip),
        id="grpc gzip",
    ),
    pytest.param(http_receiver, lambda port: HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces"), id="http"),
    pytest.param(
        http_receiver,
        lambda port: HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces", compression=Compression.Gzip),
        id="http gzip",
    ),
]


@pytest.mark.parametrize(("make", "exporter_for"), EXPORTERS)
def test_the_sdks_exporter_delivers_its_spans(make: Callable[..., Receiver], exporter_for: Callable[[int], SpanExporter]) -> None:
    spans = ended_spans()
    intake = Intake()
    with running(make(intake)) as port:
        exporter = exporter_for(port)
        try:
            assert exporter.export(spans) is SpanExportResult.SUCCESS
        finally:
            exporter.shutdown()
    tool, agent = intake.decoded[0].spans
    assert (tool.name, tool.attributes, tool.scope.name, tool.scope.version) == ("tool", {"tool.name": "get_weather"}, "agent", "1.0")
    assert tool.parent_span_id == agent.span_id
    assert (agent.attributes, agent.is_root, agent.flags & 0x300) == ({}, True, 0x100)
    assert agent.resource.attributes["telemetry.sdk.language"] == "python"
    context = spans[0].context
    assert context is not None
    assert (int.from_bytes(tool.trace_id), int.from_bytes(tool.span_id)) == (context.trace_id, context.span_id)
    assert (tool.start_unix_ns, tool.end_unix_ns) == (spans[0].start_time, spans[0].end_time)


@pytest.mark.parametrize(("make", "exporter_for"), [EXPORTERS[0], EXPORTERS[2]])
def test_the_sdks_exporter_resends_what_was_refused_and_nothing_is_lost_or_doubled(
    make: Callable[..., Receiver], exporter_for: Callable[[int], SpanExporter]
) -> None:
    intake = Intake(refuse=1)
    with running(make(intake)) as port:
        exporter = exporter_for(port)
        try:
            assert exporter.export(ended_spans()) is SpanExportResult.SUCCESS
        finally:
            exporter.shutdown()
    assert intake.names == ["tool", "agent"]
    assert [reason for _, reason in intake.refusals] == ["overloaded"]


@BOTH
@pytest.mark.parametrize("size", [pytest.param(5 << 20, id="5 MiB"), pytest.param((64 << 20) - 1000, id="just under 64 MiB")])
def test_large_messages_are_taken_up_to_the_limit(make: Callable[..., Receiver], size: int) -> None:
    span = numbered(1)
    span.attributes.add(key="gen_ai.input.messages").value.string_value = "x" * (size - 200)
    body = request_of(span).SerializeToString()
    intake = Intake()
    receiver = make(intake)
    with running(receiver) as port:
        assert (call(port, body).code == "OK") if make is grpc_receiver else (post(port, body).status == 200)
    assert intake.names == ["span 1"]
    assert intake.decoded[0].size_bytes < 2000
