from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry._logs import get_logger_provider
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.attributes import EXPLAIN, ExplainValues, ExplanationPolicy
from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.prometheus_names import family_name
from otel_toolcall_eval.exporters.names import OPERATION_OBSERVED, InstrumentKind
from otel_toolcall_eval.exporters.otlp import ExportSignal, OtlpSettings
from otel_toolcall_eval.exporters.telemetry import Telemetry, own_resource
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, OutputCriteria, OutputExpectation
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall
from otel_toolcall_eval.sidecar.build_telemetry import build_telemetry
from tests.exporters.reports import CANARY, END_UNIX_NS, SPAN_ID, TRACE_ID, evaluated_span, inconclusive, report, score, verdict
from tests.exporters.sinks import plain
from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.tool_call import Json
    from tests.exporters.sinks import Sink

REPORTS = (
    report(
        verdict(given=score(0.75)),
        inconclusive(criteria="other"),
        verdict(Label.INCONCLUSIVE, failed=True, criteria="third"),
    ),
    report(span=evaluated_span(span_id=bytes([7] * 8))),
)


OBSERVED = (*names.OBSERVED, *OPERATION_OBSERVED)


class Counts:
    def counts(self) -> Mapping[CountKey, int | float]:
        return {
            (item.name, tuple((attribute.name.removeprefix(names.OUR_PREFIX), "x") for attribute in item.attributes)): 3
            for item in OBSERVED
        }


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive(), thread.name


@pytest.fixture
def telemetry(sink: Sink) -> Iterator[Telemetry]:
    built = _telemetry_to(sink)
    yield built
    built.shutdown(PATIENCE_SECONDS)


def _telemetry_to(sink: Sink) -> Telemetry:
    return build_telemetry(version="1.2.3", otlp=OtlpSettings(endpoint=sink.endpoint, protocol=sink.protocol))


def _emit(telemetry: Telemetry, *, explain: ExplanationPolicy = EXPLAIN, reports: Sequence[TraceReport] = REPORTS) -> None:
    """Do what the sidecar does: emit, and let the emitters go before the telemetry is shut down."""
    telemetry.aggregator.source = Counts()
    metrics = MetricsEmitter(telemetry.aggregator, flush=telemetry.flush_metrics)
    events = BatchedEvents(
        telemetry.outlets.get(ExportSignal.LOGS), telemetry.outlets.get(ExportSignal.TRACES), resource=telemetry.resource, explain=explain
    )
    for item in reports:
        metrics.emit(item)
        events.emit(item)
    metrics.late_span(3.0)
    metrics.emit(report(verdict(Label.PASS), revision=1))
    events.shutdown(PATIENCE_SECONDS)


