"""The sidecar's own providers: what is emitted goes to ``/metrics`` and, if an endpoint is named, out by OTLP.

Nothing global is set, and nothing is registered to run at exit: whoever builds them shuts them down. What the SDK (1.45) does with
an endpoint that is dead, measured, and why there is a bound here: ``BatchSpanProcessor`` and ``BatchLogRecordProcessor`` retry each
batch for 10 s and join for up to 30 s in ``shutdown``, one after the other; ``force_flush`` blocks 10 s for each batch and ignores
its time-out; ``PeriodicExportingMetricReader`` keeps to its time-out. All of them suppress instrumentation while they export.
"""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.deadline import Attempt, Flusher
from otel_toolcall_eval.emission.openmetrics import OpenMetricsReader
from otel_toolcall_eval.emission.otlp import (
    OtlpSettings,
    Signal,
    Target,
    find_target,
    log_exporter,
    metric_exporter,
    span_exporter,
)
from otel_toolcall_eval.endpoint import is_own_address

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import MetricExporter, MetricReader
    from opentelemetry.sdk.trace.export import SpanExporter

logger = logging.getLogger(__name__)

_QUEUED_EVENTS: Final = 8192  # at most about 25 MB; the SDK's 2048 are a fifth of a second at the sidecar's rate
_SHARE_OF_EVENTS: Final = 0.6  # of the time for shutting down; the rest is for the last metrics


class Providers:
    """Providers that belong together, and that are shut down together.

    Attributes:
        logger_provider: None if log records go nowhere.
        tracer_provider: None if spans go nowhere.
        page: what ``/metrics`` shows.
        targets: where each signal goes by OTLP.
    """

    def __init__(
        self,
        *,
        meter_provider: MeterProvider,
        logger_provider: LoggerProvider | None,
        tracer_provider: TracerProvider | None,
        page: OpenMetricsReader,
        targets: Mapping[Signal, Target],
        exporters: Sequence[SpanExporter | LogRecordExporter],
    ) -> None:
        """Take over the providers; ``exporters`` are those of events, to cut off if they hang."""
        self.meter_provider = meter_provider
        self.logger_provider = logger_provider
        self.tracer_provider = tracer_provider
        self.page = page
        self.targets = targets
        self._exporters = exporters
        self._events = [provider for provider in (tracer_provider, logger_provider) if provider is not None]
        self._flusher = Flusher([meter_provider.force_flush, *(provider.force_flush for provider in self._events)])
        self._stopped: bool | None = None

    def flush(self, timeout_seconds: float) -> bool:
        """Export what was emitted; False if that took longer."""
        return self._flusher.flush(timeout_seconds)

    def shutdown(self, timeout_seconds: float) -> bool:
        """Export what is left and stop, within the time given (and 0.1 s or so), whatever the collector does.

        Returns:
            False if something was given up. A second call returns the same and does nothing.

        Events go first, both kinds at the same time, then metrics, since events may still count. What hangs is cut off, so that its
        threads end soon after; they are daemons and never keep the process alive.
        """
        if self._stopped is not None:
            return self._stopped
        self._stopped = False  # what a second call is told while the first is busy
        deadline = time.monotonic() + timeout_seconds
        attempts = [Attempt(provider.shutdown, name="shutdown") for provider in self._events]
        events_deadline = deadline - timeout_seconds * (1 - _SHARE_OF_EVENTS)
        done = [attempt.wait(events_deadline - time.monotonic()) for attempt in attempts]
        if not all(done):
            logger.warning("verdicts could not be exported before shutdown; check the OTLP endpoint or raise shutdown_timeout")
            for exporter in self._exporters:
                Attempt(exporter.shutdown, name="cut-off")  # makes an export that is under way give up; not waited for
        remaining = max(0.0, deadline - time.monotonic())
        metrics = Attempt(lambda: self.meter_provider.shutdown(timeout_millis=remaining * 1000), name="shutdown")
        done.append(metrics.wait(remaining))
        self._stopped = all(done)
        return self._stopped


def build_providers(
    *,
    version: str,
    otlp: OtlpSettings | None = None,
    export: bool = True,
    logs: bool = True,
    traces: bool = True,
    listening: Collection[tuple[str, int]] = (),
) -> Providers:
    """Build the sidecar's providers.

    Args:
        version: ours; becomes ``service.version``.
        otlp: what the service file says of OTLP.
        export: False sends nothing, whatever is named; ``/metrics`` remains.
        logs: whether log events are wanted.
        traces: whether our span with the span events is wanted.
        listening: host and port of our own receivers, to warn of a loop.

    Raises:
        SettingsError: an endpoint, protocol or other ``OTEL_EXPORTER_OTLP_*`` variable can't be used.
    """
    wanted = {Signal.METRICS: export, Signal.LOGS: export and logs, Signal.TRACES: export and traces}
    found = {signal: find_target(signal, otlp or OtlpSettings(), os.environ) for signal, on in wanted.items() if on}
    targets = {signal: target for signal, target in found.items() if target is not None}
    for target in targets.values():
        if is_own_address(target.endpoint, target.protocol, listening):
            logger.warning(
                "OTLP endpoint is our own listener, so what we send goes nowhere; name a collector", extra={"setting": target.origin}
            )

    # All exporters before any provider: one that can't be built must leave no threads behind.
    metrics_out = metric_exporter(targets[Signal.METRICS]) if Signal.METRICS in targets else None
    logs_out = log_exporter(targets[Signal.LOGS]) if Signal.LOGS in targets else None
    spans_out = span_exporter(targets[Signal.TRACES]) if Signal.TRACES in targets else None

    resource = own_resource(version)
    page = OpenMetricsReader()
    meter_provider = MeterProvider(metric_readers=_readers(page, metrics_out), resource=resource, shutdown_on_exit=False)
    logger_provider = _logger_provider(logs_out, resource)
    tracer_provider = _tracer_provider(spans_out, resource)
    return Providers(
        meter_provider=meter_provider,
        logger_provider=logger_provider,
        tracer_provider=tracer_provider,
        page=page,
        targets=targets,
        exporters=[exporter for exporter in (spans_out, logs_out) if exporter is not None],
    )


def own_resource(version: str) -> Resource:
    """Return the resource of our telemetry; ``OTEL_SERVICE_NAME`` and ``OTEL_RESOURCE_ATTRIBUTES`` go before our own values."""
    ours = {"service.name": names.SERVICE_NAME, "service.version": version}
    given = OTELResourceDetector().detect().attributes
    return Resource.create({**ours, **given})


def _readers(page: OpenMetricsReader, exporter: MetricExporter | None) -> Sequence[MetricReader]:
    return [page] if exporter is None else [page, PeriodicExportingMetricReader(exporter)]


def _logger_provider(exporter: LogRecordExporter | None, resource: Resource) -> LoggerProvider | None:
    if exporter is None:
        return None
    provider = LoggerProvider(resource=resource, shutdown_on_exit=False)
    queued = None if os.environ.get("OTEL_BLRP_MAX_QUEUE_SIZE") else _QUEUED_EVENTS
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter, max_queue_size=queued))
    return provider


def _tracer_provider(exporter: SpanExporter | None, resource: Resource) -> TracerProvider | None:
    if exporter is None:
        return None
    # Always on, whatever OTEL_TRACES_SAMPLER says: what we judge was sampled, and a verdict without its span would be missed.
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, shutdown_on_exit=False)
    queued = None if os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE") else _QUEUED_EVENTS
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=queued))
    return provider
