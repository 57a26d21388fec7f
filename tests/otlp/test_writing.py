from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_toolcall_eval.otlp.varint import LENGTH_DELIMITED, field_of
from otel_toolcall_eval.otlp.writing import (
    EVENT_ATTRIBUTE,
    LOG_ATTRIBUTE,
    LOG_RECORD,
    SPAN_ATTRIBUTE,
    SPAN_EVENT,
    AttributeKey,
    Envelope,
    Framing,
    any_value,
    attributes,
    event_moment,
    event_title,
    log_moment,
    log_title,
    span,
    span_title,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    from otel_toolcall_eval.otlp.writing import Written

    Plain = str | bool | int | float | list["Plain"] | None

TRACE_ID, SPAN_ID, OWN_ID = bytes(range(1, 17)), bytes(range(1, 9)), bytes(range(11, 19))
NOW_UNIX_NS = 1_790_000_000_123_456_789
GIVEN: Mapping[str, Written] = {"text": "täxt", "yes": True, "number": -7, "share": 0.25, "list": ("a", "b")}
READ = {"text": "täxt", "yes": True, "number": -7, "share": 0.25, "list": ["a", "b"]}

VALUES = st.one_of(
    st.text(st.characters(codec="utf-8")),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.lists(st.text(st.characters(codec="utf-8"))),
)


def _plain(value: AnyValue) -> Plain:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(member) for member in value.array_value.values]
    found: Plain = None if kind is None else getattr(value, kind)
    return found


def _read(pairs: Iterable[KeyValue]) -> dict[str, Plain]:
    return {pair.key: _plain(pair.value) for pair in pairs}


@given(VALUES)
def test_protobuf_reads_what_is_written(value: str | bool | float | list[str]) -> None:  # noqa: FBT001 - a value like the others
    assert _plain(AnyValue.FromString(any_value(value))) == value


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(0, 300))
def test_attribute_is_read_whatever_its_length(key: str, length: int) -> None:
    field = LOG_ATTRIBUTE + AttributeKey(key).with_value("x" * length)
    assert _read(LogRecord.FromString(field).attributes) == {key: "x" * length}


@pytest.mark.parametrize("text", ["", "x", "é" * 64, "x" * 118, "x" * 127, "x" * 128, "x" * 2_000, "x" * 2_001, "x" * 20_000, "a\ud800b"])
def test_text_is_written_as_any_value_is(text: str) -> None:
    key = AttributeKey("key")
    assert key.with_text(text) == key.with_text(text) == key.with_value(text)


@pytest.mark.parametrize("value", [True, 0, -1, NOW_UNIX_NS, 2**63 - 1, 0.25, "", "x" * 9, "x" * 10, ("a", "b")])
def test_tag_stands_before_an_attribute(value: Written) -> None:
    plain, tagged = AttributeKey("key"), AttributeKey("key", tag=SPAN_ATTRIBUTE)
    for _ in range(2):
        assert tagged.with_value(value) == SPAN_ATTRIBUTE + plain.with_value(value) == attributes(SPAN_ATTRIBUTE, {"key": value})
    assert tagged.with_text("text") == SPAN_ATTRIBUTE + plain.with_text("text")


