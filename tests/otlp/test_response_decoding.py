from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_toolcall_eval.otlp.replies import Encoding, Signal, export_reply
from otel_toolcall_eval.otlp.response_decoding import rejected_in, retry_info_seconds, status_retry_seconds


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("signal", list(Signal))
@pytest.mark.parametrize(("rejected", "reasons"), [(0, ""), (3, "no"), (0, "a warning")])
def test_rejects_are_read_from_the_answers_that_we_give_ourselves(encoding: Encoding, signal: Signal, rejected: int, reasons: str) -> None:
    assert rejected_in(export_reply(encoding, signal, rejected=rejected, reasons=reasons), encoding, signal) == rejected


def test_rejects_are_read_from_protobufs_own_writer() -> None:
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2**40
    assert rejected_in(answer.SerializeToString(), Encoding.PROTOBUF, Signal.TRACES) == 2**40
    answer.partial_success.rejected_spans = -1
    assert rejected_in(answer.SerializeToString(), Encoding.PROTOBUF, Signal.TRACES) == 0


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"partialSuccess": 5}', b'{"partialSuccess": {"rejectedSpans": "x"}}', b"[" * 9999])
def test_what_can_not_be_read_rejects_nothing(answer: bytes) -> None:
    assert rejected_in(answer, Encoding.JSON, Signal.TRACES) == 0


@given(st.binary(max_size=40))
def test_any_answer_is_survived(answer: bytes) -> None:
    for encoding in Encoding:
        assert rejected_in(answer, encoding, Signal.LOGS) >= 0
    retry_info_seconds(answer)
    status_retry_seconds(answer)


def status(*details: object) -> bytes:
    found = Status(code=14)
    for detail in details:
        found.details.add().Pack(detail)
    encoded: bytes = found.SerializeToString()
    return encoded


def test_delays_are_read_from_a_retry_info_and_from_a_status_with_one() -> None:
    info = RetryInfo(retry_delay=Duration(seconds=2, nanos=500_000_000))
    assert retry_info_seconds(info.SerializeToString()) == 2.5
    assert status_retry_seconds(status(ErrorInfo(reason="x"), info)) == 2.5


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(status(), id="no details"),
        pytest.param(status(ErrorInfo()), id="another detail"),
        pytest.param(status(RetryInfo()), id="no delay"),
        pytest.param(status(RetryInfo(retry_delay=Duration(seconds=-1))), id="negative"),
        pytest.param(b"\xff\xff", id="garbage"),
        pytest.param(b"\x1a\x01", id="cut"),
    ],
)
def test_no_delay_is_read_where_none_is_asked_for(message: bytes) -> None:
    assert status_retry_seconds(message) is None


def test_a_broken_retry_info_asks_for_nothing() -> None:
    assert retry_info_seconds(b"\x0a\x05") is None
