"""OTLP trace requests in protobuf, to spans.

A request is parsed by protobuf's C parser down to its spans; of each span only what everyone needs and the attributes that the projection
keeps are turned into Python objects. Fields may stand in any order, unknown ones are ignored.
Whatever is read has to be well-formed; malformed bytes in what nobody reads (an attribute that is not kept) go unnoticed.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError as ProtobufDecodeError

from otel_toolcall_eval.model.trace import Resource, Scope, Span
from otel_toolcall_eval.otlp.any_value import text_of
from otel_toolcall_eval.otlp.attribute_reader import read_all, reader_for
from otel_toolcall_eval.otlp.decoded import DecodedTraces, FaultTally
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, SPANS, MemberBudget, check_protobuf
from otel_toolcall_eval.otlp.schema import parse_request, parse_resource, parse_scope
from otel_toolcall_eval.otlp.span_factory import SpanOrigin, origin_of
from otel_toolcall_eval.otlp.span_reader import SpanReader
from otel_toolcall_eval.otlp.varint import MalformedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.otlp.limits import Limits
    from otel_toolcall_eval.otlp.schema import ResourceSpansMessage, SpanMessage

_CACHED_BYTES = 4096
"""A resource or scope is remembered up to this size, so that the requests of one process share one object and decode it once."""


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

    Cost: 8 to 10 us a span of which no attribute is kept, 10 to 20 times what parsing alone takes with the generated classes; half a
    microsecond for a short attribute that is kept, one for a long one. Measured by ``tests/bench/bench_wire.py``.
    """
    check_protobuf(body, limits)
    try:
        request = parse_request(body)
    except ProtobufDecodeError:
        # The parser's own words name neither place nor cause, so there is nothing to keep of them.
        raise SPANS.refusal(where="request", what="the body is not a trace request in protobuf") from None
    decoder = _ProtobufTracesDecoder(projection, limits)
    for position, block in enumerate(request.resource_spans):
        decoder.block(block, position)
    return decoder.result()


class _ProtobufTracesDecoder:
    """Decodes the blocks of one request."""

    def __init__(self, projection: Projection, limits: Limits) -> None:
        self._budget = MemberBudget(limits)
        self._reader = SpanReader(reader_for(projection), self._budget)
        self._spans: list[Span] = []
        self._faults = FaultTally()

    def result(self) -> DecodedTraces:
        return DecodedTraces.of(self._spans, self._faults)

    def block(self, block: ResourceSpansMessage, position: int) -> None:
        groups = [(group.scope, group.spans[:]) for group in block.scope_spans]
        number = sum([len(spans) for _, spans in groups]) or 1
        try:
            resource, is_new = _resource_of(block.resource, self._budget)
            for scope, spans in groups:
                self._spans_of(spans, origin_of(resource, _scope_of(scope), spans=number, charged=is_new))
        except (MalformedError, ProtobufDecodeError):
            where = f"resource_spans[{position}], near span {len(self._spans) + self._faults.total} of the request"
            raise SPANS.refusal(where=where, what="a span, or a resource, scope, attribute, event or status, is not protobuf") from None

    def _spans_of(self, spans: Sequence[SpanMessage], origin: SpanOrigin) -> None:
        read, append = self._reader.read, self._spans.append
        for span in spans:
            found = read(span, origin)
            if isinstance(found, Span):
                append(found)
            else:
                self._faults.add(found)


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
