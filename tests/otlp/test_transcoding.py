from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import SeverityNumber
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.otlp.limits import Limits
from otel_toolcall_eval.otlp.replies import Signal
from otel_toolcall_eval.otlp.transcoding import MAX_MESSAGES, to_protobuf
from tests.otlp.otlp_requests import nested, numbered, request_of, requests, to_json

if TYPE_CHECKING:
    from google.protobuf.message import Message

ID, SPAN = bytes(range(16)), bytes(range(8, 16))


def everything_in_metrics() -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    group = request.resource_metrics.add(schema_url="u").scope_metrics.add()
    point = group.metrics.add(name="gauge", unit="1").gauge.data_points.add(as_int=-(2**63), time_unix_nano=2**64 - 1, flags=1)
    point.exemplars.add(as_double=float("inf"), span_id=SPAN, trace_id=ID).filtered_attributes.add(key="k").value.bytes_value = b"\xfb\xff"
    total = group.metrics.add(name="sum").sum
    total.aggregation_temporality, total.is_monotonic = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE, True
    total.data_points.add(as_double=float("-inf"))
    group.metrics.add().histogram.data_points.add(bucket_counts=[0, 2**64 - 1], explicit_bounds=[0.5, 1e300], sum=0.0, count=3, min=-1)
    group.metrics.add().exponential_histogram.data_points.add(scale=-5, zero_count=2).positive.bucket_counts.extend([1, 2])
    group.metrics.add().summary.data_points.add().quantile_values.add(quantile=0.5, value=2)
    return request


def everything_in_logs() -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add().scope_logs.add()
    group.scope.attributes.add(key="a").value.bool_value = False
    record = group.log_records.add(severity_number=SeverityNumber.SEVERITY_NUMBER_INFO, trace_id=ID, span_id=SPAN, flags=1, event_name="é")
    record.body.kvlist_value.values.add(key="k").value.array_value.values.add().int_value = 2**53 + 1
    return request


def everything_in_traces() -> ExportTraceServiceRequest:
    request = request_of(numbered(1, trace_id=ID, span_id=SPAN, parent_span_id=SPAN, trace_state="a=b", kind=3, flags=2**32 - 1))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.links.add(trace_id=ID, span_id=SPAN, dropped_attributes_count=1)
    span.status.code = Status.STATUS_CODE_ERROR
    return request


def written(message: Message, *, names: bool) -> bytes:
    """Write OTLP/JSON: as protobuf's own writer does, but IDs in hexadecimal."""
    document = json_format.MessageToDict(message, use_integers_for_enums=not names)

    def hexadecimal(value: object) -> object:
        if isinstance(value, dict):
            ids = {"traceId", "spanId", "parentSpanId"}
            return {k: base64.b64decode(v).hex().upper() if k in ids else hexadecimal(v) for k, v in value.items()}
        return [hexadecimal(member) for member in value] if isinstance(value, list) else value

    return json.dumps(hexadecimal(document)).encode()


@pytest.mark.parametrize("names", [True, False], ids=["enum names", "enum numbers"])
@pytest.mark.parametrize(
    ("signal", "message"),
    [
        pytest.param(Signal.TRACES, everything_in_traces(), id="traces"),
        pytest.param(Signal.METRICS, everything_in_metrics(), id="metrics"),
        pytest.param(Signal.LOGS, everything_in_logs(), id="logs"),
    ],
)
def test_every_field_goes_over(signal: Signal, message: Message, names: bool) -> None:  # noqa: FBT001 - parametrized
    assert type(message).FromString(to_protobuf(written(message, names=names), signal)) == message


@settings(max_examples=50)  # a request takes some milliseconds to draw
@given(requests())
def test_a_request_means_the_same_in_both_encodings(request: ExportTraceServiceRequest) -> None:
    again = ExportTraceServiceRequest.FromString(to_protobuf(to_json(request), Signal.TRACES))
    assert json.loads(to_json(again)) == json.loads(to_json(request))


