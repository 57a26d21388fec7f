from __future__ import annotations

import traceback

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.model.trace import Projection, StatusCode
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from tests.otlp.otlp_requests import KEEP, attribute, field, nested, nested_bytes, numbered, request_of


def with_raw_span_field(number: int, content: bytes) -> bytes:
    """A valid request whose span has one more field, which the generated classes could not write."""
    span = numbered(1).SerializeToString() + field(number, content)
    return field(1, field(2, field(2, span)))


def test_nothing_is_a_request_without_spans() -> None:
    decoded = decode_traces(b"", KEEP)
    assert (decoded.spans, decoded.received, decoded.rejected, decoded.reasons) == ((), 0, 0, "")


def test_unusable_spans_are_rejected_with_their_number_and_the_others_are_kept() -> None:
    request = request_of(
        numbered(1),
        numbered(2, trace_id=b"short"),
        numbered(3, trace_id=bytes(16)),
        numbered(4, span_id=bytes(8)),
        numbered(5, start_time_unix_nano=0),
        numbered(6, end_time_unix_nano=0),
        numbered(7),
    )
    decoded = decode_traces(request.SerializeToString(), KEEP)
    assert [span.name for span in decoded.spans] == ["span 1", "span 7"]
    assert (decoded.received, decoded.rejected) == (7, 5)
    assert decoded.reasons == (
        "2 spans without a valid trace_id, 1 span without a valid span_id, 1 span without a start time, 1 span without an end time"
    )


def test_logs_at_the_traces_path_are_rejected_and_counted() -> None:
    logs = ExportLogsServiceRequest()
    records = logs.resource_logs.add().scope_logs.add().log_records
    for _ in range(3):
        records.add(time_unix_nano=5, trace_id=b"t" * 16, span_id=b"s" * 8).body.string_value = "text"
    decoded = decode_traces(logs.SerializeToString(), KEEP)
    assert (decoded.received, decoded.rejected, decoded.reasons) == (3, 3, "3 spans without a valid trace_id")


def test_metrics_at_the_traces_path_are_rejected_and_counted() -> None:
    metrics = ExportMetricsServiceRequest()
    metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m", description="d", unit="1").gauge.data_points.add(as_int=1)
    decoded = decode_traces(metrics.SerializeToString(), KEEP)
    assert (decoded.received, decoded.rejected) == (1, 1)


def test_traces_data_is_read_like_a_request() -> None:
    request = request_of(numbered(1))
    assert decode_traces(TracesData(resource_spans=request.resource_spans).SerializeToString(), KEEP).received == 1


@pytest.mark.parametrize(
    ("code", "status"),
    [
        pytest.param(0, StatusCode.UNSET, id="unset"),
        pytest.param(1, StatusCode.OK, id="ok"),
        pytest.param(2, StatusCode.ERROR, id="error"),
        pytest.param(3, StatusCode.UNSET, id="a code of the future"),
    ],
)
@pytest.mark.parametrize("message", [pytest.param("", id="no text"), pytest.param("zu groß", id="text")])
def test_status_is_read_with_and_without_text(code: int, status: StatusCode, message: str) -> None:
    span = numbered(1)
    span.status.code, span.status.message = code, message  # type: ignore[assignment] # the last one is no member of the enum
    (decoded,) = decode_traces(request_of(span).SerializeToString(), KEEP).spans
    assert (decoded.status, decoded.status_message) == (status, message)


def test_text_that_is_not_utf_8_costs_no_span() -> None:
    body = with_raw_span_field(5, b"name \xff") + with_raw_span_field(9, field(1, b"x\xff") + field(2, field(1, b"value \xff")))
    first, second = decode_traces(body, KEEP).spans
    assert first.name == "name \ufffd"
    assert second.attributes == {"x\ufffd": "value \ufffd"}


