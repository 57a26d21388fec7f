"""In the agent's own process: right verdicts whatever way the agent runs, and nothing that the agent would notice.

Each test stands for a fault that users of neighbouring systems met; the numbers are those of the faults that the design rests on.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import random
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_toolcall_eval import Label, ToolCallEvalSpanProcessor, expect_tool_calls
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from otel_toolcall_eval.evaluators.count import CountEvaluator
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk._logs.export import LogRecordExportResult
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span, Tracer

    from otel_toolcall_eval import Expectation
    from otel_toolcall_eval.inprocess.expectations import Expecting

TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "main"}


@dataclass(frozen=True, kw_only=True)
class Process:
    """An agent's providers, and what comes out of them."""

    provider: TracerProvider
    processor: ToolCallEvalSpanProcessor
    spans: InMemorySpanExporter
    logs: InMemoryLogRecordExporter
    metrics: InMemoryMetricReader

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("agent")

    def verdicts(self) -> int:
        """Return how many verdicts were given, once everything that is due is judged."""
        assert self.processor.force_flush(int(PATIENCE_SECONDS * 1000))
        return len(self.logs.get_finished_logs())

    def active_traces(self) -> int:
        data = self.metrics.get_metrics_data()
        assert data is not None
        found = [
            metric.data
            for part in data.resource_metrics
            for scope in part.scope_metrics
            for metric in scope.metrics
            if metric.name == "toolcall_eval.traces.active"
        ]
        (point,) = found[0].data_points
        assert isinstance(point, NumberDataPoint)
        return int(point.value)


@pytest.fixture(params=["beside", "wrapping"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Process]:
    spans, logs = InMemorySpanExporter(), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    provider = TracerProvider(shutdown_on_exit=False)
    exporting = SimpleSpanProcessor(spans)
    file = tmp_path / "settings.yaml"
    file.write_text(f"criteria: ['{EVALUATIONS}']\ncompletion: {{root_export_timeout: 5m}}\n", encoding="utf-8")
    following = exporting if request.param == "wrapping" else None
    metrics = InMemoryMetricReader()
    processor = ToolCallEvalSpanProcessor(
        next=following,
        settings_file=file,
        meter_provider=MeterProvider([metrics], shutdown_on_exit=False),
        logger_provider=logger_provider,
        tracer_provider=provider,
    )
    provider.add_span_processor(processor)
    if following is None:
        provider.add_span_processor(exporting)
    yield Process(provider=provider, processor=processor, spans=spans, logs=logs, metrics=metrics)
    provider.shutdown()


def searches(count: int) -> Expecting:
    return expect_tool_calls({"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", count)}}})


def label(expectation: Expectation) -> Label:
    return expectation.result(PATIENCE_SECONDS)["ToolCallCountEvaluator"].label


def search(tracer: Tracer) -> None:
    tracer.start_span("execute_tool search", attributes=TOOL).end()


def test_child_of_another_process_is_a_root_here_by_its_flag_and_not_by_its_kind(process: Process) -> None:
    remote = NonRecordingSpan(SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1)))
    with searches(1) as expectation, process.tracer.start_as_current_span("agent", context=set_span_in_context(remote)):
        search(process.tracer)
    assert label(expectation) is Label.PASS


def test_trace_that_is_not_sampled_gets_no_verdict_and_takes_no_memory(process: Process) -> None:
    unsampled = NonRecordingSpan(SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(0)))
    process.provider.sampler = ParentBased(TraceIdRatioBased(1.0))
    attributes = {"toolcall_eval.criteria": "tokyo_forecast"}
    process.tracer.start_span("agent", context=set_span_in_context(unsampled), attributes=attributes).end()
    assert process.verdicts() == 0
    assert process.active_traces() == 0


def test_stream_ends_its_root_before_its_tools(process: Process) -> None:
    with searches(8) as expectation:
        with process.tracer.start_as_current_span("agent", attributes=AGENT):
            tools = [process.tracer.start_span("execute_tool search", attributes=TOOL) for _ in range(8)]
        for tool in tools:
            tool.end()
    assert label(expectation) is Label.PASS
    assert process.verdicts() == 1


def test_flat_stream_of_tools_beside_the_agent_is_counted(process: Process) -> None:
    # streaming makes tool spans siblings of invoke_agent
    with searches(2) as expectation, process.tracer.start_as_current_span("request"):
        process.tracer.start_span("invoke_agent", attributes=AGENT).end()
        search(process.tracer)
        search(process.tracer)
    assert label(expectation) is Label.PASS


