"""A sender is answered when what it sent is written, where a journal asks for it, and after a pause while more comes than can be judged."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.work_items import PendingResponse
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.receivers import intake as intake_module
from otel_toolcall_eval.receivers.grpc import receiver as otlp_grpc
from otel_toolcall_eval.receivers.grpc.receiver import GrpcLimits, GrpcReceiver
from otel_toolcall_eval.receivers.http.receiver import HttpReceiver
from otel_toolcall_eval.receivers.intake import OtlpIntake
from tests.patience import wait_for
from tests.receivers.receivers import KEEP, LOGS, TRACES, Called, call, post, running

if TYPE_CHECKING:
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
    from tests.receivers.receivers import Receiver, Reply


SENDERS = 16


PAUSE_SECONDS = 0.2


class Behind:
    """A sink that is behind with judging."""

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse:  # noqa: ARG002 - the protocol's signature
        return PendingResponse(seconds=PAUSE_SECONDS)


@dataclass
class Writing:
    """A sink whose writing takes until a test says so."""

    seconds: float = 0.0
    waiting: list[Future[None]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse:  # noqa: ARG002 - the protocol's signature
        self.waiting.append(Future())
        return PendingResponse(done=self.waiting[-1], seconds=self.seconds)

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> PendingResponse:  # noqa: ARG002 - the protocol's signature
        self.waiting.append(Future())
        return PendingResponse(done=self.waiting[-1])

    def refused(self, transport: str, reason: str) -> None:
        self.refusals.append((transport, reason))


@pytest.fixture
def sink() -> Writing:
    return Writing()


@pytest.fixture(params=["grpc", "http"])
def receiver(request: pytest.FixtureRequest, sink: Writing) -> Receiver:
    intake = OtlpIntake(sink=sink, projection=lambda: KEEP, logs=sink)
    if request.param == "grpc":
        return GrpcReceiver(intake=intake, refused=sink.refused)
    return HttpReceiver(intake=intake, refused=sink.refused)


def send(receiver: Receiver, *, logs: bool = False) -> Called | Reply:
    if isinstance(receiver, GrpcReceiver):
        return call(receiver.port, b"", LOGS if logs else TRACES)
    return post(receiver.port, b"", path="/v1/logs" if logs else "/v1/traces")


def outcome(answer: Called | Reply) -> str | int:
    return answer.code if isinstance(answer, Called) else answer.status


@pytest.mark.parametrize("logs", [False, True])
def test_senders_are_answered_when_it_is_written_many_at_a_time(receiver: Receiver, sink: Writing, *, logs: bool) -> None:
    answers: list[Called | Reply] = []
    with running(receiver):
        senders = [threading.Thread(target=lambda: answers.append(send(receiver, logs=logs))) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        wait_for(lambda: len(sink.waiting) == SENDERS)  # all of them wait at the same time
        assert answers == []
        for waiting in sink.waiting:
            waiting.set_result(None)
        for sender in senders:
            sender.join()
    assert {outcome(answer) for answer in answers} <= {"OK", 200}
    assert len(answers) == SENDERS


def test_refusal_of_the_journal_reaches_the_sender_with_a_hint(receiver: Receiver, sink: Writing) -> None:
    with running(receiver):
        answers: list[Called | Reply] = []
        sender = threading.Thread(target=lambda: answers.append(send(receiver)))
        sender.start()
        wait_for(lambda: bool(sink.waiting))
        sink.waiting[0].set_exception(OverloadedError(where="grpc", what="the journal can't be written", fix="send it again"))
        sender.join()
    assert outcome(answers[0]) in {"UNAVAILABLE", 503}
    assert [reason for _, reason in sink.refusals] == ["overloaded"]


def test_sender_that_would_give_up_is_told_before(receiver: Receiver, sink: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "RECEIPT_SECONDS", 0.05)
    with running(receiver):
        assert outcome(send(receiver)) in {"UNAVAILABLE", 503}
    assert len(sink.refusals) == 1
    waiting = sink.waiting[0]
    assert waiting.cancelled() or waiting.set_running_or_notify_cancel()  # the worker finds one or the other, and goes on


@pytest.mark.parametrize("kind", [GrpcReceiver, HttpReceiver])
def test_answer_of_who_sends_too_fast_comes_after_a_pause(kind: type[GrpcReceiver | HttpReceiver]) -> None:
    receiver = kind(intake=OtlpIntake(sink=Behind(), projection=lambda: KEEP), refused=Writing().refused)
    with running(receiver):
        began = time.monotonic()
        assert outcome(send(receiver)) in {"OK", 200}
        assert time.monotonic() - began >= PAUSE_SECONDS


def test_calls_that_are_held_back_leave_room_for_others() -> None:
    resting = threading.Semaphore(0)
    receiver = GrpcReceiver(
        intake=OtlpIntake(sink=Behind(), projection=lambda: KEEP), refused=Writing().refused, limits=GrpcLimits(max_calls=4)
    )
    answers: list[Called | Reply] = []

    def rest(receipt: PendingResponse, _transport: str) -> None:
        if receipt.seconds:
            resting.acquire()

    with pytest.MonkeyPatch.context() as patch, running(receiver):
        patch.setattr(otlp_grpc, "wait_for", rest)
        held_back = [threading.Thread(target=lambda: answers.append(send(receiver))) for _ in range(2)]
        for sender in held_back:
            sender.start()
        wait_for(lambda: receiver._held_back._value == 0)  # noqa: SLF001 - both are at rest
        meanwhile = [outcome(send(receiver)) for _ in range(10)], list(answers)
        resting.release(2)
        for sender in held_back:
            sender.join()
    assert meanwhile == (["OK"] * 10, [])
    assert [outcome(answer) for answer in answers] == ["OK", "OK"]


@pytest.mark.parametrize("kind", [GrpcReceiver, HttpReceiver])
def test_pause_counts_for_the_time_that_a_sender_has(
    kind: type[GrpcReceiver | HttpReceiver], sink: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "RECEIPT_SECONDS", PAUSE_SECONDS / 2)
    sink.seconds = PAUSE_SECONDS
    receiver = kind(intake=OtlpIntake(sink=sink, projection=lambda: KEEP), refused=sink.refused)
    with running(receiver):
        assert outcome(send(receiver)) in {"UNAVAILABLE", 503}
