"""Shares a request out by trace ID: one request for each part that its spans or log records belong to, none of which is decoded.

A request of traces and one of logs look the same down to their items, so one walk serves both. What is dropped is what no decoder of ours
reads (schema URLs). A trace ID that stands twice in a span counts as it stands first; no encoder writes that, and it harms its own trace
alone. Cost: 0.6 microseconds a span, interpreted; nothing but the parser's time if all belongs to one part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast
from zlib import crc32

from google.protobuf.message import DecodeError as ProtobufDecodeError

from otel_toolcall_eval.errors import TooLargeError
from otel_toolcall_eval.wire.decoded import NO_TRACE_ID, TRACE_ID_BYTES
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, LOG_RECORDS, SPANS, check_protobuf
from otel_toolcall_eval.wire.otlp_logs import AskedRecords, scope_of
from otel_toolcall_eval.wire.schema import parse_down_to_spans, parse_log_record, parse_span
from otel_toolcall_eval.wire.varint import LENGTH_DELIMITED, MalformedError, varint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.wire.limits import Limits, Signals
    from otel_toolcall_eval.wire.schema import ScopeSpansMessage

    _Find = Callable[[bytes, bytes, int], Sequence[int]]  # of an item, its scope and the number of parts: those that get it

_FIRST: Final = 1 << 3 | LENGTH_DELIMITED
_SECOND: Final = 2 << 3 | LENGTH_DELIMITED
_USUAL: Final = bytes([_FIRST, TRACE_ID_BYTES])  # how a span begins, by every encoder
_USUAL_END: Final = len(_USUAL) + TRACE_ID_BYTES
_FIRST_TAG: Final = bytes([_FIRST])
_SECOND_TAG: Final = bytes([_SECOND])
_MOST_COPIED_BYTES: Final = 64 << 20  # as much as the largest request; or as much as the request itself, if that is larger
_EMPTY_BLOCK: Final = bytes([_FIRST, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one part gets of a request: a request, and how many spans or records it holds."""

    body: bytes
    items: int


def is_trace_id(trace_id: bytes) -> bool:
    """Tell whether bytes are a valid trace ID."""
    return len(trace_id) == TRACE_ID_BYTES and trace_id != NO_TRACE_ID


def part_of(trace_id: bytes, parts: int) -> int:
    """Return the part that a trace belongs to, 0 to ``parts`` - 1; what has no valid ID belongs to the first."""
    return crc32(trace_id) % parts if is_trace_id(trace_id) else 0


def share_spans(body: bytes, parts: int, *, limits: Limits = DEFAULT_LIMITS) -> Mapping[int, Share]:
    """Share an ``ExportTraceServiceRequest`` out: each trace to ``part_of`` it.

    Returns:
        The shares by part; those that get nothing are absent.

    Raises:
        DecodeError: it is not a trace request. What is wrong inside a span is left to who decodes it.
        TooLargeError: it holds more than the limits, or its resources are so large that copies of them would be too much.
    """
    return _share(body, parts, limits, SPANS, _part_of_span)


def share_logs(body: bytes, parts: int, asked: Projection, *, limits: Limits = DEFAULT_LIMITS) -> Mapping[int, Share]:
    """Share an ``ExportLogsServiceRequest`` out likewise; ``asked`` names records, of which one in no trace goes to every part.

    Any part may have its call. One in no trace that nobody asks for is only counted, by the first part.
    """
    names = AskedRecords(asked, limits)

    def find(record: bytes, scope: bytes, parts: int) -> Sequence[int]:
        message = parse_log_record(record)
        if is_trace_id(message.trace_id):
            return (part_of(message.trace_id, parts),)
        return range(parts) if names.name_of(message, scope_of(scope)) is not None else (0,)

    return _share(body, parts, limits, LOG_RECORDS, find)


