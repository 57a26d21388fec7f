"""Which local spans are open, trace by trace: what only a process knows, and a sidecar has to guess from silence.

Owned by the judging thread. Bounded by traces: of too many the one that began first is forgotten, which is most likely one whose span never
ends; its verdict then no longer waits. Rejected: references to the spans themselves, which would keep an agent's memory.
"""

from __future__ import annotations

from typing import Final

MAX_TRACES: Final = 10_000
"""As many as may be open in a process by default (``limits.num_traces``); 500 bytes each."""


class LocalTrace:
    """What is known of one trace that has open spans here."""

    __slots__ = ("named", "sampled", "span_ids")

    def __init__(self) -> None:
        """Start with no span."""
        self.span_ids: set[int] = set()
        self.sampled = False  # a span of it is sampled, so it will be judged
        self.named: object = None  # what baggage named last


class OpenSpans:
    """Counts the open spans of each trace."""

    def __init__(self) -> None:
        """Start with none."""
        self._traces: dict[int, LocalTrace] = {}  # in order of their first open span

    @property
    def trace_ids(self) -> frozenset[int]:
        """Return the traces that have open spans."""
        return frozenset(self._traces)

    def start(self, trace_id: int, span_id: int, *, sampled: bool) -> LocalTrace:
        """Note that a span is open."""
        trace = self._traces.get(trace_id)
        if trace is None:
            if len(self._traces) >= MAX_TRACES:
                del self._traces[next(iter(self._traces))]
            trace = self._traces[trace_id] = LocalTrace()
        trace.span_ids.add(span_id)
        trace.sampled |= sampled
        return trace

    def end(self, trace_id: int, span_id: int) -> bool:
        """Note that a span has ended; True if its trace is one that will be judged. One whose start was not seen changes nothing."""
        trace = self._traces.get(trace_id)
        if trace is None:
            return False
        trace.span_ids.discard(span_id)
        if not trace.span_ids:
            del self._traces[trace_id]
        return trace.sampled

    def count(self, trace_id: int) -> int:
        """Return how many spans of a trace are open."""
        trace = self._traces.get(trace_id)
        return 0 if trace is None else len(trace.span_ids)
