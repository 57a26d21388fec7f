"""A sidecar in a process of its own, as an operator meets it: real senders, real sinks, signals, wrong files."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, GOOD_RUNS, MISBEHAVING_RUN, SERVICE_NAME
from otel_toolcall_eval.sidecar.sidecar import SignalWakeup
from tests.exporters.sinks import Sink, grpc_sink, plain
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import RunningSidecar, get, metric_samples, metric_sums, post, running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_toolcall_eval.cli.demo_agent.weather_agent import Scenario

TOKYO = GOOD_RUNS[4]
EVALUATIONS_TOTAL, QUEUE = "toolcall_eval_evaluations_total", "toolcall_eval_queue_memory_bytes"


@contextmanager
def agent_exporting_to(sidecar: RunningSidecar, *, protocol: str = "grpc") -> Iterator[TracerProvider]:
    """Yield a provider whose spans go to the sidecar through the ordinary exporter."""
    exporter = (
        GrpcExporter(endpoint=f"http://{sidecar.grpc}", insecure=True)
        if protocol == "grpc"
        else HttpExporter(endpoint=f"http://{sidecar.http}/v1/traces")
    )
    provider = TracerProvider(resource=Resource({"service.name": SERVICE_NAME}), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    yield provider
    provider.shutdown()


def play(sidecar: RunningSidecar, *scenarios: Scenario, protocol: str = "grpc") -> list[str]:
    """Let the agent run and return the trace IDs; all spans have been exported then."""
    with agent_exporting_to(sidecar, protocol=protocol) as provider:
        return [asyncio.run(scenario.play(provider)).trace_id for scenario in scenarios]


def verdicts(sidecar: RunningSidecar, number: int) -> list[dict[str, Any]]:
    """Take this many verdicts."""
    return [sidecar.verdicts.get(timeout=PATIENCE_SECONDS) for _ in range(number)]


def otlp_span(trace: int, number: int, *, parent: int | None = None, **fields: object) -> dict[str, object]:
    start = 1_790_000_000_000_000_000 + number
    made: dict[str, object] = {"traceId": f"{trace:032x}", "spanId": f"{number:016x}", "name": "s", "flags": 0x100, **fields}
    made |= {"startTimeUnixNano": str(start), "endTimeUnixNano": str(start + 5)}
    return made | ({} if parent is None else {"parentSpanId": f"{parent:016x}"})


def otlp(*spans: dict[str, object]) -> dict[str, object]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


@pytest.fixture
def sink() -> Iterator[Sink]:
    yield from grpc_sink()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_scores_come_back_as_metrics_on_the_page_and_by_otlp_and_as_events_below_the_judged_root(sink: Sink, protocol: str) -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_METRIC_EXPORT_INTERVAL": "500"}
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ) as sidecar:
        good, bad = play(sidecar, TOKYO, MISBEHAVING_RUN, protocol=protocol)
        records = verdicts(sidecar, 8)
        # A request leaves the queue a moment after its verdicts.
        wait_for(lambda: (sums := metric_sums(sidecar.http)).get(EVALUATIONS_TOTAL) == 8 and not sums.get(QUEUE), "all metrics")
        page, samples = metric_sums(sidecar.http), metric_samples(sidecar.http)
        assert sidecar.terminate() == 0
    by_run = {(r["trace_id"], r["evaluator"]): (r["label"], r["score"]) for r in records}
    assert {key[1]: value for key, value in by_run.items() if key[0] == good} == {
        f"ToolCall{kind}Evaluator": ("pass", 1.0) for kind in ("Count", "Order", "Args", "Output")
    }
    assert by_run[bad, "ToolCallOrderEvaluator"] == ("fail", 0.5)

    assert page["gen_ai_evaluation_score_count"] == 8
    assert page["gen_ai_evaluation_score_sum"] == pytest.approx(4 + 0.8 + 0.5 + 0.75 + 2 / 3)
    assert page[EVALUATIONS_TOTAL] == 8
    assert page["toolcall_eval_spans_received_total"] == 11
    for name in ("gen_ai_evaluation_score_count", "toolcall_eval_evaluations_total", "toolcall_eval_service_info"):
        assert {labels["toolcall_eval_service_name"] for found, labels, _ in samples if found == name} == {SERVICE_NAME}
    assert page["process_memory_usage_bytes"] > 10 << 20
    assert page[QUEUE] == 0
    exports = [(labels["toolcall_eval_signal"], value) for name, labels, value in samples if name == "toolcall_eval_export_failures_total"]
    assert sorted(exports) == [("logs", 0), ("metrics", 0), ("traces", 0)]

    newest = sink.received.newest_metrics()
    points = newest["gen_ai.evaluation.score"].histogram.data_points
    assert sum(point.count for point in points) == 8
    for name in ("gen_ai.evaluation.score", "toolcall_eval.evaluations"):
        assert {trace_id.hex() for trace_id, _ in sink.received.exemplars(name)} <= {good, bad}
    assert {trace_id.hex() for trace_id, _ in sink.received.exemplars("gen_ai.evaluation.score")} == {good, bad}
    assert sum(p.as_int for p in newest["toolcall_eval.spans.received"].sum.data_points) == 11

    logged = [record for _, record in sink.received.records()]
    assert len(logged) == 8
    events = {(record.trace_id.hex(), str(plain(record.attributes)["gen_ai.evaluation.name"])): record for record in logged}
    assert set(events) == set(by_run)
    spans = [span for scope, span in sink.received.spans() if scope == "otel_toolcall_eval"]
    assert sorted(span.trace_id.hex() for span in spans) == sorted([good, bad])
    for span in spans:  # log events and our span hang on the same span of the judged trace, its root
        assert {record.span_id for record in logged if record.trace_id == span.trace_id} == {span.parent_span_id}
        assert len(span.events) == 4
        assert span.start_time_unix_nano == span.end_time_unix_nano
    assert all(record.event_name == "gen_ai.evaluation.result" for record in logged)


def test_sigterm_judges_what_is_pending_and_ends_cleanly() -> None:
    # A restart loses waiting traces
    patient = {"OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_MAX": "1h"}
    with running_sidecar("--criteria", str(EVALUATIONS), quiet="1h", environ=patient) as sidecar:
        traces = play(sidecar, *GOOD_RUNS[:3])
        assert sidecar.terminate() == 0
        found = sidecar.drained()
    assert {record["trace_id"] for record in found} == set(traces)
    assert {(record["trigger"], record["completeness"]) for record in found} == {("shutdown", "partial")}
    assert {record["label"] for record in found} == {"inconclusive", "pass"}  # the matches that were seen can't be unseen


def test_second_sigterm_ends_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections and never answers: the last export hangs
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with running_sidecar("--criteria", str(EVALUATIONS), environ={"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}) as sidecar:
            play(sidecar, TOKYO)
            verdicts(sidecar, 4)
            sidecar.process.send_signal(signal.SIGTERM)
            wait_for(lambda: not _reachable(sidecar.http), "the end of intake")
            sidecar.process.send_signal(signal.SIGTERM)
            assert sidecar.process.wait(PATIENCE_SECONDS) == 1


def _reachable(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_dead_collector_does_not_hold_the_end() -> None:
    # Exit hangs on a dead collector
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": "2s"}
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ) as sidecar:
        play(sidecar, TOKYO)
        verdicts(sidecar, 4)
        sidecar.process.send_signal(signal.SIGTERM)
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0


def test_health_pages_answer_and_healthcheck_agrees() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS)) as sidecar:
        sidecar.until_ready()
        assert get(sidecar.http, "/livez") == (200, b"ok\n")
        command = [sys.executable, "-m", "otel_toolcall_eval", "healthcheck", "--url", f"http://{sidecar.http}/readyz"]
        wait_for(lambda: subprocess.run(command, check=False).returncode == 0, "an answer in the time that the command has")
        assert sidecar.terminate() == 0
        gone = subprocess.run(command, check=False, capture_output=True, text=True)
    assert gone.returncode == 1
    assert "is the sidecar running?" in gone.stderr


def test_without_criteria_it_says_what_to_do_and_counts_traces_as_unbound() -> None:
    with running_sidecar() as sidecar:
        send_json(sidecar.http, otlp(otlp_span(1, 1)))
        assert verdicts(sidecar, 1)[0]["label"] == "unbound"
        wait_for(lambda: metric_sums(sidecar.http).get("toolcall_eval_traces_unbound_total") == 1, "the count")
        sidecar.terminate()
    log = "".join(sidecar.log)
    assert "criteria  none: every trace will be counted as unbound" in log
    assert "next      give criteria: --criteria PATH" in log
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT=http://{sidecar.grpc}" in log


def test_trace_of_another_service_is_unbound_and_says_which_criteria_it_asked_for() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS)) as sidecar:
        asks = [{"key": "toolcall_eval.criteria", "value": {"stringValue": "no_such"}}]
        send_json(sidecar.http, otlp(otlp_span(1, 1, attributes=asks)))
        (record,) = verdicts(sidecar, 1)
    assert (record["label"], record["explanation"]) == ("unbound", "no criteria apply; it asks for no_such")


CRITERIA = """
evaluations:
  - id: {name}
    name: {name}
    match: all
    evaluation_criterias:
      ToolCallCountEvaluator: {{tool_calls_count: {{"*": ["{operator}", 0]}}}}