def test_lazy_generator_keeps_one_agent_open_and_the_next_one_nests_in_it(process: Process) -> None:
    def lazy() -> Iterator[int]:
        with process.tracer.start_as_current_span("invoke_agent", attributes=AGENT):
            search(process.tracer)
            yield 1
            yield 2

    with searches(2) as expectation:
        first = lazy()
        next(first)
        with process.tracer.start_as_current_span("invoke_agent", attributes=AGENT):
            search(process.tracer)
        for _ in first:
            pass
    assert label(expectation) is Label.PASS
    assert process.verdicts() == 1


def test_span_that_ends_in_another_task_or_thread_counts_the_same(process: Process) -> None:
    async def run() -> None:
        root = process.tracer.start_span("agent", attributes=AGENT)
        context = set_span_in_context(root)
        tools = [process.tracer.start_span("execute_tool search", context=context, attributes=TOOL) for _ in range(2)]

        async def end(span: Span) -> None:
            await asyncio.sleep(0)
            span.end()

        await asyncio.create_task(end(tools[0]))
        await asyncio.to_thread(tools[1].end)
        await asyncio.create_task(end(root), context=contextvars.Context())

    with searches(2) as expectation:
        asyncio.run(run())
    assert label(expectation) is Label.PASS


def test_agents_that_run_at_once_and_stream_have_each_their_own_verdict(process: Process) -> None:
    async def stream(count: int) -> AsyncIterator[int]:
        with process.tracer.start_as_current_span("agent", attributes=AGENT):
            for number in range(count):
                await asyncio.sleep(0)
                search(process.tracer)
                yield number

    async def agent(count: int) -> Label:
        with searches(count) as expectation:
            async for _ in stream(count):
                await asyncio.sleep(0)
        return await asyncio.to_thread(label, expectation)

    async def all_agents() -> list[Label]:
        return await asyncio.gather(*(agent(count) for count in range(1, 9)))

    assert asyncio.run(all_agents()) == [Label.PASS] * 8


