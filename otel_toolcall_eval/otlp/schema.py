"""A protobuf schema of OTLP traces and logs that decodes no more of a span than everyone needs.

The attributes, events and status of a span, resource and scope stay ``bytes``, and whole spans if asked: protobuf's C parser skips over
their content, and who wants some of it decodes just that. Text is ``bytes`` too, since one invalid UTF-8 sequence in a ``string`` fails
the whole request.

Choice: built at import from descriptors in a pool of its own, so it needs neither generated code nor the ``opentelemetry-proto``
package and can't clash with it. Rejected: the generated classes (1.8 times the parse time, strict about UTF-8, limit the nesting
of the whole request). Cost: malformed bytes in a part that nobody reads are not noticed.
Source: opentelemetry-proto 1.x, trace.proto, logs.proto, common.proto, resource.proto, and their services. Fields that are not listed are
skipped, as protobuf does with unknown ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class EventMessage(Protocol):
    """``Span.Event``; ``attributes`` holds one ``KeyValue`` each."""

    time_unix_nano: int
    name: bytes
    attributes: Sequence[bytes]


class StatusMessage(Protocol):
    """``Status``."""

    message: bytes
    code: int


class ScopeMessage(Protocol):
    """``InstrumentationScope``."""

    name: bytes
    version: bytes


class ResourceMessage(Protocol):
    """``Resource``; ``attributes`` holds one ``KeyValue`` each."""

    attributes: Sequence[bytes]


class SpanMessage(Protocol):
    """``Span``; ``attributes`` holds one ``KeyValue`` each, ``events`` one ``Event``, ``status`` a ``Status``."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    name: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: Sequence[bytes]
    dropped_attributes_count: int
    events: Sequence[bytes]
    links: Sequence[bytes]
    status: bytes
    flags: int


class ScopeSpansMessage(Protocol):
    """``ScopeSpans``; ``scope`` is an ``InstrumentationScope``."""

    scope: bytes
    spans: Sequence[SpanMessage]


class ResourceSpansMessage(Protocol):
    """``ResourceSpans``; ``resource`` is a ``Resource``."""

    resource: bytes
    scope_spans: Sequence[ScopeSpansMessage]


class LogRecordMessage(Protocol):
    """``LogRecord``; ``body`` is an ``AnyValue``, ``attributes`` holds one ``KeyValue`` each."""

    time_unix_nano: int
    body: bytes
    attributes: Sequence[bytes]
    trace_id: bytes
    span_id: bytes
    observed_time_unix_nano: int
    event_name: bytes


class ScopeLogsMessage(Protocol):
    """``ScopeLogs``; ``scope`` is an ``InstrumentationScope``."""

    scope: bytes
    log_records: Sequence[LogRecordMessage]


class ResourceLogsMessage(Protocol):
    """``ResourceLogs``; ``resource`` is a ``Resource``."""

    resource: bytes
    scope_logs: Sequence[ScopeLogsMessage]


class LogsRequestMessage(Protocol):
    """``ExportLogsServiceRequest``, and ``LogsData``, which has the same fields."""

    resource_logs: Sequence[ResourceLogsMessage]


class RequestMessage(Protocol):
    """``ExportTraceServiceRequest``, and ``TracesData``, which has the same fields."""

    resource_spans: Sequence[ResourceSpansMessage]


_PACKAGE = "otel_toolcall_eval.slim"
_BYTES = FieldDescriptorProto.TYPE_BYTES
_INT32 = FieldDescriptorProto.TYPE_INT32
_UINT32 = FieldDescriptorProto.TYPE_UINT32
_FIXED32 = FieldDescriptorProto.TYPE_FIXED32
_FIXED64 = FieldDescriptorProto.TYPE_FIXED64

_Type: TypeAlias = "FieldDescriptorProto.Type.ValueType | str"
# message -> field -> (number, type or name of a message, repeated)
_FIELDS: dict[str, dict[str, tuple[int, _Type, bool]]] = {
    "Event": {"time_unix_nano": (1, _FIXED64, False), "name": (2, _BYTES, False), "attributes": (3, _BYTES, True)},
    "Status": {"message": (2, _BYTES, False), "code": (3, _INT32, False)},
    "Scope": {"name": (1, _BYTES, False), "version": (2, _BYTES, False)},
    "Resource": {"attributes": (1, _BYTES, True)},
    "Span": {
        "trace_id": (1, _BYTES, False),
        "span_id": (2, _BYTES, False),
        "parent_span_id": (4, _BYTES, False),
        "name": (5, _BYTES, False),
        "kind": (6, _INT32, False),
        "start_time_unix_nano": (7, _FIXED64, False),
        "end_time_unix_nano": (8, _FIXED64, False),
        "attributes": (9, _BYTES, True),
        "dropped_attributes_count": (10, _UINT32, False),
        "events": (11, _BYTES, True),
        "links": (13, _BYTES, True),
        "status": (15, _BYTES, False),
        "flags": (16, _FIXED32, False),
    },
    "ScopeSpans": {"scope": (1, _BYTES, False), "spans": (2, "Span", True)},
    "ResourceSpans": {"resource": (1, _BYTES, False), "scope_spans": (2, "ScopeSpans", True)},
    "Request": {"resource_spans": (1, "ResourceSpans", True)},
    "LogRecord": {
        "time_unix_nano": (1, _FIXED64, False),
        "body": (5, _BYTES, False),
        "attributes": (6, _BYTES, True),
        "trace_id": (9, _BYTES, False),
        "span_id": (10, _BYTES, False),
        "observed_time_unix_nano": (11, _FIXED64, False),
        "event_name": (12, _BYTES, False),
    },
    "ScopeLogs": {"scope": (1, _BYTES, False), "log_records": (2, "LogRecord", True)},
    "ResourceLogs": {"resource": (1, _BYTES, False), "scope_logs": (2, "ScopeLogs", True)},
    "LogsRequest": {"resource_logs": (1, "ResourceLogs", True)},
}


def _build_pool() -> DescriptorPool:
    file = FileDescriptorProto(name="otel_toolcall_eval/slim.proto", package=_PACKAGE, syntax="proto3")
    for message_name, fields in _FIELDS.items():
        message = file.message_type.add(name=message_name)
        for name, (number, kind, repeated) in fields.items():
            label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
            field = message.field.add(name=name, number=number, label=label)
            if isinstance(kind, str):
                field.type = FieldDescriptorProto.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _build_pool()


def _parser(message_name: str) -> object:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{message_name}")).FromString


# Each raises google.protobuf.message.DecodeError for what is not protobuf.
parse_request = cast("Callable[[bytes], RequestMessage]", _parser("Request"))
parse_logs_request = cast("Callable[[bytes], LogsRequestMessage]", _parser("LogsRequest"))
parse_span = cast("Callable[[bytes], SpanMessage]", _parser("Span"))
parse_event = cast("Callable[[bytes], EventMessage]", _parser("Event"))
parse_status = cast("Callable[[bytes], StatusMessage]", _parser("Status"))
parse_scope = cast("Callable[[bytes], ScopeMessage]", _parser("Scope"))
parse_resource = cast("Callable[[bytes], ResourceMessage]", _parser("Resource"))
