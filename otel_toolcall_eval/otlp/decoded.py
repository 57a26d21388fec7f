"""The spans decoded from one request, and those that were rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.trace import Span

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
NO_TRACE_ID = bytes(TRACE_ID_BYTES)
NO_SPAN_ID = bytes(SPAN_ID_BYTES)


class SpanFault(StrEnum):
    """Why one span can't be used, in the words that the sender reads."""

    TRACE_ID = "without a valid trace_id"
    SPAN_ID = "without a valid span_id"
    START = "without a start time"
    END = "without an end time"

    @property
    def reason(self) -> str:
        """Return the same as a metric's attribute: ``trace_id``, ``span_id``, ``start`` or ``end``."""
        return self.name.lower()


class FaultTally:
    """Counts the unusable spans of one request."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        """Start at zero."""
        self._counts: dict[SpanFault, int] = {}

    def add(self, fault: SpanFault) -> None:
        """Count one more span."""
        self._counts[fault] = self._counts.get(fault, 0) + 1

    @property
    def total(self) -> int:
        """Return how many spans were counted."""
        return sum(self._counts.values())

    @property
    def by_reason(self) -> dict[str, int]:
        """Return the counts by ``SpanFault.reason``; a fault that no span has is absent."""
        return {fault.reason: count for fault, count in self._counts.items()}

    def __str__(self) -> str:
        """Return the counts in words, in one order, whatever was found first; empty if there are none."""
        counts = [(fault, self._counts[fault]) for fault in SpanFault if fault in self._counts]
        return ", ".join(f"{count} span{'s' if count > 1 else ''} {fault}" for fault, count in counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedTraces:
    """The spans of one request.

    Attributes:
        spans: the usable ones, in the order of the request.
        reasons: why, for people: ``2 spans without a valid trace_id``; empty if nothing was rejected. Never holds what was sent.
        rejected_by: how many were rejected, by reason: ``{"trace_id": 2}``.
        size_bytes: what ``spans`` take in memory, by estimate.
    """

    spans: tuple[Span, ...] = ()
    reasons: str = ""
    rejected_by: Mapping[str, int] = field(default_factory=dict)
    size_bytes: int = field(default=0, compare=False)

    @property
    def rejected(self) -> int:
        """Return how many spans ``partial_success`` reports to the sender."""
        return sum(self.rejected_by.values())

    @property
    def received(self) -> int:
        """Return how many spans the request held."""
        return len(self.spans) + self.rejected

    @classmethod
    def of(cls, spans: Sequence[Span], faults: FaultTally) -> DecodedTraces:
        """Put together what a decoder found."""
        return cls(
            spans=tuple(spans),
            reasons=str(faults),
            rejected_by=faults.by_reason,
            size_bytes=sum(span.size_bytes for span in spans),
        )


def fault_of(trace_id: bytes, span_id: bytes, start_unix_ns: int, end_unix_ns: int) -> SpanFault | None:
    """Return the first fault that makes a span unusable, None if it can be used.

    Source: opentelemetry-proto, trace.proto: IDs of another length or all zero are invalid and receivers may reject them; both
    times are expected. Only the span is rejected; the rest of its batch is kept.
    """
    if len(trace_id) != TRACE_ID_BYTES or trace_id == NO_TRACE_ID:
        return SpanFault.TRACE_ID
    if len(span_id) != SPAN_ID_BYTES or span_id == NO_SPAN_ID:
        return SpanFault.SPAN_ID
    if not start_unix_ns:
        return SpanFault.START
    return None if end_unix_ns else SpanFault.END


def usable_parent(parent_span_id: bytes) -> bytes | None:
    """Return the parent's ID, None if there is none.

    An ID of the wrong length or all zero counts as no parent: some SDKs write eight zero bytes for a root, and a span that was
    rejected for its parent would be lost, while one taken for a root is at worst evaluated early.
    """
    if len(parent_span_id) == SPAN_ID_BYTES and parent_span_id != NO_SPAN_ID:
        return parent_span_id
    return None
