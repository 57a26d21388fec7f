"""The sidecar's own aggregation of metrics: cells that are added to under one lock.

The SDK cleans and hashes an attribute set at every call, 11 us each; a verdict set of four evaluators makes some twenty calls, more than
all the rest of judging it. Here the set is looked up once and a call costs 0.5 us; of what is recorded together time and again (a
``Bundle``) it is only counted how often, and a reader puts it into the cells. ``collection`` makes of it what exporters take.
Left out, since the sidecar has no use for them: views, exponential histograms, gauges that are set.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.instrument import Kind
from otel_toolcall_eval.emission.recording import RECORDED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource

    from otel_toolcall_eval.emission.instrument import Instrument
    from otel_toolcall_eval.emission.metrics import CountSource
    from otel_toolcall_eval.emission.recording import Bundle, Cell, Occasion

MAX_CELLS: Final = 10_000
"""Attribute sets of one instrument; one more stands for all others. Prometheus copes with so many series of one target, and the names in
them are bounded one by one besides."""

_MOST_NOTED: Final = 256  # bundles that wait for a reader: 2 ms of work, if there is none for hours

_NO_EXTREMES: Final = (float("inf"), float("-inf"))

Key: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes, sorted."""


class _Counted:
    """A counter's cell."""

    __slots__ = ("_exemplar", "_lock", "_value")

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._value: float = 0
        self._exemplar: tuple[float, Occasion] | None = None

    def record(self, value: float, occasion: Occasion | None = None) -> None:
        with self._lock:
            self.add(value, occasion)

    def add(self, value: float, occasion: Occasion | None) -> None:
        """Record; under the lock."""
        self._value += value
        if occasion is not None:
            self._exemplar = value, occasion

    def settle(self, value: float, occasion: Occasion | None, times: int) -> None:
        """Record what was so many times, the last on this occasion; under the lock."""
        self._value += value * times
        self._exemplar = _newer(self._exemplar, value, occasion)

    def state(self, *, take_extremes: bool) -> State:  # noqa: ARG002 - a counter has none
        """Return what is held; under the lock."""
        return State(total=self._value, exemplars=() if self._exemplar is None else (self._exemplar,))


class _Distributed:
    """A histogram's cell."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_high", "_lock", "_low", "_total")

    def __init__(self, lock: Lock, bounds: Sequence[float]) -> None:
        self._lock = lock
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total: float = 0
        self._low, self._high = _NO_EXTREMES
        self._exemplars: dict[int, tuple[float, Occasion]] = {}

    def record(self, value: float, occasion: Occasion | None = None) -> None:
        with self._lock:
            self.add(value, occasion)

    def add(self, value: float, occasion: Occasion | None) -> None:
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

    def settle(self, value: float, occasion: Occasion | None, times: int) -> None:
        """Record what was so many times, the last on this occasion; under the lock."""
        place = bisect_left(self._bounds, value)
        exemplar = _newer(self._exemplars.get(place), value, occasion)
        self.add(value, None)
        self._counts[place] += times - 1
        self._total += value * (times - 1)
        if exemplar is not None:
            self._exemplars[place] = exemplar

    def state(self, *, take_extremes: bool) -> State:
        """Return what is held, and begin anew with the least and the greatest value if they are taken; under the lock."""
        exemplars = tuple(self._exemplars.values())
        state = State(total=self._total, counts=tuple(self._counts), low=self._low, high=self._high, exemplars=exemplars)
        if take_extremes:
            self._low, self._high = _NO_EXTREMES
        return state


def _newer(known: tuple[float, Occasion] | None, value: float, occasion: Occasion | None) -> tuple[float, Occasion] | None:
    """Return the exemplar that is to stand: what was only counted may be older than what was recorded since.

    By the order in which they came, since the clock may be set back.
    """
    if occasion is None or (known is not None and known[1].order > occasion.order):
        return known
    return value, occasion


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
    exemplars: tuple[tuple[float, Occasion], ...] = ()

    def since(self, earlier: State | None) -> State:
        """Return what came on top of an earlier state."""
        if earlier is None:
            return self
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return State(total=self.total - earlier.total, counts=counts, low=self.low, high=self.high, exemplars=self.exemplars)


class Aggregator:
    """Holds the cells of all instruments, and knows who has the counts that are observed. Any thread."""

    def __init__(self, resource: Resource, *, version: str | None = None, clock: Callable[[], int] = time.time_ns) -> None:
        """Start empty.

        Args:
            resource: of our telemetry.
            version: ours; becomes the scope's.
            clock: Unix time in nanoseconds.
        """
        self.resource = resource
        self.scope = InstrumentationScope(names.SCOPE_NAME, version)
        self.clock = clock
        self.began_unix_ns = clock()
        self._lock = Lock()
        self._cells: dict[str, dict[Key, _Counted | _Distributed]] = {item.name: {} for item in RECORDED}
        self._overflows: dict[str, _Counted | _Distributed] = {}
        self._noted: list[Bundle] = []  # those that are not in the cells yet
        self._recorded = 0
        self.source: CountSource | None = None

    def cell(self, instrument: Instrument, attributes: Mapping[str, str]) -> Cell:
        """Return the cell of an attribute set; beyond MAX_CELLS the one that stands for all others."""
        key = tuple(sorted(attributes.items()))
        with self._lock:
            cells = self._cells[instrument.name]
            found = cells.get(key)
            if found is None and len(cells) < MAX_CELLS:
                found = cells[key] = self._new(instrument)
            elif found is None:
                found = self._overflows.get(instrument.name)
                if found is None:
                    found = self._overflows[instrument.name] = self._new(instrument)
            return found

    def record_all(self, values: Sequence[tuple[Cell, float]], bundles: Sequence[Bundle], occasion: Occasion) -> None:
        """Record values of our cells, all at one moment for who reads them."""
        with self._lock:
            self._recorded += 1
            occasion.order = self._recorded
            for cell, value in values:
                cell.add(value, occasion)  # type: ignore[attr-defined] # ours, as the recorder that made it is
            if len(self._noted) >= _MOST_NOTED:
                self._settle()
            for bundle in bundles:
                if not bundle.times:
                    self._noted.append(bundle)
                bundle.times += 1
                bundle.occasion = occasion

    def _settle(self) -> None:
        """Put into the cells what was only noted; under the lock."""
        for bundle in self._noted:
            for cell, value in bundle.values:
                cell.settle(value, bundle.occasion, bundle.times)  # type: ignore[attr-defined] # as above
            bundle.times, bundle.occasion = 0, None
        self._noted.clear()

    def _new(self, instrument: Instrument) -> _Counted | _Distributed:
        return _Distributed(self._lock, instrument.bounds) if instrument.kind is Kind.HISTOGRAM else _Counted(self._lock)

    def states(self, *, take_extremes: bool) -> Mapping[str, Sequence[tuple[Key | None, State]]]:
        """Return what all cells hold at this moment, by instrument; without attributes for the one that stands for others.

        ``take_extremes`` lets the least and the greatest values begin anew: only one reader may, one that exports deltas. The page,
        the other reader, does not show them.
        """
        with self._lock:
            self._settle()
            found: dict[str, list[tuple[Key | None, State]]] = {
                name: [(key, cell.state(take_extremes=take_extremes)) for key, cell in cells.items()] for name, cells in self._cells.items()
            }
            for name, cell in self._overflows.items():
                found[name].append((None, cell.state(take_extremes=take_extremes)))
        return found
