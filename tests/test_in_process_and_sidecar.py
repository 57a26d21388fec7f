"""An agent that judges itself and exports to a real sidecar: both say the same, and the root that it exports carries what it said."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, SCENARIOS, SERVICE_NAME
from tests.exporters.sinks import grpc_sink, plain
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import running_sidecar

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from tests.sidecar_process import RunningSidecar

    Said = dict[tuple[str, str], tuple[str, float | None]]

RESULT = "gen_ai.evaluation.result"
NAME, LABEL, SCORE = (f"gen_ai.evaluation.{word}" for word in ("name", "score.label", "score.value"))


downstream = contextmanager(grpc_sink)


def _exporter(protocol: str, running: RunningSidecar) -> SpanExporter:
    if protocol == "grpc":
        return GrpcExporter(endpoint=f"http://{running.grpc}", insecure=True)
    return HttpExporter(endpoint=f"http://{running.http}/v1/traces")


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("wraps", [True, False], ids=["wrapping", "beside"])
def test_agent_and_sidecar_say_the_same_and_the_exported_root_says_it_too(
    protocol: str, monkeypatch: pytest.MonkeyPatch, *, wraps: bool
) -> None:
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT", f"{PATIENCE_SECONDS:g}s")  # on a busy machine, five may be few
    logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    provider = TracerProvider(resource=Resource({"service.name": SERVICE_NAME}), shutdown_on_exit=False)
    with (
        downstream() as sink,
        running_sidecar(
            *("--criteria", str(EVALUATIONS)), environ={"OTEL_TOOLCALL_EVAL_FORWARD_ENDPOINT": sink.endpoint}, quiet="0s"
        ) as running,
    ):
        exporting = BatchSpanProcessor(_exporter(protocol, running))
        judging = ToolCallEvalSpanProcessor(
            EVALUATIONS,
            next=exporting if wraps else None,
            meter_provider=MeterProvider(shutdown_on_exit=False),
            logger_provider=logger_provider,
            tracer_provider=provider,
        )
        provider.add_span_processor(judging)
        if not wraps:
            provider.add_span_processor(exporting)
        runs = [asyncio.run(scenario.play(provider)).trace_id for scenario in SCENARIOS]
        provider.shutdown()
        assert running.terminate() == 0, "".join(running.log)
        by_sidecar: Said = {(one["trace_id"], one["evaluator"]): (one["label"], one["score"]) for one in running.drained()}
    by_agent: Said = {}
    for event in logs.get_finished_logs():
        record, attributes = event.log_record, event.log_record.attributes or {}
        by_agent[f"{record.trace_id:032x}", str(attributes[NAME])] = str(attributes[LABEL]), attributes.get(SCORE)  # type: ignore[assignment]
    assert {trace_id for trace_id, _ in by_agent} == set(runs)
    assert by_sidecar == by_agent
    carried: Said = {}
    for _, span in sink.received.spans():
        for each in span.events:
            if each.name == RESULT:
                attributes = plain(each.attributes)
                carried[span.trace_id.hex(), str(attributes[NAME])] = str(attributes[LABEL]), attributes.get(SCORE)  # type: ignore[assignment]
                assert (span.name == "evaluate_tool_calls") is not wraps
    assert carried == by_agent
