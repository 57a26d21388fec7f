"""The cells of the aggregator: what is added to whenever something is recorded."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Lock

    from otel_toolcall_eval.exporters.metrics.recording import RecordingContext

_NONE_YET: Final = float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a cell held at one moment.

    Attributes:
        total: of what was recorded.
        counts: by bucket; empty for a counter.
        exemplars: the newest of each bucket, or of the counter.
    """

    total: float
    counts: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    exemplars: tuple[tuple[float, RecordingContext], ...] = ()

    def since(self, earlier: State | None) -> State:
        """Return what came on top of an earlier state."""
        if earlier is None:
            return self
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return State(total=self.total - earlier.total, counts=counts, low=self.low, high=self.high, exemplars=self.exemplars)


class CounterPoint:
    """A counter's cell."""

    __slots__ = ("_exemplar", "_lock", "_value")

    def __init__(self, lock: Lock) -> None:
        """Begin at 0."""
        self._lock = lock
        self._value: float = 0.0
        self._exemplar: tuple[float, RecordingContext] | None = None

    def record(self, value: float, occasion: RecordingContext | None = None) -> None:
        """Add."""
        with self._lock:
            self.add(value, occasion)

    def add(self, value: float, occasion: RecordingContext | None) -> None:
        """Record; under the lock."""
        self._value += value
        if occasion is not None:
            self._exemplar = value, occasion

    def state(self, *, take_extremes: bool) -> State:  # noqa: ARG002 - a counter has none
        """Return what is held; under the lock."""
        return State(total=self._value, exemplars=() if self._exemplar is None else (self._exemplar,))


class HistogramPoint:
    """A histogram's cell."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_high", "_lock", "_low", "_total")

    def __init__(self, lock: Lock, bounds: Sequence[float]) -> None:
        """Begin without values; ``bounds`` are ascending."""
        self._lock = lock
        self._bounds = [float(bound) for bound in bounds]
        self._counts = [0] * (len(bounds) + 1)
        self._total: float = 0.0
        self._low: float = _NONE_YET
        self._high: float = -_NONE_YET
        self._exemplars: dict[int, tuple[float, RecordingContext]] = {}

    def record(self, value: float, occasion: RecordingContext | None = None) -> None:
        """Add a value."""
        with self._lock:
            self.add(value, occasion)

    def add(self, value: float, occasion: RecordingContext | None) -> None:
        """Record; under the lock."""
        place = bisect_left(self._bounds, value)  # an upper bound lies inside its bucket
        self._counts[place] += 1
        self._total += value
        if value < self._low:  # noqa: PLR1730 - a call of min costs more than all the rest here
            self._low = value
        if value > self._high:  # noqa: PLR1730 - likewise
            self._high = value
        if occasion is not None:
            self._exemplars[place] = value, occasion

    def state(self, *, take_extremes: bool) -> State:
        """Return what is held, and begin anew with the least and the greatest value if they are taken; under the lock."""
        exemplars = tuple(self._exemplars.values())
        state = State(total=self._total, counts=tuple(self._counts), low=self._low, high=self._high, exemplars=exemplars)
        if take_extremes:
            self._low, self._high = _NONE_YET, -_NONE_YET
        return state


AnyCell: TypeAlias = "CounterPoint | HistogramPoint"


def add_all(values: Sequence[tuple[AnyCell, float]], occasion: RecordingContext) -> None:
    """Record values of one occasion; under the lock."""
    for cell, value in values:
        cell.add(value, occasion)
