"""Trace requests for tests: drawn with hypothesis, written in both encodings, and decoded the slow and obvious way."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.proto.trace.v1.trace_pb2 import Status as ProtoStatus

from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span, SpanEvent, StatusCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_toolcall_eval.model.trace import Value
    from otel_toolcall_eval.otlp.decoded import DecodedTraces

JsonText: TypeAlias = "dict[str, object]"

START_NS = 1_764_000_000_000_000_000
KEEP = Projection(
    keys=frozenset({"tool.name", "input.value", "gen_ai.tool.call.arguments", "id", "é"}),
    prefixes=("toolcall_eval.", "x"),
    event_names=frozenset({"exception", "gen_ai.choice"}),
)
KEYS = (
    "tool.name",
    "input.value",
    "input.other",
    "gen_ai.tool.call.arguments",
    "id",
    "no",
    "é",
    "toolcall_eval.criteria",
    "x",
    "",
    "k" * 200,
    "x" * 200,
)


def numbered(number: int, *, trace: int = 1, **fields: object) -> ProtoSpan:
    """Return a valid span; ``number`` becomes its ID."""
    span = ProtoSpan(
        trace_id=trace.to_bytes(16),
        span_id=number.to_bytes(8),
        name=f"span {number}",
        start_time_unix_nano=START_NS + number,
        end_time_unix_nano=START_NS + number + 5,
    )
    for name, value in fields.items():
        setattr(span, name, value)
    return span


def request_of(*spans: ProtoSpan, attributes: Iterable[KeyValue] = ()) -> ExportTraceServiceRequest:
    """Return a request of one block."""
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    block.resource.attributes.extend(attributes)
    block.scope_spans.add().spans.extend(spans)
    return request


def attribute(key: str, value: AnyValue | str) -> KeyValue:
    """Return an attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=value) if isinstance(value, str) else value)


def nested(depth: int, *, kvlist: bool = False) -> AnyValue:
    """Return a value inside ``depth`` arrays, or key-value lists."""
    value = AnyValue(int_value=7)
    for _ in range(depth):
        outer = AnyValue()
        if kvlist:
            outer.kvlist_value.values.add(key="k").value.CopyFrom(value)
        else:
            outer.array_value.values.append(value)
        value = outer
    return value


def nested_bytes(depth: int) -> bytes:
    """Return the encoding of ``nested(depth)``, at depths that protobuf's own classes refuse."""
    value = b"\x18\x07"
    for _ in range(depth):
        array = b"\x0a" + varint(len(value)) + value
        value = b"\x2a" + varint(len(array)) + array
    return value


def varint(number: int) -> bytes:
    """Return a number as protobuf writes it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field as protobuf writes it."""
    return varint(number << 3 | 2) + varint(len(content)) + content


# --- JSON -------------------------------------------------------------------------------------------------------------------------------


def to_json(request: ExportTraceServiceRequest) -> bytes:
    """Write a request in OTLP/JSON, defaults left out."""
    return json.dumps({"resourceSpans": [_block(block) for block in request.resource_spans]}).encode()


def _block(block: object) -> JsonText:
    return {
        "resource": {"attributes": _attributes(block.resource.attributes)},  # type: ignore[attr-defined]
        "scopeSpans": [
            {"scope": {"name": group.scope.name, "version": group.scope.version}, "spans": [_span(span) for span in group.spans]}
            for group in block.scope_spans  # type: ignore[attr-defined]
        ],
    }


def _span(span: ProtoSpan) -> JsonText:
    written: JsonText = {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _attributes(span.attributes),
        "droppedAttributesCount": span.dropped_attributes_count,
        "events": [
            {"name": event.name, "timeUnixNano": str(event.time_unix_nano), "attributes": _attributes(event.attributes)}
            for event in span.events
        ],
        "status": {"code": span.status.code, "message": span.status.message},
        "flags": span.flags,
    }
    return {key: value for key, value in written.items() if value}


def _attributes(attributes: Sequence[KeyValue]) -> list[JsonText]:
    return [{"key": each.key, "value": _any_value(each.value)} for each in attributes]


def _any_value(value: AnyValue) -> JsonText:  # noqa: PLR0911 - one for each type
    match value.WhichOneof("value"):
        case "string_value":
            return {"stringValue": value.string_value}
        case "bool_value":
            return {"boolValue": value.bool_value}
        case "int_value":
            return {"intValue": str(value.int_value)}
        case "double_value" if math.isinf(value.double_value):
            return {"doubleValue": "Infinity" if value.double_value > 0 else "-Infinity"}
        case "double_value":
            return {"doubleValue": value.double_value}
        case "bytes_value":
            return {"bytesValue": base64.b64encode(value.bytes_value).decode()}
        case "array_value":
            return {"arrayValue": {"values": [_any_value(member) for member in value.array_value.values]}}
        case "kvlist_value":
            return {"kvlistValue": {"values": _attributes(value.kvlist_value.values)}}
    return {}


# --- the slow and obvious way -----------------------------------------------------------------------------------------------------------


def expected_spans(request: ExportTraceServiceRequest, projection: Projection) -> tuple[Span, ...]:
    """Decode with the generated classes; without sizes."""
    spans: list[Span] = []
    for block in request.resource_spans:
        resource = Resource(attributes=_plain(block.resource.attributes))
        for group in block.scope_spans:
            scope = Scope(name=group.scope.name, version=group.scope.version)
            spans.extend(_expected(span, projection, resource, scope) for span in group.spans if _usable(span))
    return tuple(spans)