def test_scores_are_read_back_from_an_otlp_sink_with_exemplars(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    metric = sink.received.newest_metrics()["gen_ai.evaluation.score"]
    (point,) = metric.histogram.data_points
    assert (point.count, point.sum) == (1, 0.75)
    assert tuple(point.explicit_bounds) == names.SCORE.bounds
    assert plain(point.attributes)["gen_ai.agent.name"] == "weather_agent"
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (TRACE_ID, SPAN_ID)


def test_log_events_are_read_back_in_the_judged_span(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    records = sink.received.records()
    assert len(records) == 3
    for scope, record in records:
        assert scope == "otel_toolcall_eval"
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id, record.span_id, record.flags & 0xFF) == (TRACE_ID, SPAN_ID, 1)
        assert record.time_unix_nano > END_UNIX_NS
    shown = [plain(record.attributes) for _, record in records]
    assert [attributes.get("gen_ai.evaluation.score.value") for attributes in shown] == [0.75, None, None]
    assert [attributes["gen_ai.evaluation.score.label"] for attributes in shown] == ["fail", "inconclusive", "inconclusive"]
    assert shown[1]["toolcall_eval.completeness_reasons"] == ("orphan",)
    assert shown[2]["error.type"] == "ZeroDivisionError"


def test_span_events_are_read_back_below_the_judged_span(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    ((scope, span),) = sink.received.spans()
    assert (scope, span.name) == ("otel_toolcall_eval", "evaluate_tool_calls")
    assert (span.trace_id, span.parent_span_id) == (TRACE_ID, SPAN_ID)
    assert span.span_id not in (SPAN_ID, bytes(8))
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (END_UNIX_NS, END_UNIX_NS)
    assert [event.name for event in span.events] == ["gen_ai.evaluation.result"] * 3


def test_resource_names_us_and_our_version(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    resources = sink.received.resources()
    assert len(resources) >= 3
    assert {(item["service.name"], item["service.version"]) for item in resources} == {("otel-toolcall-eval", "1.2.3")}


def test_what_was_not_flushed_is_sent_by_shutdown(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    assert len(sink.received.records()) == 3
    assert len(sink.received.spans()) == 1
    assert sink.received.newest_metrics()["toolcall_eval.traces.completed"].sum.data_points[0].as_int == 2
    assert telemetry.shutdown(PATIENCE_SECONDS)  # once more changes nothing
    assert len(sink.received.records()) == 3


def test_every_instrument_has_one_name_by_otlp_and_on_the_page(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    assert telemetry.shutdown(PATIENCE_SECONDS)
    by_otlp = sink.received.newest_metrics()
    instruments = {item.name: item for item in (*names.RECORDED, *OBSERVED)}
    untouched = {"toolcall_eval.traces.evicted"}
    assert set(by_otlp) == set(instruments) - untouched
    page = telemetry.page().render("application/openmetrics-text").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}  # type: ignore[no-untyped-call]
    expected = {
        family_name(
            item.name, unit=item.unit, is_gauge=item.kind is InstrumentKind.OBSERVABLE_GAUGE, is_counter="counter" in item.kind.value
        )
        for name, item in instruments.items()
        if name not in untouched
    }
    assert set(families) - {"target"} == expected
    assert {by_otlp[name].unit for name in by_otlp} == {instruments[name].unit for name in by_otlp}


def test_nothing_that_a_user_recorded_leaves_by_default(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry)
    page = telemetry.page().render("application/openmetrics-text").body + telemetry.page().render().body
    assert telemetry.shutdown(PATIENCE_SECONDS)
    everything = sink.received.everything()
    assert len(everything) > 1000
    assert CANARY.encode() not in everything
    assert CANARY.encode() not in page


def _secret(value: Json) -> Payload:
    return Payload.of(Content(state=ContentState.FULL, value=value, text=str(value)))


def test_real_justifications_keep_values_to_themselves(sink: Sink, telemetry: Telemetry) -> None:
    call = ToolCall(name="search", arguments=_secret({"q": CANARY, "deep": {"list": [CANARY]}}), output=_secret({"content": CANARY}))
    log = CallLog(calls=(call, call))
    wanted: dict[str, Json] = {"q": f"{CANARY}-expected", "deep": {"list": ["x"]}}
    scores = (
        ArgsEvaluator().evaluate(ArgsCriteria(expectations=(ArgsExpectation(tool="search", arguments=wanted),)), log),
        OutputEvaluator().evaluate(OutputCriteria(expectations=(OutputExpectation(tool="search", output=f"{CANARY}-expected"),)), log),
    )
    assert all(CANARY in str(made.justification.details()) for made in scores)
    _emit(telemetry, reports=[report(*(verdict(given=made, evaluator=f"e{number}") for number, made in enumerate(scores)))])
    assert telemetry.shutdown(PATIENCE_SECONDS)
    assert [plain(record.attributes)["gen_ai.evaluation.score.value"] for _, record in sink.received.records()] == [0.0, 0.0]
    assert b"search_0" in sink.received.everything()
    assert CANARY.encode() not in sink.received.everything()


def test_values_leave_on_request(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry, explain=ExplanationPolicy(values=ExplainValues.FULL))
    assert telemetry.shutdown(PATIENCE_SECONDS)
    assert CANARY.encode() in sink.received.everything()


def test_lone_surrogates_do_not_cost_the_batch(sink: Sink, telemetry: Telemetry) -> None:
    _emit(telemetry, reports=[report(verdict(criteria="\ud800", evaluator="\udfff"), agent="\ud83d")])
    assert telemetry.shutdown(PATIENCE_SECONDS)
    assert len(sink.received.records()) == len(sink.received.spans()) == 1
    assert "gen_ai.evaluation.score" in sink.received.newest_metrics()


def test_without_an_endpoint_there_is_the_page_and_nothing_else() -> None:
    telemetry = build_telemetry(version="1")
    assert (dict(telemetry.outlets), dict(telemetry.targets)) == ({}, {})
    _emit(telemetry)
    assert b"gen_ai_evaluation_score_bucket" in telemetry.page().render().body
    assert telemetry.flush_metrics()
    assert telemetry.shutdown(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        pytest.param({"export": False}, set(), id="no-export"),
        pytest.param({"logs": False}, {ExportSignal.METRICS, ExportSignal.TRACES}, id="no-logs"),
        pytest.param({"traces": False}, {ExportSignal.METRICS, ExportSignal.LOGS}, id="no-traces"),
    ],
)
def test_signals_can_be_switched_off(switches: dict[str, bool], expected: set[ExportSignal]) -> None:
    telemetry = build_telemetry(version="1", otlp=OtlpSettings(endpoint="http://127.0.0.1:1"), **switches)  # type: ignore[arg-type]
    assert set(telemetry.targets) == expected
    assert set(telemetry.outlets) == expected - {ExportSignal.METRICS}
    telemetry.shutdown(1)


def test_nothing_global_is_set(sink: Sink) -> None:
    before = (metrics_api.get_meter_provider(), trace_api.get_tracer_provider(), get_logger_provider())
    telemetry = _telemetry_to(sink)
    assert (metrics_api.get_meter_provider(), trace_api.get_tracer_provider(), get_logger_provider()) == before
    assert telemetry.shutdown(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, ("otel-toolcall-eval", "1"), id="ours"),
        pytest.param({"OTEL_SERVICE_NAME": "mine"}, ("mine", "1"), id="service-name"),
        pytest.param({"OTEL_RESOURCE_ATTRIBUTES": "service.name=mine,service.version=7"}, ("mine", "7"), id="resource-attributes"),
    ],
)
def test_environment_names_the_resource_first(environ: dict[str, str], expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    attributes = own_resource("1").attributes
    assert (attributes["service.name"], attributes["service.version"]) == expected


def test_endpoint_that_is_our_own_listener_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="otel_toolcall_eval"):
        telemetry = build_telemetry(
            version="1", otlp=OtlpSettings(endpoint="http://localhost:4317"), logs=False, traces=False, listening=[("127.0.0.1", 4317)]
        )
    assert [record.message for record in caplog.records if record.name.startswith("otel_toolcall_eval")] == [
        "OTLP endpoint is our own listener, so what we send goes nowhere; name a collector"
    ]
    telemetry.shutdown(0.1)


def test_mistake_in_the_environment_leaves_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "soon")  # the last exporter that is built
    with pytest.raises(SettingsError):
        build_telemetry(version="1", otlp=OtlpSettings(endpoint="http://127.0.0.1:1", protocol="grpc"))
    assert set(threading.enumerate()) <= before  # those of another test may have ended meanwhile


