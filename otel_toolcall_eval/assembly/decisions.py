"""Remembers which traces were decided, so that a late span never opens a fresh trace under an old ID."""

from __future__ import annotations


class DecisionCache:
    """Two generations of trace IDs: when the young one is full or old, the old one is forgotten whole.

    So an ID is kept for at least ``capacity / 2`` further decisions and at most ``capacity``, and no entry needs a timer or
    a place in a queue. Cost: O(1), about 120 bytes an ID.
    """

    __slots__ = ("_half", "_keep_ns", "_old", "_since_ns", "_young")

    def __init__(self, *, capacity: int, keep_ns: int) -> None:
        """Start empty.

        Args:
            capacity: most IDs kept.
            keep_ns: an ID is forgotten after at most this time, unless nothing is decided meanwhile.
        """
        self._half = max(1, capacity // 2)
        self._keep_ns = keep_ns
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._since_ns = 0

    def add(self, trace_id: bytes, *, now_ns: int) -> None:
        """Remember that the trace was decided now."""
        if len(self._young) >= self._half or now_ns - self._since_ns > self._keep_ns // 2:
            self._old, self._young = self._young, {}
            self._since_ns = now_ns
        self._young[trace_id] = now_ns

    def decided_ns(self, trace_id: bytes) -> int | None:
        """Return when the trace was decided; None if it was not, or is forgotten."""
        return self._young.get(trace_id, self._old.get(trace_id))
