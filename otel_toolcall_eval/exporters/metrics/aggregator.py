"""The sidecar's own aggregation of metrics: cells that are added to under one lock.

The SDK cleans and hashes an attribute set at every call, 11 us each; a verdict set of four evaluators makes some twenty calls, more than
all the rest of evaluating it. Here the set is looked up once and a call costs 0.5 us. ``collection`` makes of it what exporters take.
Left out, since the sidecar has no use for them: views, exponential histograms, gauges that are set.
"""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.data_points import CounterPoint, HistogramPoint, add_all
from otel_toolcall_eval.exporters.metrics.recording import RECORDED
from otel_toolcall_eval.exporters.names import InstrumentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.resources import Resource

    from otel_toolcall_eval.exporters.metrics.data_points import AnyCell, State
    from otel_toolcall_eval.exporters.metrics.emitter import CountSource
    from otel_toolcall_eval.exporters.metrics.recording import DataPoint, RecordingContext
    from otel_toolcall_eval.exporters.names import Instrument

MAX_CELLS: Final = 10_000
"""Attribute sets of one instrument; one more stands for all others. Prometheus copes with so many series of one target, and the names in
them are bounded one by one besides."""

Key: TypeAlias = tuple[tuple[str, str], ...]
"""Attributes, sorted."""


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
        self._cells: dict[str, dict[Key, AnyCell]] = {item.name: {} for item in RECORDED}
        self._overflows: dict[str, AnyCell] = {}
        self.source: CountSource | None = None

    def cell(self, instrument: Instrument, attributes: Mapping[str, str]) -> DataPoint:
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

    def record_all(self, values: Sequence[tuple[DataPoint, float]], occasion: RecordingContext) -> None:
        """Record values of our cells, all at one moment for who reads them."""
        with self._lock:
            add_all(values, occasion)  # type: ignore[arg-type] # ours, as the recorder that made them is

    def _new(self, instrument: Instrument) -> AnyCell:
        return HistogramPoint(self._lock, instrument.bounds) if instrument.kind is InstrumentKind.HISTOGRAM else CounterPoint(self._lock)

    def states(self, *, take_extremes: bool) -> Mapping[str, Sequence[tuple[Key | None, State]]]:
        """Return what all cells hold at this moment, by instrument; without attributes for the one that stands for others.

        ``take_extremes`` lets the least and the greatest values begin anew: only one reader may, one that exports deltas. The page,
        the other reader, does not show them.
        """
        with self._lock:
            found: dict[str, list[tuple[Key | None, State]]] = {
                name: [(key, cell.state(take_extremes=take_extremes)) for key, cell in cells.items()] for name, cells in self._cells.items()
            }
            for name, cell in self._overflows.items():
                found[name].append((None, cell.state(take_extremes=take_extremes)))
        return found
