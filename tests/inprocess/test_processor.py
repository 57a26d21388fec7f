"""Three lines in an agent: scores, events and spans of its own providers, whatever the application does around it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from opentelemetry.baggage import set_baggage
from opentelemetry.context import attach, detach
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval import CriteriaError, SettingsError, ToolCallEvalSpanProcessor
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, GOOD_RUNS, MISBEHAVING_RUN
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk._logs import ReadableLogRecord

TOKYO = GOOD_RUNS[4]


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A process in small: its providers, and what comes out of them."""

    provider: TracerProvider
    processor: ToolCallEvalSpanProcessor
    spans: InMemorySpanExporter
    logs: InMemoryLogRecordExporter
    metrics: InMemoryMetricReader

    def events(self) -> list[ReadableLogRecord]:
        """Return the verdicts, once everything that is due is judged."""
        assert self.processor.force_flush()
        return list(self.logs.get_finished_logs())

    def labels(self) -> dict[str, str]:
        """Return the label of each evaluator's verdict."""
        found = {}
        for event in self.events():
            attributes = event.log_record.attributes or {}
            found[str(attributes["gen_ai.evaluation.name"])] = str(attributes["gen_ai.evaluation.score.label"])
        return found


@pytest.fixture
def agent() -> Iterator[Agent]:
    spans, metrics = InMemorySpanExporter(), InMemoryMetricReader()
    logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
    meter_provider = MeterProvider(metric_readers=[metrics], shutdown_on_exit=False)
    logger_provider = LoggerProvider(shutdown_on_exit=False)
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ToolCallEvalSpanProcessor(
        EVALUATIONS, meter_provider=meter_provider, logger_provider=logger_provider, tracer_provider=provider
    )
    provider.add_span_processor(processor)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    yield Agent(provider=provider, processor=processor, spans=spans, logs=logs, metrics=metrics)
    provider.shutdown()
    meter_provider.shutdown()
    logger_provider.shutdown()


def test_verdicts_are_there_the_moment_the_root_span_ends(agent: Agent) -> None:
    trace_id = int(asyncio.run(TOKYO.play(agent.provider)).trace_id, 16)
    events = agent.events()
    assert set(agent.labels().values()) == {"pass"}
    assert len(events) == 4
    (root,) = [span for span in agent.spans.get_finished_spans() if span.parent is None]
    assert {(event.log_record.trace_id, event.log_record.span_id) for event in events} == {(trace_id, root.context.span_id)}


def test_verdicts_go_on_a_span_of_ours_that_is_never_judged_itself(agent: Agent) -> None:
    asyncio.run(MISBEHAVING_RUN.play(agent.provider))
    agent.events()
    (ours,) = [span for span in agent.spans.get_finished_spans() if span.name == "evaluate_tool_calls"]
    assert len(ours.events) == 4
    agent.processor.force_flush()
    assert len(agent.logs.get_finished_logs()) == 4


def test_scores_are_recorded_with_the_application_s_meter_provider(agent: Agent) -> None:
    asyncio.run(TOKYO.play(agent.provider))
    asyncio.run(MISBEHAVING_RUN.play(agent.provider))
    agent.events()
    data = agent.metrics.get_metrics_data()
    assert data is not None
    metrics = {m.name: m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics}
    points = [point for point in metrics["gen_ai.evaluation.score"].data.data_points if isinstance(point, HistogramDataPoint)]
    assert sum(point.count for point in points) == 8
    assert sum(point.sum for point in points) == pytest.approx(4 + 0.8 + 0.5 + 0.75 + 2 / 3)
    received = metrics["toolcall_eval.spans.received"].data.data_points
    assert [(point.value, dict(point.attributes or {})) for point in received] == [(11, {"toolcall_eval.transport": "in_process"})]  # type: ignore[union-attr]


def test_detached_tool_call_is_waited_for(agent: Agent) -> None:
    # the root ends before the tools do
    tracer = agent.provider.get_tracer("agent")
    with tracer.start_as_current_span("agent", attributes={"toolcall_eval.criteria": "tokyo_forecast"}):
        tool = tracer.start_span("get_forecast", attributes={"tool.name": "get_forecast"})
    assert agent.events() == []
    tool.end()
    assert len(agent.events()) == 4


