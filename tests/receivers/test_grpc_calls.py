"""Calls that stall hold nobody up: what they wait for is bounded in time and number, and others go on."""

from __future__ import annotations

import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from grpc_health.v1 import health_pb2, health_pb2_grpc

from otel_toolcall_eval.receivers.grpc import calls as grpc_calls
from otel_toolcall_eval.receivers.grpc import health as grpc_health
from otel_toolcall_eval.receivers.grpc import receiver as otlp_grpc
from tests.otlp.otlp_requests import numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.http2 import RST_STREAM, SETTINGS, begun_call, connected, frame, frames
from tests.receivers.receivers import TRACES, Called, Intake, call, grpc_receiver, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.receivers.grpc.receiver import GrpcReceiver

BODY = request_of(numbered(1)).SerializeToString()
CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
CALLS = 4
SERVING = health_pb2.HealthCheckResponse.SERVING


@contextmanager
def stalled(port: int, count: int, method: str = TRACES, more: bytes = b"") -> Iterator[None]:
    """Keep calls open that have begun, each on a connection of its own."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connected(port)).sendall(begun_call(method, more=more))
        yield


@pytest.mark.parametrize(
    ("method", "more"),
    [
        pytest.param(TRACES, b"", id="no message"),
        pytest.param(TRACES, b"\0\0\0\1\0abc", id="half a message"),
        pytest.param(TRACES, b"\0\0", id="half a length"),
        pytest.param(CHECK, b"", id="a health check"),
        pytest.param(WATCH, b"", id="a watch"),
    ],
)
def test_more_calls_than_there_are_workers_stall_and_the_next_one_is_answered(
    monkeypatch: pytest.MonkeyPatch, method: str, more: bytes
) -> None:
    monkeypatch.setattr(grpc_calls, "_PRESSED_SECONDS", 0.2)
    intake = Intake()
    receiver = grpc_receiver(intake, max_calls=CALLS)
    with running(receiver) as port, stalled(port, CALLS - 1, method, more):
        assert [call(port, BODY).code for _ in range(3)] == ["OK"] * 3
        with stalled(port, 5 * CALLS, method, more):
            wait_for(lambda: method != TRACES or under_way(receiver) == CALLS, "the calls that stall")
            # while they are young, there is no telling that they stall; the sender is asked to come again
            until(port, "OK")
            assert health_pb2.HealthCheckResponse.FromString(until(port, "OK", b"", CHECK).body).status == SERVING
            # on a busy machine young ones grow old meanwhile
            wait_for(lambda: until(port, "OK").code and ("grpc", "too_slow") in intake.refusals, "the end of a slow call")


def until(port: int, code: str, message: bytes = BODY, method: str = TRACES) -> Called:
    """Call until a call ends like this, and return it."""
    ended: list[Called] = []

    def again() -> bool:
        ended.append(call(port, message, method))
        return ended[-1].code == code

    wait_for(again)
    return ended[-1]


def under_way(receiver: GrpcReceiver) -> int:
    """Return how many calls of OTLP are counted.

    What is written to a socket is counted a little later. A call of ours that comes before takes the place of one that is to stall.
    """
    return receiver._calls[0]._under_way  # noqa: SLF001 - who stalls can't see whether it is counted


def test_a_call_that_is_one_too_many_is_asked_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_calls, "_PRESSED_SECONDS", PATIENCE_SECONDS)  # on a busy machine, two seconds pass unseen
    intake = Intake()
    receiver = grpc_receiver(intake, max_calls=CALLS)
    with running(receiver) as port, stalled(port, CALLS):
        wait_for(lambda: under_way(receiver) == CALLS, "the calls that stall")
        ended = call(port, BODY)
    assert ended.code == "UNAVAILABLE"
    assert ended.details == "receiver: too many calls are under way; resend after a delay"
    assert RetryInfo.FromString(ended.trailers["google.rpc.retryinfo-bin"]).retry_delay.seconds == 1
    assert ("grpc", "overloaded") in intake.refusals


@pytest.mark.parametrize("more", [pytest.param(b"", id="no message"), pytest.param(b"\0\0\0\1\0abc", id="half a message")])
def test_a_call_whose_message_does_not_come_is_ended(more: bytes) -> None:
    intake = Intake()
    with (
        running(grpc_receiver(intake, message_seconds=0.3)) as port,
        connected(port) as connection,
        connection.makefile("rb") as stream,
    ):
        connection.sendall(begun_call(more=more))
        assert any(kind == RST_STREAM for kind, _ in frames(stream))
        assert intake.refusals == [("grpc", "too_slow")]
        until(port, "OK")  # on a busy machine, a message that was sent at once may come too late, too


def test_a_call_without_a_message_is_refused() -> None:
    with running(grpc_receiver(Intake())) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(TRACES, None, None)
        with pytest.raises(grpc.RpcError) as refused:
            export(iter(()), timeout=PATIENCE_SECONDS)
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "send exactly one" in str(refused.value.details())


class OpenTracesSnapshot(Intake):
    """Takes nothing in before it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.inside, self.go_on = threading.Event(), threading.Event()

    def offer(self, decoded: object, *, transport: str) -> None:
        self.inside.set()
        assert self.go_on.wait(PATIENCE_SECONDS)
        super().offer(decoded, transport=transport)  # type: ignore[arg-type]


