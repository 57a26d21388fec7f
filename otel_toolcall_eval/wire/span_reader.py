"""One span in protobuf, to a ``Span``.

Choice: two ways to the same span. ``parse`` asks protobuf's C parser for each field, an object each; ``scan`` goes over the bytes itself
and makes objects of what is kept alone. Compiled by mypyc (config/wheel) a scan takes a third of the time of a parse, interpreted twice as
long: so each form goes its faster way, and tests hold the two to each other. What is not written as every encoder writes it is left to the
parser; of broken bytes in what nobody keeps the one may take notice, and the other not.
Source: opentelemetry-proto, trace.proto; protobuf encoding guide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.trace import STATUS_CODES, Span, SpanEvent, StatusCode
from otel_toolcall_eval.wire.any_value import text_of
from otel_toolcall_eval.wire.attribute_reader import read_all
from otel_toolcall_eval.wire.decoded import SpanFault, fault_of, usable_parent
from otel_toolcall_eval.wire.schema import parse_event, parse_span, parse_status
from otel_toolcall_eval.wire.span_factory import SPAN_ID_SIZE, TRACE_ID_SIZE, Kept, make_span, text_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_extensions import i64

    from otel_toolcall_eval.wire.attribute_reader import AttributeReader
    from otel_toolcall_eval.wire.limits import MemberBudget
    from otel_toolcall_eval.wire.schema import SpanMessage
    from otel_toolcall_eval.wire.span_factory import Origin

# Tags: field number << 3 | wire type.
_TRACE_ID: Final = 0x0A
_SPAN_ID: Final = 0x12
_PARENT_SPAN_ID: Final = 0x22
_NAME: Final = 0x2A
_KIND: Final = 0x30
_START: Final = 0x39
_END: Final = 0x41
_ATTRIBUTE: Final = 0x4A
_DROPPED_ATTRIBUTES: Final = 0x50
_EVENT: Final = 0x5A
_LINK: Final = 0x6A
_STATUS: Final = 0x7A
_FLAGS: Final = 0x85  # with 0x01 behind it: field 16, FIXED32
_FIRST_TAG: Final = 0x08  # field 1; there is no field 0

_CONTINUES: Final = 0x80  # the top bit of a byte says that more bytes follow
_PAYLOAD: Final = 0x7F
_VARINT_BITS: Final = 28  # four bytes; what is longer is left to the parser
_FIXED64_BYTES: Final = 8
_FIXED32_BYTES: Final = 4

_Status = tuple[StatusCode, str]
_UNSET: Final = (StatusCode.UNSET, "")
# Nearly every span has one of these; number 3 is the code.
_STATUSES: Final[dict[bytes, _Status]] = {b"": _UNSET, b"\x18\x01": (StatusCode.OK, ""), b"\x18\x02": (StatusCode.ERROR, "")}
_NO_BYTES: Final = b""


class SpanReader:
    """Reads the spans of one request.

    Both ways return a span, or why it can't be used, and raise MalformedError or protobuf's DecodeError for bytes that are no span, and
    TooLargeError where the budget is spent.
    """

    def __init__(self, attributes: AttributeReader, budget: MemberBudget) -> None:
        """Take what keeps attributes, and the members that the request may hold."""
        self._attributes = attributes
        self._budget = budget
        self._trace_id = _NO_BYTES  # of the span before, as its parent's: those of one trace stand together
        self._parent_id = _NO_BYTES
        self._scanned = Kept()  # of the last scan

    def read(self, data: bytes, origin: Origin) -> Span | SpanFault:
        """Read an encoded span by a scan, if it is written as usual."""
        members_left = self._budget.left
        found = self.scan(data, origin)
        if found is not None:
            return found
        self._budget.left = members_left
        return self.parse(parse_span(data), origin, remembered_bytes=self._scanned.remembered_bytes)

    def parse(self, message: SpanMessage, origin: Origin, *, remembered_bytes: int = 0) -> Span | SpanFault:
        """Read a span that protobuf's parser has parsed; ``remembered_bytes`` is what a scan that gave up has made and not charged."""
        trace_id, span_id = message.trace_id, message.span_id
        start, end = message.start_time_unix_nano, message.end_time_unix_nano
        fault = fault_of(trace_id, span_id, start, end)
        if fault is not None:
            return fault
        kept = self._attributes.read(message.attributes, self._budget)
        kept.size_bytes += remembered_bytes
        self._share_ids(trace_id, message.parent_span_id, kept)
        encoded = message.status
        status = _STATUSES.get(encoded) or _status_of(encoded)
        return make_span(
            self._trace_id,
            span_id,
            usable_parent(self._parent_id),
            text_of(message.name),
            start,
            end,
            message.flags,
            message.kind,
            status[0],
            status[1],
            kept,
            self._events_of(message.events) if self._attributes.event_names else (),
            message.dropped_attributes_count + kept.too_deep,
            origin,
            _leads_elsewhere(message.links, trace_id),
        )

    def scan(self, data: bytes, origin: Origin) -> Span | SpanFault | None:  # noqa: C901, PLR0911, PLR0912, PLR0915 - one loop, or each byte costs calls
        """Read a span from its bytes; None for one that the parser has to read."""
        trace_id = span_id = parent_id = name = status_bytes = _NO_BYTES
        start: i64 = 0
        end: i64 = 0
        flags: i64 = 0
        kind: i64 = 0
        dropped: i64 = 0
        events: list[bytes] = []
        links: list[bytes] = []
        kept = self._scanned = Kept()
        attributes, wants_events = self._attributes, bool(self._attributes.event_names)
        is_usable = False
        size: i64 = len(data)
        at: i64 = 0
        first: i64 = 0  # where the first attribute begins
        while at < size:
            field: i64 = at
            tag: i64 = data[at]
            at += 1
            wire_type: i64 = tag & 7
            if tag < _FIRST_TAG or at == size:
                return None
            if tag >= _CONTINUES:
                if tag != _FLAGS or data[at] != 1 or at + _FIXED32_BYTES >= size:
                    return None
                flags = _fixed32(data, at + 1)
                at += 1 + _FIXED32_BYTES
            elif wire_type == 1:
                if is_usable or at + _FIXED64_BYTES > size or data[at + 7] >= _CONTINUES:
                    return None
                if tag == _START:
                    start = _fixed32(data, at) | _fixed32(data, at + 4) << 32
                elif tag == _END:
                    end = _fixed32(data, at) | _fixed32(data, at + 4) << 32
                at += _FIXED64_BYTES
            elif wire_type in (0, 2):
                number: i64 = data[at]
                at += 1
                if number >= _CONTINUES:
                    number &= _PAYLOAD
                    shift: i64 = 7
                    while True:
                        if at == size or shift == _VARINT_BITS:
                            return None
                        byte: i64 = data[at]
                        at += 1
                        number |= (byte & _PAYLOAD) << shift
                        shift += 7
                        if byte < _CONTINUES:
                            break
                if wire_type == 0:
                    if tag == _KIND:
                        kind = number
                    elif tag == _DROPPED_ATTRIBUTES:
                        dropped = number
                    continue
                stop: i64 = at + number
                if stop > size:
                    return None
                if tag == _ATTRIBUTE:
                    if not is_usable:  # attributes of a span that can't be used are not looked at
                        if fault_of(trace_id, span_id, start, end) is not None:
                            return None
                        is_usable = True
                        first = field
                        behind: i64 = attributes.take_usual(name, data, first, kept, self._budget)
                        if behind > 0:
                            at = behind
                            continue
                    attributes.take(data, at, stop, kept, self._budget)
                elif tag == _TRACE_ID and not is_usable:
                    trace_id = data[at:stop]
                elif tag == _SPAN_ID and not is_usable:
                    span_id = data[at:stop]
                elif tag == _PARENT_SPAN_ID:
                    parent_id = data[at:stop]
                elif tag == _NAME and not is_usable:
                    name = data[at:stop]
                elif tag == _STATUS:
                    status_bytes = data[at:stop]
                elif tag == _EVENT and wants_events:
                    events.append(data[at:stop])
                elif tag == _LINK:
                    links.append(data[at:stop])
                elif tag in (_TRACE_ID, _SPAN_ID, _NAME):  # they come before the attributes
                    return None
                at = stop
            else:
                return None
        if not is_usable and (fault := fault_of(trace_id, span_id, start, end)) is not None:
            return fault
        self._share_ids(trace_id, parent_id, kept)
        if kept.pattern is None:
            text = text_of(name)
            if first > 0:
                attributes.learn(name, text, data, first)
        else:
            text = kept.pattern.name
            kept.size_bytes -= text_bytes(text)
        status = (_STATUSES.get(status_bytes) or _status_of(status_bytes)) if status_bytes else _UNSET
        return make_span(
            self._trace_id,
            span_id,
            usable_parent(self._parent_id),
            text,
            start,
            end,
            flags,
            kind,
            status[0],
            status[1],
            kept,
            self._events_of(events) if events else (),
            dropped + kept.too_deep,
            origin,
            bool(links) and _leads_elsewhere(links, trace_id),
        )

    def _share_ids(self, trace_id: bytes, parent_id: bytes, kept: Kept) -> None:
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


def _fixed32(data: bytes, at: i64) -> i64:
    """Return four bytes as a number; one by one, since only an ``i64`` of its own is no object in between."""
    first: i64 = data[at]
    second: i64 = data[at + 1]
    third: i64 = data[at + 2]
    last: i64 = data[at + 3]
    return first | second << 8 | third << 16 | last << 24


def _leads_elsewhere(links: Sequence[bytes], trace_id: bytes) -> bool:
    """Tell whether a link leads to another trace. The encoded link holds the trace's ID as it is, so it is not decoded."""
    return any(trace_id not in link for link in links)


def _status_of(encoded: bytes) -> _Status:
    status = parse_status(encoded)
    return STATUS_CODES.get(status.code, StatusCode.UNSET), text_of(status.message)