def _usable(span: ProtoSpan) -> bool:
    return (
        len(span.trace_id) == 16
        and any(span.trace_id)
        and len(span.span_id) == 8
        and any(span.span_id)
        and span.start_time_unix_nano > 0
        and span.end_time_unix_nano > 0
    )


def _expected(span: ProtoSpan, projection: Projection, resource: Resource, scope: Scope) -> Span:
    parent = span.parent_span_id
    return Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=parent if len(parent) == 8 and any(parent) else None,
        name=span.name,
        start_unix_ns=span.start_time_unix_nano,
        end_unix_ns=span.end_time_unix_nano,
        flags=span.flags,
        kind=span.kind,
        status=StatusCode(span.status.code) if span.status.code in {0, 1, 2} else StatusCode.UNSET,
        status_message=span.status.message,
        attributes={key: value for key, value in _plain(span.attributes).items() if projection.keeps(key)},
        events=tuple(
            SpanEvent(name=event.name, time_unix_ns=event.time_unix_nano, attributes=_plain(event.attributes))
            for event in span.events
            if event.name in projection.event_names
        ),
        dropped_attributes=span.dropped_attributes_count,
        resource=resource,
        scope=scope,
    )


def _plain(attributes: Iterable[KeyValue]) -> dict[str, Value]:
    return {each.key: plain_value(each.value) for each in attributes}


def plain_value(value: AnyValue) -> Value:
    """Return a value as the model has it."""
    kind = value.WhichOneof("value")
    if kind is None or kind == "string_value_strindex":  # an index into a table of texts that profiles alone have
        return None
    if kind == "array_value":
        return tuple(plain_value(member) for member in value.array_value.values)
    if kind == "kvlist_value":
        return _plain(value.kvlist_value.values)
    found: Value = getattr(value, kind)
    return found


def without_sizes(decoded: DecodedTraces) -> tuple[Span, ...]:
    """Return the spans, their sizes left out."""
    return tuple(replace(span, size_bytes=0) for span in decoded.spans)


# --- drawn ------------------------------------------------------------------------------------------------------------------------------

_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_scalars = st.one_of(
    st.builds(AnyValue, string_value=_texts),
    st.builds(AnyValue, string_value=st.text("ab", min_size=200, max_size=300)),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(2**63), 2**63 - 1)),
    st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
    st.builds(AnyValue, bytes_value=st.binary(max_size=6)),
    st.just(AnyValue()),
)


def _array(members: list[AnyValue]) -> AnyValue:
    value = AnyValue()
    value.array_value.SetInParent()
    value.array_value.values.extend(members)
    return value


def _kvlist(members: list[KeyValue]) -> AnyValue:
    value = AnyValue()
    value.kvlist_value.SetInParent()
    value.kvlist_value.values.extend(members)
    return value


any_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(_array), st.lists(st.builds(KeyValue, key=_texts, value=inner), max_size=3).map(_kvlist)
    ),
    max_leaves=6,
)
_attributes_drawn = st.lists(st.builds(KeyValue, key=st.sampled_from(KEYS), value=any_values), max_size=6)
_ids = st.one_of(st.binary(min_size=16, max_size=16), st.just(bytes(16)), st.binary(max_size=17))
_span_ids = st.one_of(st.binary(min_size=8, max_size=8), st.just(bytes(8)), st.binary(max_size=9))
_times = st.integers(0, 2**64 - 1)
_events = st.builds(
    ProtoSpan.Event, name=st.sampled_from(["exception", "gen_ai.choice", "other"]), time_unix_nano=_times, attributes=_attributes_drawn
)
_statuses = st.builds(ProtoStatus, code=st.sampled_from([0, 1, 2, 5]), message=_texts)
_spans = st.builds(
    ProtoSpan,
    trace_id=_ids,
    span_id=_span_ids,
    parent_span_id=_span_ids,
    name=_texts,
    kind=st.integers(0, 9),
    start_time_unix_nano=_times,
    end_time_unix_nano=_times,
    attributes=_attributes_drawn,
    dropped_attributes_count=st.integers(0, 2**31),
    events=st.lists(_events, max_size=2),
    status=st.none() | _statuses,
    flags=st.integers(0, 2**32 - 1),
)


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    """Draw requests with valid and invalid spans, and attributes that are kept and not."""
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        block = request.resource_spans.add()
        block.resource.attributes.extend(draw(_attributes_drawn))
        for _ in range(draw(st.integers(0, 2))):
            group = block.scope_spans.add()
            group.scope.name, group.scope.version = draw(_texts), draw(_texts)
            group.spans.extend(draw(st.lists(_spans, max_size=3)))
    return request


UNKNOWN = varint(1000 << 3 | 2) + b"\x03new"
"""A field that nobody knows."""


def strange(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """Put a field that nobody knows into everything."""
    request.MergeFromString(UNKNOWN)
    for block in request.resource_spans:
        block.MergeFromString(UNKNOWN)
        block.resource.MergeFromString(UNKNOWN)
        for group in block.scope_spans:
            group.MergeFromString(UNKNOWN)
            for span in group.spans:
                span.MergeFromString(UNKNOWN)
    return request
