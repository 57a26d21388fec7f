"""All golden vectors agree to 1e-9: through the API, through ``evaluate`` on files, and through a running sidecar."""

from __future__ import annotations

import asyncio
import json
import queue
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import otel_toolcall_eval
from otel_toolcall_eval import AgentExecution, CriteriaError
from otel_toolcall_eval.__main__ import main
from tests.conformance import REFUSED, SCORED, VECTORS, Vector, otlp_request, sdk_spans, write_criteria
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import running_sidecar, send_json

if TYPE_CHECKING:
    from pathlib import Path

EVALUATORS = {
    "tool-call-count": otel_toolcall_eval.ToolCallCountEvaluator,
    "tool-call-order": otel_toolcall_eval.ToolCallOrderEvaluator,
    "tool-call-args": otel_toolcall_eval.ToolCallArgsEvaluator,
    "tool-call-output": otel_toolcall_eval.ToolCallOutputEvaluator,
}
TOLERANCE = 1e-9


def test_no_vector_is_left_out() -> None:
    assert len(VECTORS) == len(SCORED) + len(REFUSED) == 415


@pytest.mark.filterwarnings("ignore::UserWarning")  # some vectors have keys that the guides' form ignores; we say so
@pytest.mark.parametrize("vector", SCORED, ids=lambda vector: vector.id)
def test_api(vector: Vector) -> None:
    evaluator = EVALUATORS[vector.evaluator](id=vector.id, config=dict(vector.config))
    execution = AgentExecution(agent_input={}, agent_output={}, agent_trace=sdk_spans(vector))
    result = asyncio.run(evaluator.validate_and_evaluate_criteria(execution, vector.criteria))
    assert result.score == pytest.approx(vector.expected["score"], abs=TOLERANCE)
    assert result.score_range == (result.score, result.score)
    if "lcs" in vector.expected:
        assert list(result.details.lcs) == vector.expected["lcs"]  # type: ignore[attr-defined]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector.id)
def test_api_refuses(vector: Vector) -> None:
    with pytest.raises(CriteriaError) as refused:
        EVALUATORS[vector.evaluator](id=vector.id, config=dict(vector.config)).evaluate(sdk_spans(vector), vector.criteria)
    assert all(problem.where and problem.what and problem.fix for problem in refused.value.problems)


def test_evaluate_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces = tmp_path / "traces.jsonl"
    traces.write_text("".join(json.dumps(otlp_request(vector)) + "\n" for vector in SCORED), encoding="utf-8")
    criteria = write_criteria(tmp_path / "criteria")
    code = main(["evaluate", str(traces), "--criteria", str(criteria), "--format", "json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 1
    found = {result["criteria"]: result for trace in document["traces"] for result in trace["results"]}
    _assert_all_agree({name: result["score"] for name, result in found.items()})
    assert {v.id: v.expected["lcs"] for v in SCORED if "lcs" in v.expected} == {
        v.id: found[v.id]["details"]["lcs"] for v in SCORED if "lcs" in v.expected
    }


@pytest.mark.slow
def test_running_sidecar(tmp_path: Path) -> None:
    criteria = write_criteria(tmp_path / "criteria")
    with running_sidecar("--criteria", str(criteria)) as sidecar:
        for vector in SCORED:
            send_json(sidecar.http, otlp_request(vector))
        scores: dict[str, Any] = {}
        while len(scores) < len(SCORED):
            try:
                record = sidecar.verdicts.get(timeout=PATIENCE_SECONDS)
            except queue.Empty:
                pytest.fail(f"{len(SCORED) - len(scores)} verdicts did not come")
            scores[record["criteria"]] = record["score"]
    _assert_all_agree(scores)


def test_otlp_form_of_the_vectors_is_valid_otlp() -> None:
    from google.protobuf import json_format  # noqa: PLC0415 - only here

    for vector in VECTORS:
        json_format.ParseDict(otlp_request(vector), ExportTraceServiceRequest(), ignore_unknown_fields=False)


def _assert_all_agree(scores: dict[str, Any]) -> None:
    pairs = {vector.id: (scores.get(vector.id), vector.expected["score"]) for vector in SCORED}
    wrong = {name: pair for name, pair in pairs.items() if pair[0] is None or abs(pair[0] - pair[1]) > TOLERANCE}
    assert wrong == {}