@pytest.mark.parametrize(
    "form", [int, lambda number: f"{number:032x}", lambda number: number.to_bytes(16, "big")], ids=["int", "hex", "bytes"]
)
def test_trace_can_be_bound_from_code(agent: Agent, form: type) -> None:
    tracer = agent.provider.get_tracer("agent")
    with tracer.start_as_current_span("agent") as root:
        agent.processor.bind(form(root.get_span_context().trace_id), "basic_weather")
    assert agent.labels() == {f"ToolCall{kind}Evaluator": "fail" for kind in ("Count", "Order", "Args", "Output")}


def test_trace_can_be_bound_after_it_ended(agent: Agent) -> None:
    with agent.provider.get_tracer("agent").start_as_current_span("agent") as root:
        pass
    assert agent.events() == []
    agent.processor.bind(root.get_span_context().trace_id, "basic_weather")
    assert len(agent.events()) == 4


def test_baggage_binds_the_trace_that_is_started_with_it(agent: Agent) -> None:
    token = attach(set_baggage("toolcall_eval.criteria", "basic_weather"))
    with agent.provider.get_tracer("agent").start_as_current_span("agent"):
        pass
    detach(token)
    assert len(agent.events()) == 4


@pytest.mark.parametrize("trace_id", [-1, 2**128, "zz", "ab", b"short"])
def test_what_is_no_trace_id_is_refused(agent: Agent, trace_id: int | str | bytes) -> None:
    with pytest.raises(SettingsError, match="no trace ID"):
        agent.processor.bind(trace_id, "basic_weather")


def test_open_trace_is_judged_at_shutdown(agent: Agent) -> None:
    tracer = agent.provider.get_tracer("agent")
    root = tracer.start_span("agent", attributes={"toolcall_eval.criteria": "tokyo_forecast"})
    with tracer.start_as_current_span("done", context=None):
        pass
    root.end()
    agent.provider.shutdown()
    assert len(agent.logs.get_finished_logs()) == 4


