"""What every sender sends: the demonstration's runs, recorded once, and what they are judged in their own process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, SCENARIOS, SERVICE_NAME, TRACER_NAME

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.util.types import AnyValue

Verdict = tuple[str, float | None]
"""Label and score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Runs of the agent, and their verdicts.

    Attributes:
        file: the runs, in the form that the senders read.
        verdicts: for each run what each evaluator says of it in process.
    """

    file: Path
    verdicts: Sequence[Mapping[str, Verdict]]


def record(folder: Path) -> Recorded:
    """Let the agent run once through each scenario, judged in its own process, and keep its spans."""
    runs, verdicts = [], []
    for scenario in SCENARIOS:
        spans = InMemorySpanExporter()
        logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
        logger_provider, provider = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
        meter_provider = MeterProvider(shutdown_on_exit=False)
        logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
        judging = ToolCallEvalSpanProcessor(EVALUATIONS, meter_provider=meter_provider, logger_provider=logger_provider)
        provider.add_span_processor(judging)
        provider.add_span_processor(SimpleSpanProcessor(spans))
        asyncio.run(scenario.play(provider))
        assert judging.force_flush()
        provider.shutdown()
        logger_provider.shutdown()
        runs.append(_in_order_of_start([span for span in spans.get_finished_spans() if _is_the_agents(span)]))
        verdicts.append(dict(_verdict(event.log_record.attributes or {}) for event in logs.get_finished_logs()))
    file = folder / "runs.json"
    file.write_text(json.dumps({"service": SERVICE_NAME, "scope": TRACER_NAME, "runs": runs}), encoding="utf-8")
    return Recorded(file=file, verdicts=verdicts)


def _is_the_agents(span: ReadableSpan) -> bool:
    """Tell the agent's spans from ours, which go where they go."""
    return span.instrumentation_scope is not None and span.instrumentation_scope.name == TRACER_NAME


def _in_order_of_start(spans: Sequence[ReadableSpan]) -> list[dict[str, object]]:
    """Return the root and its children, in the order in which they were started."""
    [root] = [span for span in spans if span.parent is None]
    children = sorted((span for span in spans if span.parent is not None), key=lambda span: span.start_time or 0)
    assert all(child.parent is not None and root.context is not None and child.parent.span_id == root.context.span_id for child in children)
    return [{"name": span.name, "attributes": dict(span.attributes or {})} for span in (root, *children)]


def _verdict(attributes: Mapping[str, AnyValue]) -> tuple[str, Verdict]:
    score = attributes.get("gen_ai.evaluation.score.value")
    assert score is None or isinstance(score, float)
    return str(attributes["gen_ai.evaluation.name"]), (str(attributes["gen_ai.evaluation.score.label"]), score)
