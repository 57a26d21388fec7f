"""A new evaluator is its criteria, its file and one line in the registry: everything else learns of it from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_toolcall_eval
from otel_toolcall_eval.__main__ import main
from otel_toolcall_eval.inprocess.library import GuidesEvaluator
from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES
from tests.call_variety import VARIETY
from tests.cli.test_commands import request, span, write
from tests.patience import PATIENCE_SECONDS

pytest_plugins = ["pytester"]

FEW = {
    "id": "few",
    "evaluatorTypeId": "uipath-tool-call-variety",
    "evaluatorConfig": {"defaultEvaluationCriteria": {"toolCallVariety": 2}},
}
CRITERIA = {
    "evaluators": [FEW],
    "evaluations": [
        {"id": "policy", "match": "all", "evaluationCriterias": {"few": None, "ToolCallVarietyEvaluator": {"tool_call_variety": 1}}},
    ],
}
TRACE = request(span(1, parent=None), span(2, tool__name="search"), span(3, tool__name="book"))
"""Two different tools."""


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EVALUATOR_TYPES, VARIETY.evaluator_id, VARIETY)


@pytest.fixture
def criteria(tmp_path: Path) -> Path:
    path = tmp_path / "criteria.json"
    path.write_text(json.dumps(CRITERIA), encoding="utf-8")
    return path


def test_check_accepts_its_criteria_and_finds_their_faults(criteria: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(criteria)]) == 0
    assert "few, ToolCallVarietyEvaluator" in capsys.readouterr().out
    criteria.write_text(json.dumps(CRITERIA).replace('"tool_call_variety": 1', '"tool_call_variety": -1'), encoding="utf-8")
    assert main(["check", str(criteria)]) == 2
    assert "tool_call_variety" in capsys.readouterr().err


def test_the_schema_knows_its_criteria(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "criteria"]) == 0
    validator = Draft202012Validator(json.loads(capsys.readouterr().out))
    assert validator.is_valid(CRITERIA)
    assert not validator.is_valid(json.loads(json.dumps(CRITERIA).replace('"tool_call_variety": 1', '"tool_call_variety": -1')))
    assert not validator.is_valid(json.loads(json.dumps(CRITERIA).replace("tool-call-variety", "tool-call-novelty")))


def test_evaluate_fails_a_file_by_it_and_says_why(criteria: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = write(tmp_path / "traces.jsonl", TRACE)
    assert main(["evaluate", str(traces), "--criteria", str(criteria)]) == 1
    printed = capsys.readouterr().out
    assert "ToolCallVarietyEvaluator" in printed
    assert "2 different tools (book, search), at most 1 expected" in printed


def test_the_span_processor_evaluates_it_in_a_running_agent(criteria: Path) -> None:
    logs, exporter = LoggerProvider(shutdown_on_exit=False), InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    logs.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    processor = otel_toolcall_eval.ToolCallEvalSpanProcessor(criteria=[str(criteria)], logger_provider=logs)
    provider = TracerProvider()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("agent"):
        for tool in ("search", "book"):
            with tracer.start_as_current_span(tool, attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}):
                pass
    assert processor.force_flush()
    provider.shutdown()
    attributes = [event.log_record.attributes or {} for event in exporter.get_finished_logs()]
    found = [(one["gen_ai.evaluation.name"], one["gen_ai.evaluation.score.label"]) for one in attributes]
    assert found == [("few", "pass"), ("ToolCallVarietyEvaluator", "fail")]


def test_the_library_takes_it_by_its_id_and_as_a_class() -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
    provider.get_tracer("agent").start_span("search", attributes=attributes).end()
    found = otel_toolcall_eval.evaluate(spans.get_finished_spans(), {"tool-call-variety": {"tool_call_variety": 0}})
    assert found["tool-call-variety"].label is otel_toolcall_eval.Label.FAIL

    class ToolCallVarietyEvaluator(GuidesEvaluator):
        """What the library would have for it."""

    evaluator = ToolCallVarietyEvaluator(config={"default_evaluation_criteria": {"tool_call_variety": 1}})
    assert evaluator.evaluate(spans.get_finished_spans()).score == 1.0


def test_the_pytest_marker_takes_it(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider -p no:benchmark -p no:asyncio --strict-markers\n")
    pytester.makeconftest("from tests.call_variety import register\n\nregister()\n")
    pytester.makepyfile(
        """
        import pytest
        from opentelemetry import trace

        @pytest.mark.parametrize("tools", [["search"], ["search", "book"]])
        @pytest.mark.tool_calls({"ToolCallVarietyEvaluator": {"tool_call_variety": 1}})
        def test_it(tools):
            for tool in tools:
                attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
                with trace.get_tracer("agent").start_as_current_span(tool, attributes=attributes):
                    pass
        """
    )
    result = pytester.runpytest_subprocess(timeout=PATIENCE_SECONDS)
    result.stdout.fnmatch_lines(["*2 different tools (book, search), at most 1 expected*"])
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["failed"]) == (1, 1)
