"""OTLP trace requests in protobuf, to spans.

A request is parsed once, by protobuf's C parser, with the slim schema; of each span only what everyone needs and the attributes that
the projection keeps are turned into Python objects. Fields may stand in any order, unknown ones are ignored.
Whatever is read has to be well-formed; malformed bytes in what nobody reads (an attribute that is not kept) go unnoticed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError as ProtobufDecodeError

from otel_toolcall_eval.errors import DecodeError
from otel_toolcall_eval.model.trace import STATUS_CODES, Resource, Scope, SpanEvent, StatusCode
from otel_toolcall_eval.wire.any_value import text_of
from otel_toolcall_eval.wire.attribute_reader import read_all, reader_for
from otel_toolcall_eval.wire.decoded import DecodedTraces, FaultTally, fault_of, usable_parent
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, MemberBudget, check_protobuf
from otel_toolcall_eval.wire.schema import parse_event, parse_request, parse_resource, parse_scope, parse_status
from otel_toolcall_eval.wire.span_factory import NO_ATTRIBUTES, Origin, make_span, origin_of
from otel_toolcall_eval.wire.varint import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Projection, Span
    from otel_toolcall_eval.wire.attribute_reader import AttributeReader
    from otel_toolcall_eval.wire.limits import Limits
    from otel_toolcall_eval.wire.schema import ResourceSpansMessage, SpanMessage

_CACHED_BYTES = 4096
"""A resource or scope is remembered up to this size, so that the requests of one process share one object and decode it once."""

_Status = tuple[StatusCode, str]
# Nearly every span has one of these; number 3 is the code.
_STATUSES: dict[bytes, _Status] = {
    b"": (StatusCode.UNSET, ""),
    b"\x18\x01": (StatusCode.OK, ""),
    b"\x18\x02": (StatusCode.ERROR, ""),
}


def decode_traces(body: bytes, projection: Projection, *, limits: Limits = DEFAULT_LIMITS) -> DecodedTraces:
    """Decode an ``ExportTraceServiceRequest``, or ``TracesData``, which looks the same.

    Args:
        body: the encoded request; empty bytes are a request without spans.
        projection: which attributes and events of a span are kept. Resources keep all attributes: criteria may select by any of them.
        limits: bounds on what the request may hold.

    Returns:
        The spans with valid IDs and both times; the others are counted as rejected.

    Raises:
        DecodeError: it is not a trace request.
        TooLargeError: it holds more than the limits.

    Cost: 4 to 8 times the time of parsing alone with the generated classes if no attribute is kept, half of it for telling so; half a
    microsecond for a short attribute that is kept, one for a long one. Measured by ``tests/bench/bench_wire.py``.
    """
    check_protobuf(body, limits)
    try:
        request = parse_request(body)
    except ProtobufDecodeError:
        # The parser's own words name neither place nor cause, so there is nothing to keep of them.
        raise _not_otlp(where="request", what="the body is not a trace request in protobuf") from None
    decoder = _Decoder(reader_for(projection), MemberBudget(limits))
    for position, block in enumerate(request.resource_spans):
        decoder.block(block, position)
    return decoder.result()


def _not_otlp(*, where: str, what: str) -> DecodeError:
    return DecodeError(where=where, what=what, fix="send an ExportTraceServiceRequest, and OTLP/JSON as Content-Type application/json")


class _Decoder:
    """Decodes the blocks of one request."""

    def __init__(self, reader: AttributeReader, budget: MemberBudget) -> None:
        self._reader = reader
        self._budget = budget
        self._spans: list[Span] = []
        self._faults = FaultTally()

    def result(self) -> DecodedTraces:
        return DecodedTraces.of(self._spans, self._faults)

    def block(self, block: ResourceSpansMessage, position: int) -> None:
        groups = [(group.scope, group.spans) for group in block.scope_spans]
        spans = sum(len(group) for _, group in groups) or 1
        try:
            resource, is_new = _resource_of(block.resource, self._budget)
            for scope, group in groups:
                self._spans_of(group, origin_of(resource, _scope_of(scope), spans=spans, charged=is_new))
        except (MalformedError, ProtobufDecodeError):
            where = f"resource_spans[{position}], near span {len(self._spans) + self._faults.total} of the request"
            raise _not_otlp(where=where, what="a resource, scope, attribute, event or status is not protobuf") from None

    def _spans_of(self, group: Sequence[SpanMessage], origin: Origin) -> None:
        read, budget, event_names = self._reader.read, self._budget, self._reader.event_names
        append = self._spans.append
        for message in group:
            trace_id = message.trace_id
            span_id = message.span_id
            start = message.start_time_unix_nano
            end = message.end_time_unix_nano
            fault = fault_of(trace_id, span_id, start, end)
            if fault is not None:
                self._faults.add(fault)
                continue
            attributes, too_deep = read(message.attributes, budget)
            status = message.status
            code, status_message = _STATUSES.get(status) or _status_of(status)
            append(
                make_span(
                    trace_id,
                    span_id,
                    usable_parent(message.parent_span_id),
                    text_of(message.name),
                    start,
                    end,
                    message.flags,
                    message.kind,
                    code,
                    status_message,
                    attributes or NO_ATTRIBUTES,
                    self._events_of(message.events) if event_names else (),
                    message.dropped_attributes_count + too_deep,
                    origin,
                    _leads_elsewhere(message.links, trace_id),
                )
            )

    def _events_of(self, encoded: Sequence[bytes]) -> tuple[SpanEvent, ...]:
        events: list[SpanEvent] = []
        for data in encoded:
            event = parse_event(data)
            name = self._reader.event_names.get(event.name)
            if name is not None:
                attributes, _ = read_all(event.attributes, self._budget)
                events.append(SpanEvent(name=name, time_unix_ns=event.time_unix_nano, attributes=attributes))
        return tuple(events)


def _leads_elsewhere(links: Sequence[bytes], trace_id: bytes) -> bool:
    """Tell whether a link leads to another trace. The encoded link holds the trace's ID as it is, so it is not decoded."""
    return any(trace_id not in link for link in links)


def _status_of(encoded: bytes) -> _Status:
    status = parse_status(encoded)
    return STATUS_CODES.get(status.code, StatusCode.UNSET), text_of(status.message)


def _resource_of(encoded: bytes, budget: MemberBudget) -> tuple[Resource, bool]:
    """Return a resource, and whether it takes memory that no earlier request has accounted for."""
    if len(encoded) > _CACHED_BYTES:
        return Resource(attributes=read_all(parse_resource(encoded).attributes, budget)[0]), True
    remembered = _small_resource(encoded)
    is_new, remembered.is_new = remembered.is_new, False
    return remembered.resource, is_new


class _Remembered:
    """A resource that requests share."""

    __slots__ = ("is_new", "resource")

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.is_new = True


@lru_cache(maxsize=256)
def _small_resource(encoded: bytes) -> _Remembered:
    return _Remembered(Resource(attributes=read_all(parse_resource(encoded).attributes, MemberBudget(DEFAULT_LIMITS))[0]))


def _scope_of(encoded: bytes) -> Scope:
    return _small_scope(encoded) if len(encoded) <= _CACHED_BYTES else _read_scope(encoded)


def _read_scope(encoded: bytes) -> Scope:
    scope = parse_scope(encoded)
    return Scope(name=text_of(scope.name), version=text_of(scope.version))


_small_scope = lru_cache(maxsize=256)(_read_scope)
