"""The page that Prometheus scrapes: OpenTelemetry metrics as OpenMetrics text with exemplars.

Of our own, since opentelemetry-exporter-prometheus drops exemplars, and these are what leads from a bad score to
its trace. Formatting and escaping are prometheus_client's (extra ``sidecar``). Temporality is cumulative, as Prometheus needs it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.sdk.metrics.export import Gauge, Histogram, HistogramDataPoint, NumberDataPoint, Sum
from prometheus_client import exposition
from prometheus_client.core import Exemplar, Metric, Timestamp
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from otel_toolcall_eval.exporters.metrics.prometheus_names import family_name, labels, unit_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from opentelemetry.sdk.metrics.export import Metric as OtelMetric
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    Series: TypeAlias = tuple[str, tuple[tuple[str, str], ...], int]
    """Family, labels and number of the bucket (0 for a counter)."""

OPENMETRICS: Final = "application/openmetrics-text"
_VERSIONS: Final = ("", "0.0.1", "1.0.0")
PLAIN_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPage:
    """A rendered scrape."""

    body: bytes
    content_type: str


class MetricsPage:
    """Collects when it is asked to, from any thread."""

    def __init__(self, collect: Callable[[], MetricsData | None]) -> None:
        """Take what collects, cumulatively; it is called by one thread at a time, and None says that there is nothing."""
        self._collect = collect
        self._lock = Lock()
        self._exemplars: Mapping[Series, Exemplar] = {}

    def render(self, accept: str = "") -> RenderedPage:
        """Collect, and render as OpenMetrics 1.0 if the ``Accept`` header prefers it, else as Prometheus text 0.0.4, without exemplars.

        Cost: 40 us of CPU for each line, most of it prometheus_client's; 5 s for 10,000 histogram series, the most that may be.
        """
        with self._lock:
            translation = _Translation(self._exemplars)
            data = self._collect()
            for resource_metrics in () if data is None else data.resource_metrics:
                translation.target(resource_metrics.resource.attributes)
                for scope_metrics in resource_metrics.scope_metrics:
                    for metric in scope_metrics.metrics:
                        translation.add(metric, scope_metrics.scope)
            self._exemplars = translation.exemplars
        families = _Families(translation.families.values())
        if prefers_openmetrics(accept):
            body: bytes = openmetrics_exposition.generate_latest(families)  # type: ignore[no-untyped-call]
            return RenderedPage(body=body, content_type=openmetrics_exposition.CONTENT_TYPE_LATEST)
        return RenderedPage(body=exposition.generate_latest(families), content_type=PLAIN_CONTENT_TYPE)


class _Families(Collector):
    """What prometheus_client takes for a registry."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._collected = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._collected


