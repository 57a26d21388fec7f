from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.exporters.forward.downstream import Delivered, Refused, RetryLater
from otel_toolcall_eval.exporters.forward.forwarder import OtlpEventSender
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.exporters.forward.downstream import Outcome, QueuedRequest

FAILURES, DROPPED, QUEUE = (("toolcall_eval.export." + word, (("signal", "logs"),)) for word in ("failures", "dropped", "queue"))


class Endpoint:
    """Answers as it is told, at once or when it is let."""

    takes_json = True
    shown = "http://endpoint"
    warnings = ()

    def __init__(self, *answers: Outcome) -> None:
        self._answers = list(answers)
        self.open = threading.Event()
        self.open.set()
        self.taken: list[QueuedRequest] = []

    def refresh(self) -> None: ...

    def start(self) -> None: ...

    def send(self, parcel: QueuedRequest) -> Outcome:
        self.open.wait(PATIENCE_SECONDS)
        self.taken.append(parcel)
        return self._answers.pop(0) if self._answers else Delivered()

    def close(self) -> None:
        self.open.set()


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before  # those of another test may have ended meanwhile


def test_what_is_taken_is_delivered_once_flushed() -> None:
    endpoint = Endpoint()
    outbox = OtlpEventSender(endpoint, Signal.LOGS)
    outbox.send(b"body", items=3)
    assert outbox.flush(PATIENCE_SECONDS)
    assert [(parcel.body, parcel.signal, parcel.encoding) for parcel in endpoint.taken] == [(b"body", Signal.LOGS, Encoding.PROTOBUF)]
    assert outbox.counts() == {FAILURES: 0, DROPPED: 0, QUEUE: 0}
    assert outbox.shutdown(PATIENCE_SECONDS)


def test_failed_try_is_counted_and_tried_again() -> None:
    endpoint = Endpoint(RetryLater(code="UNAVAILABLE"))
    outbox = OtlpEventSender(endpoint, Signal.LOGS)
    outbox.send(b"body", items=3)
    assert outbox.flush(PATIENCE_SECONDS)
    assert len(endpoint.taken) == 2
    assert outbox.counts() == {FAILURES: 1, DROPPED: 0, QUEUE: 0}
    assert outbox.shutdown(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("answer", "failures", "dropped"),
    [pytest.param(Refused(code="401"), 1, 3, id="refused"), pytest.param(Delivered(rejected=2), 0, 2, id="partly-rejected")],
)
def test_what_the_endpoint_will_not_take_is_lost_and_counted(answer: Outcome, failures: int, dropped: int) -> None:
    outbox = OtlpEventSender(Endpoint(answer), Signal.LOGS)
    outbox.send(b"body", items=3)
    wait_for(lambda: outbox.dropped, "the answer")  # it may be lost before anybody flushes
    assert not outbox.flush(PATIENCE_SECONDS)
    assert outbox.counts() == {FAILURES: failures, DROPPED: dropped, QUEUE: 0}
    assert outbox.flush(PATIENCE_SECONDS)  # that was then
    assert outbox.shutdown(PATIENCE_SECONDS)


def test_beyond_its_bound_the_newest_is_dropped_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint()
    endpoint.open.clear()
    outbox = OtlpEventSender(endpoint, Signal.LOGS, queue_bytes=2_000)
    for _ in range(10):
        outbox.send(bytes(300), items=5)
    assert outbox.dropped == 40  # two wait, at 800 bytes each with what surrounds them
    assert outbox.counts()[QUEUE] == 1_600
    assert not outbox.flush(0.01)
    endpoint.open.set()
    assert [outbox.flush(PATIENCE_SECONDS), outbox.flush(PATIENCE_SECONDS)] == [False, True]  # what was lost is told once
    assert [record.message for record in caplog.records] == [
        "too many events wait for the OTLP endpoint; the newest are dropped until it keeps up"
    ]
    assert outbox.shutdown(PATIENCE_SECONDS)


def test_what_could_not_be_sent_before_the_end_is_counted_and_told(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = Endpoint(*[RetryLater(code="UNAVAILABLE")] * 100)
    outbox = OtlpEventSender(endpoint, Signal.LOGS)
    outbox.send(b"body", items=3)
    assert not outbox.shutdown(0.05)
    assert outbox.dropped == 3
    outbox.send(b"late", items=1)
    assert outbox.dropped == 4
    assert "events could not be exported before the end; check the OTLP endpoint, or raise completion.shutdown_timeout" in caplog.text
