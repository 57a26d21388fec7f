"""Without a line of code: real processes under ``opentelemetry-instrument``, with criteria, without, and with slips in them."""

from __future__ import annotations

import atexit
import json
import logging
import os
import subprocess
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import ConcurrentMultiSpanProcessor, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NoOpTracerProvider

from otel_toolcall_eval.inprocess import environment_variables
from otel_toolcall_eval.inprocess.instrumentor import ToolCallEvalInstrumentor, put_first
from otel_toolcall_eval.settings.service_file import CONFIG_VARIABLE, PREFIX, SINGLE_VARIABLES
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAMS = Path(sys.executable).parent
EXAMPLES_PROGRAMS = ROOT / ".build" / "examples" / "bin"
# opentelemetry-configuration goes with a single version of the SDK, so it is in no environment that has to run with several.
CONFIGURED_PROGRAMS = PROGRAMS if find_spec("opentelemetry.configuration") else EXAMPLES_PROGRAMS

POLICY = """
evaluations:
  - id: refund_policy
    match: all
    evaluation_criterias:
      ToolCallCountEvaluator:
        tool_calls_count: {get_order: [">=", 1], delete_order: ["=", 0]}
"""

AGENT = """
import sys
from opentelemetry import trace

tracer = trace.get_tracer("agent")
with tracer.start_as_current_span("invoke_agent main"):
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order"}
    with tracer.start_as_current_span("execute_tool get_order", attributes=attributes):
        pass
processors = trace.get_tracer_provider()._active_span_processor._span_processors
print("processors:", *(type(one).__name__ for one in processors), file=sys.stderr)
print("ours:", *sorted(name for name in sys.modules if name.startswith("otel_toolcall_eval")), file=sys.stderr)
"""

CONFIGURATION = """
file_format: "1.0"
tracer_provider: {processors: [{batch: {exporter: {console: {}}}}]}
meter_provider: {readers: [{periodic: {exporter: {console: {}}}}]}
logger_provider: {processors: [{batch: {exporter: {console: {}}}}]}
instrumentation/development: {python: {toolcall_eval: %s}}
"""

UNUSED = [
    "otel_toolcall_eval",
    "otel_toolcall_eval.inprocess",
    "otel_toolcall_eval.inprocess.instrumentor",
    "otel_toolcall_eval.inprocess.environment_variables",
]


class Ended:
    """A process that has ended: what it exported to the console, and what it said."""

    def __init__(self, process: subprocess.CompletedProcess[str]) -> None:
        assert process.returncode == 0, process.stderr
        self.said = process.stderr
        self.spans: dict[str, dict[str, object]] = {}
        self.events: list[str] = []
        self.metrics: set[str] = set()
        decoder, text = json.JSONDecoder(), process.stdout.strip()
        while text:
            document, end = decoder.raw_decode(text)
            text = text[end:].strip()
            if "resource_metrics" in document:
                scopes = (scope for resource in document["resource_metrics"] for scope in resource["scope_metrics"])
                self.metrics |= {metric["name"] for scope in scopes for metric in scope["metrics"]}
            elif "event_name" in document:
                self.events.append(document["event_name"])
            else:
                self.spans[document["name"]] = document

    def line(self, start: str) -> list[str]:
        """Return the words of the line that the agent wrote under this heading."""
        (found,) = [line for line in self.said.splitlines() if line.startswith(start)]
        return found.split()[1:]


def run(folder: Path, *options: str, variables: Mapping[str, str] | None = None, programs: Path = PROGRAMS) -> Ended:
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    exporters = {f"OTEL_{signal}_EXPORTER": "console" for signal in ("TRACES", "METRICS", "LOGS")}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, **exporters, "PATH": path, **(variables or {})}
    command = [str(programs / "opentelemetry-instrument"), *options, "python", "agent.py"]
    return Ended(
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS)
    )


def assert_judged(ended: Ended) -> None:
    """Verdicts left as every signal, although they fell only while the process ended."""
    assert ended.line("processors:") == ["ToolCallEvalSpanProcessor", "BatchSpanProcessor"]
    assert set(ended.spans) == {"invoke_agent main", "execute_tool get_order", "evaluate_tool_calls"}
    assert ended.events == ["gen_ai.evaluation.result"]
    assert {"gen_ai.evaluation.score", "toolcall_eval.spans.received"} <= ended.metrics


def assert_untouched(ended: Ended) -> None:
    assert ended.line("processors:") == ["BatchSpanProcessor"]
    assert set(ended.spans) == {"invoke_agent main", "execute_tool get_order"}


def test_an_agent_is_judged_once_criteria_are_named_in_the_environment(tmp_path: Path) -> None:
    assert_judged(run(tmp_path, variables={"OTEL_TOOLCALL_EVAL_CRITERIA": "policy.yaml"}))


