"""Remembers what was decided, so that a late span never opens a fresh trace under an old ID."""

from __future__ import annotations


class DecisionCache:
    """Two generations of keys: when the young one is full or old, the old one is forgotten whole.

    So a key is kept for at least ``capacity / 2`` further ones and at most ``capacity``, and no entry needs a timer or
    a place in a queue. A key is a trace ID, or a trace ID and a span ID. Cost: O(1), about 120 bytes a key.
    """

    __slots__ = ("_half", "_keep_ns", "_old", "_since_ns", "_young")

    def __init__(self, *, capacity: int, keep_ns: int) -> None:
        """Start empty.

        Args:
            capacity: most keys kept.
            keep_ns: a key is forgotten after at most this time, unless nothing is decided meanwhile.
        """
        self._half = max(1, capacity // 2)
        self._keep_ns = keep_ns
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}
        self._since_ns = 0

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._young) + len(self._old)

    def add(self, key: bytes, *, now_ns: int, decided_ns: int | None = None) -> None:
        """Remember from now on that this was decided, now or at another time."""
        if len(self._young) >= self._half or now_ns - self._since_ns > self._keep_ns // 2:
            self._old, self._young = self._young, {}
            self._since_ns = now_ns
        self._young[key] = now_ns if decided_ns is None else decided_ns

    def decided_ns(self, key: bytes) -> int | None:
        """Return when this was decided; None if it was not, or is forgotten."""
        return self._young.get(key, self._old.get(key))
