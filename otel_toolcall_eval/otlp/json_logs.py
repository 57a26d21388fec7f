"""OTLP log requests in JSON, to the records that dialects ask for; equal to what protobuf gives for the same request.

Bounds, tolerance and errors are those of ``json_traces``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.otlp.any_value import NestedTooDeepError
from otel_toolcall_eval.otlp.decoded_logs import EVENT_NAME_KEY, DecodedLogs, make_record, wanted_name
from otel_toolcall_eval.otlp.json_blocks import all_attributes_of, attributes_of, each, in_field, length, resource_of, scope_of
from otel_toolcall_eval.otlp.json_fields import WrongTypeError, as_object, id_of, integer_of, list_of, text_of
from otel_toolcall_eval.otlp.json_traces import parse_json
from otel_toolcall_eval.otlp.json_values import attribute_value
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, MemberBudget, check_json
from otel_toolcall_eval.otlp.span_factory import SpanOrigin, origin_of

if TYPE_CHECKING:
    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Projection, Value
    from otel_toolcall_eval.otlp.json_fields import JsonObject
    from otel_toolcall_eval.otlp.limits import Limits

_UINT64_MAX = (1 << 64) - 1
_FIX = "send an ExportLogsServiceRequest in OTLP/JSON"


def decode_logs(body: bytes, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedLogs:
    """Decode an ``ExportLogsServiceRequest`` in JSON, or ``LogsData``, which looks the same.

    Args, returns, raises: as ``otlp_logs.decode_logs``; the DecodeError names the path to what is wrong.
    """
    check_json(body, limits)
    return decode_document(parse_json(body), projection, limits=limits)


def decode_document(document: object, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedLogs:
    """Decode a request that is parsed already. Raises as ``decode_logs`` does."""
    decoder = _JsonLogsDecoder(projection, MemberBudget(limits))
    try:
        request = as_object(document)
        if "resourceLogs" not in request and not request.keys().isdisjoint({"resourceSpans", "resourceMetrics", "resource_logs"}):
            raise DecodeError(where="request", what="it has no resourceLogs", fix=_FIX)
        each(request, "resourceLogs", decoder.block)
    except WrongTypeError as error:
        raise DecodeError(where=error.where, what=error.what, fix=_FIX) from None
    return DecodedLogs.of(decoder.records, received=decoder.received)


class _JsonLogsDecoder:
    """Decodes the blocks of one request."""

    def __init__(self, projection: Projection, budget: MemberBudget) -> None:
        self._projection = projection
        self._budget = budget
        self.records: list[LogRecord] = []
        self.received = 0

    def block(self, block: JsonObject) -> None:
        records = sum(length(group, "logRecords") for group in list_of(block, "scopeLogs"))
        resource = in_field(block, "resource", lambda fields: resource_of(fields, self._budget))

        def group(fields: JsonObject) -> None:
            origin = origin_of(resource, in_field(fields, "scope", scope_of), spans=max(1, records))
            each(fields, "logRecords", lambda record: self._record(record, origin))

        each(block, "scopeLogs", group)
        self.received += records

    def _record(self, fields: JsonObject, origin: SpanOrigin) -> None:
        body = self._body(fields)
        named, _ = attributes_of(fields, EVENT_NAME_KEY.__eq__, self._budget)
        name = wanted_name(
            self._projection,
            event_name=text_of(fields, "eventName"),
            named=named.get(EVENT_NAME_KEY),
            body=body,
            scope=origin.scope.name,
        )
        if name is None:
            return
        sent = integer_of(fields, "timeUnixNano", low=0, high=_UINT64_MAX)
        observed = integer_of(fields, "observedTimeUnixNano", low=0, high=_UINT64_MAX)
        self.records.append(
            make_record(
                trace_id=id_of(fields, "traceId"),
                span_id=id_of(fields, "spanId"),
                event_name=name,
                time_unix_ns=sent or observed,
                body=body,
                attributes=all_attributes_of(fields, self._budget),
                origin=origin,
            )
        )

    def _body(self, fields: JsonObject) -> Value:
        """Return the body; one that is nested too deep is left out, as it is on spans."""
        try:
            return attribute_value(fields, self._budget, name="body")
        except NestedTooDeepError:
            return None
