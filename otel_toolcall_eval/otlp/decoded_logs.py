"""What came out of one request with log records."""

from __future__ import annotations

from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.log_record import LogRecord, event_name_of
from otel_toolcall_eval.otlp.decoded import NO_SPAN_ID, NO_TRACE_ID, SPAN_ID_BYTES, TRACE_ID_BYTES
from otel_toolcall_eval.otlp.span_factory import attributes_bytes, value_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Attributes, Projection, Value
    from otel_toolcall_eval.otlp.span_factory import SpanOrigin

EVENT_NAME_KEY = "event.name"
"""Attribute that names the event where the field of the record is older than the producer."""

MAX_NAME_LENGTH = 200
"""Longest body, in characters, that may be a name."""

_RECORD_BYTES = getsizeof(LogRecord(trace_id=None, span_id=None, event_name="")) + getsizeof(NO_TRACE_ID) + getsizeof(NO_SPAN_ID) + 64


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedLogs:
    """The log records of one request.

    None is ever rejected: an invalid ID means "in no trace", by the specification.

    Attributes:
        records: those that somebody asks for, in the order of the request.
        received: all of them.
        size_bytes: what ``records`` take in memory, by estimate.
    """

    records: tuple[LogRecord, ...] = ()
    received: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, records: Sequence[LogRecord], *, received: int) -> DecodedLogs:
        """Put together what a decoder found."""
        return cls(records=tuple(records), received=received, size_bytes=sum(record.size_bytes for record in records))


def wanted_name(projection: Projection, *, event_name: str, named: Value, body: Value, scope: str) -> str | None:
    """Return the name under which a record is asked for; None if it is not.

    Args:
        projection: what is asked for.
        event_name: the record's field.
        named: its attribute ``event.name``.
        body: its body.
        scope: name of its scope.
    """
    title = body if isinstance(body, str) and len(body) <= MAX_NAME_LENGTH else None
    return event_name_of(projection, names=(event_name, named, title), scope=scope)


def make_record(
    *, trace_id: bytes, span_id: bytes, event_name: str, time_unix_ns: int, body: Value, attributes: Attributes, origin: SpanOrigin
) -> LogRecord:
    """Return a record with the estimate of its size.

    Source: opentelemetry-proto, logs.proto: a record with an invalid trace ID, or none, is associated with no trace; likewise for spans.
    """
    in_trace = len(trace_id) == TRACE_ID_BYTES and trace_id != NO_TRACE_ID
    on_span = in_trace and len(span_id) == SPAN_ID_BYTES and span_id != NO_SPAN_ID
    return LogRecord(
        trace_id=trace_id if in_trace else None,
        span_id=span_id if on_span else None,
        event_name=event_name,
        time_unix_ns=time_unix_ns,
        body=body,
        attributes=attributes,
        resource=origin.resource,
        scope=origin.scope,
        size_bytes=_RECORD_BYTES + attributes_bytes(attributes) + value_bytes(body) + origin.share_bytes,
    )