def test_an_agent_is_judged_once_criteria_are_named_on_the_command_line(tmp_path: Path) -> None:
    assert_judged(run(tmp_path, "--toolcall_eval_criteria", "policy.yaml"))


def test_an_agent_is_judged_once_a_settings_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("criteria: [policy.yaml]\n", encoding="utf-8")
    assert_judged(run(tmp_path, variables={"OTEL_TOOLCALL_EVAL_CONFIG": "settings.yaml"}))


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({}, id="nothing-named"),
        pytest.param({"OTEL_TOOLCALL_EVAL_CRITERIA": " "}, id="an-empty-variable-is-not-set"),
        pytest.param(
            {"OTEL_TOOLCALL_EVAL_CRITERIA": "policy.yaml", "OTEL_PYTHON_DISABLED_INSTRUMENTATIONS": "toolcall_eval"}, id="switched-off"
        ),
    ],
)
def test_an_agent_is_left_alone_otherwise_and_pays_for_four_small_modules_at_most(tmp_path: Path, variables: dict[str, str]) -> None:
    ended = run(tmp_path, variables=variables)
    assert_untouched(ended)
    assert set(ended.line("ours:")) <= set(UNUSED)
    assert ended.said.splitlines() == [line for line in ended.said.splitlines() if line.startswith(("processors:", "ours:"))]


def test_a_slip_in_the_variable_that_names_criteria_is_told(tmp_path: Path) -> None:
    ended = run(tmp_path, variables={"OTEL_TOOLCALL_EVAL_CRITERA": "policy.yaml"})
    assert_untouched(ended)
    assert "OTEL_TOOLCALL_EVAL_CRITERA alone switch nothing on; name criteria with OTEL_TOOLCALL_EVAL_CRITERIA" in ended.said


@pytest.mark.parametrize(
    ("criteria", "told"),
    [
        pytest.param("policy.yml", "policy.yml: the file can't be read", id="file"),
        pytest.param(
            "slip.yaml", "slip.yaml:6: refund_policy.ToolCallCountEvaluator.get_order: '=>' is not an operator; use one of", id="slip"
        ),
    ],
)
def test_a_slip_is_told_with_its_place_and_cure_and_the_agent_runs_on(tmp_path: Path, criteria: str, told: str) -> None:
    (tmp_path / "slip.yaml").write_text(POLICY.strip().replace(">=", "=>"), encoding="utf-8")
    ended = run(tmp_path, variables={"OTEL_TOOLCALL_EVAL_CRITERIA": criteria})
    assert_untouched(ended)
    assert f"tool calls are not judged, the application runs on: {told}" in ended.said
    assert "Traceback" not in ended.said


@pytest.mark.examples
@pytest.mark.parametrize(
    ("options", "variables"),
    [
        pytest.param("{criteria: [policy.yaml]}", {}, id="list"),
        pytest.param("{criteria: policy.yaml}", {}, id="path"),
        pytest.param("{}", {"OTEL_TOOLCALL_EVAL_CRITERIA": "policy.yaml"}, id="named-in-the-environment"),
    ],
)
def test_an_agent_is_judged_by_what_a_configuration_file_of_opentelemetry_names(
    tmp_path: Path, options: str, variables: dict[str, str]
) -> None:
    (tmp_path / "otel.yaml").write_text(CONFIGURATION % options, encoding="utf-8")
    assert_judged(run(tmp_path, variables={**variables, "OTEL_CONFIG_FILE": "otel.yaml"}, programs=CONFIGURED_PROGRAMS))


@pytest.mark.examples
def test_an_unknown_option_of_a_configuration_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "otel.yaml").write_text(CONFIGURATION % "{critera: policy.yaml}", encoding="utf-8")
    ended = run(tmp_path, variables={"OTEL_CONFIG_FILE": "otel.yaml"}, programs=CONFIGURED_PROGRAMS)
    assert_untouched(ended)
    assert "toolcall_eval: 'critera' has no effect; its options are criteria, settings_file" in ended.said


def test_every_variable_of_the_processor_s_settings_is_listed_for_opentelemetry_s_tools() -> None:
    listed = {name: getattr(environment_variables, name) for name in dir(environment_variables) if name.startswith("OTEL_")}
    of_the_sidecar_alone = {"listen", "forward", "journal", "export", "log", "status"}
    of_use = [
        name
        for name, (section, *_) in SINGLE_VARIABLES.items()
        if section not in of_the_sidecar_alone and name != f"{PREFIX}LIMITS_MAX_REQUEST_BYTES"  # requests come to the sidecar
    ]
    assert listed == {name: name for name in (*of_use, CONFIG_VARIABLE, f"{PREFIX}CRITERIA", f"{PREFIX}DIALECTS")}


