"""The bounds of the buffer, and what became of the spans that were put into it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferLimits:
    """Bounds. What exceeds them is judged early or counted, never silently lost.

    Attributes:
        num_traces: open traces; beyond it the oldest is judged and evicted.
        limit_bytes: estimated bytes of all open traces; beyond it likewise. Above a quarter of it traces
            that wait for long are packed, above three eighths of it others, too.
        maximum_trace_size_bytes: estimated bytes of one trace; beyond it spans are counted and not kept.
        span_limit: tool, model and agent spans kept of one trace.
        decisions: trace IDs remembered after their decision, so that a late span never opens a fresh trace.
        decisions_ns: how long they are remembered.
    """

    num_traces: int = 100_000
    limit_bytes: int = 256 * 1024 * 1024
    maximum_trace_size_bytes: int = 8 * 1024 * 1024
    span_limit: int = 10_000
    decisions: int = 1_000_000
    decisions_ns: int = 3600 * 1_000_000_000


@dataclass(slots=True, kw_only=True)
class AddResult:
    """What became of the spans of one call: ``received = relevant + ignored + duplicate + conflict + skipped``.

    ``late`` and ``dropped`` spans are counted as relevant or ignored, too.
    """

    received: int = 0
    relevant: int = 0
    ignored: int = 0
    duplicate: int = 0
    conflict: int = 0
    skipped: int = 0  # never looked at, because evaluation was behind
    late: int = 0
    late_ages_ns: list[int] = field(default_factory=list)  # how long after the verdict, one for each late span
    dropped: int = 0

    def count(self, *, relevant: bool) -> None:
        """Count a span that is new."""
        if relevant:
            self.relevant += 1
        else:
            self.ignored += 1

    def count_late(self, age_ns: int) -> None:
        """Count a span that came after its verdict."""
        self.late += 1
        self.late_ages_ns.append(age_ns)
