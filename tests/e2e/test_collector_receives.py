"""The Collector takes what the sidecar emits, and what it writes down can be read: scores, events, and the span in the judged trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.e2e.collector import collecting
from tests.e2e.judged import SeenVerdict
from tests.e2e.ports import held_ports
from tests.e2e.senders import PYTHON, sending
from tests.sidecar_process import running_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.e2e.traffic import Recorded

pytestmark = pytest.mark.e2e

RUNS = 6


def entries(file: Path, signal_name: str) -> Iterator[dict[str, Any]]:
    """Yield the spans, records or metrics of the file exporter, which writes one request a line."""
    outer, inner, innermost = {
        "traces": ("resourceSpans", "scopeSpans", "spans"),
        "logs": ("resourceLogs", "scopeLogs", "logRecords"),
        "metrics": ("resourceMetrics", "scopeMetrics", "metrics"),
    }[signal_name]
    for line in file.read_text(encoding="utf-8").splitlines():
        for resource in json.loads(line).get(outer, ()):
            for scope in resource[inner]:
                assert scope["scope"]["name"] == "otel_toolcall_eval"
                yield from scope[innermost]


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return OTLP/JSON attributes as names and values."""
    return {each["key"]: next(iter(each["value"].values())) for each in attributes}


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_collector_reads_scores_events_and_the_span_below_the_judged_root(protocol: str, recorded: Recorded, tmp_path: Path) -> None:
    written = tmp_path / "received.jsonl"
    judged = SeenVerdict()
    with (
        collecting(tmp_path, exporters={"file": {"path": str(written)}}) as collector,
        held_ports(2) as (grpc, http),
        running_sidecar(
            *("--criteria", str(EVALUATIONS), "--grpc", grpc, "--http", http),
            environ={
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.grpc if protocol == 'grpc' else collector.http}",
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            },
            quiet="0s",
        ) as running,
        sending(PYTHON[0], grpc=grpc, http=http, runs=recorded.file, folder=tmp_path, whole=True, most=RUNS) as at_work,
    ):
        judged.wait_for(running, RUNS)
        sent = at_work.stop()
        judged.finish(running)  # sends what it has
        collector.stop()  # writes what it has
    judged.hold(sent, recorded)

    spans = list(entries(written, "traces"))
    assert {span["name"] for span in spans} == {"evaluate_tool_calls"}
    assert sorted(span["traceId"] for span in spans) == sorted(sent.runs)
    parents = {span["traceId"]: span["parentSpanId"] for span in spans}
    assert parents == {trace_id: sent.roots[trace_id] for trace_id in sent.runs}

    said: dict[tuple[str, str], list[tuple[str, float | None]]] = {}
    for record in entries(written, "logs"):
        assert record["eventName"] == "gen_ai.evaluation.result"
        assert record["spanId"] == sent.roots[record["traceId"]]
        attributes = plain(record["attributes"])
        verdict = (attributes["gen_ai.evaluation.score.label"], attributes.get("gen_ai.evaluation.score.value"))
        said.setdefault((record["traceId"], attributes["gen_ai.evaluation.name"]), []).append(verdict)
    assert said == judged.verdicts

    metrics = {metric["name"]: metric for metric in entries(written, "metrics")}  # cumulative, so the last says all
    scores = metrics["gen_ai.evaluation.score"]["histogram"]["dataPoints"]
    assert sum(int(point["count"]) for point in scores) == len(judged.verdicts)
    received = metrics["toolcall_eval.spans.received"]["sum"]["dataPoints"]
    assert sum(int(point["asInt"]) for point in received) == sum(sent.spans.values())
    assert any(point.get("exemplars") for point in scores)
