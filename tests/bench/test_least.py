"""Holds the floors: one that did less than it says, or other than ours, would make what is built seem worse than it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.emission.aggregator import Aggregator
from otel_toolcall_eval.emission.batched_events import BatchedEvents
from otel_toolcall_eval.emission.metrics import MetricsEmitter
from otel_toolcall_eval.emission.telemetry import own_resource
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.wire import otlp_protobuf
from otel_toolcall_eval.wiring import build_pipeline
from tests.bench import counted_floor
from tests.bench.agent_traces import request_of
from tests.bench.bench_growth import LATER_NS
from tests.bench.bench_judging import calls_of, criteria_of
from tests.bench.counted import COMPILED
from tests.bench.counted_floor import CLOCK, expected_of_load
from tests.bench.least import Expected, judge_spans, judge_texts
from tests.bench.least_slices import WAYS
from tests.bench.loads import criteria
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

    from tests.bench.least_ways import Messages

NOW = 1_795_000_000_000_000_000
OUR_ID = "toolcall_eval.id"
TRACES_SENT = 3


class Kept:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def send(self, body: bytes, *, items: int) -> None:
        assert items
        self.bodies.append(body)

    def flush(self, timeout_seconds: float) -> bool:
        return timeout_seconds > 0


class Recorder(Aggregator):
    """Counts what is recorded."""

    recorded = 0

    def record_all(self, values: Sequence[Any], bundles: Sequence[Any], occasion: Any) -> None:  # noqa: ANN401 - passed on
        self.recorded += len(values) + sum(len(bundle.values) for bundle in bundles)
        super().record_all(values, bundles, occasion)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes, int]:
    """Return what ours sends of three traces, and how many values of metrics each takes."""
    file = tmp_path_factory.mktemp("floor") / "criteria.json"
    file.write_text(criteria("weather-agent"), encoding="utf-8")
    settings, loaded = load_settings(None, {}, Deployment.SIDECAR), load_criteria([CriteriaSource(path=file)])
    pipe = build_pipeline(settings, loaded, name_unbound=False)
    logs, spans, recorder = Kept(), Kept(), Recorder(own_resource("0"))
    metrics = MetricsEmitter(recorder)
    events = BatchedEvents(logs, spans, resource={"service.name": "bench"}, delay_seconds=10_000.0, clock=lambda: NOW)
    pipe.add(otlp_protobuf.decode_traces(request_of(1, TRACES_SENT), pipe.projection).spans, now_ns=SECOND_NS, transport="grpc")
    for report in pipe.pop_due(now_ns=SECOND_NS + LATER_NS):
        metrics.emit(report)
        events.emit(report)
    events.shutdown(1.0)
    [sent_logs], [sent_spans] = logs.bodies, spans.bodies
    return sent_logs, sent_spans, recorder.recorded // TRACES_SENT


def way_of(name: str) -> Messages:
    return WAYS[name](expected_of_load())


def sent_by(way: Messages, body: bytes) -> tuple[bytes, bytes]:
    return way.emit(way.judge(way.read(body)), NOW)


def values(attributes: Sequence[KeyValue]) -> dict[str, object]:
    """Return attributes without their order; of a verdict's ID, which names the version of the criteria, the length."""
    found = {each.key: each.value for each in attributes}
    return {key: len(value.string_value) if key == OUR_ID else str(value) for key, value in found.items()}


def record_of(record: LogRecord) -> list[object]:
    rest = type(record).FromString(record.SerializeToString())
    del rest.attributes[:]
    return [rest, values(record.attributes)]


def span_of(span: Span) -> list[object]:
    rest = type(span).FromString(span.SerializeToString())
    del rest.attributes[:], rest.events[:]
    assert len(rest.span_id) == 8
    rest.span_id = b""  # follows from the verdict's ID
    return [rest, values(span.attributes), [[event.name, event.time_unix_nano, values(event.attributes)] for event in span.events]]


@pytest.mark.parametrize("name", WAYS)
def test_a_floor_sends_what_ours_sends_of_the_same_traces(name: str, ours: tuple[bytes, bytes, int]) -> None:
    logs, spans = sent_by(way_of(name), request_of(1, TRACES_SENT))
    [theirs], [real] = (ExportLogsServiceRequest.FromString(body).resource_logs for body in (logs, ours[0]))
    assert (theirs.resource, theirs.scope_logs[0].scope) == (real.resource, real.scope_logs[0].scope)
    records = [[record_of(record) for record in one.scope_logs[0].log_records] for one in (theirs, real)]
    assert len(records[0]) == 4 * TRACES_SENT
    assert records[0] == records[1]
    [theirs_spans], [real_spans] = (ExportTraceServiceRequest.FromString(body).resource_spans for body in (spans, ours[1]))
    assert (theirs_spans.resource, theirs_spans.scope_spans[0].scope) == (real_spans.resource, real_spans.scope_spans[0].scope)
    written = [[span_of(span) for span in one.scope_spans[0].spans] for one in (theirs_spans, real_spans)]
    assert len(written[0]) == TRACES_SENT
    assert written[0] == written[1]


