"""What both decoders share: the parts of a span, and estimates of what it takes in memory."""

from __future__ import annotations

from dataclasses import dataclass
from sys import getsizeof
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.trace import Span
from otel_toolcall_eval.otlp.decoded import SPAN_ID_BYTES, TRACE_ID_BYTES

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Attributes, Resource, Scope, SpanEvent, Value

NO_ATTRIBUTES: Attributes = {}
"""Shared by all spans of which nothing is kept; never to be changed."""

TRACE_ID_SIZE: Final = getsizeof(bytes(TRACE_ID_BYTES))
SPAN_ID_SIZE: Final = getsizeof(bytes(SPAN_ID_BYTES))

_DICT_BYTES: Final = tuple(getsizeof({str(key): None for key in range(number)}) for number in range(100))
"""What a dictionary with so many keys takes: looked up in a third of the time of ``getsizeof``."""

text_bytes = str.__sizeof__  # what getsizeof gives for text, in half the time
_NANOSECONDS_BYTES: Final = getsizeof(1 << 60)
_SIZE_BYTES: Final = getsizeof(1 << 29)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOrigin:
    """What the spans of one block share.

    Attributes:
        share_bytes: what each of them has to bear of the memory that resource and scope take, so that the spans of a request
            together account for them once.
    """

    resource: Resource
    scope: Scope
    share_bytes: int


class KeptAttributes:
    """What is kept of a span's attributes.

    Attributes:
        attributes: by key.
        too_deep: how many were left out although they should be kept, because they are nested too deep.
        size_bytes: what values, and keys that the sender made up, take in memory, less the IDs that the span shares with the one before
            it. A short text that a reader remembers is one object for many spans, and counts for the one that it was made for; what
            stands twice under one key, which OTLP forbids, counts twice.
    """

    __slots__ = ("attributes", "size_bytes", "too_deep")

    def __init__(self) -> None:
        """Start with nothing."""
        self.attributes: dict[str, Value] = {}
        self.too_deep = 0
        self.size_bytes = 0


def value_bytes(value: Value) -> int:
    """Return what a value takes in memory, members included. Cost: O(members)."""
    if type(value) is str:
        return text_bytes(value)
    if isinstance(value, tuple):
        return getsizeof(value) + sum(map(value_bytes, value))
    if isinstance(value, dict):
        return attributes_bytes(value)
    return 0 if value is None or isinstance(value, bool) else getsizeof(value)


def kept_of(attributes: dict[str, Value], too_deep: int) -> KeptAttributes:
    """Return attributes, all of whose values are made for them alone, as what is kept of them."""
    kept = KeptAttributes()
    kept.attributes, kept.too_deep = attributes, too_deep
    kept.size_bytes = sum([len(key) + value_bytes(value) for key, value in attributes.items()])
    return kept


def attributes_bytes(attributes: Attributes) -> int:
    """Return what attributes take in memory, keys included."""
    return getsizeof(attributes) + sum(getsizeof(key) + value_bytes(value) for key, value in attributes.items())


def event_bytes(event: SpanEvent) -> int:
    """Return what an event takes in memory."""
    return getsizeof(event) + getsizeof(event.name) + _NANOSECONDS_BYTES + attributes_bytes(event.attributes)


def origin_of(resource: Resource, scope: Scope, *, spans: int, charged: bool = True) -> SpanOrigin:
    """Return the origin of one block.

    Args:
        resource: of the block.
        scope: of the block.
        spans: how many spans share the resource, at least 1.
        charged: False if an earlier request has accounted for the resource already; senders repeat theirs with each request.
    """
    if not charged:
        return SpanOrigin(resource=resource, scope=scope, share_bytes=0)
    resource_bytes = getsizeof(resource) + attributes_bytes(resource.attributes)
    scope_bytes = getsizeof(scope) + getsizeof(scope.name) + getsizeof(scope.version)
    return SpanOrigin(resource=resource, scope=scope, share_bytes=-(-(resource_bytes + scope_bytes) // spans))


def span_bytes(name: str, status_message: str, kept: KeptAttributes, events: tuple[SpanEvent, ...], origin: SpanOrigin) -> int:
    """Return what a span takes in memory, by estimate.

    The estimate holds the objects that live as long as the span: IDs, times, texts, kept attributes and events, its share of the
    origin. Not counted, because shared: keys that the projection lists (in protobuf), small integers, status codes.
    """
    size = _SPAN_BYTES + text_bytes(name) + origin.share_bytes + kept.size_bytes
    if status_message:
        size += getsizeof(status_message)
    if kept.attributes:
        number = len(kept.attributes)
        size += _DICT_BYTES[number] if number < len(_DICT_BYTES) else getsizeof(kept.attributes)
    if events:
        size += getsizeof(events) + sum(map(event_bytes, events))
    return size


# A span without anything variable: the object, three IDs, two times, its own size.
_SPAN_BYTES: Final = getsizeof(object.__new__(Span)) + TRACE_ID_SIZE + 2 * SPAN_ID_SIZE + 2 * _NANOSECONDS_BYTES + _SIZE_BYTES
