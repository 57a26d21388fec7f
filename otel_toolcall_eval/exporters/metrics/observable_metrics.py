"""Counts that are read at export time, as observable instruments of any MeterProvider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import Observation

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.recording import OBSERVED
from otel_toolcall_eval.exporters.names import InstrumentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey, CountSource
    from otel_toolcall_eval.exporters.names import Instrument


def observe(meter_provider: MeterProvider, source: CountSource) -> None:
    """Create the observable instruments of OBSERVED over a source of counts.

    The SDK reads instruments one after the other, in the order in which they were created and under one lock, so the first of them
    takes the counts for all: what one collection exports is of one moment, and its sums agree.
    """
    meter = meter_provider.get_meter(names.SCOPE_NAME)
    snapshot = _Snapshot(source)
    for position, instrument in enumerate(OBSERVED):
        _observable(meter, instrument, snapshot.reader(instrument.name, refresh=position == 0))


class _Snapshot:
    """The counts of one moment, shared by the callbacks of one collection."""

    def __init__(self, source: CountSource) -> None:
        self._source = source
        self._counts: Mapping[CountKey, int | float] = {}

    def reader(self, name: str, *, refresh: bool) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            if refresh:
                self._counts = self._source.counts()
            return [
                Observation(value, {f"{names.OUR_PREFIX}{word}": text for word, text in attributes})
                for (counted, attributes), value in self._counts.items()
                if counted == name
            ]

        return read


def _observable(meter: Meter, instrument: Instrument, callback: Callable[[CallbackOptions], Iterable[Observation]]) -> None:
    create = {
        InstrumentKind.OBSERVABLE_COUNTER: meter.create_observable_counter,
        InstrumentKind.OBSERVABLE_UP_DOWN_COUNTER: meter.create_observable_up_down_counter,
        InstrumentKind.OBSERVABLE_GAUGE: meter.create_observable_gauge,
    }[instrument.kind]
    create(instrument.name, callbacks=[callback], unit=instrument.unit, description=instrument.description)
