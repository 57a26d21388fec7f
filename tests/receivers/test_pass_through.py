"""The intake with a downstream: room first, then judging, then passing on; and nothing is half done."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.work_items import PendingResponse
from otel_toolcall_eval.model.errors import DecodeError, ForwardQueueFullError, OverloadedError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from otel_toolcall_eval.receivers.intake import OtlpIntake, reason_of
from tests.otlp.otlp_requests import numbered, request_of
from tests.otlp.test_transcoding import everything_in_logs, everything_in_metrics
from tests.receivers.receivers import Intake

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs

TRACES = request_of(numbered(1), numbered(2, start_time_unix_nano=0)).SerializeToString()
LOGS = everything_in_logs().SerializeToString()
METRICS = everything_in_metrics().SerializeToString()
REFUSAL = OverloadedError(where="queue", what="it is full", fix="wait")


@dataclass
class Forwarding:
    """Remembers, in order, what was done with each request."""

    done: list[tuple[str, object]] = field(default_factory=list)
    full: bool = False

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal) -> Forwarding:
        del encoding
        if self.full:
            raise ForwardQueueFullError(where="request", what="full", fix="wait")
        self.done.append(("reserve", (body, signal)))
        return self

    def commit(self) -> None:
        self.done.append(("commit", None))

    def cancel(self) -> None:
        self.done.append(("cancel", None))

    @property
    def steps(self) -> list[tuple[str, object]]:
        return [(step, detail) for step, detail in self.done if step != "reserve"]


@dataclass
class Sink:
    """Takes spans and records, is full, fails, or promises."""

    failure: BaseException | None = None
    promise: Future[None] | None = None
    sheds: bool = True
    taken: list[object] = field(default_factory=list)
    shed_requests: list[str] = field(default_factory=list)

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse | None:
        return self._take(decoded, transport)

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> PendingResponse | None:
        return self._take(decoded, transport)

    def shed(self, shed: SkippedRequest) -> bool:
        what = f"{shed.records} records" if shed.records else f"{shed.spans} spans"
        self.shed_requests.append(f"{what} by {shed.transport}")
        return self.sheds

    def _take(self, decoded: object, _transport: str) -> PendingResponse | None:
        if self.failure is not None:
            raise self.failure
        self.taken.append(decoded)
        return None if self.promise is None else PendingResponse(done=self.promise)


def intake(sink: Sink, forward: Forwarding | None) -> OtlpIntake:
    return OtlpIntake(
        sink=sink,
        projection=Projection,
        logs=sink,
        forward=forward,
        shedder=sink,
    )


REQUESTS = pytest.mark.parametrize(
    ("body", "signal"),
    [(TRACES, Signal.TRACES), (LOGS, Signal.LOGS), (METRICS, Signal.METRICS)],
    ids=["traces", "logs", "metrics"],
)


@REQUESTS
def test_every_signal_is_passed_on_once_it_is_taken(body: bytes, signal: Signal) -> None:
    forward, sink = Forwarding(), Sink()
    made = intake(sink, forward)
    assert made.wants(signal)
    made.take(body, Encoding.PROTOBUF, signal, transport="grpc")
    assert forward.done == [("reserve", (body, signal)), ("commit", None)]
    assert len(sink.taken) == (signal is not Signal.METRICS)


def test_a_request_of_which_every_span_is_rejected_is_passed_on_all_the_same() -> None:
    forward = Forwarding()
    body = request_of(numbered(1, end_time_unix_nano=0)).SerializeToString()
    reply = intake(Sink(), forward).take(body, Encoding.PROTOBUF, Signal.TRACES, transport="grpc")
    assert b"without an end time" in reply[0]
    assert forward.steps == [("commit", None)]


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("signal", list(Signal), ids=lambda signal: signal.name)
def test_what_can_not_be_decoded_is_refused_and_not_passed_on(signal: Signal, encoding: Encoding) -> None:
    forward, sink = Forwarding(), Sink()
    with pytest.raises(DecodeError):
        intake(sink, forward).take(b"\xff\xff\xff", encoding, signal, transport="grpc")
    assert (forward.done, sink.taken) == ([], [])


@REQUESTS
def test_a_full_forward_queue_refuses_before_anything_is_done(body: bytes, signal: Signal) -> None:
    forward, sink = Forwarding(full=True), Sink()
    with pytest.raises(ForwardQueueFullError) as refused:
        intake(sink, forward).take(body, Encoding.PROTOBUF, signal, transport="grpc")
    assert (sink.taken, sink.shed_requests) == ([], [])
    assert reason_of(refused.value) == "forward_queue_full"
    assert reason_of(REFUSAL) == "overloaded"


@pytest.mark.parametrize(
    ("body", "signal", "shed"),
    [(TRACES, Signal.TRACES, "1 spans by grpc"), (LOGS, Signal.LOGS, "1 records by grpc")],
    ids=["traces", "logs"],
)
def test_judging_that_is_behind_sheds_what_is_to_be_judged_and_never_telemetry(body: bytes, signal: Signal, shed: str) -> None:
    forward, sink = Forwarding(), Sink(failure=REFUSAL)
    intake(sink, forward).take(body, Encoding.PROTOBUF, signal, transport="grpc")
    assert sink.shed_requests == [shed]
    assert forward.steps == [("commit", None)]


@pytest.mark.parametrize("body", [TRACES, LOGS], ids=["traces", "logs"])
def test_what_can_not_even_be_shed_is_refused_whole(body: bytes) -> None:
    forward, sink = Forwarding(), Sink(failure=REFUSAL, sheds=False)
    with pytest.raises(OverloadedError):
        intake(sink, forward).take(body, Encoding.PROTOBUF, Signal.TRACES if body is TRACES else Signal.LOGS, transport="grpc")
    assert forward.steps == [("cancel", None)]


@pytest.mark.parametrize("forward", [None, Forwarding()], ids=["alone", "with a downstream"])
def test_a_fault_of_ours_gives_the_room_back(forward: Forwarding | None) -> None:
    with pytest.raises(RuntimeError):
        intake(Sink(failure=RuntimeError()), forward).take(TRACES, Encoding.PROTOBUF, Signal.TRACES, transport="grpc")
    assert forward is None or forward.steps == [("cancel", None)]


def test_without_a_downstream_a_full_worker_refuses_and_metrics_are_ignored() -> None:
    sink = Sink(failure=REFUSAL)
    made = intake(sink, None)
    with pytest.raises(OverloadedError):
        made.take(TRACES, Encoding.PROTOBUF, Signal.TRACES, transport="grpc")
    assert sink.shed_requests == []
    assert not made.wants(Signal.METRICS)
    assert made.take(b"\xff", Encoding.PROTOBUF, Signal.METRICS, transport="grpc") == (b"", None)


@pytest.mark.parametrize("outcome", ["kept", "broken", "cancelled"])
def test_what_has_to_be_done_before_the_answer_is_waited_for(outcome: str) -> None:
    promise: Future[None] = Future()
    forward = Forwarding()
    intake(Sink(promise=promise), forward).take(TRACES, Encoding.PROTOBUF, Signal.TRACES, transport="grpc")
    assert forward.steps == []
    if outcome == "kept":
        promise.set_result(None)
    elif outcome == "broken":
        promise.set_exception(OSError())
    else:
        promise.cancel()
    assert forward.steps == [("commit", None) if outcome == "kept" else ("cancel", None)]


def test_logs_that_nobody_reads_are_passed_on() -> None:
    forward = Forwarding()
    made = OtlpIntake(sink=Intake(), projection=Projection, forward=forward)
    made.take(LOGS, Encoding.PROTOBUF, Signal.LOGS, transport="grpc")
    assert forward.steps == [("commit", None)]
