"""Writes decoded spans and log records down again, in either encoding, without any code of the product and without protobuf's limits."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tests.otlp.otlp_requests import field, varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Attributes, Scope, Span, Value

_UINT64 = (1 << 64) - 1


def number_field(number: int, value: int) -> bytes:
    """Write a varint field; negative numbers take ten bytes, as int32 and int64 do."""
    return varint(number << 3) + varint(value & _UINT64)


def fixed64(number: int, value: int) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def any_value(value: Value) -> bytes:  # noqa: PLR0911 - one for each type
    match value:
        case None:
            return b""
        case bool():
            return number_field(2, int(value))
        case int():
            return number_field(3, value)
        case float():
            return b"\x21" + struct.pack("<d", value)
        case str():
            return field(1, value.encode())
        case bytes():
            return field(7, value)
        case Mapping():
            return field(6, key_values(1, value))
    return field(5, b"".join(field(1, any_value(member)) for member in value))


def key_values(number: int, attributes: Attributes) -> bytes:
    return b"".join(field(number, field(1, key.encode()) + field(2, any_value(value))) for key, value in attributes.items())


def traces_in_protobuf(spans: Sequence[Span]) -> bytes:
    """Write spans as a trace request, each in a block of its own."""
    return b"".join(
        field(1, field(1, key_values(1, span.resource.attributes)) + field(2, _scope(span.scope) + field(2, _span(span)))) for span in spans
    )


def another_trace(trace_id: bytes) -> bytes:
    """Return a trace ID that is another one, and not all zeros."""
    return bytes([trace_id[0] ^ 1 or 2]) + trace_id[1:]


def _scope(scope: Scope) -> bytes:
    return field(1, field(1, scope.name.encode()) + field(2, scope.version.encode()))


def _span(span: Span) -> bytes:
    events = (
        field(11, fixed64(1, event.time_unix_ns) + field(2, event.name.encode()) + key_values(3, event.attributes)) for event in span.events
    )
    return b"".join(
        (
            field(1, span.trace_id),
            field(2, span.span_id),
            field(4, span.parent_span_id or b""),
            field(5, span.name.encode()),
            number_field(6, span.kind),
            fixed64(7, span.start_unix_ns),
            fixed64(8, span.end_unix_ns),
            key_values(9, span.attributes),
            number_field(10, span.dropped_attributes),
            *events,
            field(13, field(1, another_trace(span.trace_id))) if span.linked else b"",
            field(15, field(2, span.status_message.encode()) + number_field(3, span.status.value)),
            varint(16 << 3 | 5) + struct.pack("<I", span.flags),
        )
    )


def logs_in_protobuf(records: Sequence[LogRecord]) -> bytes:
    """Write log records as a logs request, each in a block of its own."""
    return b"".join(
        field(1, field(1, key_values(1, record.resource.attributes)) + field(2, _scope(record.scope) + field(2, _record(record))))
        for record in records
    )


def _record(record: LogRecord) -> bytes:
    return b"".join(
        (
            fixed64(1, record.time_unix_ns),
            field(5, any_value(record.body)),
            key_values(6, record.attributes),
            field(9, record.trace_id or b""),
            field(10, record.span_id or b""),
            field(12, record.event_name.encode()),
        )
    )


# --- JSON -------------------------------------------------------------------------------------------------------------------------------


def json_value(value: Value) -> dict[str, object]:  # noqa: PLR0911 - one for each type
    match value:
        case None:
            return {}
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")}
        case str():
            return {"stringValue": value}
        case bytes():
            return {"bytesValue": base64.b64encode(value).decode()}
        case Mapping():
            return {"kvlistValue": {"values": json_attributes(value)}}
    return {"arrayValue": {"values": [json_value(member) for member in value]}}


def json_attributes(attributes: Attributes) -> list[dict[str, object]]:
    return [{"key": key, "value": json_value(value)} for key, value in attributes.items()]


def traces_in_json(spans: Sequence[Span]) -> bytes:
    blocks = [
        {
            "resource": {"attributes": json_attributes(span.resource.attributes)},
            "scopeSpans": [{"scope": {"name": span.scope.name, "version": span.scope.version}, "spans": [_json_span(span)]}],
        }
        for span in spans
    ]
    return json.dumps({"resourceSpans": blocks}).encode()


def _json_span(span: Span) -> dict[str, object]:
    return {
        "traceId": span.trace_id.hex().upper(),
        "spanId": span.span_id.hex(),
        "parentSpanId": (span.parent_span_id or b"").hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_unix_ns),
        "endTimeUnixNano": span.end_unix_ns,
        "attributes": json_attributes(span.attributes),
        "droppedAttributesCount": span.dropped_attributes,
        "events": [
            {"name": event.name, "timeUnixNano": event.time_unix_ns, "attributes": json_attributes(event.attributes)}
            for event in span.events
        ],
        "links": [{"traceId": another_trace(span.trace_id).hex()}] if span.linked else [],
        "status": {"code": span.status.value, "message": span.status_message},
        "flags": span.flags,
    }


def logs_in_json(records: Sequence[LogRecord]) -> bytes:
    """Write log records as a logs request."""
    blocks = [
        {
            "resource": {"attributes": json_attributes(record.resource.attributes)},
            "scopeLogs": [{"scope": {"name": record.scope.name, "version": record.scope.version}, "logRecords": [_json_record(record)]}],
        }
        for record in records
    ]
    return json.dumps({"resourceLogs": blocks}).encode()


def _json_record(record: LogRecord) -> dict[str, object]:
    return {
        "timeUnixNano": str(record.time_unix_ns),
        "traceId": (record.trace_id or b"").hex(),
        "spanId": (record.span_id or b"").hex(),
        "eventName": record.event_name,
        "body": json_value(record.body),
        "attributes": json_attributes(record.attributes),
    }
