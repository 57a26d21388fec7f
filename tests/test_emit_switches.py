"""What remains when a form of emission is switched off, each alone and all together, in a running sidecar; and how long any text may be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.exporters.sinks import Sink, grpc_sink, plain
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar.test_sidecar import otlp, otlp_span
from tests.sidecar_process import metric_sums, running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.exporters.sinks import Plain

SWITCHES = ("metrics", "events", "spans")
JUDGED = {
    "ToolCallCountEvaluator": {"tool_calls_count": {"search": ["=", 1]}},
    "ToolCallOrderEvaluator": {"tool_calls_order": ["search"]},
    "ToolCallArgsEvaluator": {"tool_calls": [{"name": "search", "args": {}}]},
}
CHECKS = len(JUDGED)
TOOL = [
    {"key": "gen_ai.tool.name", "value": {"stringValue": "search"}},
    {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
]


@pytest.fixture
def sink() -> Iterator[Sink]:
    yield from grpc_sink()


@pytest.mark.parametrize("off", [(), *((name,) for name in SWITCHES), SWITCHES], ids=lambda off: "-".join(off) or "none")
def test_each_switch_takes_away_its_own_form_and_nothing_else(sink: Sink, tmp_path: Path, off: tuple[str, ...]) -> None:
    file = tmp_path / "set.json"
    file.write_text(json.dumps({"evaluations": [{"id": "set", "match": "all", "evaluation_criterias": JUDGED}]}), encoding="utf-8")
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint} | {f"OTEL_TOOLCALL_EVAL_EMIT_{name.upper()}": "false" for name in off}
    with running_sidecar("--criteria", str(file), environ=environ) as sidecar:
        send_json(sidecar.http, otlp(otlp_span(1, 1), otlp_span(1, 2, parent=1, attributes=TOOL)))
        verdicts = [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(CHECKS)]
        wait_for(lambda: metric_sums(sidecar.http).get("toolcall_eval_spans_received_total") == 2, "the metrics")
        page = metric_sums(sidecar.http)
        assert sidecar.terminate() == 0
    assert len({verdict["id"] for verdict in verdicts}) == CHECKS  # the console is no form of emission
    received = sink.received
    assert len(received.records()) == (0 if "events" in off else CHECKS)
    assert [len(span.events) for _, span in received.spans()] == ([] if "spans" in off else [CHECKS])
    newest = received.newest_metrics()
    by_otlp = {name: sum(point.as_int for point in metric.sum.data_points) for name, metric in newest.items()}
    expected = 0 if "metrics" in off else CHECKS
    assert page.get("toolcall_eval_evaluations_total", 0) == expected
    assert by_otlp.get("toolcall_eval.evaluations", 0) == expected
    assert ("gen_ai.evaluation.score" in newest) is ("metrics" not in off)
    # What the sidecar says of itself is no score, and stays.
    assert page["toolcall_eval_spans_received_total"] == by_otlp["toolcall_eval.spans.received"] == 2
    assert "toolcall_eval_criteria_info" in page


LONG = "\u00e9" * 5_000
MOST_CHARACTERS = 255
MOST_EXPLAINED_BYTES = 16 * 1024


def test_no_text_is_longer_than_is_promised(sink: Sink, tmp_path: Path) -> None:
    expected = {"tool_calls": [{"name": f"tool{LONG}{number}", "args": {f"k{LONG}": LONG}} for number in range(20)]}
    judged = {"id": f"id{LONG}", "name": LONG, "match": "all", "evaluation_criterias": {"ToolCallArgsEvaluator": expected}}
    file = tmp_path / "long.json"
    file.write_text(json.dumps({"evaluations": [judged]}), encoding="utf-8")
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, "OTEL_TOOLCALL_EVAL_EXPLAIN_VALUES": "full"}
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": LONG, "gen_ai.conversation.id": LONG}
    root = otlp_span(1, 1, attributes=[{"key": key, "value": {"stringValue": text}} for key, text in agent.items()])
    tools = [
        otlp_span(
            1,
            number,
            parent=1,
            attributes=[
                {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
                {"key": "gen_ai.tool.name", "value": {"stringValue": f"tool{LONG}{number - 2}"}},
                {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": json.dumps({f"q{LONG}": LONG})}},
            ],
        )
        for number in range(2, 22)
    ]
    request = otlp(root, *tools)
    resource = {"service.name": LONG, "service.version": LONG}
    request["resourceSpans"][0]["resource"] = {  # type: ignore[index]
        "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in resource.items()]
    }
    with running_sidecar("--criteria", str(file), environ=environ) as sidecar:
        send_json(sidecar.http, request)
        sidecar.verdicts.get(timeout=PATIENCE_SECONDS)
        assert sidecar.terminate() == 0
    received = sink.received
    said = [plain(record.attributes) for _, record in received.records()]
    said += [plain(holder.attributes) for _, span in received.spans() for holder in (span, *span.events)]
    for metric in received.newest_metrics().values():
        data = getattr(metric, metric.WhichOneof("data") or "sum")
        said += [plain(point.attributes) for point in data.data_points]
    hold_lengths(said)
    assert any(len(str(value)) == MOST_CHARACTERS for attributes in said for value in attributes.values())


def hold_lengths(said: Sequence[Mapping[str, Plain]]) -> None:
    explained = 0
    for attributes in said:
        for name, value in attributes.items():
            text = str(value)
            if name == "gen_ai.evaluation.explanation":
                explained = max(explained, len(text.encode()))
            else:
                assert len(text) <= MOST_CHARACTERS, name
    assert MOST_EXPLAINED_BYTES - 4 <= explained <= MOST_EXPLAINED_BYTES