def span_of(text: str) -> str:
    return '{"resourceSpans":[{"scopeSpans":[{"spans":[' + text + "]}]}]}"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        pytest.param('{"startTimeUnixNano": 17}', '{"startTimeUnixNano": "17"}', id="integer as a number"),
        pytest.param('{"kind": "SPAN_KIND_NEW", "new": {"a": []}, "name": null}', "{}", id="unknown, and null"),
        pytest.param('{"traceId": "xyz"}', "{}", id="no hexadecimal"),
        pytest.param(
            '{"attributes": [{"key": "a", "value": {"stringValue": "", "intValue": "1"}}]}',
            '{"attributes": [{"key": "a", "value": {"intValue": 1.0}}]}',
            id="the last of several values",
        ),
    ],
)
def test_spellings_of_the_same(text: str, same: str) -> None:
    ours, other = (to_protobuf(span_of(each).encode(), Signal.TRACES) for each in (text, same))
    assert ours == other


def test_empty_values_are_values() -> None:
    text = '{"attributes": [{"value": {"stringValue": ""}}, {"value": {"kvlistValue": {}}}, {"value": {}}]}'
    spans = ExportTraceServiceRequest.FromString(to_protobuf(span_of(text).encode(), Signal.TRACES)).resource_spans[0].scope_spans[0].spans
    assert [each.value.WhichOneof("value") for each in spans[0].attributes] == ["string_value", "kvlist_value", None]


@pytest.mark.parametrize(
    ("signal", "body", "where"),
    [
        pytest.param(Signal.TRACES, span_of('{"links": [{}, 5]}'), "resourceSpans[0].scopeSpans[0].spans[0].links[1]", id="object"),
        pytest.param(
            Signal.TRACES, span_of('{"status": {"code": true}}'), "resourceSpans[0].scopeSpans[0].spans[0].status.code", id="enum"
        ),
        pytest.param(Signal.TRACES, '{"resourceSpans": 7}', "resourceSpans", id="list"),
        pytest.param(Signal.TRACES, "[]", "request", id="no object"),
        pytest.param(
            Signal.METRICS,
            '{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"histogram":{"dataPoints":[{"bucketCounts":["1",-1]}]}}]}]}]}',
            "resourceMetrics[0].scopeMetrics[0].metrics[0].histogram.dataPoints[0].bucketCounts[1]",
            id="member of a list",
        ),
        pytest.param(Signal.LOGS, "{", "line 1 column 2", id="no JSON"),
    ],
)
def test_what_has_the_wrong_type_is_named(signal: Signal, body: str, where: str) -> None:
    with pytest.raises(DecodeError) as refused:
        to_protobuf(body.encode(), signal)
    assert refused.value.problems[0].where == where


def test_what_nests_too_deep_for_parsers_is_left_out() -> None:
    request = request_of(numbered(1))
    request.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="deep").value.CopyFrom(nested(45))
    again = to_protobuf(to_json(request), Signal.TRACES)
    assert json.loads(to_json(ExportTraceServiceRequest.FromString(again))) == json.loads(to_json(request))
    text = '{"arrayValue": {"values": [' * 200 + "{}" + "]}}" * 200
    again = to_protobuf(span_of('{"attributes": [{"key": "deep", "value": ' + text + "}]}").encode(), Signal.TRACES)
    value = ExportTraceServiceRequest.FromString(again).resource_spans[0].scope_spans[0].spans[0].attributes[0].value
    depth = 0
    while value.WhichOneof("value") and value.array_value.values:
        value, depth = value.array_value.values[0], depth + 1
    assert 40 < depth < MAX_MESSAGES / 2


def test_too_much_is_refused() -> None:
    with pytest.raises(TooLargeError):
        to_protobuf(b'{"resourceSpans": [' + b"{}," * 20 + b"{}]}", Signal.TRACES, limits=Limits(elements=10))