def test_what_is_no_processor_can_not_be_wrapped() -> None:
    with pytest.raises(SettingsError, match=r"next: this is no span processor; wrap the exporter in one: next=Batch"):
        ToolCallEvalSpanProcessor(next=ConsoleSpanExporter())  # type: ignore[arg-type] # a user's slip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("evaluations: [{id: a, evaluation_criterias: {ToolCallCountEvaluator: {}}}]", "criteria", id="no-criteria"),
        pytest.param("evaluatons: []", "evaluations", id="typo"),
    ],
)
def test_unusable_criteria_are_refused_at_once(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "criteria.yaml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(CriteriaError, match=words):
        ToolCallEvalSpanProcessor(str(file))


def test_settings_come_from_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(f"criteria: ['{EVALUATIONS}']\nlimts: {{}}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="limits"):
        ToolCallEvalSpanProcessor(settings_file=file)
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_CRITERIA", str(EVALUATIONS))
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_IDLE", "1s")
    processor = ToolCallEvalSpanProcessor()
    processor.shutdown()
    assert any("OTEL_TOOLCALL_EVAL_IDLE" in warning for warning in processor.warnings)


AGENT_THAT_FAILS = """
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor
import logging, sys
logging.basicConfig(stream=sys.stdout)  # our thread tells that nothing is bound, in the midst of the traceback if it may
provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(sys.argv[1]))
with provider.get_tracer("agent").start_as_current_span("agent"):
    raise ValueError("the application's own")
"""


def test_process_that_dies_of_its_own_exception_ends_as_it_would_without_us() -> None:
    # no exception replaced, no exit that hangs
    ended = subprocess.run(
        [sys.executable, "-c", AGENT_THAT_FAILS, str(EVALUATIONS)], check=False, capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == "ValueError: the application's own"
    assert ended.stderr.count("Traceback") == 1


AGENT_THAT_FORKS = """
import os, sys, threading
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor

verdicts = InMemoryLogRecordExporter()
logger_provider = LoggerProvider()
logger_provider.add_log_record_processor(SimpleLogRecordProcessor(verdicts))
provider = TracerProvider()
processor = ToolCallEvalSpanProcessor(sys.argv[1], logger_provider=logger_provider)
provider.add_span_processor(processor)
tracer = provider.get_tracer("agent")
stop = threading.Event()

def busy():
    while not stop.is_set():
        with tracer.start_as_current_span("busy"):
            pass

threads = [threading.Thread(target=busy) for _ in range(3)]
for thread in threads:
    thread.start()
criteria = {"toolcall_eval.criteria": "tokyo_forecast"}
children = []
with tracer.start_as_current_span("parent", attributes=criteria):
    for _ in range(5):
        child = os.fork()
        if child == 0:
            with tracer.start_as_current_span("part of the parent's trace"):
                pass
            with tracer.start_as_current_span("child", context={}, attributes=criteria):
                pass
            flushed = processor.force_flush(300_000)
            os._exit(0 if flushed and len(verdicts.get_finished_logs()) == 4 else 7)
        children.append(child)
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
stop.set()
for thread in threads:
    thread.join()
processor.force_flush(300_000)
print(len(verdicts.get_finished_logs()))
"""


AGENT_THAT_FORKS_WHILE_A_TRACE_IS_JUDGED = """
import os, sys, threading
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.extraction import trace_view

parent, judging, forked = os.getpid(), threading.Event(), threading.Event()

class SlowTree(trace_view.SpanTree):
    def __init__(self, spans):
        if os.getpid() == parent:
            judging.set()
            forked.wait()
        super().__init__(spans)

trace_view.SpanTree = SlowTree
verdicts = InMemoryLogRecordExporter()
logger_provider = LoggerProvider()
logger_provider.add_log_record_processor(SimpleLogRecordProcessor(verdicts))
provider = TracerProvider()
processor = ToolCallEvalSpanProcessor(sys.argv[1], logger_provider=logger_provider)
provider.add_span_processor(processor)
criteria = {"toolcall_eval.criteria": "tokyo_forecast"}
with provider.get_tracer("agent").start_as_current_span("judged while the process forks", attributes=criteria):
    pass
for _ in range(3):  # or the child's thread would get the number of the one that judges here, and with it what that one holds
    threading.Thread(target=forked.wait, daemon=True).start()
judging.wait()
child = os.fork()
if child == 0:
    with provider.get_tracer("agent").start_as_current_span("child", attributes=criteria):
        pass
    flushed = processor.force_flush(300_000)
    os._exit(0 if flushed and len(verdicts.get_finished_logs()) == 4 else 7)
forked.set()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_child_that_is_forked_while_a_trace_is_judged_finds_no_lock_held() -> None:
    command = [sys.executable, "-W", "ignore", "-c", AGENT_THAT_FORKS_WHILE_A_TRACE_IS_JUDGED, str(EVALUATIONS)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.stdout == "0\n"


def test_forked_children_go_on_and_each_trace_gets_exactly_one_verdict() -> None:
    # after a fork spans lost, deadlock, stale state
    command = [sys.executable, "-W", "ignore", "-c", AGENT_THAT_FORKS, str(EVALUATIONS)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.stdout == "[0, 0, 0, 0, 0]\n4\n"


AGENT_WITH_SIGNALS = """
import signal, sys
from opentelemetry.sdk.trace import TracerProvider
from otel_toolcall_eval import ToolCallEvalSpanProcessor

provider = TracerProvider()
provider.add_span_processor(ToolCallEvalSpanProcessor(sys.argv[1]))
tracer = provider.get_tracer("agent")
caught = 0

def on_alarm(*_):
    global caught
    caught += 1
    with tracer.start_as_current_span("in a signal handler"):
        pass

signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
while caught < 300:
    with tracer.start_as_current_span("x"):
        pass
signal.setitimer(signal.ITIMER_REAL, 0)
provider.shutdown()
print("done")
"""


def test_spans_in_a_signal_handler_do_not_lock_the_application_up() -> None:
    command = [sys.executable, "-c", AGENT_WITH_SIGNALS, str(EVALUATIONS)]
    assert subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS).stdout == "done\n"
