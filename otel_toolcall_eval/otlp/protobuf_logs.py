"""OTLP log requests in protobuf, to the records that dialects ask for.

An agent's process logs much, and next to nothing of it is about tool calls. So a record is first asked for its name, and only what somebody
reads is decoded. Bounds, tolerance and errors are those of ``protobuf_traces``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError as ProtobufDecodeError

from otel_toolcall_eval.model.trace import Resource, Scope
from otel_toolcall_eval.otlp.any_value import NestedTooDeepError, read_key_value, read_value, text_of
from otel_toolcall_eval.otlp.attribute_reader import read_all
from otel_toolcall_eval.otlp.decoded_logs import EVENT_NAME_KEY, MAX_NAME_LENGTH, DecodedLogs, make_record, wanted_name
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, LOG_RECORDS, MemberBudget, check_protobuf
from otel_toolcall_eval.otlp.schema import parse_logs_request, parse_resource, parse_scope
from otel_toolcall_eval.otlp.span_factory import SpanOrigin, origin_of
from otel_toolcall_eval.otlp.varint import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Projection, Value
    from otel_toolcall_eval.otlp.limits import Limits
    from otel_toolcall_eval.otlp.schema import LogRecordMessage, ResourceLogsMessage

_EVENT_NAME = EVENT_NAME_KEY.encode()
_TEXT = b"\x0a"  # field 1 of AnyValue
_MAX_TITLE_BYTES = 4 * MAX_NAME_LENGTH + 8  # with the tags and lengths around it


def decode_logs(body: bytes, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedLogs:
    """Decode an ``ExportLogsServiceRequest``, or ``LogsData``, which looks the same.

    Args:
        body: the encoded request; empty bytes are a request without records.
        projection: names of the events that are asked for; of those, everything is kept.
        limits: bounds on what the request may hold.

    Raises:
        DecodeError: it is not a logs request.
        TooLargeError: it holds more than the limits.

    Cost: about 3 microseconds for a record that nobody asks for, 15 for one that is kept (parsing alone: 0.3).
    """
    check_protobuf(body, limits, LOG_RECORDS)
    try:
        request = parse_logs_request(body)
    except ProtobufDecodeError:
        raise LOG_RECORDS.refusal(where="request", what="the body is not a logs request in protobuf") from None
    decoder = _ProtobufLogsDecoder(projection, MemberBudget(limits))
    for position, block in enumerate(request.resource_logs):
        try:
            decoder.block(block)
        except (MalformedError, ProtobufDecodeError):
            what = "a resource, scope, body or attribute is not protobuf"
            raise LOG_RECORDS.refusal(where=f"resource_logs[{position}]", what=what) from None
    return DecodedLogs.of(decoder.records, received=decoder.received)


class _ProtobufLogsDecoder:
    """Decodes the blocks of one request."""

    def __init__(self, projection: Projection, budget: MemberBudget) -> None:
        self._projection = projection
        self._names = frozenset(name.encode() for name in projection.event_names)
        self._budget = budget
        self.records: list[LogRecord] = []
        self.received = 0

    def block(self, block: ResourceLogsMessage) -> None:
        groups = list(block.scope_logs)
        records = sum(len(group.log_records) for group in groups)
        self.received += records
        resource: Resource | None = None
        for group in groups:
            scope = _scope_of(group.scope)
            wanted = [(message, name) for message in group.log_records if (name := self._name_of(message, scope)) is not None]
            if wanted and resource is None:  # decoded only if it is needed
                resource = Resource(attributes=read_all(parse_resource(block.resource).attributes, self._budget)[0])
            if resource is not None:
                origin = origin_of(resource, scope, spans=records)
                self.records.extend(self._record(message, name, origin) for message, name in wanted)

    def _record(self, message: LogRecordMessage, name: str, origin: SpanOrigin) -> LogRecord:
        return make_record(
            trace_id=message.trace_id,
            span_id=message.span_id,
            event_name=name,
            time_unix_ns=message.time_unix_nano or message.observed_time_unix_nano,
            body=self._value(message.body),
            attributes=read_all(message.attributes, self._budget)[0],
            origin=origin,
        )

    def _name_of(self, message: LogRecordMessage, scope: Scope) -> str | None:
        named = self._named(message.attributes)
        event_name, title = message.event_name, message.body if len(message.body) <= _MAX_TITLE_BYTES else b""
        if named is None and event_name not in self._names and self._is_other(title) and text_of(event_name) != scope.name:
            return None  # nearly every record
        return wanted_name(
            self._projection,
            event_name=text_of(event_name),
            named=named,
            body=self._value(title),
            scope=scope.name,
        )

    def _value(self, data: bytes) -> Value:
        """Return a value; one that is nested too deep is left out, as it is on spans."""
        try:
            return read_value(data, 0, len(data), self._budget)
        except NestedTooDeepError:
            return None

    def _is_other(self, title: bytes) -> bool:
        """Tell whether a body is certainly not the name of an event, by the bytes of a short text as every encoder writes them."""
        return not title or (title[:1] == _TEXT and title[1:2] == bytes((len(title) - 2 & 0x7F,)) and title[2:] not in self._names)

    def _named(self, attributes: Sequence[bytes]) -> Value:
        for data in attributes:
            if _EVENT_NAME in data:
                key, start, end = read_key_value(data, 0, len(data))
                if key == _EVENT_NAME:
                    return self._value(data[start:end])
        return None


def _scope_of(data: bytes) -> Scope:
    scope = parse_scope(data)
    return Scope(name=text_of(scope.name), version=text_of(scope.version))