class _Translation:
    """One collection on its way into families.

    Attributes:
        families: by name; each name stands on a page only once.
        exemplars: the newest of each bucket. The SDK hands an exemplar out once, and a scrape that missed it would never see it, so
            they are kept until a newer one comes; bounded by the number of series, since those of vanished series are not carried over.
    """

    def __init__(self, earlier: Mapping[Series, Exemplar]) -> None:
        self.families: dict[str, Metric] = {}
        self.exemplars: dict[Series, Exemplar] = {}
        self._earlier = earlier

    def target(self, attributes: Mapping[str, object]) -> None:
        info = self._family("target", "What produced these metrics.", "info", "")
        if info is not None:
            info.add_sample("target_info", dict(labels(attributes.items())), 1)

    def add(self, metric: OtelMetric, scope: InstrumentationScope) -> None:
        """Translate one metric. Exponential histograms are left out: we make none, and the text format has no word for them."""
        data, unit = metric.data, metric.unit or ""
        if isinstance(data, Histogram):
            kind, name = "histogram", family_name(metric.name, unit=unit)
        elif isinstance(data, Sum) and data.is_monotonic:
            kind, name = "counter", family_name(metric.name, unit=unit, is_counter=True)
        elif isinstance(data, Sum | Gauge):
            kind, name = "gauge", family_name(metric.name, unit=unit, is_gauge=isinstance(data, Gauge))
        else:
            return
        family = self._family(name, metric.description or "", kind, unit_name(unit))
        if family is None:
            return
        scope_labels = {f"otel.scope.{key}": value for key, value in _scope(scope)}
        for point in data.data_points:
            point_labels = labels((point.attributes or {}).items(), scope_labels.items())
            if isinstance(point, HistogramDataPoint):
                self._histogram(family, point, point_labels)
            elif isinstance(point, NumberDataPoint):
                exemplar = self._exemplar(family.name, point_labels, 0, point) if kind == "counter" else None
                sample = f"{family.name}_total" if kind == "counter" else family.name
                family.add_sample(sample, dict(point_labels), point.value, exemplar=exemplar)

    def _family(self, name: str, documentation: str, kind: str, unit: str) -> Metric | None:
        """Return the family of this name; None if the name is taken by one of another kind, or is none."""
        if not name:
            return None
        family = self.families.get(name)
        if family is None:
            # The last word of a name must be its unit, or the page is invalid; a name that has the unit elsewhere goes without.
            family = self.families[name] = Metric(name, documentation, kind, unit if name.endswith(f"_{unit}") else "")
        return family if family.type == kind else None

    def _histogram(self, family: Metric, point: HistogramDataPoint, point_labels: Mapping[str, str]) -> None:
        bounds = [*map(floatToGoString, point.explicit_bounds), "+Inf"]
        for number, (bound, count) in enumerate(zip(bounds, accumulate(point.bucket_counts), strict=True)):
            exemplar = self._exemplar(family.name, point_labels, number, point)
            family.add_sample(f"{family.name}_bucket", {**point_labels, "le": bound}, count, exemplar=exemplar)
        family.add_sample(f"{family.name}_count", dict(point_labels), point.count)
        family.add_sample(f"{family.name}_sum", dict(point_labels), point.sum)

    def _exemplar(
        self, family: str, point_labels: Mapping[str, str], bucket: int, point: HistogramDataPoint | NumberDataPoint
    ) -> Exemplar | None:
        series: Series = (family, tuple(point_labels.items()), bucket)
        newest = max(_in_bucket(point, bucket), key=lambda pair: pair[0], default=None)
        exemplar = newest[1] if newest else self._earlier.get(series)
        if exemplar is not None:
            self.exemplars[series] = exemplar
        return exemplar


def _in_bucket(point: HistogramDataPoint | NumberDataPoint, bucket: int) -> Iterator[tuple[int, Exemplar]]:
    """Return time and translation of the exemplars that fall into a bucket and lead to a span."""
    bounds = point.explicit_bounds if isinstance(point, HistogramDataPoint) else ()
    for exemplar in point.exemplars:
        if exemplar.trace_id and exemplar.span_id and bisect_left(bounds, exemplar.value) == bucket:
            when = exemplar.time_unix_nano
            ids = {"trace_id": f"{exemplar.trace_id:032x}", "span_id": f"{exemplar.span_id:016x}"}
            yield when, Exemplar(ids, exemplar.value, Timestamp(when // _NS, when % _NS))


def _scope(scope: InstrumentationScope) -> Iterator[tuple[str, str]]:
    yield "name", scope.name
    if scope.version:
        yield "version", scope.version
    if scope.schema_url:
        yield "schema_url", scope.schema_url


def prefers_openmetrics(accept: str) -> bool:
    """Tell whether an ``Accept`` header asks for OpenMetrics, and for nothing else more eagerly. Reads any text."""
    openmetrics, other = 0.0, 0.0
    for item in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in item.split(";"))
        values = dict(parameter.partition("=")[::2] for parameter in parameters)
        weight = _weight(values.get("q", "1"))
        if media_type == OPENMETRICS and values.get("version", "") in _VERSIONS:
            openmetrics = max(openmetrics, weight)
        elif media_type == "text/plain":
            other = max(other, weight)
    return openmetrics > 0 and openmetrics >= other


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0