def test_an_attribute_nested_too_deep_costs_itself_and_counts_as_dropped() -> None:
    deep = nested_bytes(101)
    body = with_raw_span_field(9, field(1, b"input.value") + field(2, deep))
    (span,) = decode_traces(body, KEEP).spans
    assert (span.attributes, span.dropped_attributes) == ({}, 1)
    (span,) = decode_traces(body, Projection()).spans
    assert span.dropped_attributes == 0


def test_resources_and_scopes_are_shared_by_their_spans_and_by_equal_requests() -> None:
    request = request_of(numbered(1), numbered(2), attributes=[attribute("service.name", "agent"), attribute("anything", "kept")])
    first, second = decode_traces(request.SerializeToString(), Projection()).spans
    (again, _) = decode_traces(request.SerializeToString(), Projection()).spans
    assert first.resource is second.resource is again.resource
    assert first.scope is again.scope
    assert first.resource.attributes == {"service.name": "agent", "anything": "kept"}


def test_large_resources_and_scopes_are_read_and_not_remembered() -> None:
    request = request_of(numbered(1), attributes=[attribute("command", "x" * 5000)])
    request.resource_spans[0].scope_spans[0].scope.name = "s" * 5000
    first, second = (decode_traces(request.SerializeToString(), KEEP).spans[0] for _ in range(2))
    assert first == second
    assert first.resource is not second.resource
    assert first.scope.name == "s" * 5000


def test_events_are_kept_by_name_with_all_their_attributes() -> None:
    span = numbered(1)
    for name in ("exception", "other"):
        span.events.add(name=name, time_unix_nano=7).attributes.append(attribute("anything", nested(2)))
    body = request_of(span).SerializeToString()
    (event,) = decode_traces(body, KEEP).spans[0].events
    assert (event.name, event.time_unix_ns, event.attributes) == ("exception", 7, {"anything": ((7,),)})
    assert decode_traces(body, Projection()).spans[0].events == ()


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param(b"\xff", "request", id="garbage"),
        pytest.param(b"\x0a\x05\x01", "request", id="cut"),
        pytest.param(b"\x0b\x10\x01\x0d", "request", id="unbalanced group"),
        pytest.param(b'{"resourceSpans": []}', "request", id="JSON"),
        pytest.param(with_raw_span_field(9, field(1, b"tool.name") + b"\x12\x09"), "resource_spans[0], near span 0", id="broken attribute"),
        pytest.param(with_raw_span_field(9, b"\x0b\x0c" * 9), "resource_spans[0], near span 0", id="group in an attribute"),
        pytest.param(with_raw_span_field(11, b"\x0a\x09"), "resource_spans[0], near span 0", id="broken event"),
        pytest.param(with_raw_span_field(15, b"\x12\x09"), "resource_spans[0], near span 0", id="broken status"),
        pytest.param(field(1, field(1, b"\x0a\x09")), "resource_spans[0]", id="broken resource"),
        pytest.param(field(1, b"") + field(1, field(2, field(1, b"\x0a\x09"))), "resource_spans[1]", id="broken scope"),
    ],
)
def test_what_is_not_otlp_is_refused_with_place_and_cure(body: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_traces(body, KEEP)
    (problem,) = refused.value.problems
    assert problem.where.startswith(where)
    assert "ExportTraceServiceRequest" in problem.fix
    assert (refused.value.http_status, refused.value.grpc_code, refused.value.retry_after_seconds) == (400, "INVALID_ARGUMENT", None)


def what_the_sender_reads(body: bytes) -> str:
    try:
        return decode_traces(body, KEEP).reasons
    except DecodeError as error:
        return "".join(traceback.format_exception(error))


def test_no_error_shows_what_was_sent() -> None:
    span = numbered(1, name="secret-name")
    span.attributes.append(attribute("tool.name", AnyValue(string_value="secret-value")))
    body = request_of(span).SerializeToString()
    for position in range(len(body)):
        damaged = body[:position] + b"\xff" + body[position + 1 :]
        assert "secret" not in what_the_sender_reads(damaged)


def test_the_generated_classes_agree_that_a_request_is_one() -> None:
    assert ExportTraceServiceRequest.FromString(with_raw_span_field(5, b"name")).resource_spans
