"""The sidecar's own telemetry: metrics on a page and by OTLP, events by OTLP. Nothing global is set."""

from __future__ import annotations

import time
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.sdk.resources import OTELResourceDetector, Resource

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.deadline import Attempt
from otel_toolcall_eval.exporters.events.batched_events import EventSender

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.sdk.metrics.export import MetricExporter

    from otel_toolcall_eval.exporters.events.attributes import AttributeValue
    from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
    from otel_toolcall_eval.exporters.metrics.emitter import CountKey, CountSource
    from otel_toolcall_eval.exporters.metrics.export_plan import ExportPlan
    from otel_toolcall_eval.exporters.metrics.metrics_export import MetricsExport
    from otel_toolcall_eval.exporters.metrics.openmetrics import MetricsPage
    from otel_toolcall_eval.exporters.otlp import ExportSignal, ExportTarget

_SHARE_OF_EVENTS: Final = 0.6  # of the time for shutting down; the rest is for the last metrics


class ShutdownableSender(EventSender, Protocol):
    """An outlet that can be ended."""

    def shutdown(self, timeout_seconds: float) -> bool:
        """Send what waits within the time given, and end; False if something was left."""
        ...

    def counts(self) -> Mapping[CountKey, int | float]:
        """Return exports that failed, and what was lost."""
        ...


class Telemetry:
    """Where what we say of ourselves goes; it ends together.

    Attributes:
        aggregator: where metrics are recorded.
        outlets: where events go, by signal; empty if they go nowhere.
        counting: have counts of what was exported.
        targets: where each signal goes by OTLP.
    """

    def __init__(
        self,
        *,
        aggregator: Aggregator,
        exporter: MetricExporter | None,
        plan: ExportPlan,
        outlets: Mapping[ExportSignal, ShutdownableSender],
        targets: Mapping[ExportSignal, ExportTarget],
    ) -> None:
        """Take over the parts, and begin to export metrics if there is an ``exporter``."""
        self.aggregator = aggregator
        self._page: MetricsPage | None = None  # guarded by _lock
        self._lock = Lock()
        self.outlets = outlets
        self.targets = targets
        self._exporter = exporter
        self._export: MetricsExport | None = None
        if exporter is not None:
            from otel_toolcall_eval.exporters.metrics.collection import Collection  # noqa: PLC0415 - as for the page
            from otel_toolcall_eval.exporters.metrics.metrics_export import MetricsExport  # noqa: PLC0415

            collection = Collection(aggregator, plan.temporality)
            self._export = MetricsExport(collection, exporter, interval_seconds=plan.interval_seconds)
        self.counting: Sequence[CountSource] = (*outlets.values(), *(() if self._export is None else (self._export,)))
        self._stopped: bool | None = None

    def page(self) -> MetricsPage:
        """Return what ``/metrics`` shows. From any thread; the first to ask waits until it is loaded, 0.1 s of work."""
        with self._lock:
            if self._page is None:
                from otel_toolcall_eval.exporters.metrics.collection import Collection  # noqa: PLC0415 - a tenth of a start, and not needed for it
                from otel_toolcall_eval.exporters.metrics.openmetrics import MetricsPage  # noqa: PLC0415

                self._page = MetricsPage(Collection(self.aggregator).collect)
            return self._page

    @property
    def resource(self) -> Mapping[str, AttributeValue]:
        """Return the attributes of our resource, as events carry them."""
        return {key: value for key, value in self.aggregator.resource.attributes.items() if isinstance(value, str | bool | int | float)}

    def flush_metrics(self) -> bool:
        """Export the metrics that there are; False if that failed. Takes as long as the endpoint does."""
        return self._export is None or self._export.flush()

    def shutdown(self, timeout_seconds: float) -> bool:
        """Export what is left and stop, within the time given (and 0.1 s or so), whatever the endpoint does.

        Returns:
            False if something was given up. A second call returns the same and does nothing.

        Events go first, both kinds at the same time, then metrics, since events may still count. What hangs is cut off, so that its
        threads end soon after; they are daemons and never keep the process alive.
        """
        if self._stopped is not None:
            return self._stopped
        self._stopped = False  # what a second call is told while the first is busy
        deadline = time.monotonic() + timeout_seconds
        events_seconds = timeout_seconds * _SHARE_OF_EVENTS
        attempts = [Attempt(_ending(outlet, events_seconds), name="shutdown") for outlet in self.outlets.values()]
        events_deadline = deadline - timeout_seconds * (1 - _SHARE_OF_EVENTS)
        done = [attempt.wait(events_deadline - time.monotonic()) for attempt in attempts]
        if self._export is not None and self._exporter is not None:
            last = Attempt(self._export.shutdown, name="shutdown")
            done.append(last.wait(max(0.0, deadline - time.monotonic())))
            if last.running:
                Attempt(self._exporter.shutdown, name="cut-off")  # makes an export that is under way give up; not waited for
        self._stopped = all(done)
        return self._stopped


def _ending(outlet: ShutdownableSender, seconds: float) -> Callable[[], bool]:
    return lambda: outlet.shutdown(seconds)


def own_resource(version: str) -> Resource:
    """Return the resource of our telemetry; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` go before our own values."""
    ours = {"service.name": names.SERVICE_NAME, "service.version": version}
    given = OTELResourceDetector().detect().attributes
    return Resource.create({**ours, **given})
