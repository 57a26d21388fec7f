"""A sender is answered when what it sent is written, where a journal asks for it, and after a pause while more comes than can be judged."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.sources import receipt
from otel_toolcall_eval.sources.otlp_grpc import GrpcReceiver
from otel_toolcall_eval.sources.otlp_http import HttpReceiver
from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
from otel_toolcall_eval.work_items import Receipt
from tests.sources.receivers import KEEP, LOGS, TRACES, Called, call, post, running, wait_for

if TYPE_CHECKING:
    from otel_toolcall_eval.wire.decoded import DecodedTraces
    from otel_toolcall_eval.wire.decoded_logs import DecodedLogs
    from tests.sources.receivers import Receiver, Reply


SENDERS = 16


@dataclass
class Behind:
    """A sink that is behind with judging."""

    seconds: float = 0.2

    def offer(self, decoded: DecodedTraces, *, transport: str) -> Receipt:  # noqa: ARG002 - the protocol's signature
        return Receipt(seconds=self.seconds)


@dataclass
class Writing:
    """A sink whose writing takes until a test says so."""

    waiting: list[Future[None]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)

    def offer(self, decoded: DecodedTraces, *, transport: str) -> Receipt:  # noqa: ARG002 - the protocol's signature
        self.waiting.append(Future())
        return Receipt(done=self.waiting[-1])

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> Receipt:  # noqa: ARG002 - the protocol's signature
        self.waiting.append(Future())
        return Receipt(done=self.waiting[-1])

    def refused(self, transport: str, reason: str) -> None:
        self.refusals.append((transport, reason))


@pytest.fixture
def sink() -> Writing:
    return Writing()


@pytest.fixture(params=["grpc", "http"])
def receiver(request: pytest.FixtureRequest, sink: Writing) -> Receiver:
    intake = OtlpIntake(sink=sink, projection=lambda: KEEP, logs=sink)
    if request.param == "grpc":
        return GrpcReceiver(intake=intake, refused=sink.refused, port=0)
    return HttpReceiver(intake=intake, refused=sink.refused, port=0)


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
    monkeypatch.setattr(receipt, "RECEIPT_SECONDS", 0.05)
    with running(receiver):
        assert outcome(send(receiver)) in {"UNAVAILABLE", 503}
    assert len(sink.refusals) == 1
    waiting = sink.waiting[0]
    assert waiting.cancelled() or waiting.set_running_or_notify_cancel()  # the worker finds one or the other, and goes on


@pytest.mark.parametrize("kind", [GrpcReceiver, HttpReceiver])
def test_answer_of_who_sends_too_fast_comes_after_a_pause_and_holds_up_no_other(kind: type[GrpcReceiver | HttpReceiver]) -> None:
    receiver = kind(intake=OtlpIntake(sink=Behind(), projection=lambda: KEEP), refused=Writing().refused, port=0)
    answers: list[Called | Reply] = []
    with running(receiver):
        began = time.monotonic()
        senders = [threading.Thread(target=lambda: answers.append(send(receiver))) for _ in range(SENDERS)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        taken = time.monotonic() - began
    assert {outcome(answer) for answer in answers} <= {"OK", 200}
    assert Behind.seconds <= taken < SENDERS * Behind.seconds
