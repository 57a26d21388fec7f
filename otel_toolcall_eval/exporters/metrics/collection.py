"""What an aggregator holds, as the SDK's ``MetricsData``, which every exporter takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk.metrics import Exemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.export_plan import Temporality
from otel_toolcall_eval.exporters.metrics.recording import OBSERVED, RECORDED
from otel_toolcall_eval.exporters.names import InstrumentKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator, Key
    from otel_toolcall_eval.exporters.metrics.data_points import State
    from otel_toolcall_eval.exporters.metrics.recording import RecordingContext
    from otel_toolcall_eval.exporters.names import Instrument

OVERFLOW: Final[Mapping[str, str | bool]] = {"otel.metric.overflow": True}
"""Attributes of the cell that all others fall into. Source: OpenTelemetry specification, "Metrics SDK", cardinality limits."""

Attributes: TypeAlias = "Mapping[str, str | bool]"


class Collection:
    """One reader's view of an aggregator. ``collect`` belongs to one thread at a time."""

    def __init__(self, aggregator: Aggregator, temporality: Temporality = Temporality.CUMULATIVE) -> None:
        """Begin: with delta temporality the first collection counts since the aggregator's start."""
        self._aggregator = aggregator
        cumulative, delta = AggregationTemporality.CUMULATIVE, AggregationTemporality.DELTA
        self._of_recorded = cumulative if temporality is Temporality.CUMULATIVE else delta
        self._of_observed = delta if temporality is Temporality.DELTA else cumulative  # of what only grows
        self._last_unix_ns = aggregator.began_unix_ns
        self._states: dict[tuple[str, Key | None], State] = {}
        self._observed: Mapping[tuple[str, Key], float] = {}

    def collect(self) -> MetricsData:
        """Return all that there is: what was recorded, and the counts of one moment.

        A sum since the start comes with the newest exemplar of each bucket, again and again: a Collector shows on its page those of the
        last export alone, and who scrapes it would miss them. A sum since the last export comes with what is new.
        """
        aggregator = self._aggregator
        now_unix_ns = aggregator.clock()
        counted = self._counted(now_unix_ns)  # first: if the counts can't be had, deltas are not taken either
        metrics = [*self._recorded(now_unix_ns), *counted]
        self._last_unix_ns = now_unix_ns
        scoped = ScopeMetrics(scope=aggregator.scope, metrics=metrics, schema_url="")
        return MetricsData(resource_metrics=[ResourceMetrics(resource=aggregator.resource, scope_metrics=[scoped], schema_url="")])

    def _recorded(self, now_unix_ns: int) -> list[Metric]:
        delta = self._of_recorded is AggregationTemporality.DELTA
        start = self._last_unix_ns if delta else self._aggregator.began_unix_ns
        states, metrics = self._aggregator.states(take_extremes=delta), []
        for instrument in RECORDED:
            points: list[NumberDataPoint | HistogramDataPoint] = []
            for key, state in states[instrument.name]:
                shown = state
                if delta:
                    earlier = self._states.get((instrument.name, key))
                    self._states[instrument.name, key] = state
                    shown = state.since(earlier)
                    if not shown.total and not any(shown.counts):
                        continue  # nothing came: a delta says nothing of it
                exemplars = [
                    _exemplar(instrument, value, occasion) for value, occasion in state.exemplars if self._is_shown(occasion, delta=delta)
                ]
                points.append(_point(instrument, OVERFLOW if key is None else dict(key), shown, (start, now_unix_ns), exemplars))
            if points:
                metrics.append(_metric(instrument, points, self._of_recorded))
        return metrics

    def _is_shown(self, occasion: RecordingContext, *, delta: bool) -> bool:
        return occasion.span.is_valid and (not delta or occasion.unix_ns >= self._last_unix_ns)

    def _counted(self, now_unix_ns: int) -> list[Metric]:
        source = self._aggregator.source
        counts: dict[tuple[str, Key], float] = {} if source is None else dict(source.counts())
        metrics = []
        for instrument in OBSERVED:
            grows = instrument.kind is InstrumentKind.OBSERVABLE_COUNTER
            temporality = self._of_observed if grows else AggregationTemporality.CUMULATIVE
            delta = temporality is AggregationTemporality.DELTA
            start = self._last_unix_ns if delta else self._aggregator.began_unix_ns
            points: list[NumberDataPoint | HistogramDataPoint] = [
                NumberDataPoint(
                    attributes={f"{names.OUR_PREFIX}{word}": text for word, text in attributes},
                    start_time_unix_nano=start,
                    time_unix_nano=now_unix_ns,
                    value=value - self._observed.get((name, attributes), 0) if delta else value,
                )
                for (name, attributes), value in counts.items()
                if name == instrument.name
            ]
            if points:
                metrics.append(_metric(instrument, points, temporality))
        self._observed = counts
        return metrics


def deltas_in(data: MetricsData) -> int:
    """Return how many data points say what came since the last export; what others say comes again with the next one."""
    found = [metric.data for resourced in data.resource_metrics for scoped in resourced.scope_metrics for metric in scoped.metrics]
    return sum(len(item.data_points) for item in found if getattr(item, "aggregation_temporality", None) is AggregationTemporality.DELTA)


def _point(
    instrument: Instrument, attributes: Attributes, state: State, span_of_time: tuple[int, int], exemplars: Sequence[Exemplar]
) -> NumberDataPoint | HistogramDataPoint:
    start, now = span_of_time
    if instrument.kind is InstrumentKind.COUNTER:
        return NumberDataPoint(
            attributes=attributes, start_time_unix_nano=start, time_unix_nano=now, value=round(state.total), exemplars=exemplars
        )
    return HistogramDataPoint(
        attributes=attributes,
        start_time_unix_nano=start,
        time_unix_nano=now,
        count=sum(state.counts),
        sum=state.total,
        bucket_counts=state.counts,
        explicit_bounds=instrument.bounds,
        min=state.low,
        max=state.high,
        exemplars=exemplars,
    )


def _exemplar(instrument: Instrument, value: float, occasion: RecordingContext) -> Exemplar:
    span = occasion.span
    shown = (
        round(value) if instrument.kind is InstrumentKind.COUNTER else value
    )  # an integer beside an integer, whatever it was added up as
    return Exemplar(filtered_attributes={}, value=shown, time_unix_nano=occasion.unix_ns, span_id=span.span_id, trace_id=span.trace_id)


def _metric(instrument: Instrument, points: Sequence[NumberDataPoint | HistogramDataPoint], temporality: AggregationTemporality) -> Metric:
    data: Sum | Gauge | Histogram
    if instrument.kind is InstrumentKind.HISTOGRAM:
        data = Histogram(
            data_points=[point for point in points if isinstance(point, HistogramDataPoint)], aggregation_temporality=temporality
        )
    else:
        numbers = [point for point in points if isinstance(point, NumberDataPoint)]
        if instrument.kind is InstrumentKind.OBSERVABLE_GAUGE:
            data = Gauge(data_points=numbers)
        else:
            monotonic = instrument.kind in {InstrumentKind.COUNTER, InstrumentKind.OBSERVABLE_COUNTER}
            data = Sum(data_points=numbers, aggregation_temporality=temporality, is_monotonic=monotonic)
    return Metric(name=instrument.name, description=instrument.description, unit=instrument.unit, data=data)
