"""The forwarder before real downstreams that are down, slow, full, and back again."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry import context as otel_context
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.exporters.forward.downstream import Delivered, Downstream, Outcome, QueuedRequest
from otel_toolcall_eval.exporters.forward.forwarder import SENDERS, Forwarder
from otel_toolcall_eval.exporters.forward.grpc_client import GrpcClient
from otel_toolcall_eval.exporters.forward.http_client import HttpClient
from otel_toolcall_eval.model.errors import DecodeError, ForwardQueueFullError
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from tests.e2e.ports import held_ports
from tests.exporters.forward.downstreams import Answer, Behaviour, grpc_downstream, http_downstream
from tests.otlp.otlp_requests import numbered, request_of, requests, strange, to_json
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    Serve = Callable[..., AbstractContextManager[int]]

SERVE: dict[str, Serve] = {"grpc": grpc_downstream, "http": http_downstream}


@pytest.fixture(params=list(SERVE))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def free_port() -> Iterator[int]:
    """Give a port at which nobody listens but who is told to."""
    with held_ports(1) as (address,):
        yield int(address.rpartition(":")[2])


@contextmanager
def forwarding(
    kind: str, port: int, *, queue_bytes: int = 1 << 20, max_elapsed: float = 300.0, timeout: float = PATIENCE_SECONDS
) -> Iterator[Forwarder]:
    downstream = Downstream(endpoint=f"http://user:s3cret@127.0.0.1:{port}", timeout_seconds=timeout)
    client = GrpcClient(downstream) if kind == "grpc" else HttpClient(downstream)
    made = Forwarder(client, queue_bytes=queue_bytes, max_elapsed_seconds=max_elapsed)
    made.start()
    try:
        yield made
    finally:
        made.stop(0.0)
        # The client waits a second for its thread, which may take longer on a busy machine.
        wait_for(lambda: not any(thread.name.startswith("otlp-forward") for thread in threading.enumerate()), "the end of all threads")


def send(made: Forwarder, body: bytes, encoding: Encoding = Encoding.PROTOBUF, signal: Signal = Signal.TRACES) -> None:
    made.reserve(body, encoding, signal).commit()


def count(made: Forwarder, name: str, **attributes: str) -> int:
    key = (f"toolcall_eval.forward.{name}", tuple(sorted(attributes.items())))
    return made.counts().get(key, 0)


def test_nothing_is_lost_when_the_downstream_comes_back(free_port: int, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    port, behaviour = free_port, Behaviour()
    bodies = [f"request {number}".encode() for number in range(60)]
    with forwarding(kind, port) as made:
        for body in bodies[:20]:
            send(made, body)
        wait_for(lambda: count(made, "retries", signal="traces") >= 2, "failures")
        with SERVE[kind](behaviour, port):
            wait_for(lambda: len(set(behaviour.bodies)) == 20, "the first requests")
        for body in bodies[20:40]:
            send(made, body)
        wait_for(lambda: any("tried again" in message for message in caplog.messages), "a log line")
        with SERVE[kind](behaviour, port):
            for body in bodies[40:]:
                send(made, body)
            wait_for(lambda: count(made, "requests", result="delivered", signal="traces") == 60, "all requests")
            assert made.stop(PATIENCE_SECONDS)
    assert sorted(set(behaviour.bodies)) == sorted(bodies)
    assert count(made, "queue") == 0
    told = [message for message in caplog.messages if "tried again" in message]
    assert 1 <= len(told) <= 2  # once for each time that it was down
    assert "s3cret" not in caplog.text
    assert "the downstream takes requests again" in caplog.messages


def test_a_full_queue_turns_senders_away_and_takes_them_again_without_a_restart(
    free_port: int, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    port, behaviour = free_port, Behaviour()
    with forwarding(kind, port, queue_bytes=10_000) as made:
        taken = 6  # with what each takes beside its body
        for _ in range(taken):
            send(made, b"x" * 1000)
        with pytest.raises(ForwardQueueFullError):
            send(made, b"x" * 1000)
        assert made.is_full
        with SERVE[kind](behaviour, port):
            wait_for(lambda: not made.is_full, "room")
            send(made, b"y" * 1000)
            wait_for(lambda: count(made, "requests", result="delivered", signal="traces") == taken + 1, "all requests")
    assert [message for message in caplog.messages if "is full" in message] == [
        "the queue of requests to pass on is full; senders are asked to wait"
    ]


def test_a_slow_downstream_does_not_stop_the_others_and_memory_is_bounded(kind: str) -> None:
    go = threading.Event()
    behaviour = Behaviour()
    behaviour.answers.extend([Answer(waits=go)] * (SENDERS - 1))
    with SERVE[kind](behaviour) as port, forwarding(kind, port, queue_bytes=100_000) as made:
        for number in range(SENDERS - 1 + 20):
            send(made, b"%d" % number)
        wait_for(lambda: count(made, "requests", result="delivered", signal="traces") == 20, "the others")
        assert count(made, "queue") <= 100_000
        go.set()
        wait_for(lambda: count(made, "requests", result="delivered", signal="traces") == SENDERS - 1 + 20, "the slow ones")


def test_a_poison_request_is_given_up_and_the_others_pass(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    busy = Answer(status=503, code=grpc.StatusCode.UNAVAILABLE, headers=(("retry-after", "0"),) if kind == "http" else ())
    behaviour = Behaviour(answer_to=lambda got: busy if got.body == b"poison" else None)
    with SERVE[kind](behaviour) as port, forwarding(kind, port, max_elapsed=1.0) as made:
        send(made, b"poison")
        for number in range(20):
            send(made, b"%d" % number)
        wait_for(lambda: count(made, "requests", result="delivered", signal="traces") == 20, "the others")
        wait_for(lambda: count(made, "requests", result="expired", signal="traces") == 1, "the end of the poison")
        assert count(made, "queue") == 0
    assert "requests are dropped that were tried for forward.max_elapsed" in caplog.messages


def test_refusals_and_partial_success_are_counted_and_told_once(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    behaviour = Behaviour()
    no = Answer(status=400, code=grpc.StatusCode.INVALID_ARGUMENT, body=b"secret words" if kind == "http" else b"")
    behaviour.answers.extend([no, no, Answer(body=b"\x0a\x04\x08\x07\x12\x00"), Answer(body=b"\x0a\x02\x08\x02")])
    with SERVE[kind](behaviour) as port, forwarding(kind, port) as made:
        for number in range(5):
            send(made, b"secret %d" % number)
            wait_for(lambda: count(made, "queue") == 0, "an answer")  # one after the other
        assert made.stop(PATIENCE_SECONDS)
        assert count(made, "requests", result="refused", signal="traces") == 2
        assert count(made, "requests", result="delivered", signal="traces") == 3
        assert count(made, "rejected", signal="traces") == 9
    assert [record.levelname for record in caplog.records if record.name.endswith("forwarder")] == ["ERROR", "WARNING"]
    assert "secret" not in caplog.text


def test_what_can_not_be_sent_before_the_end_is_counted_and_told(free_port: int, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with forwarding(kind, free_port) as made:
        for number in range(7):
            send(made, b"%d" % number)
        assert not made.stop(0.3)
        assert not made.stop(0.3)
        assert count(made, "requests", result="lost", signal="traces") == 7
        with pytest.raises(ForwardQueueFullError, match="stopping"):
            send(made, b"late")
    (left,) = [record for record in caplog.records if "before the end" in record.message]
    assert vars(left)["requests"] == 7


def test_the_end_waits_for_what_is_under_way(kind: str) -> None:
    behaviour = Behaviour()
    with SERVE[kind](behaviour) as port, forwarding(kind, port) as made:
        for number in range(50):
            send(made, b"%d" % number)
        assert made.stop(PATIENCE_SECONDS)
    assert len(behaviour.bodies) == 50


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(request=requests().map(strange), signal=st.sampled_from(list(Signal)))
def test_any_message_goes_on_byte_for_byte(
    shared: tuple[str, Forwarder, Behaviour], request: ExportTraceServiceRequest, signal: Signal
) -> None:
    kind, made, behaviour = shared
    bodies = [(request.SerializeToString(), Encoding.PROTOBUF)]
    if kind == "http":
        bodies.append((b" " + to_json(request) + b"\n", Encoding.JSON))
    for body, encoding in bodies:
        before = len(behaviour.got)
        send(made, body, encoding, signal)
        wait_for(lambda: len(behaviour.got) > before, "the request")  # noqa: B023 - waited for within this turn
        assert behaviour.got[before].body == body
        assert signal.name.lower() in behaviour.got[before].path.lower() or kind == "grpc"


@pytest.fixture
def shared(kind: str) -> Iterator[tuple[str, Forwarder, Behaviour]]:
    behaviour = Behaviour()
    with SERVE[kind](behaviour) as port, forwarding(kind, port) as made:
        yield kind, made, behaviour


def test_json_is_transcoded_for_grpc_and_refused_if_that_fails() -> None:
    behaviour = Behaviour()
    request = request_of(numbered(1))
    with grpc_downstream(behaviour) as port, forwarding("grpc", port) as made:
        send(made, to_json(request), Encoding.JSON)
        with pytest.raises(DecodeError, match="links"):
            made.reserve(b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"links":5}]}]}]}', Encoding.JSON, Signal.TRACES)
        assert made.stop(PATIENCE_SECONDS)
        assert count(made, "queue") == 0
    again = ExportTraceServiceRequest.FromString(behaviour.bodies[0])
    assert again.resource_spans[0].scope_spans[0].spans[0].span_id == (1).to_bytes(8)


class FaultyClient:
    """Fails in ways that no client should, and looks whether instrumentation is kept quiet."""

    takes_json = True
    shown = "nowhere"

    def __init__(self) -> None:
        self.failures = 1
        self.quiet: list[object] = []

    warnings = ()

    def refresh(self) -> None: ...

    def start(self) -> None: ...

    def send(self, parcel: QueuedRequest) -> Outcome:
        self.quiet.append(otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        if self.failures:
            self.failures -= 1
            raise RuntimeError(parcel.body)
        return Delivered()

    def close(self) -> None: ...


def test_senders_outlive_a_fault_and_keep_instrumentation_quiet() -> None:
    client = FaultyClient()
    delays: list[float] = []
    made = Forwarder(client, queue_bytes=10_000, max_elapsed_seconds=60, on_delivered=delays.append)
    made.start()
    send(made, b"x")
    passage = made.reserve(b"y", Encoding.PROTOBUF, Signal.LOGS)
    passage.cancel()
    send(made, b"")  # nothing is sent of nothing
    assert made.stop(PATIENCE_SECONDS)
    assert client.quiet == [True, True]
    assert len(delays) == 1
    assert not made.alive
