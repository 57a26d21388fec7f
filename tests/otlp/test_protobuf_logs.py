"""Log records in both encodings: what is asked for is kept, the rest costs next to nothing, and nothing that is sent breaks anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoRecord

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.model.log_record import SCOPE_EVENT
from otel_toolcall_eval.model.trace import Projection, Scope
from otel_toolcall_eval.otlp import json_logs, protobuf_logs
from otel_toolcall_eval.otlp.limits import Limits
from tests.otlp.otlp_requests import attribute, nested_bytes, varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs

KEEP = Projection(event_names=frozenset({"e", "claude_code.tool_result", SCOPE_EVENT}))
TRACE, SPAN = bytes(15) + b"\1", bytes(7) + b"\2"


def log(**fields: object) -> ProtoRecord:
    return ProtoRecord(**{"time_unix_nano": 7, "trace_id": TRACE, "span_id": SPAN, **fields})  # type: ignore[arg-type]


def text(of: str) -> AnyValue:
    return AnyValue(string_value=of)


def request(*records: ProtoRecord, scope: str = "my.scope", resource: Sequence[KeyValue] = ()) -> ExportLogsServiceRequest:
    made = ExportLogsServiceRequest()
    block = made.resource_logs.add()
    block.resource.attributes.extend(resource)
    group = block.scope_logs.add()
    group.scope.name, group.scope.version = scope, "1"
    group.log_records.extend(records)
    return made


def to_json(of: ExportLogsServiceRequest) -> bytes:
    """Write OTLP/JSON: protobuf's own mapping but for the IDs."""
    document = MessageToDict(of, use_integers_for_enums=True)
    blocks = zip(of.resource_logs, document.get("resourceLogs", []), strict=True)
    for group, shown in ((g, s) for block, there in blocks for g, s in zip(block.scope_logs, there.get("scopeLogs", []), strict=True)):
        for record, fields in zip(group.log_records, shown.get("logRecords", []), strict=True):
            fields.update({name: value.hex() for name, value in (("traceId", record.trace_id), ("spanId", record.span_id)) if value})
    return json.dumps(document).encode()


def both(of: ExportLogsServiceRequest, keep: Projection = KEEP) -> DecodedLogs:
    decoded = protobuf_logs.decode_logs(of.SerializeToString(), keep)
    assert json_logs.decode_logs(to_json(of), keep) == decoded
    return decoded


@pytest.mark.parametrize(
    ("record", "name"),
    [
        pytest.param(log(event_name="e"), "e", id="field"),
        pytest.param(log(event_name="event src/x.rs:1", attributes=[attribute("event.name", "e")]), "e", id="attribute"),
        pytest.param(
            log(attributes=[attribute("event.name", "tool_result")], body=text("claude_code.tool_result")),
            "claude_code.tool_result",
            id="body",
        ),
        pytest.param(log(event_name="my.scope"), SCOPE_EVENT, id="named after its scope"),
        pytest.param(log(attributes=[attribute("event.name", "my.scope")]), SCOPE_EVENT, id="attribute named after its scope"),
        pytest.param(log(event_name="other", body=text("a message")), None, id="another"),
        pytest.param(log(body=text("e" * 201)), None, id="a body too long for a name"),
        pytest.param(log(attributes=[attribute("x", "event.name"), attribute("event.name", AnyValue(int_value=3))]), None, id="a number"),
    ],
)
def test_a_record_is_kept_under_the_name_that_is_asked_for(record: ProtoRecord, name: str | None) -> None:
    made = request(record)
    decoded = protobuf_logs.decode_logs(made.SerializeToString(), KEEP) if name is None else both(made)
    assert [kept.event_name for kept in decoded.records] == ([] if name is None else [name])
    assert decoded.received == 1
    assert (decoded.size_bytes > 0) is (name is not None)


def test_everything_of_a_kept_record_is_there() -> None:
    body = AnyValue()
    body.kvlist_value.values.append(attribute("content", "hi"))
    (record,) = both(
        request(log(event_name="e", body=body, attributes=[attribute("a", "b")]), resource=[attribute("service.name", "s")])
    ).records
    assert (record.trace_id, record.span_id, record.time_unix_ns) == (TRACE, SPAN, 7)
    assert (record.body, record.attributes) == ({"content": "hi"}, {"a": "b"})
    assert (record.resource.attributes, record.scope) == ({"service.name": "s"}, Scope(name="my.scope", version="1"))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        pytest.param({"trace_id": b"", "span_id": b""}, (None, None), id="none"),
        pytest.param({"trace_id": bytes(16), "span_id": SPAN}, (None, None), id="a trace ID of zeros"),
        pytest.param({"trace_id": b"short", "span_id": SPAN}, (None, None), id="a short trace ID"),
        pytest.param({"span_id": bytes(8)}, (TRACE, None), id="a span ID of zeros"),
        pytest.param({"span_id": b"1"}, (TRACE, None), id="a short span ID"),
    ],
)
def test_an_invalid_id_means_that_there_is_none(ids: dict[str, bytes], expected: tuple[bytes | None, bytes | None]) -> None:
    (record,) = both(request(log(event_name="e", **ids))).records
    assert (record.trace_id, record.span_id) == expected