class Growth:
    """Bounds what the shares of a request take together, before any of it is written.

    Each share takes a copy of resources and scopes along, so a request with a huge one would become many huge ones.
    """

    __slots__ = ("_left",)

    def __init__(self, size_bytes: int) -> None:
        """Begin with the size of the request."""
        self._left = size_bytes + max(size_bytes, _MOST_COPIED_BYTES)

    def add(self, size_bytes: int) -> None:
        """Take so many bytes of a share into account; raises TooLargeError if there is no room for them."""
        self._left -= size_bytes
        if self._left < 0:
            what = "shared out it is too large, since each process gets a copy of its resources and scopes"
            raise TooLargeError(where="request", what=what, fix="send smaller batches, or set workers: 1")


def _part_of_span(span: bytes, _scope: bytes, parts: int) -> Sequence[int]:
    trace_id = span[len(_USUAL) : _USUAL_END] if span.startswith(_USUAL) else parse_span(span).trace_id
    return (part_of(trace_id, parts),)


def _share(body: bytes, parts: int, limits: Limits, signals: Signals, find: _Find) -> Mapping[int, Share]:
    check_protobuf(body, limits, signals)
    growth = Growth(len(body))
    shares = [_Writer(growth) for _ in range(parts)]
    try:
        for place, block in enumerate(parse_down_to_spans(body).resource_spans):
            resource = block.resource  # once: each look makes new bytes
            for part, found in _shared(block.scope_spans, parts, find).items():
                shares[part].add(place, resource, found)
    except (MalformedError, ProtobufDecodeError):
        raise signals.refusal(where="request", what=f"the body is not a request of {signals.name} in protobuf") from None
    busy = [part for part in range(parts) if shares[part].items]
    if len(busy) == 1:
        return {busy[0]: Share(body=body, items=shares[busy[0]].items)}
    return {part: Share(body=b"".join(shares[part].pieces), items=shares[part].items) for part in busy}


class _Writer:
    """Writes the request that one part gets. Until it is joined, what several parts get is there once."""

    __slots__ = ("_growth", "_places", "items", "pieces")

    def __init__(self, growth: Growth) -> None:
        self._growth = growth
        self._places = 0
        self.items = 0
        self.pieces: list[bytes] = []

    def add(self, place: int, resource: bytes, block: _Block) -> None:
        """Append a block. Those without anything for this part stay as empty ones, so that an error names blocks by their places."""
        before = _FIRST_TAG + varint(len(resource))
        size = len(before) + len(resource) + block.size
        head = _FIRST_TAG + varint(size)
        skipped = place - self._places
        self._growth.add(skipped * len(_EMPTY_BLOCK) + len(head) + size)
        self.pieces += (_EMPTY_BLOCK * skipped, head, before, resource)
        self.pieces += block.pieces
        self.items += block.items
        self._places = place + 1


class _Block:
    """What one part gets of one block."""

    __slots__ = ("items", "pieces", "size")

    def __init__(self) -> None:
        self.items = 0
        self.pieces: list[bytes] = []
        self.size = 0

    def add(self, scope: bytes, items: list[bytes]) -> None:
        """Add a group with these items. Nothing is joined before all is there: each time would be a copy of everything."""
        before = _FIRST_TAG + varint(len(scope))
        pieces = [before, scope]
        size = len(before) + len(scope)
        for item in items:
            head = _SECOND_TAG + varint(len(item))
            pieces.append(head)
            pieces.append(item)
            size += len(head) + len(item)
        head = _SECOND_TAG + varint(size)
        self.pieces.append(head)
        self.pieces += pieces
        self.size += len(head) + size
        self.items += len(items)


def _shared(groups: Sequence[ScopeSpansMessage], parts: int, find: _Find) -> dict[int, _Block]:
    found: dict[int, _Block] = {}
    for group in groups:
        of_part: dict[int, list[bytes]] = {}
        scope = group.scope  # once, as the resource
        for item in cast("Sequence[bytes]", group.spans[:]):
            for part in find(item, scope, parts):
                of_part.setdefault(part, []).append(item)
        for part, items in of_part.items():
            block = found.get(part)
            if block is None:
                block = found[part] = _Block()
            block.add(scope, items)
    return found
