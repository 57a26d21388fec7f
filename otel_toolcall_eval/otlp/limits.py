"""How much one request may hold, checked before it is parsed.

The size of a body does not bound the memory that it takes: 64 MiB of empty spans, two bytes each, become 5 GB once parsed, and
64 MiB of ``[[],[],...`` 1.5 GB. What bounds it is the number of parts.

Choice: a body too small to hold much passes unseen; a larger one has its spans counted by their framing, without a look inside
(0.4 microseconds a span), and only where a mere count of bytes can't rule it out, the parts of its spans too.
Rejected: counting everything always (three times the cost of parsing), limits on the size of the body alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import maxsize

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.otlp.varint import MalformedError, fields_of

_RESOURCE_SPANS = b"\x0a"  # field 1 of the request; with logs the same
_SCOPE_SPANS = b"\x12"  # field 2 of ResourceSpans and ResourceLogs
_SPAN = b"\x12"  # field 2 of ScopeSpans and ScopeLogs
_JSON_ELEMENTS = (b",", b"{", b"[")
_JSON_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """What tells requests of one kind from those of another.

    Attributes:
        message: the name of such a request.
        name: what they hold.
        parts: tags of the fields of one such thing that may stand there without end.
        part_names: what those are.
    """

    message: str
    name: str
    parts: tuple[bytes, ...]
    part_names: str

    def refusal(self, *, where: str, what: str) -> DecodeError:
        """Return the error for a body that is no such request."""
        return DecodeError(where=where, what=what, fix=f"send an {self.message}, and OTLP/JSON as Content-Type application/json")


SPANS = Signals(
    message="ExportTraceServiceRequest",
    name="spans",
    parts=(b"\x4a", b"\x5a"),  # fields 9 and 11 of Span
    part_names="attributes and events",
)
LOG_RECORDS = Signals(
    message="ExportLogsServiceRequest",
    name="log records",
    parts=(b"\x32",),  # field 6 of LogRecord
    part_names="attributes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one request.

    Attributes:
        spans: spans or log records, with the blocks that they stand in. The largest batch that a known sender makes unasked is 8,192 spans.
        attributes: attributes and events in protobuf.
        members: members of arrays and key-value lists among the attributes that are kept.
        elements: objects, lists and what stands between commas in JSON.
    """

    spans: int = 262_144
    attributes: int = 2_000_000
    members: int = 1_000_000
    elements: int = 4_000_000


DEFAULT_LIMITS = Limits()
UNLIMITED = Limits(spans=maxsize, attributes=maxsize, members=maxsize, elements=maxsize)
"""For recorded files, whose owner decides what they hold."""


def too_many(what: str, limit: int) -> TooLargeError:
    """Return the error for a request that holds more than ``limit`` of something."""
    return TooLargeError(where="request", what=f"more than {limit:,} {what}", fix="send smaller batches")


class MemberBudget:
    """How many members of arrays and key-value lists may still be decoded in this request."""

    __slots__ = ("_limit", "left")

    def __init__(self, limits: Limits) -> None:
        """Start with all of ``limits.members``; who takes something back sets ``left`` to what it was."""
        self._limit = self.left = limits.members

    def spend(self) -> None:
        """Take one; raises TooLargeError when none is left."""
        self.left -= 1
        if self.left < 0:
            what = "members of arrays and key-value lists"
            raise too_many(what, self._limit)


def check_protobuf(body: bytes, limits: Limits, signals: Signals = SPANS) -> None:
    """Raise TooLargeError if ``body``, parsed as a request of ``signals``, holds more than ``limits``.

    A body of up to 4 bytes for each span allowed passes: with the smallest part of two bytes it holds twice as many at worst.
    What is not protobuf passes, since the parser says that better.
    Cost: none up to 1 MiB, then 0.4 microseconds a span, and above 4 MiB two passes over the bytes.
    """
    if len(body) > 4 * limits.spans:
        into_spans = len(body) > 2 * limits.attributes and sum(map(body.count, signals.parts)) > limits.attributes
        _Walk(body, limits, signals, into_spans=into_spans).request()


def check_json(body: bytes, limits: Limits) -> None:
    """Raise TooLargeError if ``body``, parsed as JSON, holds more than ``limits.elements`` elements.

    Cost: none up to 4 MiB, then three passes over the bytes, and a fourth where the text of strings may have been counted.
    """
    if len(body) <= limits.elements:
        return
    if sum(map(body.count, _JSON_ELEMENTS)) > limits.elements:
        bare = _JSON_STRING.sub(b"", body)
        if sum(map(bare.count, _JSON_ELEMENTS)) > limits.elements:
            what = "elements"
            raise too_many(what, limits.elements)


class _Walk:
    """Counts the parts of a protobuf request exactly, without decoding any."""

    def __init__(self, body: bytes, limits: Limits, signals: Signals, *, into_spans: bool) -> None:
        self._body = body
        self._signals = signals
        self._parts = frozenset(part[0] for part in signals.parts)
        self._limits = limits
        self._into_spans = into_spans
        self._blocks = 0
        self._attributes = 0

    def request(self) -> None:
        """Raise TooLargeError as soon as a limit is exceeded."""
        try:
            self._blocks_in(0, len(self._body), (_RESOURCE_SPANS[0], _SCOPE_SPANS[0], _SPAN[0]))
        except MalformedError:
            return  # the parser refuses it, with a better reason

    def _blocks_in(self, position: int, end: int, tags: tuple[int, ...]) -> None:
        for tag, start, stop in fields_of(self._body, position, end):
            if tag != tags[0]:
                continue
            self._blocks += 1
            if self._blocks > self._limits.spans:
                raise too_many(self._signals.name, self._limits.spans)
            if len(tags) > 1:
                self._blocks_in(start, stop, tags[1:])
            elif self._into_spans:
                self._attributes_in(start, stop)

    def _attributes_in(self, position: int, end: int) -> None:
        for tag, _, _ in fields_of(self._body, position, end):
            self._attributes += tag in self._parts
            if self._attributes > self._limits.attributes:
                raise too_many(self._signals.part_names, self._limits.attributes)
