from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel_context
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.export_plan import INTERVAL, TEMPORALITY, ExportPlan, Temporality
from otel_toolcall_eval.exporters.metrics.metrics_export import MetricsExport
from otel_toolcall_eval.model.errors import SettingsError
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.metrics.export import MetricsData

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey


class Exporter(MetricExporter):
    def __init__(self, *answers: MetricExportResult | Exception) -> None:
        super().__init__()
        self._answers = list(answers)
        self.exported: list[MetricsData] = []
        self.suppressed: list[object] = []
        self.came = threading.Event()
        self.ended = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: object) -> MetricExportResult:
        assert timeout_millis > 0
        self.exported.append(metrics_data)
        self.suppressed.append(otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))
        self.came.set()
        answer = self._answers.pop(0) if self._answers else MetricExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        return answer

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        raise NotImplementedError(timeout_millis)

    def shutdown(self, timeout_millis: float = 30_000, **_: object) -> None:
        assert timeout_millis > 0
        self.ended += 1


FAILURES, DROPPED = ((f"toolcall_eval.export.{name}", (("signal", "metrics"),)) for name in ("failures", "dropped"))


class Counts:
    """Counts that are observed, beside what is recorded."""

    def counts(self) -> Mapping[CountKey, int | float]:
        return {(names.SPANS_RECEIVED.name, ()): 3, (names.TRACES_MEMORY.name, ()): 4}


def _export(exporter: Exporter, *, interval_seconds: float = 3600, temporality: Temporality = Temporality.CUMULATIVE) -> MetricsExport:
    aggregator = Aggregator(Resource({}))
    aggregator.cell(names.TRACES_COMPLETED, {}).record(1)
    aggregator.cell(names.SCORE, {}).record(1)
    aggregator.source = Counts()
    return MetricsExport(Collection(aggregator, temporality), exporter, interval_seconds=interval_seconds)


def test_metrics_are_exported_at_the_interval_and_instrumentation_keeps_quiet() -> None:
    exporter = Exporter()
    export = _export(exporter, interval_seconds=0.01)
    assert exporter.came.wait(PATIENCE_SECONDS)
    assert export.shutdown()
    assert set(exporter.suppressed) == {True}


def test_shutdown_exports_what_is_left_once() -> None:
    exporter = Exporter()
    export = _export(exporter)
    assert [export.shutdown(), export.shutdown()] == [True, True]
    assert (len(exporter.exported), exporter.ended) == (1, 1)


@pytest.mark.parametrize("answer", [MetricExportResult.FAILURE, OSError("secret of the exporter")], ids=["fails", "raises"])
def test_failed_export_is_counted_and_the_next_one_comes(answer: MetricExportResult | Exception, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(answer)
    export = _export(exporter)
    assert [export.flush(), export.flush()] == [False, True]
    assert export.counts() == {FAILURES: 1, DROPPED: 0}
    assert "secret" not in caplog.text
    assert export.shutdown()


@pytest.mark.parametrize(
    ("temporality", "lost"),
    [
        pytest.param(Temporality.CUMULATIVE, 0, id="cumulative-says-all-again"),
        pytest.param(Temporality.DELTA, 3, id="delta"),
        pytest.param(Temporality.LOWMEMORY, 2, id="lowmemory-says-what-is-observed-again"),
    ],
)
def test_data_points_that_are_lost_with_a_failed_export_are_counted(temporality: Temporality, lost: int) -> None:
    export = _export(Exporter(MetricExportResult.FAILURE), temporality=temporality)
    assert [export.flush(), export.flush()] == [False, True]
    assert export.counts() == {FAILURES: 1, DROPPED: lost}
    assert export.shutdown()


def test_counts_that_can_not_be_had_cost_one_export() -> None:
    class Broken:
        broken = True

        def counts(self) -> Mapping[CountKey, int | float]:
            if self.broken:
                raise KeyError
            return {(names.TRACES_MEMORY.name, ()): 4}

    exporter, aggregator, source = Exporter(), Aggregator(Resource({})), Broken()
    aggregator.source = source
    export = MetricsExport(Collection(aggregator, Temporality.DELTA), exporter, interval_seconds=3600)
    aggregator.cell(names.TRACES_COMPLETED, {}).record(3)
    assert not export.flush()
    source.broken = False
    assert export.shutdown()
    assert export.counts() == {FAILURES: 1, DROPPED: 0}
    ((scoped,),) = [resourced.scope_metrics for resourced in exporter.exported[0].resource_metrics]
    assert [metric.name for metric in scoped.metrics] == [names.TRACES_COMPLETED.name, names.TRACES_MEMORY.name]  # nothing of it is lost


def test_plan_is_what_the_environment_says() -> None:
    assert ExportPlan.of({}) == ExportPlan(interval_seconds=60, temporality=Temporality.CUMULATIVE)
    assert ExportPlan.of({INTERVAL: " 500 ", TEMPORALITY: "Delta"}) == ExportPlan(interval_seconds=0.5, temporality=Temporality.DELTA)


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        pytest.param({INTERVAL: "soon"}, "'soon' is no interval", id="no-number"),
        pytest.param({INTERVAL: "0"}, "'0' is no interval", id="never-ends"),
        pytest.param({INTERVAL: "1e300"}, "'1e300' is no interval", id="for-ever"),
        pytest.param({INTERVAL: "nan"}, "'nan' is no interval", id="nan"),
        pytest.param({TEMPORALITY: "sometimes"}, "'sometimes' is no preference; use cumulative, delta or lowmemory", id="temporality"),
    ],
)
def test_value_that_cannot_be_used_is_refused_by_name(environ: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        ExportPlan.of(environ)