@pytest.fixture(params=["refuses", "never-answers"])
def dead_collector(request: pytest.FixtureRequest) -> Iterator[str]:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "never-answers":
            listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_dead_collector_holds_up_neither_flush_nor_shutdown(
    dead_collector: str, protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")  # how long threads are left behind at most

    def ends_in_time() -> bool:
        telemetry = build_telemetry(version="1", otlp=OtlpSettings(endpoint=dead_collector, protocol=protocol))
        events = BatchedEvents(telemetry.outlets[ExportSignal.LOGS], telemetry.outlets[ExportSignal.TRACES], resource=telemetry.resource)
        events.emit(REPORTS[0])
        started = time.monotonic()
        flushed = [events.flush(0.2), events.flush(0.1)]
        events.shutdown(0.1)
        stopped = [telemetry.shutdown(0.5), telemetry.shutdown(0.5)]  # the second is free
        took_seconds = time.monotonic() - started
        assert not any(flushed)
        assert not any(stopped)
        return took_seconds < 0.2 + 0.1 + 0.5 + 1

    wait_for(ends_in_time, "an end that is not held up")  # on a busy machine not the first one
    wait_for(lambda: "events could not be exported before the end" in caplog.text)  # said by threads that are left behind


PROGRAM = """
import sys
from otel_toolcall_eval.exporters.names import OPERATION_OBSERVED
from otel_toolcall_eval.exporters.otlp import ExportSignal, OtlpSettings
from otel_toolcall_eval.sidecar.build_telemetry import build_telemetry
telemetry = build_telemetry(version="1", otlp=OtlpSettings(endpoint=sys.argv[1], protocol=sys.argv[2]))
for _ in range(2000):
    telemetry.outlets[ExportSignal.LOGS].send(b"x", items=1)
telemetry.shutdown(0.5)
print("done", flush=True)
"""


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_process_with_a_dead_collector_ends(dead_collector: str, protocol: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, dead_collector, protocol], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        done = time.monotonic()
        assert process.wait(PATIENCE_SECONDS) == 0
        assert time.monotonic() - done < 40  # the SDK alone: up to 80 s
