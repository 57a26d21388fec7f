"""OTLP trace requests in JSON, to spans; equal to what protobuf gives for the same request.

Choice: the standard library's JSON parser and a walk over what it gives. ``google.protobuf.json_format`` reads the IDs as base64, and turns
a 64-bit integer that was sent as a number into an error or another number.
Keys are lowerCamelCase, as the specification demands; unknown ones are ignored. Bad UTF-8 and half surrogate pairs become U+FFFD.
Source: OTLP specification, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.model.trace import STATUS_CODES, Span, SpanEvent, StatusCode
from otel_toolcall_eval.otlp.decoded import DecodedTraces, FaultTally, fault_of, usable_parent
from otel_toolcall_eval.otlp.json_blocks import all_attributes_of, attributes_of, each, in_field, length, resource_of, scope_of
from otel_toolcall_eval.otlp.json_fields import WrongTypeError, as_object, enum_of, id_of, integer_of, list_of, text_of
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, MemberBudget, check_json
from otel_toolcall_eval.otlp.span_factory import NO_ATTRIBUTES, SpanOrigin, kept_of, origin_of, span_bytes

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.otlp.json_fields import JsonObject
    from otel_toolcall_eval.otlp.limits import Limits

ENDS_EARLY = "not JSON: it ends early"
"""What a DecodeError says of text that is JSON as far as it goes."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UINT32_MAX = (1 << 32) - 1
_UINT64_MAX = (1 << 64) - 1
_KINDS = {
    f"SPAN_KIND_{name}": number for number, name in enumerate(("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
}
_STATUS_CODES = {f"STATUS_CODE_{code.name}": code.value for code in StatusCode}
_NO_STATUS = (StatusCode.UNSET, "")
_ELSEWHERE = {
    "resourceLogs": ("it is a logs request", "send it to /v1/logs"),
    "resourceMetrics": ("it is a metrics request", "send it to /v1/metrics"),
    "resource_spans": ("it spells resourceSpans as resource_spans", "spell keys in lowerCamelCase, as OTLP/JSON does"),
}


def decode_traces(body: bytes, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedTraces:
    """Decode an ``ExportTraceServiceRequest`` in JSON, or ``TracesData``, which looks the same.

    Args, returns, raises: as ``otlp_protobuf.decode_traces``; the DecodeError names the path to what is wrong.
    Cost: about 4 times that of protobuf, half of it in the JSON parser.
    """
    check_json(body, limits)
    return decode_document(parse_json(body), projection, limits=limits)


def parse_json(body: bytes) -> object:
    """Return the JSON value that ``body`` holds; raises DecodeError, with line and column, if it is not JSON or nested too deep."""
    fix = "send one OTLP/JSON object in UTF-8"
    text = body.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
    try:
        document: object = json.loads(text)
    except json.JSONDecodeError as error:
        # Without the cause: it holds the whole text.
        ends_early = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        what = ENDS_EARLY if ends_early else f"not JSON: {error.msg.lower()}"
        raise DecodeError(where=f"line {error.lineno} column {error.colno}", what=what, fix=fix) from None
    except RecursionError:
        raise DecodeError(where="request", what="the JSON is nested too deep", fix=fix) from None
    except ValueError:  # an integer of more than 4,300 digits
        raise DecodeError(where="request", what="a number is too long", fix=fix) from None
    return document


def decode_document(document: object, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedTraces:
    """Decode a request that is parsed already. Raises as ``decode_traces`` does."""
    decoder = _JsonTracesDecoder(projection, MemberBudget(limits))
    try:
        request = as_object(document)
        _refuse_other_requests(request)
        each(request, "resourceSpans", decoder.block)
    except WrongTypeError as error:
        raise DecodeError(where=error.where, what=error.what, fix="send an ExportTraceServiceRequest in OTLP/JSON") from None
    return decoder.result()


def _refuse_other_requests(request: JsonObject) -> None:
    """Raise DecodeError for what is clearly meant otherwise; by the letter it would be an empty request, and its data silently lost."""
    if "resourceSpans" not in request:
        for key, (what, fix) in _ELSEWHERE.items():
            if key in request:
                raise DecodeError(where="request", what=what, fix=fix)


def _status(fields: JsonObject) -> tuple[StatusCode, str]:
    return STATUS_CODES.get(enum_of(fields, "code", _STATUS_CODES), StatusCode.UNSET), text_of(fields, "message")


class _JsonTracesDecoder:
    """Decodes the blocks of one request."""

    def __init__(self, projection: Projection, budget: MemberBudget) -> None:
        self._projection = projection
        self._budget = budget
        self._spans: list[Span] = []
        self._faults = FaultTally()

    def result(self) -> DecodedTraces:
        return DecodedTraces.of(self._spans, self._faults)

    def block(self, block: JsonObject) -> None:
        spans = sum(length(group, "spans") for group in list_of(block, "scopeSpans")) or 1
        resource = in_field(block, "resource", lambda fields: resource_of(fields, self._budget))

        def group(fields: JsonObject) -> None:
            origin = origin_of(resource, in_field(fields, "scope", scope_of), spans=spans)
            each(fields, "spans", lambda span: self._span(span, origin))

        each(block, "scopeSpans", group)

    def _span(self, fields: JsonObject, origin: SpanOrigin) -> None:
        trace_id = id_of(fields, "traceId")
        span_id = id_of(fields, "spanId")
        start = integer_of(fields, "startTimeUnixNano", low=0, high=_UINT64_MAX)
        end = integer_of(fields, "endTimeUnixNano", low=0, high=_UINT64_MAX)
        fault = fault_of(trace_id, span_id, start, end)
        if fault is not None:
            self._faults.add(fault)
            return
        kept = kept_of(*attributes_of(fields, self._projection.keeps, self._budget))
        code, message = in_field(fields, "status", _status) if "status" in fields else _NO_STATUS
        name = text_of(fields, "name")
        events = self._events(fields) if self._projection.event_names else ()
        self._spans.append(
            Span(
                trace_id=trace_id,
                span_id=span_id,
                parent_span_id=usable_parent(id_of(fields, "parentSpanId")),
                name=name,
                start_unix_ns=start,
                end_unix_ns=end,
                flags=integer_of(fields, "flags", low=0, high=_UINT32_MAX),
                kind=enum_of(fields, "kind", _KINDS),
                status=code,
                status_message=message,
                attributes=kept.attributes or NO_ATTRIBUTES,
                events=events,
                dropped_attributes=integer_of(fields, "droppedAttributesCount", low=0, high=_UINT32_MAX) + kept.too_deep,
                resource=origin.resource,
                scope=origin.scope,
                linked=any(id_of(as_object(link), "traceId") != trace_id for link in list_of(fields, "links")),
                size_bytes=span_bytes(name, message, kept, events, origin),
            )
        )

    def _events(self, span: JsonObject) -> tuple[SpanEvent, ...]:
        events: list[SpanEvent] = []

        def event(fields: JsonObject) -> None:
            name = text_of(fields, "name")
            if name in self._projection.event_names:
                time = integer_of(fields, "timeUnixNano", low=0, high=_UINT64_MAX)
                attributes = all_attributes_of(fields, self._budget)
                events.append(SpanEvent(name=name, time_unix_ns=time, attributes=attributes))

        each(span, "events", event)
        return tuple(events)