def test_a_record_without_a_time_was_at_least_observed() -> None:
    (record,) = both(request(log(event_name="e", time_unix_nano=0, observed_time_unix_nano=9))).records
    assert record.time_unix_ns == 9


def test_a_body_nested_deeper_than_allowed_costs_itself() -> None:
    (record,) = protobuf_logs.decode_logs(_with_body(nested_bytes(101)), KEEP).records
    assert record.body is None
    document = json.loads(to_json(request(log(event_name="e"))))
    inner: dict[str, object] = {"intValue": "1"}
    for _ in range(101):
        inner = {"arrayValue": {"values": [inner]}}
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["body"] = inner
    (record,) = json_logs.decode_logs(json.dumps(document).encode(), KEEP).records
    assert record.body is None


def _with_body(body: bytes) -> bytes:
    inner = log(event_name="e").SerializeToString() + b"\x2a" + varint(len(body)) + body
    for tag in (b"\x12", b"\x12", b"\x0a"):
        inner = tag + varint(len(inner)) + inner
    return inner


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\xff\xff", id="not protobuf"),
        pytest.param(b"\x0a\x04\x12\x02\x0a\x05", id="cut"),
        pytest.param(_with_body(b"\x0a\x7f"), id="a damaged body"),
    ],
)
def test_what_is_not_a_logs_request_in_protobuf_is_a_decode_error(body: bytes) -> None:
    with pytest.raises(DecodeError, match="ExportLogsServiceRequest"):
        protobuf_logs.decode_logs(body, KEEP)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        pytest.param(b"[]", "request", id="a list"),
        pytest.param(b'{"resourceSpans": []}', "request", id="traces"),
        pytest.param(b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": 3}]}]}]}', "logRecords[0].body", id="body"),
        pytest.param(b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"attributes": [3]}]}]}]}', "attributes[0]", id="attribute"),
    ],
)
def test_what_is_not_a_logs_request_in_json_is_a_decode_error(body: bytes, where: str) -> None:
    with pytest.raises(DecodeError) as caught:
        json_logs.decode_logs(body, KEEP)
    assert caught.value.problems[0].where.endswith(where)


@pytest.mark.parametrize("empty", [pytest.param(b"{}", id="object"), pytest.param(b'{"resourceLogs": [{}]}', id="block")])
def test_an_empty_request_holds_nothing(empty: bytes) -> None:
    assert json_logs.decode_logs(empty, KEEP).received == protobuf_logs.decode_logs(b"", KEEP).received == 0


def test_a_small_body_that_becomes_large_is_refused_before_it_is_parsed() -> None:
    few = Limits(spans=10, attributes=20, members=5, elements=20)
    records = b"\x12\x00" * 60
    with pytest.raises(TooLargeError, match="more than 10 log records"):
        protobuf_logs.decode_logs(b"\x0a\x7a\x12\x78" + records, KEEP, limits=few)
    many = request(log(event_name="e", attributes=[KeyValue()] * 60)).SerializeToString()
    with pytest.raises(TooLargeError, match="more than 20 attributes"):
        protobuf_logs.decode_logs(many, KEEP, limits=few)


names = st.sampled_from(["e", "my.scope", "other", ""])


@settings(max_examples=50, deadline=None)
@given(drawn=st.lists(st.tuples(names, names, st.binary(max_size=17), st.text(max_size=5)), max_size=5), data=st.data())
def test_both_encodings_decode_equal_and_damage_is_a_decode_error(drawn: list[tuple[str, str, bytes, str]], data: st.DataObject) -> None:
    records = [
        log(event_name=name, trace_id=trace, body=text(body), attributes=[attribute("event.name", named)])
        for name, named, trace, body in drawn
    ]
    made = request(*records)
    assert both(made).received == len(records)
    body = bytearray(made.SerializeToString())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decoded = protobuf_logs.decode_logs(bytes(body), KEEP)
    except DecodeError:
        return
    assert len(decoded.records) <= decoded.received