def test_the_entry_points_lead_to_the_instrumentor_and_to_the_variables() -> None:
    (instrumentor,) = entry_points(group="opentelemetry_instrumentor", name="toolcall_eval")
    (variables,) = entry_points(group="opentelemetry_environment_variables", name="toolcall_eval")
    assert instrumentor.load() is ToolCallEvalInstrumentor
    assert variables.load() is environment_variables


@pytest.fixture
def policy(tmp_path: Path) -> str:
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY, encoding="utf-8")
    return str(path)


@pytest.fixture
def instrumentor() -> Iterator[ToolCallEvalInstrumentor]:
    one = ToolCallEvalInstrumentor()
    yield one
    one.uninstrument()


def processors_of(provider: TracerProvider) -> list[str]:
    return [type(one).__name__ for one in provider._active_span_processor._span_processors]  # noqa: SLF001 - what is shown is their order


def log_processors_of(provider: LoggerProvider) -> list[str]:
    return [type(one).__name__ for one in provider._multi_log_record_processor._log_record_processors]  # noqa: SLF001 - as above


def test_instrumenting_twice_is_instrumenting_once_and_can_be_undone(policy: str, instrumentor: ToolCallEvalInstrumentor) -> None:
    provider, logs = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    assert not instrumentor.is_instrumented_by_opentelemetry
    for _ in range(2):
        ToolCallEvalInstrumentor().instrument(criteria=policy, tracer_provider=provider, logger_provider=logs, skip_dep_check=True)
    assert processors_of(provider) == ["ToolCallEvalSpanProcessor", "SimpleSpanProcessor"]
    assert log_processors_of(logs) == ["LogSource"]
    instrumentor.uninstrument()
    assert processors_of(provider) == ["SimpleSpanProcessor"]
    assert log_processors_of(logs) == []
    assert tuple(instrumentor.instrumentation_dependencies()) == ()


def test_the_processor_ends_before_the_providers_do(
    policy: str, instrumentor: ToolCallEvalInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    provider = TracerProvider()
    instrumentor.instrument(criteria=policy, tracer_provider=provider)
    assert [getattr(one, "__qualname__", "") for one in registered] == ["TracerProvider.shutdown", "ToolCallEvalSpanProcessor.shutdown"]


def test_without_a_provider_of_the_sdk_the_cure_is_told(
    policy: str, instrumentor: ToolCallEvalInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    instrumentor.instrument(criteria=policy, tracer_provider=object())
    assert not instrumentor.is_instrumented_by_opentelemetry
    assert "install opentelemetry-distro" in caplog.text


def test_a_fault_of_ours_is_logged_and_kept_from_the_application(
    instrumentor: ToolCallEvalInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    instrumentor.instrument(criteria=5, tracer_provider=TracerProvider(shutdown_on_exit=False))
    assert not instrumentor.is_instrumented_by_opentelemetry
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "please report this" in caplog.text


def test_nothing_is_done_where_the_sdk_is_switched_off(
    policy: str, instrumentor: ToolCallEvalInstrumentor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    instrumentor.instrument(criteria=policy)
    assert not instrumentor.is_instrumented_by_opentelemetry


def test_what_is_odd_about_criteria_is_logged(
    tmp_path: Path, instrumentor: ToolCallEvalInstrumentor, caplog: pytest.LogCaptureFixture, policy: str
) -> None:
    (tmp_path / "notes.yaml").write_text("a: 1\n", encoding="utf-8")
    assert Path(policy).parent == tmp_path
    instrumentor.instrument(criteria=str(tmp_path), tracer_provider=TracerProvider(shutdown_on_exit=False))
    assert "notes.yaml:1: this is neither an evaluator nor an eval set" in caplog.text


@pytest.mark.parametrize("concurrent", [False, True])
def test_a_processor_is_put_before_all_others(concurrent: bool) -> None:  # noqa: FBT001 - a parameter of the table
    provider = TracerProvider(active_span_processor=ConcurrentMultiSpanProcessor(1) if concurrent else None, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    assert put_first(provider, SpanProcessor())
    assert processors_of(provider) == ["SpanProcessor", "SimpleSpanProcessor"]


def test_on_an_sdk_that_is_not_known_a_processor_is_added_as_the_sdk_does_and_the_order_is_told(
    policy: str, instrumentor: ToolCallEvalInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    class OtherProvider(NoOpTracerProvider):
        """A vendor's provider: it takes processors, and keeps them in its own way."""

        def __init__(self) -> None:
            self.added: list[SpanProcessor] = []

        def add_span_processor(self, processor: SpanProcessor) -> None:
            self.added.append(processor)

    provider = OtherProvider()
    instrumentor.instrument(criteria=policy, tracer_provider=provider)
    assert [type(one).__name__ for one in provider.added] == ["ToolCallEvalSpanProcessor"]
    assert "tool calls are judged after spans are exported" in caplog.text
