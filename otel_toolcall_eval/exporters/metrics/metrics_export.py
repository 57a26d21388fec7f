"""Exports the aggregator's metrics at an interval, as the SDK's periodic reader does for a MeterProvider."""

from __future__ import annotations

import logging
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics.export import MetricExportResult

from otel_toolcall_eval.exporters.metrics.collection import deltas_in
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.metrics.export import MetricExporter

    from otel_toolcall_eval.exporters.metrics.collection import Collection
    from otel_toolcall_eval.exporters.metrics.emitter import CountKey

_logger = logging.getLogger(__name__)

_TIMEOUT_MS: Final = 30_000.0


class MetricsExport:
    """Exports from a thread of its own, and whenever it is flushed; one export at a time."""

    def __init__(self, collection: Collection, exporter: MetricExporter, *, interval_seconds: float) -> None:
        """Start the thread."""
        self._collection = collection
        self._exporter = exporter
        self._interval_seconds = interval_seconds
        self._lock = Lock()
        self._failures = self._dropped = 0  # guarded by _lock
        self._told = False  # likewise
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="otel-toolcall-eval-metrics", daemon=True)
        self._thread.start()

    def flush(self) -> bool:
        """Export what there is now; False if that failed. Takes as long as the exporter does."""
        with self._lock, suppressed_instrumentation():
            collected = None
            try:
                collected = self._collection.collect()
                sent = self._exporter.export(collected, timeout_millis=_TIMEOUT_MS) is MetricExportResult.SUCCESS
            except Exception as error:  # noqa: BLE001 - the exporter's, or whoever's who counts; the next interval is to come all the same
                if not self._told:  # once, until one succeeds
                    _logger.warning("metrics can't be exported; check the OTLP endpoint", extra={"error": type(error).__qualname__})
                self._told = True
                sent = False
            self._told = self._told and not sent
            if not sent:
                self._failures += 1
                self._dropped += 0 if collected is None else deltas_in(collected)
            return sent

    def counts(self) -> Mapping[CountKey, int | float]:
        """Return how many exports failed, and how many data points were lost with them. It does not wait for one that is under way."""
        signal = (("signal", "metrics"),)
        return {("toolcall_eval.export.failures", signal): self._failures, ("toolcall_eval.export.dropped", signal): self._dropped}

    def shutdown(self) -> bool:
        """Export what is left, and end; False if that failed. A second call does nothing."""
        if self._stopping.is_set():
            return True
        self._stopping.set()
        self._thread.join()
        sent = self.flush()
        self._exporter.shutdown()
        return sent

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            self.flush()