@pytest.mark.parametrize("size", [0, 1, 127, 128, 1_999, 2_000, 2_001, 16_383, 16_384])
@pytest.mark.parametrize("tag", [1 << 3 | LENGTH_DELIMITED, 16 << 3 | LENGTH_DELIMITED])
def test_field_is_framed_alike_whatever_its_length_and_its_pieces(tag: int, size: int) -> None:
    framing, content = Framing(tag), bytes(number % 251 for number in range(size))
    for first, second, third in ((0, 0, 0), (size, size, size), (size // 4, size // 3, size // 2)):
        pieces = [b"before"]
        length = framing.put(pieces, content[:first], content[first:second], content[second:third], content[third:])
        assert b"".join(pieces[1:]) == framing.field(content) == field_of(tag, content)
        assert length == len(framing.field(content))


def test_lone_surrogate_costs_its_character_only() -> None:
    assert _plain(AnyValue.FromString(any_value("a\ud800b"))) == "a?b"


@pytest.mark.parametrize(
    ("tag", "message"),
    [
        pytest.param(LOG_ATTRIBUTE, LogRecord, id="log"),
        pytest.param(SPAN_ATTRIBUTE, Span, id="span"),
        pytest.param(EVENT_ATTRIBUTE, Span.Event, id="event"),
    ],
)
def test_attributes_stand_where_their_tag_says(tag: bytes, message: type[LogRecord | Span | Span.Event]) -> None:
    assert _read(message.FromString(attributes(tag, GIVEN)).attributes) == READ


def _logs(*records: bytes) -> ExportLogsServiceRequest:
    envelope = Envelope(resource={"service.name": "s", "service.instance": 3}, scope_name="scope")
    return ExportLogsServiceRequest.FromString(envelope.request(records))


@given(
    st.lists(st.sampled_from([0, 1, 60, 127, 128, 16_000, 16_384]), max_size=5),
    st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers(), max_size=3),
)
def test_a_request_is_what_stands_in_it_field_by_field(sizes: list[int], resource: dict[str, str | int]) -> None:
    items = [bytes([number]) * size for number, size in enumerate(sizes)]
    first, second = (number << 3 | LENGTH_DELIMITED for number in (1, 2))
    scoped = field_of(first, field_of(first, b"scope")) + b"".join(items)
    resourced = field_of(first, attributes(bytes([first]), resource)) + field_of(second, scoped)
    assert Envelope(resource=resource, scope_name="scope").request(items) == field_of(first, resourced)


@pytest.mark.parametrize("with_span", [True, False])
def test_log_record_is_an_event_in_the_context_of_its_span(*, with_span: bool) -> None:
    trace_id, span_id = (TRACE_ID, SPAN_ID) if with_span else (b"", b"")
    moment, other = (log_moment(time_unix_ns=time_unix_ns, trace_id=trace_id, span_id=span_id) for time_unix_ns in (NOW_UNIX_NS, 1))
    request = _logs(
        LOG_RECORD.field(moment + log_title("e") + attributes(LOG_ATTRIBUTE, GIVEN)), LOG_RECORD.field(log_title("second") + other)
    )
    (resourced,) = request.resource_logs
    (scoped,) = resourced.scope_logs
    assert (_read(resourced.resource.attributes), scoped.scope.name) == ({"service.name": "s", "service.instance": 3}, "scope")
    first, second = scoped.log_records
    assert first == LogRecord(
        time_unix_nano=NOW_UNIX_NS,
        observed_time_unix_nano=NOW_UNIX_NS,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        attributes=first.attributes,
        flags=1 if with_span else 0,
        trace_id=trace_id,
        span_id=span_id,
        event_name="e",
    )
    assert (_read(first.attributes), second.event_name) == (READ, "second")


def test_span_has_its_events_and_no_duration() -> None:
    event = SPAN_EVENT.field(event_moment(NOW_UNIX_NS) + event_title("e") + attributes(EVENT_ATTRIBUTE, GIVEN))
    written = span(
        trace_id=TRACE_ID,
        span_id=OWN_ID,
        parent_span_id=SPAN_ID,
        time_unix_ns=NOW_UNIX_NS,
        content=span_title("n") + attributes(SPAN_ATTRIBUTE, GIVEN),
        events=[event, event],
    )
    request = ExportTraceServiceRequest.FromString(Envelope(resource={}, scope_name="scope").request([written]))
    (found,) = request.resource_spans[0].scope_spans[0].spans
    assert found == Span(
        trace_id=TRACE_ID,
        span_id=OWN_ID,
        parent_span_id=SPAN_ID,
        name="n",
        kind=Span.SpanKind.SPAN_KIND_INTERNAL,
        start_time_unix_nano=NOW_UNIX_NS,
        end_time_unix_nano=NOW_UNIX_NS,
        attributes=found.attributes,
        events=found.events,
        flags=0x301,
    )
    assert _read(found.attributes) == READ
    assert [(each.name, each.time_unix_nano, _read(each.attributes)) for each in found.events] == [("e", NOW_UNIX_NS, READ)] * 2