def test_both_floors_send_the_same() -> None:
    sent = [sent_by(way_of(name), request_of(5, 2)) for name in WAYS]
    first_logs, second_logs = (ExportLogsServiceRequest.FromString(logs) for logs, _ in sent)
    assert first_logs == second_logs
    first_spans, second_spans = (ExportTraceServiceRequest.FromString(spans) for _, spans in sent)
    assert first_spans == second_spans


@pytest.mark.parametrize("name", WAYS)
def test_a_floor_adds_to_as_many_cells_as_ours(name: str, ours: tuple[bytes, bytes, int]) -> None:
    way = way_of(name)
    way.record(way.judge(way.read(request_of(1, TRACES_SENT))))
    way.settle()
    assert len(way.cells) == ours[2]
    assert set(way.cells.values()) == {float(TRACES_SENT)}


@pytest.mark.parametrize("name", WAYS)
def test_a_trace_over_two_requests_is_judged_when_its_root_comes(name: str) -> None:
    way, whole = way_of(name), ExportTraceServiceRequest.FromString(request_of(1, 1))
    first, second = (ExportTraceServiceRequest.FromString(whole.SerializeToString()) for _ in range(2))
    del first.resource_spans[0].scope_spans[0].spans[4:], second.resource_spans[0].scope_spans[0].spans[:4]
    assert way.read(first.SerializeToString()) == []
    [one] = way.judge(way.read(second.SerializeToString()))
    assert [score for score, _ in one[-1]] == [1.0] * 4


@pytest.mark.parametrize("name", WAYS)
def test_a_floor_tells_what_does_not_hold(name: str) -> None:
    request = ExportTraceServiceRequest.FromString(request_of(1, 1))
    tool = request.resource_spans[0].scope_spans[0].spans[1]
    for attribute in tool.attributes:
        if attribute.key == "gen_ai.tool.call.arguments":
            attribute.value.string_value = json.dumps({"city": "Rome"})
    way = way_of(name)
    way.judge(way.read(request_of(2, 1)))  # what passes may be remembered
    judged = way.judge(way.read(request.SerializeToString()))
    assert [score for score, _ in judged[0][-1]] == [1.0, 1.0, 0.75, 1.0]
    logs = ExportLogsServiceRequest.FromString(way.emit(judged, NOW)[0])
    told = [values(record.attributes) for record in logs.resource_logs[0].scope_logs[0].log_records]
    labels = ["fail" in str(one["gen_ai.evaluation.score.label"]) for one in told]
    assert labels == [False, False, True, False]
    assert "3 of 4 expected arguments match" in str(told[2]["gen_ai.evaluation.explanation"])


def test_the_four_functions_judge_in_earnest() -> None:
    calls = calls_of(20)
    expected = Expected.of(criteria_of(calls))
    assert [score for score, _ in judge_spans(expected, calls)] == [1.0] * 4
    texts = expected.in_texts([(call["tool.name"], call["input.value"], call["output.value"]) for call in calls])
    assert judge_texts(texts, calls) == judge_spans(expected, calls)
    wrong = [{**call, "tool.name": "tool_1", "input.value": "{}", "output.value": '{"content": ""}'} for call in calls]
    for judged in (judge_spans(expected, wrong), judge_texts(texts, wrong)):
        assert [score for score, _ in judged] == [0.25, 0.25, 0.0, 0.0]
    assert [score for score, _ in judge_spans(replace(expected, order=expected.order[::-1]), calls)][1] == 0.0


@pytest.mark.parametrize("how", ["", CLOCK])
def test_all_sections_that_are_told_are_counted_and_timed(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(counted_floor, "collect_garbage_seldom", lambda: None)
    monkeypatch.setattr(counted_floor, "SIZES", (4, 20))
    monkeypatch.setattr(counted_floor, "ROUNDS", 2)
    counted_floor.main(how)
    said = json.loads(capsys.readouterr().out)
    assert set(counted_floor.names()) <= set(said["taken"] if how else said["sections"])
    assert all(taken > 0 for taken in said["taken"].values())
    assert said["core"] in {COMPILED, "interpreted"}