def test_sub_agents_in_threads_belong_to_their_trace(process: Process) -> None:
    def sub_agent() -> None:
        with process.tracer.start_as_current_span("invoke_agent sub", attributes=AGENT):
            search(process.tracer)

    with searches(3) as expectation, process.tracer.start_as_current_span("invoke_agent", attributes=AGENT):
        threads = [threading.Thread(target=contextvars.copy_context().run, args=(sub_agent,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert label(expectation) is Label.PASS


def test_thread_without_the_context_makes_a_trace_of_its_own(process: Process) -> None:
    with searches(0) as expectation, process.tracer.start_as_current_span("agent", attributes=AGENT):
        thread = threading.Thread(target=search, args=(process.tracer,))
        thread.start()
        thread.join()
    assert label(expectation) is Label.PASS


def test_several_roots_in_one_trace_are_judged_together(process: Process) -> None:
    # no early close on the first
    remote = set_span_in_context(NonRecordingSpan(SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1))))
    with searches(2) as expectation:
        first, second = (process.tracer.start_span("agent", context=remote, attributes=AGENT) for _ in range(2))
        for root in (first, second):
            process.tracer.start_span("execute_tool search", context=set_span_in_context(root), attributes=TOOL).end()
            root.end()
    assert label(expectation) is Label.PASS
    assert process.verdicts() == 1


def test_evaluator_that_raises_leaves_the_applications_exception_alone(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    # the verdict says so, and the exporter still runs
    monkeypatch.setattr(CountEvaluator, "evaluate", lambda *_: 1 / 0)
    message = "the application's own"
    with pytest.raises(ValueError, match="own"), searches(1), process.tracer.start_as_current_span("agent"):
        raise ValueError(message)
    assert process.verdicts() == 1
    (event,) = process.logs.get_finished_logs()
    assert (event.log_record.attributes or {})["error.type"] == "ZeroDivisionError"
    assert "agent" in {span.name for span in process.spans.get_finished_spans()}


def test_processor_of_an_earlier_job_does_nothing_any_more_where_the_next_job_registers_its_own(caplog: pytest.LogCaptureFixture) -> None:
    # every job added one more processor to the global provider, which takes none back, and the work grew with them
    threads, provider, spans = threading.enumerate(), TracerProvider(shutdown_on_exit=False), InMemorySpanExporter()
    exporting = TracerProvider(shutdown_on_exit=False)
    exporting.add_span_processor(SimpleSpanProcessor(spans))
    tracer = provider.get_tracer("agent")
    for _ in range(5):
        processor = ToolCallEvalSpanProcessor(EVALUATIONS, tracer_provider=exporting)
        provider.add_span_processor(processor)
        with searches(1), tracer.start_as_current_span("agent"):
            search(tracer)
        processor.shutdown()
    assert len(spans.get_finished_spans()) == 5
    assert set(threading.enumerate()) <= set(threads)
    left_open = weakref.ref(tracer.start_span("left open"))
    gc.collect()
    assert left_open() is None
    assert caplog.records == []
    provider.shutdown()


@pytest.mark.parametrize("wrapping", [False, True], ids=["beside", "wrapping"])
def test_application_goes_on_while_the_judging_thread_is_stuck(*, wrapping: bool, tmp_path: Path) -> None:
    # hooks waited for a network that did not answer
    stuck, go_on, exported = threading.Event(), threading.Event(), InMemorySpanExporter()

    class OpenTracesSnapshot(InMemoryLogRecordExporter):
        def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
            stuck.set()
            assert go_on.wait(PATIENCE_SECONDS)
            return super().export(batch)

    logs, provider = LoggerProvider(shutdown_on_exit=False), TracerProvider(shutdown_on_exit=False)
    logs.add_log_record_processor(SimpleLogRecordProcessor(OpenTracesSnapshot()))  # type: ignore[no-untyped-call]
    file, exporting = tmp_path / "settings.yaml", SimpleSpanProcessor(exported)
    file.write_text("completion: {root_export_timeout: 10ms}", encoding="utf-8")
    following = exporting if wrapping else None
    provider.add_span_processor(
        ToolCallEvalSpanProcessor(next=following, settings_file=file, logger_provider=logs, tracer_provider=provider)
    )
    if not wrapping:
        provider.add_span_processor(exporting)
    tracer = provider.get_tracer("agent")

    def run() -> None:
        for _ in range(3):
            with searches(1), tracer.start_as_current_span("agent"):
                search(tracer)
            assert stuck.wait(PATIENCE_SECONDS)

    agent = threading.Thread(target=run)
    try:
        agent.start()
        agent.join(PATIENCE_SECONDS / 2)  # the exporter would give up only after all of it
        assert not agent.is_alive()
        assert len(exported.get_finished_spans()) == (3 if wrapping else 6)  # roots wait for their verdicts, but nobody for roots
    finally:
        go_on.set()
    provider.shutdown()
    names = [span.name for span in exported.get_finished_spans()]
    assert (names.count("agent"), names.count("execute_tool search")) == (3, 3)


class CallingExporter(SpanExporter):
    """Makes a span of its own for each export, as an instrumented HTTP client does unless it is told not to."""

    def __init__(self) -> None:
        self.tracer: Tracer | None = None
        self.exported: list[str] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep names, and make a span unless instrumentation is suppressed."""
        from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, get_value  # noqa: PLC0415 - what instrumentations do

        self.exported.extend(span.name for span in spans)
        assert self.tracer
        if not get_value(_SUPPRESS_INSTRUMENTATION_KEY):
            self.tracer.start_span("POST").end()
        return SpanExportResult.SUCCESS


@pytest.mark.parametrize("wrapping", [False, True], ids=["beside", "wrapping"])
def test_exports_own_calls_do_not_make_spans_for_ever(*, wrapping: bool) -> None:
    exporter, provider = CallingExporter(), TracerProvider(shutdown_on_exit=False)
    exporting = SimpleSpanProcessor(exporter)
    processor = ToolCallEvalSpanProcessor(EVALUATIONS, next=exporting if wrapping else None, tracer_provider=provider)
    provider.add_span_processor(processor)
    if not wrapping:
        provider.add_span_processor(exporting)
    exporter.tracer = provider.get_tracer("http")
    with searches(1), provider.get_tracer("agent").start_as_current_span("agent"):
        pass
    for _ in range(3):
        assert provider.force_flush()
    assert exporter.exported == (["agent"] if wrapping else ["agent", "evaluate_tool_calls"])
    provider.shutdown()


def test_sixteen_threads_with_random_ends_lock_nothing_up(process: Process) -> None:
    def work(number: int) -> None:
        chance = random.Random(number)  # noqa: S311 - no secret
        for _ in range(20):
            with searches(5):
                spans = [process.tracer.start_span("agent", attributes=AGENT)]
                context = set_span_in_context(spans[0])
                spans.extend(process.tracer.start_span("execute_tool search", context=context, attributes=TOOL) for _ in range(5))
                chance.shuffle(spans)
                for span in spans:
                    span.end()
                if chance.random() < 0.1:
                    process.processor.force_flush(10)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert process.verdicts() >= 320
    labels = [(event.log_record.attributes or {})["gen_ai.evaluation.score.label"] for event in process.logs.get_finished_logs()]
    assert (len(labels), set(labels)) == (320, {"pass"})


AGENT_THAT_FORKS = """
import multiprocessing, os, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from otel_toolcall_eval import ToolCallEvalSpanProcessor

def build():
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(ToolCallEvalSpanProcessor(sys.argv[1], next=SimpleSpanProcessor(spans), tracer_provider=provider))
    return provider, spans

CRITERIA = {"toolcall_eval.criteria": "tokyo_forecast"}

def carried(spans):
    return sorted((span.name, len(span.events)) for span in spans.get_finished_spans())

def run(provider, spans, name):
    spans.clear()
    with provider.get_tracer("agent").start_as_current_span(name, context={}, attributes=CRITERIA):
        pass
    provider.force_flush(300_000)
    return carried(spans)

def child(name):
    if method == "spawn":
        own = build()
        sys.exit(0 if run(*own, name) == [(name, 4)] else 7)
    sys.exit(0 if run(provider, spans, name) == [(name, 4)] else 7)

method = sys.argv[2]
if __name__ == "__main__":
    provider, spans = build()
    # a root that is held here while others are forked: it is let go once, by this process
    root = provider.get_tracer("agent").start_span("parent", attributes=CRITERIA)
    from opentelemetry.trace import set_span_in_context
    left = provider.get_tracer("agent").start_span("left", context=set_span_in_context(root))
    root.end()
    context = multiprocessing.get_context(method)
    children = [context.Process(target=child, args=(f"child-{number}",)) for number in range(3)]
    for process in children:
        process.start()
    for process in children:
        process.join(300)
    print([process.exitcode for process in children])
    left.end()
    provider.force_flush(300_000)
    print(carried(spans))
"""


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_child_processes_have_verdicts_of_their_own_and_a_held_root_is_exported_once(method: str, tmp_path: Path) -> None:
    # forked children are what gunicorn's workers are
    script = tmp_path / "agent_that_forks.py"
    script.write_text(AGENT_THAT_FORKS, encoding="utf-8")
    command = [sys.executable, "-W", "ignore", str(script), str(EVALUATIONS), method]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.stdout.splitlines() == ["[0, 0, 0]", "[('left', 0), ('parent', 4)]"]


AGENT_WITH_A_DEAD_COLLECTOR = """
import sys, threading
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor

class Dead(SpanProcessor):
    def force_flush(self, timeout_millis=30_000):
        print("flush", flush=True)
        threading.Event().wait()

    def shutdown(self):
        print("shutdown", flush=True)
        threading.Event().wait()

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(settings_file=sys.argv[1], next=Dead()))
with provider.get_tracer("agent").start_as_current_span("agent"):
    pass
assert provider.force_flush(200) is False
if sys.argv[2] == "by itself":
    provider.shutdown()
print("over", flush=True)
"""


@pytest.mark.parametrize("shut_down", ["by itself", "at exit"])
def test_exit_does_not_hang_on_a_dead_collector(shut_down: str, tmp_path: Path) -> None:
    # the next processor waits for ever for what never comes
    file = tmp_path / "settings.yaml"
    file.write_text("completion: {shutdown_timeout: 100ms}\n", encoding="utf-8")
    command = [sys.executable, "-c", AGENT_WITH_A_DEAD_COLLECTOR, str(file), shut_down]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    said = ["flush", "shutdown", "over"] if shut_down == "by itself" else ["flush", "over", "shutdown"]
    assert (ended.stdout.splitlines(), "Traceback" in ended.stderr) == (said, False)