"""


@pytest.mark.slow
def test_criteria_are_reloaded_on_change_and_on_sighup_and_a_broken_file_leaves_the_old_ones(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(CRITERIA.format(name="first", operator="="), encoding="utf-8")
    with running_sidecar("--criteria", str(file)) as sidecar:
        numbers = iter(range(1, 10_000))

        def judged_by() -> str:
            send_json(sidecar.http, otlp(otlp_span(next(numbers), 1)))
            return str(verdicts(sidecar, 1)[0]["criteria"])

        assert judged_by() == "first"
        file.write_text(CRITERIA.format(name="second", operator="="), encoding="utf-8")
        wait_for(lambda: judged_by() == "second", "the changed file")
        file.write_text(CRITERIA.format(name="third", operator="=>"), encoding="utf-8")
        wait_for(lambda: "could not be reloaded" in "".join(sidecar.log), "the complaint")
        assert judged_by() == "second"
        file.write_text(CRITERIA.format(name="fourth", operator="="), encoding="utf-8")
        sidecar.process.send_signal(signal.SIGHUP)
        wait_for(lambda: judged_by() == "fourth", "SIGHUP")

        def in_force() -> list[dict[str, str]]:
            return [labels for name, labels, _ in metric_samples(sidecar.http) if name == "toolcall_eval_criteria_info"]

        wait_for(lambda: [labels["toolcall_eval_criteria"] for labels in in_force()] == ["fourth"], "the metric of criteria in force")
        assert in_force()[0]["toolcall_eval_criteria_version"]
        reloads = {
            labels["toolcall_eval_result"]: value
            for name, labels, value in metric_samples(sidecar.http)
            if name == "toolcall_eval_criteria_reloads_total"
        }
        assert reloads["loaded"] >= 2  # a file that is watched while it is written may count once more
        assert reloads["rejected"] >= 1
    assert "'=>' is not an operator" in "".join(sidecar.log)


@pytest.mark.slow
def test_port_in_use_is_an_error_with_a_cure_and_nothing_is_left_running() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option in ("--grpc", "--http"):
            other = "--http" if option == "--grpc" else "--grpc"
            command = [sys.executable, "-m", "otel_toolcall_eval", "serve", option, f"127.0.0.1:{port}", other, "127.0.0.1:0"]
            ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
            assert ended.returncode == 2
            assert ended.stderr == (
                f"otel-toolcall-eval: 127.0.0.1:{port}: the port is in use; stop the other process or choose another port with {option}\n"
            )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(["--grpc", "0.0.0.0:0"], ["listen.grpc", "can be reached from other machines"], id="open-listener"),
        pytest.param(["--grpc", "127.0.0.1"], ["--grpc", "host:port"], id="no-port"),
        pytest.param(["--criteria", "no-such-file.yaml"], ["no-such-file.yaml", "No such file"], id="no-criteria-file"),
        pytest.param(["--config", "no-such-file.yaml"], ["no-such-file.yaml", "No such file"], id="no-config-file"),
        pytest.param(["--wrong"], ["unrecognized arguments: --wrong"], id="unknown-option"),
    ],
)
def test_unusable_options_end_with_2_and_say_what_to_do(options: list[str], said: list[str]) -> None:
    command = [sys.executable, "-m", "otel_toolcall_eval", "serve", *options]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 2
    assert all(words in ended.stderr for words in said), ended.stderr
    assert ";" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_bad_requests_are_refused_and_the_next_trace_is_judged() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS)) as sidecar:
        for body, content_type, status in (
            (b"\xff\xff\xff", "application/x-protobuf", 400),
            (b'{"resourceSpans": [', "application/json", 400),
            (b"{}", "text/plain", 415),
        ):
            assert post(sidecar.http, body, content_type=content_type)[0] == status
        mixed = otlp(otlp_span(5, 1), {**otlp_span(5, 2), "spanId": "0" * 16})
        status, answer = post(sidecar.http, json.dumps(mixed).encode(), content_type="application/json")
        assert (status, json.loads(answer)["partialSuccess"]["rejectedSpans"]) == (200, "1")
        play(sidecar, TOKYO)
        labels = [record["label"] for record in verdicts(sidecar, 5)]
        wait_for(lambda: metric_sums(sidecar.http).get("toolcall_eval_spans_rejected_total") == 1, "the metric of what was rejected")
        page = metric_sums(sidecar.http)
        _, text = get(sidecar.http, "/metrics")
    assert sorted(labels) == ["pass"] * 4 + ["unbound"]
    assert page["toolcall_eval_requests_rejected_total"] == 3
    assert page["toolcall_eval_spans_rejected_total"] == 1
    rejected = next(line for line in text.decode().splitlines() if line.startswith("toolcall_eval_spans_rejected_total{"))
    assert 'toolcall_eval_reason="span_id"' in rejected


def test_no_recorded_value_leaves_the_sidecar_by_default(sink: Sink) -> None:
    canary = "canary-7f3a"
    attributes = [
        {"key": "toolcall_eval.criteria", "value": {"stringValue": "tokyo_forecast"}},
        {"key": "tool.name", "value": {"stringValue": "get_temperature"}},
        {"key": "input.value", "value": {"stringValue": json.dumps({"city": canary, canary: 1})}},
        {"key": "output.value", "value": {"stringValue": canary}},
    ]
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint}
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ) as sidecar:
        send_json(sidecar.http, otlp(otlp_span(1, 1), otlp_span(1, 2, parent=1, attributes=attributes)))
        found = verdicts(sidecar, 4)
        _, page = get(sidecar.http, "/metrics")
        sidecar.terminate()
    assert canary not in json.dumps(found) + page.decode() + "".join(sidecar.log)
    assert sink.received.records()
    assert canary.encode() not in sink.received.everything()


def test_log_lines_are_json_on_request_and_say_where_it_listens() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ={"OTEL_TOOLCALL_EVAL_LOG_FORMAT": "json"}) as sidecar:
        wait_for(lambda: sidecar.log, "the first line")
        sidecar.terminate()
    (ready, *_) = [json.loads(line) for line in sidecar.log]
    assert (ready["level"], ready["message"], ready["grpc"], ready["http"]) == ("info", "ready", sidecar.grpc, sidecar.http)


def test_ready_sidecar_says_what_it_does_and_what_to_do_next() -> None:
    with running_sidecar("--criteria", str(EVALUATIONS), environ={"OTEL_TOOLCALL_EVAL_IDLE": "1s"}) as sidecar:
        wait_for(lambda: "next" in "".join(sidecar.log), "the greeting")
        sidecar.terminate()
    log = "".join(sidecar.log)
    assert f"OTLP/gRPC on {sidecar.grpc}, OTLP/HTTP on http://{sidecar.http}" in log
    assert "criteria  5 from" in log
    assert "basic_weather" in log
    assert "evaluates a trace 0.3 s after its root span and its last span" in log
    assert "warning: OTEL_TOOLCALL_EVAL_IDLE: this variable sets nothing" in log


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer that sends signals")
def test_a_signal_may_come_in_the_midst_of_waiting_for_one() -> None:
    bell, rung = SignalWakeup(), 0

    def notify(_number: int, _frame: object) -> None:
        nonlocal rung
        rung += 1
        bell.notify()

    before = signal.signal(signal.SIGALRM, notify)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.00031)  # with an Event in place of the bell this hangs within a second
    try:
        for _ in range(5_000):
            bell.wait(0.0005)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert rung > 100
    bell.notify()
    bell.notify()
    began = time.monotonic()
    bell.wait(60.0)
    assert time.monotonic() - began < 50.0
    bell.wait(0.01)
