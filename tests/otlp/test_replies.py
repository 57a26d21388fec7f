from __future__ import annotations

import json

import pytest
from google.protobuf.json_format import Parse
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_toolcall_eval.model.errors import DecodeError, OverloadedError, TooLargeError
from otel_toolcall_eval.otlp.replies import GRPC_CODES, Encoding, Signal, error_reply, export_reply, retry_info, status_reply

RESPONSES = [
    pytest.param(Signal.TRACES, ExportTraceServiceResponse, "rejected_spans", id="traces"),
    pytest.param(Signal.METRICS, ExportMetricsServiceResponse, "rejected_data_points", id="metrics"),
    pytest.param(Signal.LOGS, ExportLogsServiceResponse, "rejected_log_records", id="logs"),
]
type_of_response = type[ExportTraceServiceResponse] | type[ExportMetricsServiceResponse] | type[ExportLogsServiceResponse]


@pytest.mark.parametrize(("signal", "response", "_rejected"), RESPONSES)
def test_full_success_leaves_partial_success_unset(signal: Signal, response: type_of_response, _rejected: str) -> None:
    assert not response.FromString(export_reply(Encoding.PROTOBUF, signal)).HasField("partial_success")
    assert export_reply(Encoding.JSON, signal) == b"{}"


@pytest.mark.parametrize(("signal", "response", "rejected"), RESPONSES)
@given(count=st.integers(0, 2**63 - 1), reasons=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200))
def test_partial_success_tells_how_many_and_why_in_both_encodings(
    signal: Signal, response: type_of_response, rejected: str, count: int, reasons: str
) -> None:
    from_protobuf = response.FromString(export_reply(Encoding.PROTOBUF, signal, rejected=count, reasons=reasons))
    from_json = Parse(export_reply(Encoding.JSON, signal, rejected=count, reasons=reasons), response())
    for reply in (from_protobuf, from_json):
        assert getattr(reply.partial_success, rejected) == count
        assert reply.partial_success.error_message == reasons


def test_a_64_bit_integer_is_text_in_json() -> None:
    assert json.loads(export_reply(Encoding.JSON, rejected=2, reasons="why")) == {
        "partialSuccess": {"rejectedSpans": "2", "errorMessage": "why"}
    }


@pytest.mark.parametrize(
    ("error", "code", "retry_after"),
    [
        pytest.param(DecodeError(where="w", what="é", fix="f"), 3, None, id="undecodable"),
        pytest.param(TooLargeError(where="w", what="x", fix="f"), 8, None, id="too large"),
        pytest.param(OverloadedError(where="w", what="x", fix="f"), 14, 1, id="overloaded"),
    ],
)
def test_an_error_is_a_status_in_both_encodings_with_a_retry_hint_where_resending_helps(
    error: DecodeError, code: int, retry_after: int | None
) -> None:
    from_protobuf = Status.FromString(error_reply(Encoding.PROTOBUF, error))
    from_json = Parse(error_reply(Encoding.JSON, error), Status())
    assert from_protobuf == from_json
    assert (from_protobuf.code, from_protobuf.message) == (code, str(error))
    hints = list(from_protobuf.details)
    assert len(hints) == (retry_after is not None)
    for hint in hints:
        info = RetryInfo()
        assert hint.Unpack(info)
        assert info.retry_delay.seconds == retry_after


def test_the_retry_trailer_is_a_retry_info() -> None:
    assert RetryInfo.FromString(retry_info(300)).retry_delay.seconds == 300


def test_the_codes_have_the_numbers_of_grpc() -> None:
    import grpc  # noqa: PLC0415 - only here, and slow to import

    assert {name: grpc.StatusCode[name].value[0] for name in GRPC_CODES} == GRPC_CODES


def test_half_a_surrogate_pair_in_a_message_can_be_sent() -> None:
    assert Status.FromString(status_reply(Encoding.PROTOBUF, code="INTERNAL", message="a\ud800b")).message == "a?b"
