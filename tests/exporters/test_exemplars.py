"""Exemplars lead to the judged span, in process as well: through the SDK's own filter, reader and OTLP exporters, into a real receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from tests.exporters.reports import SPAN_ID, TRACE_ID, evaluated_span, report, verdict

if TYPE_CHECKING:
    from tests.exporters.sinks import Sink

TRACED = (
    "gen_ai.evaluation.score",
    "toolcall_eval.evaluations",
    "toolcall_eval.expectations",
    "toolcall_eval.traces.completed",
    "toolcall_eval.completion.delay",
    "toolcall_eval.evaluation.duration",
)


def _export(sink: Sink, flags: int) -> None:
    exporter = (
        GrpcExporter(endpoint=sink.endpoint, insecure=True)
        if sink.protocol == "grpc"
        else HttpExporter(endpoint=f"{sink.endpoint}/v1/metrics")
    )
    provider = MeterProvider([PeriodicExportingMetricReader(exporter)], shutdown_on_exit=False)
    emitter = MetricsEmitter(SdkRecorder(provider), evaluated_span_is_remote=False)
    emitter.emit(report(verdict(), span=evaluated_span(flags=flags)))
    provider.shutdown()


@pytest.mark.parametrize("flags", [0, 0x01, 0x100, 0x301], ids=["flags-of-old-sdks", "sampled", "flag-left-out", "remote"])
def test_exemplars_of_every_kind_lead_to_the_judged_span(sink: Sink, flags: int) -> None:
    _export(sink, flags)
    for name in TRACED:
        assert (name, sink.received.exemplars(name)) == (name, {(TRACE_ID, SPAN_ID)})


def test_filter_of_the_application_goes_before(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXEMPLAR_FILTER", "always_off")
    _export(sink, 0x01)
    assert "gen_ai.evaluation.score" in sink.received.newest_metrics()
    assert sink.received.exemplars("gen_ai.evaluation.score") == set()