def test_more_bytes_at_a_time_than_allowed_are_refused_until_the_others_are_done() -> None:
    intake = OpenTracesSnapshot()
    with running(grpc_receiver(intake, max_pending_bytes=len(BODY) + 5)) as port:
        first = threading.Thread(target=call, args=(port, BODY))
        first.start()
        assert intake.inside.wait(PATIENCE_SECONDS)
        assert call(port, BODY).code == "UNAVAILABLE"
        intake.go_on.set()
        first.join(PATIENCE_SECONDS)
        assert call(port, BODY).code == "OK"
    assert intake.names == ["span 1", "span 1"]
    assert intake.refusals == [("grpc", "overloaded")]


def test_who_watches_the_health_of_a_service_is_told_when_it_changes() -> None:
    receiver = grpc_receiver(Intake())
    with running(receiver) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        told = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS)
        assert next(told).status == health_pb2.HealthCheckResponse.SERVING
        receiver.set_serving(serving=False)
        assert next(told).status == health_pb2.HealthCheckResponse.NOT_SERVING
        told.cancel()


@pytest.mark.parametrize("method", [pytest.param(CHECK, id="check"), pytest.param(WATCH, id="watch")])
def test_a_health_request_that_is_none_is_refused(method: str) -> None:
    with running(grpc_receiver(Intake())) as port:
        assert call(port, b"\x0a\x05\x01", method).code == "INVALID_ARGUMENT"
        assert call(port, b"\x0a\x07nothing", CHECK).code == "NOT_FOUND"


@pytest.mark.parametrize("method", [pytest.param(CHECK, id="check"), pytest.param(WATCH, id="watch")])
def test_a_health_request_of_more_than_a_name_is_refused(method: str) -> None:
    with running(grpc_receiver(Intake())) as port:
        name = health_pb2.HealthCheckRequest(service="x" * (grpc_health.HEALTH_REQUEST_BYTES - 2)).SerializeToString()
        assert call(port, name + b"\x0a", method).code == "RESOURCE_EXHAUSTED"


def test_names_that_are_invented_are_not_kept_and_those_who_watch_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_health, "MOST_WATCHERS", 3)
    with running(grpc_receiver(Intake())) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def watch(name: str) -> Any:  # noqa: ANN401 - the stubs know no call that is read and cancelled
            return stub.Watch(health_pb2.HealthCheckRequest(service=name), timeout=PATIENCE_SECONDS)

        watching = [watch(f"invented {number}") for number in range(3)]
        assert [next(each).status for each in watching] == [health_pb2.HealthCheckResponse.SERVICE_UNKNOWN] * 3
        with pytest.raises(grpc.RpcError) as refused:
            next(watch(""))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert stub.Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE_SECONDS).status == SERVING
        for each in watching:
            each.cancel()

        def watches_again() -> bool:
            try:
                return bool(next(watch("")).status == SERVING)
            except grpc.RpcError:
                return False

        wait_for(watches_again)


@pytest.mark.parametrize("method", [pytest.param(CHECK, id="check"), pytest.param(WATCH, id="watch")])
def test_health_calls_that_stall_take_no_place_of_otlps(method: str) -> None:
    intake = Intake()
    with running(grpc_receiver(intake, max_calls=1)) as port, stalled(port, 2 * grpc_health.HEALTH_CALLS, method):
        assert [call(port, BODY).code for _ in range(5)] == ["OK"] * 5
        until(port, "OK", b"", CHECK)


@pytest.mark.parametrize("method", [pytest.param(CHECK, id="check"), pytest.param(WATCH, id="watch")])
def test_health_calls_that_stall_end_for_those_that_wait_for_their_turn(method: str) -> None:
    intake = Intake()
    with running(grpc_receiver(intake)) as port, stalled(port, grpc_health.HEALTH_CALLS // 2, method):
        # On a busy machine, it may be slow itself, in the eyes of those that stall and wait for their turn.
        assert health_pb2.HealthCheckResponse.FromString(until(port, "OK", b"", CHECK).body).status == SERVING
    assert set(intake.refusals) <= {("grpc", "too_slow")}


def test_who_watches_and_reads_nothing_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_calls, "_PRESSED_SECONDS", 0.2)
    monkeypatch.setattr(otlp_grpc, "HEALTH_SECONDS", grpc_health.HEALTH_SECONDS)
    no_window = frame(SETTINGS, content=b"\0\4\0\0\0\0")
    receiver = grpc_receiver(Intake())
    with running(receiver) as port, ExitStack() as stack:
        for _ in range(2 * grpc_health.HEALTH_CALLS):
            stack.enter_context(connected(port)).sendall(no_window + begun_call(WATCH, more=bytes(5)))
        until(port, "OK", b"", CHECK)
        changing = threading.Thread(target=receiver.set_serving, kwargs={"serving": False}, daemon=True)
        changing.start()
        changing.join(PATIENCE_SECONDS)
        assert not changing.is_alive()
        assert health_pb2.HealthCheckResponse.FromString(until(port, "OK", b"", CHECK).body).status != SERVING
