"""Where the emitter of metrics records: one interface, for the user's MeterProvider in process and for our own aggregator in the sidecar.

A *cell* is one attribute set of one instrument. The emitter asks for it once and keeps it, so that recording the same again costs
neither a dictionary of attributes nor their hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.evaluated_span import context_of
from otel_toolcall_eval.exporters.names import FORWARD_OBSERVED, FORWARD_RECORDED, OPERATION_OBSERVED, InstrumentKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import SpanContext

    from otel_toolcall_eval.exporters.names import Instrument

RECORDED: Final = (*names.RECORDED, *FORWARD_RECORDED)
"""The instruments that are recorded as things happen."""

OBSERVED: Final = (*names.OBSERVED, *FORWARD_OBSERVED, *OPERATION_OBSERVED)
"""The instruments that are read at export time."""


class RecordingContext:
    """The span that something is recorded for, and the time: what an exemplar leads to."""

    __slots__ = ("_context", "_make", "_span", "unix_ns")

    def __init__(self, make: Callable[[], SpanContext], unix_ns: int) -> None:
        """Keep what makes the evaluated span's context (one that is not valid makes no exemplar), and the time of the verdict."""
        self.unix_ns = unix_ns
        self._make = make
        self._span: SpanContext | None = None
        self._context: Context | None = None

    @property
    def span(self) -> SpanContext:
        """Return the evaluated span's context; made when it is asked for, since of most occasions a newer one takes the place before."""
        if self._span is None:
            self._span = self._make()
        return self._span

    @property
    def context(self) -> Context:
        """Return the span as the SDK wants it; made once."""
        if self._context is None:
            self._context = context_of(self.span)
        return self._context


class DataPoint(Protocol):
    """One attribute set of one instrument."""

    def record(self, value: float, occasion: RecordingContext | None = None) -> None:
        """Add to a counter (``value`` is 0 or more), or record a value of a histogram. Any thread."""
        ...


class MetricRecorder(Protocol):
    """Has the cells."""

    def record_all(self, values: Sequence[tuple[DataPoint, float]], occasion: RecordingContext) -> None:
        """Record values of its cells that belong together. Any thread."""
        ...

    def cell(self, instrument: Instrument, attributes: Mapping[str, str]) -> DataPoint:
        """Return the cell of an attribute set of one of RECORDED. Any thread."""
        ...


class SdkRecorder:
    """Records with the instruments of any MeterProvider, whose views, bounds and exemplars hold. 11 us a call."""

    def __init__(self, meter_provider: MeterProvider) -> None:
        """Create the instruments; the provider stays the caller's."""
        meter = meter_provider.get_meter(names.SCOPE_NAME)
        self._counters = {item.name: _counter(meter, item) for item in RECORDED if item.kind is InstrumentKind.COUNTER}
        self._histograms = {item.name: _histogram(meter, item) for item in RECORDED if item.kind is InstrumentKind.HISTOGRAM}

    def cell(self, instrument: Instrument, attributes: Mapping[str, str]) -> DataPoint:
        """Return the cell of an attribute set."""
        if instrument.kind is InstrumentKind.COUNTER:
            return _CounterCell(self._counters[instrument.name], attributes)
        return _HistogramCell(self._histograms[instrument.name], attributes)

    def record_all(self, values: Sequence[tuple[DataPoint, float]], occasion: RecordingContext) -> None:
        """Record each."""
        for cell, value in values:
            cell.record(value, occasion)


class _CounterCell:
    __slots__ = ("_attributes", "_instrument")

    def __init__(self, instrument: Counter, attributes: Mapping[str, str]) -> None:
        self._instrument = instrument
        self._attributes = attributes

    def record(self, value: float, occasion: RecordingContext | None = None) -> None:
        self._instrument.add(int(value), self._attributes, None if occasion is None else occasion.context)


class _HistogramCell:
    __slots__ = ("_attributes", "_instrument")

    def __init__(self, instrument: Histogram, attributes: Mapping[str, str]) -> None:
        self._instrument = instrument
        self._attributes = attributes

    def record(self, value: float, occasion: RecordingContext | None = None) -> None:
        self._instrument.record(value, self._attributes, None if occasion is None else occasion.context)


def _counter(meter: Meter, instrument: Instrument) -> Counter:
    return meter.create_counter(instrument.name, unit=instrument.unit, description=instrument.description)


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    # Advice, not a view: in the agent's process the MeterProvider is the user's, and so are its views, which go first.
    return meter.create_histogram(
        instrument.name,
        unit=instrument.unit,
        description=instrument.description,
        explicit_bucket_boundaries_advisory=instrument.bounds,
    )
