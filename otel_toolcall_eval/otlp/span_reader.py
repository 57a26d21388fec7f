"""One span, as protobuf's parser gives it, to a ``Span``. Source: opentelemetry-proto, trace.proto."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.trace import STATUS_CODES, Span, SpanEvent, StatusCode
from otel_toolcall_eval.otlp.any_value import text_of
from otel_toolcall_eval.otlp.attribute_reader import read_all
from otel_toolcall_eval.otlp.decoded import SpanFault, fault_of, usable_parent
from otel_toolcall_eval.otlp.schema import parse_event, parse_status
from otel_toolcall_eval.otlp.span_factory import NO_ATTRIBUTES, SPAN_ID_SIZE, TRACE_ID_SIZE, KeptAttributes, span_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.otlp.attribute_reader import AttributeReader
    from otel_toolcall_eval.otlp.limits import MemberBudget
    from otel_toolcall_eval.otlp.schema import SpanMessage
    from otel_toolcall_eval.otlp.span_factory import SpanOrigin

_Status = tuple[StatusCode, str]
# Nearly every span has one of these; number 3 is the code.
_STATUSES: Final[dict[bytes, _Status]] = {
    b"": (StatusCode.UNSET, ""),
    b"\x18\x01": (StatusCode.OK, ""),
    b"\x18\x02": (StatusCode.ERROR, ""),
}


class SpanReader:
    """Reads the spans of one request."""

    def __init__(self, attributes: AttributeReader, budget: MemberBudget) -> None:
        """Take what keeps attributes, and the members that the request may hold."""
        self._attributes = attributes
        self._budget = budget
        self._trace_id = b""  # of the span before, as its parent's: those of one trace stand together
        self._parent_id = b""

    def read(self, message: SpanMessage, origin: SpanOrigin) -> Span | SpanFault:
        """Return the span, or why it can't be used.

        Raises MalformedError or protobuf's DecodeError for bytes that are no span, and TooLargeError where the budget is spent.
        """
        trace_id, span_id = message.trace_id, message.span_id
        start, end = message.start_time_unix_nano, message.end_time_unix_nano
        fault = fault_of(trace_id, span_id, start, end)
        if fault is not None:
            return fault
        kept = self._attributes.read(message.attributes, self._budget)
        self._share_ids(trace_id, message.parent_span_id, kept)
        encoded = message.status
        status = _STATUSES.get(encoded) or _status_of(encoded)
        name, links = text_of(message.name), message.links
        events = self._events_of(message.events) if self._attributes.event_names else ()
        return Span(
            trace_id=self._trace_id,
            span_id=span_id,
            parent_span_id=usable_parent(self._parent_id),
            name=name,
            start_unix_ns=start,
            end_unix_ns=end,
            flags=message.flags,
            kind=message.kind,
            status=status[0],
            status_message=status[1],
            attributes=kept.attributes or NO_ATTRIBUTES,
            events=events,
            dropped_attributes=message.dropped_attributes_count + kept.too_deep,
            resource=origin.resource,
            scope=origin.scope,
            # An encoded link holds the trace's ID as it is, so it is not decoded.
            linked=bool(links) and any(trace_id not in link for link in links),
            size_bytes=span_bytes(name, status[1], kept, events, origin),
        )

    def _share_ids(self, trace_id: bytes, parent_id: bytes, kept: KeptAttributes) -> None:
        """Let a span have the IDs of the span before it where they are equal, which then take no memory of its own."""
        if trace_id == self._trace_id:
            kept.size_bytes -= TRACE_ID_SIZE
        else:
            self._trace_id = trace_id
        if parent_id == self._parent_id:
            kept.size_bytes -= SPAN_ID_SIZE
        else:
            self._parent_id = parent_id

    def _events_of(self, encoded: Sequence[bytes]) -> tuple[SpanEvent, ...]:
        events: list[SpanEvent] = []
        for data in encoded:
            event = parse_event(data)
            name = self._attributes.event_names.get(event.name)
            if name is not None:
                attributes, _ = read_all(event.attributes, self._budget)
                events.append(SpanEvent(name=name, time_unix_ns=event.time_unix_nano, attributes=attributes))
        return tuple(events)


def _status_of(encoded: bytes) -> _Status:
    status = parse_status(encoded)
    return STATUS_CODES.get(status.code, StatusCode.UNSET), text_of(status.message)
