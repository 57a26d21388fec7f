"""A request that several processes take in is answered as one that one takes in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.errors import DecodeError, OverloadedError, TooLargeError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.processes.shared_intake import SharedIntake
from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
from otel_toolcall_eval.sources.receipt import wait_for as wait_for_receipt
from otel_toolcall_eval.wire.replies import Encoding, Signal
from tests.fakes import PlainReader
from tests.patience import wait_for
from tests.processes.crews import crew_of
from tests.wire.otlp_requests import to_json
from tests.wire.test_shares import IDS, request_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.model.trace import Span
    from otel_toolcall_eval.sources.sink import Forward, Intake, Passage

MIXED = request_of([[b"", *IDS[:9], bytes(16)]], [[IDS[3]]])
LOGS = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": IDS[0].hex(), "eventName": "e"}, {}]}]}]}).encode()
ASKED = Projection(event_names=frozenset({"e"}))


class Forwarding:
    """Notes what becomes of requests."""

    def __init__(self) -> None:
        self.fates: list[str] = []
        self.asked: list[tuple[object, ...]] = []

    def expect(self, *fates: str) -> None:
        """Wait for these: a request is passed on a moment after it is answered."""
        wait_for(lambda: len(self.fates) >= len(fates), "what becomes of requests")
        assert tuple(self.fates) == fates

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal, spans: Iterable[Span] = ()) -> Passage:
        self.asked.append((body, encoding, signal, tuple(spans)))
        return self

    def commit(self, *, judged: bool) -> None:
        self.fates.append("judged" if judged else "shed")

    def cancel(self) -> None:
        self.fates.append("cancelled")


def answer(intake: Intake, body: bytes, encoding: Encoding = Encoding.PROTOBUF, signal: Signal = Signal.TRACES) -> bytes:
    reply, receipt = intake.take(body, encoding, signal, transport="http/json" if encoding is Encoding.JSON else "grpc")
    if receipt is None:
        return reply
    wait_for_receipt(receipt, "grpc")
    return reply if receipt.reply is None else receipt.reply()


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("body", ["", "mixed"])
def test_the_answer_is_that_of_one_process(encoding: Encoding, body: str) -> None:
    request = MIXED if body else request_of()
    given = to_json(request) if encoding is Encoding.JSON else request.SerializeToString()
    with crew_of(3) as (crew, played):
        alone = OtlpIntake(sink=played[0].worker, projection=lambda: PlainReader.projection)
        assert answer(SharedIntake(crew, forward=None, asked=ASKED), given, encoding) == answer(alone, given, encoding)


def test_what_is_no_request_is_refused_before_anything_is_sent_on() -> None:
    forward = Forwarding()
    with crew_of(2) as (crew, _):
        intake = SharedIntake(crew, forward=forward, asked=ASKED)
        for body, encoding in ((b"\x0a\x7f", Encoding.PROTOBUF), (b"{", Encoding.JSON)):
            with pytest.raises(DecodeError):
                intake.take(body, encoding, Signal.TRACES, transport="grpc")
        with pytest.raises(TooLargeError):
            intake.take(b"\x0a\x00" * 600_000, Encoding.PROTOBUF, Signal.TRACES, transport="grpc")
        assert forward.fates == []
        with pytest.raises(DecodeError, match="it is a logs request"):
            answer(intake, b'{"resourceLogs": []}', Encoding.JSON)
        forward.expect("cancelled")


ODD = {
    "an integer beyond 64 bits": {"intValue": "99999999999999999999"},
    "bytes that are no base64": {"bytesValue": "%"},
    "a number that is none": {"doubleValue": "high"},
    "half a surrogate pair": {"stringValue": "\ud800"},
}


@pytest.mark.parametrize("odd", list(ODD))
def test_json_that_no_protobuf_can_hold_is_taken_or_refused_as_by_one_process(odd: str) -> None:
    request = json.loads(to_json(MIXED))
    request["resourceSpans"][1]["scopeSpans"][0]["spans"][0]["attributes"] = [
        {"key": key, "value": ODD[odd]} for key in ("tool.name", "not.kept")
    ]
    given = json.dumps(request).encode()
    with crew_of(3) as (crew, played):
        alone = OtlpIntake(sink=played[0].worker, projection=lambda: PlainReader.projection)
        assert told(SharedIntake(crew, forward=None, asked=ASKED), given) == told(alone, given)


def told(intake: Intake, body: bytes) -> object:
    """Return the answer, or what is wrong without its place, which is counted in the share."""
    try:
        return answer(intake, body, Encoding.JSON)
    except DecodeError as error:
        return error.problems[0].what


def test_what_is_passed_on_is_told_what_became_of_it() -> None:
    forward, body = Forwarding(), MIXED.SerializeToString()
    with crew_of(2, queue_bytes=1) as (crew, _):  # whose threads do not run, so the second request finds no room
        intake = SharedIntake(crew, forward=forward, asked=ASKED)
        for _ in range(2):
            answer(intake, body)
        forward.expect("judged", "shed")
        assert answer(intake, LOGS, Encoding.JSON, Signal.LOGS) == b"{}"
        broken = body.replace(b"\x12\x08" + (2).to_bytes(8, "big"), b"\x12\x7f" + (2).to_bytes(8, "big"))
        with pytest.raises(DecodeError):
            answer(intake, broken)
        forward.expect("judged", "shed", "shed", "cancelled")


def test_what_there_is_no_room_for_here_is_noted_and_passed_on_or_refused() -> None:
    forward, body = Forwarding(), MIXED.SerializeToString()
    with crew_of(2, limit_bytes=0) as (crew, _):
        for link in crew.links:
            link._open_bytes = 1  # noqa: SLF001 - as if a request were never answered
        with pytest.raises(OverloadedError):
            answer(SharedIntake(crew, forward=None, asked=ASKED), body)
        passing = SharedIntake(crew, forward=forward, asked=ASKED)
        with pytest.raises(OverloadedError):
            answer(passing, body)  # there is no room for a note, either
        for link in crew.links:
            link._limit_bytes = 200  # noqa: SLF001 - a note of five traces fits into twice of it, their spans don't fit into it
        assert answer(passing, body) == b""
        for link in crew.links:
            link._limit_bytes = 27  # noqa: SLF001 - likewise of one trace and its record
        assert answer(passing, LOGS, Encoding.JSON, Signal.LOGS) == b"{}"
        forward.expect("cancelled", "shed", "shed")


def test_metrics_are_looked_at_only_if_they_are_passed_on() -> None:
    forward: Forward = Forwarding()
    with crew_of(1) as (crew, _):
        alone = SharedIntake(crew, forward=None, asked=ASKED)
        assert not alone.wants(Signal.METRICS)
        assert alone.wants(Signal.LOGS)
        assert answer(alone, b"anything", signal=Signal.METRICS) == b""
        passing = SharedIntake(crew, forward=forward, asked=ASKED)
        assert answer(passing, b"", signal=Signal.METRICS) == b""
        with pytest.raises(DecodeError):
            answer(passing, b"\x0a\x7f", signal=Signal.METRICS)
