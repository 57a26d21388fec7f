from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from otel_toolcall_eval.otlp.schema import _FIELDS

if TYPE_CHECKING:
    from google.protobuf.message import Message


def test_every_field_has_the_number_that_otlp_gives_it() -> None:
    full: dict[str, type[Message]] = {
        "Event": Span.Event,
        "Status": Status,
        "Scope": InstrumentationScope,
        "Resource": Resource,
        "Span": Span,
        "ScopeSpans": ScopeSpans,
        "ResourceSpans": ResourceSpans,
        "Request": ExportTraceServiceRequest,
        "LogRecord": LogRecord,
        "ScopeLogs": ScopeLogs,
        "ResourceLogs": ResourceLogs,
        "LogsRequest": ExportLogsServiceRequest,
    }
    assert full.keys() == _FIELDS.keys()
    for message, fields in _FIELDS.items():
        numbers = {field.name: field.number for field in full[message].DESCRIPTOR.fields}
        assert {name: number for name, (number, _, _) in fields.items()}.items() <= numbers.items()
