"""OTLP requests in JSON, to the same requests in protobuf, for a downstream that takes only that.

Choice: a walk along protobuf's own descriptors that sets one field after the other, with the readers that decode spans too, so that one
request means the same to us and to the downstream. ``google.protobuf.json_format`` reads the IDs as base64.
Unknown fields and unknown enum names are left out: protobuf has no place for them. Keys are lowerCamelCase.
Source: OTLP specification, "JSON Protobuf Encoding"; opentelemetry-proto, whose bytes are IDs but for ``AnyValue.bytes_value``.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.otlp.json_fields import (
    WrongTypeError,
    as_object,
    base64_of,
    bool_of,
    double_of,
    enum_of,
    id_of,
    integer_of,
    list_of,
    text_of,
)
from otel_toolcall_eval.otlp.json_traces import parse_json
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, check_json
from otel_toolcall_eval.otlp.replies import Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

    from otel_toolcall_eval.otlp.json_fields import JsonObject
    from otel_toolcall_eval.otlp.limits import Limits

    Read: TypeAlias = "Callable[[JsonObject, str], object]"

MAX_MESSAGES = 99
"""Messages inside each other: protobuf's own parser refuses a request that nests deeper. What lies deeper is left out."""

_REQUESTS: Mapping[Signal, type[Message]] = {
    Signal.TRACES: ExportTraceServiceRequest,
    Signal.METRICS: ExportMetricsServiceRequest,
    Signal.LOGS: ExportLogsServiceRequest,
}
_INTEGERS: Mapping[int, tuple[int, int]] = {
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), (0, (1 << 32) - 1)),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), (0, (1 << 64) - 1)),
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), (-(1 << 31), (1 << 31) - 1)),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), (-(1 << 63), (1 << 63) - 1)),
}
_OTHERS: Mapping[int, Read] = {
    FieldDescriptor.TYPE_STRING: text_of,
    FieldDescriptor.TYPE_BOOL: bool_of,
    FieldDescriptor.TYPE_DOUBLE: double_of,
}


def to_protobuf(body: bytes, signal: Signal, *, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """Return an export request that came in JSON, in protobuf.

    Raises:
        DecodeError: it is not JSON, or a field has a type that OTLP/JSON doesn't allow; names the path to it.
        TooLargeError: it holds more than the limits.

    Cost: about twice that of decoding it.
    """
    check_json(body, limits)
    request = _REQUESTS[signal]()
    try:
        _fill(request, as_object(parse_json(body)), 1)
    except WrongTypeError as error:
        raise DecodeError(where=error.where, what=error.what, fix=f"send an {request.DESCRIPTOR.name} in OTLP/JSON") from None
    return request.SerializeToString()


def _fill(message: Message, fields: JsonObject, depth: int) -> None:
    """Set what ``fields`` holds. ``depth`` counts messages, this one included."""
    known = _fields_of(message.DESCRIPTOR)
    for name, value in fields.items():
        field = known.get(name)
        if field is None or value is None:
            continue
        ours, is_repeated, read = field
        if read is None:
            _fill_in(message, fields, name, ours, is_repeated=is_repeated, depth=depth)
        elif is_repeated:
            getattr(message, ours).extend(_members(fields, name, read))
        else:
            setattr(message, ours, read(fields, name))


def _fill_in(message: Message, fields: JsonObject, name: str, ours: str, *, is_repeated: bool, depth: int) -> None:
    """Fill the message in a field, or one for each member of a list."""
    for position, member in enumerate(list_of(fields, name) if is_repeated else [fields[name]]):
        inner = getattr(message, ours).add() if is_repeated else getattr(message, ours)
        try:
            content = as_object(member)
            inner.SetInParent()  # an empty message says something, too
            if depth < MAX_MESSAGES:
                _fill(inner, content, depth + 1)
        except WrongTypeError as error:
            error.inside(name, *([f"[{position}]"] if is_repeated else []))
            raise


def _members(fields: JsonObject, name: str, read: Read) -> list[object]:
    members = []
    for position, member in enumerate(list_of(fields, name)):
        try:
            members.append(read({"": member}, ""))
        except WrongTypeError as error:
            error.inside(name, f"[{position}]")
            raise
    return members


_Field: TypeAlias = "tuple[str, bool, Read | None]"


@cache
def _fields_of(descriptor: Descriptor) -> Mapping[str, _Field]:
    """Return the fields of a message by their names in JSON: name in protobuf, whether it is a list, how it is read (None: a message)."""
    return {field.json_name: (field.name, isinstance(field.default_value, list), _reader(field)) for field in descriptor.fields}


def _reader(field: FieldDescriptor) -> Read | None:
    if field.message_type is not None:
        return None
    if field.enum_type is not None:
        numbers = {value.name: value.number for value in field.enum_type.values}
        return partial(enum_of, numbers=numbers)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return id_of if field.name.endswith("_id") else base64_of
    if field.type in _INTEGERS:
        low, high = _INTEGERS[field.type]
        return partial(integer_of, low=low, high=high)
    return _OTHERS[field.type]
