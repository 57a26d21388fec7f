"""A sidecar in a process of its own that passes on what it receives, to downstreams that are healthy, absent, restarting and hostile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.e2e.ports import held_ports
from tests.exporters.forward.downstreams import Answer, Behaviour, grpc_downstream, http_downstream
from tests.otlp.otlp_requests import UNKNOWN, numbered, request_of
from tests.otlp.test_transcoding import everything_in_logs, everything_in_metrics
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import JSON, call
from tests.sidecar.test_sidecar import TOKYO, otlp, otlp_span, play, verdicts
from tests.sidecar_process import RunningSidecar, get, post, running_sidecar, send_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PREFIX = "OTEL_TOOLCALL_EVAL_"
PROTOBUF = "application/x-protobuf"


def forwarding_to(endpoint: str, **more: str) -> Mapping[str, str]:
    return {f"{PREFIX}FORWARD_ENDPOINT": endpoint, **{f"{PREFIX}{name}": value for name, value in more.items()}}


@pytest.fixture
def free_port() -> Iterator[int]:
    """Give a port at which nobody listens but who is told to."""
    with held_ports(1) as (address,):
        yield int(address.rpartition(":")[2])


def counted(sidecar: RunningSidecar, name: str, **labels: str) -> float:
    """Return a sample of /metrics, 0 if it isn't there."""
    _, page = get(sidecar.http, "/metrics")
    for line in page.decode().splitlines():
        wanted = all(f'toolcall_eval_{label}="{value}"' in line for label, value in labels.items())
        if line.startswith(f"toolcall_eval_{name}") and wanted:
            return float(line.rsplit(" ", 1)[1])
    return 0.0


def test_all_signals_go_on_byte_for_byte_over_both_transports() -> None:
    behaviour = Behaviour()
    traces = request_of(numbered(1), numbered(2, start_time_unix_nano=0)).SerializeToString() + UNKNOWN
    bodies = [traces, everything_in_metrics().SerializeToString() + UNKNOWN, everything_in_logs().SerializeToString() + UNKNOWN]
    paths = ["/v1/traces", "/v1/metrics", "/v1/logs"]
    with http_downstream(behaviour) as port:
        environ = forwarding_to(f"http://127.0.0.1:{port}", FORWARD_PROTOCOL="http/protobuf", FORWARD_COMPRESSION="gzip")
        with running_sidecar(environ=environ) as sidecar:
            for path, body in zip(paths, bodies, strict=True):
                assert post(sidecar.http, body, content_type=PROTOBUF, path=path)[0] == 200
                assert post(sidecar.http, b'{"later": [1.10]}', content_type="application/json", path=path)[0] == 200
            sent = call(int(sidecar.grpc.rsplit(":", 1)[1]), traces, compression=grpc.Compression.Gzip)
            assert sent.code == "OK"
            assert post(sidecar.http, b"\xff\xff", content_type=PROTOBUF, path="/v1/metrics")[0] == 400

            def delivered() -> float:
                return sum(counted(sidecar, "forward_requests_total", result="delivered", signal=path[4:]) for path in paths)

            wait_for(lambda: delivered() == 7, "the count of all requests")
            assert sidecar.terminate() == 0
    assert sorted(behaviour.bodies) == sorted([*bodies, traces, *[b'{"later": [1.10]}'] * 3])


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_judging_goes_on_while_the_downstream_is_down_and_nothing_is_lost(free_port: int, protocol: str) -> None:
    port, behaviour = free_port, Behaviour()
    with running_sidecar(
        "--criteria", str(EVALUATIONS), environ=forwarding_to(f"http://127.0.0.1:{port}", FORWARD_PROTOCOL=protocol)
    ) as sidecar:
        (trace,) = play(sidecar, TOKYO)
        assert {record["label"] for record in verdicts(sidecar, 4)} == {"pass"}
        for number in range(30):
            send_json(sidecar.http, otlp(otlp_span(100 + number, 1)))
        sidecar.until_ready()
        wait_for(lambda: any("tried again" in line for line in sidecar.log), "a log line")
        serve = grpc_downstream if protocol == "grpc" else http_downstream
        with serve(behaviour, port):
            wait_for(lambda: counted(sidecar, "forward_requests_total", result="delivered") == 31, "all requests")
        assert sidecar.terminate() == 0
    ids = {trace} if protocol == "grpc" else set()
    for body in behaviour.bodies:
        if protocol == "grpc":
            parsed = ExportTraceServiceRequest.FromString(body)
            ids |= {span.trace_id.hex() for b in parsed.resource_spans for g in b.scope_spans for span in g.spans}
        elif body.startswith(b"{"):
            ids |= {span["traceId"] for b in json.loads(body)["resourceSpans"] for g in b["scopeSpans"] for span in g["spans"]}
        else:
            ids |= {trace} if bytes.fromhex(trace) in body else set()
    assert ids == {trace, *(f"{100 + number:032x}" for number in range(30))}


def test_a_full_queue_turns_senders_away_says_so_and_takes_them_again(free_port: int) -> None:
    port, behaviour = free_port, Behaviour()
    environ = forwarding_to(f"http://127.0.0.1:{port}", FORWARD_PROTOCOL="http/protobuf", FORWARD_QUEUE_BYTES="20000")
    body = request_of(numbered(1, name="x" * 5000)).SerializeToString()
    with running_sidecar(environ=environ) as sidecar:
        assert [post(sidecar.http, body, content_type=PROTOBUF)[0] for _ in range(4)] == [200, 200, 200, 503]
        refused = call(int(sidecar.grpc.rsplit(":", 1)[1]), body)
        assert (refused.code, "google.rpc.retryinfo-bin" in refused.trailers) == ("UNAVAILABLE", True)
        wait_for(lambda: get(sidecar.http, "/readyz") == (503, b"forward queue\n"), "what is not ready")
        assert get(sidecar.http, "/livez")[0] == 200
        wait_for(lambda: counted(sidecar, "requests_rejected_total", reason="forward_queue_full") == 1, "the count of what was refused")
        with http_downstream(behaviour, port):
            sidecar.until_ready()
            assert post(sidecar.http, body, content_type=PROTOBUF)[0] == 200
            wait_for(lambda: len(behaviour.got) == 4, "all requests")
        wait_for(lambda: counted(sidecar, "spans_received_total", transport="http/protobuf") >= 4, "the count of what was taken")
        assert counted(sidecar, "spans_received_total", transport="http/protobuf") == 4  # what is refused has no effect
        assert sidecar.terminate() == 0


def test_forwarding_goes_on_while_judging_is_behind_and_no_verdict_is_false() -> None:
    behaviour = Behaviour()
    named = [{"key": "toolcall_eval.criteria", "value": {"stringValue": "tokyo_forecast"}}]
    spans = [otlp_span(5, number, parent=1 if number > 1 else None, attributes=named) for number in range(1, 400)]
    request = json.dumps(otlp(*spans)).encode()
    with http_downstream(behaviour) as port:
        environ = forwarding_to(f"http://127.0.0.1:{port}", FORWARD_PROTOCOL="http/protobuf", LIMITS_QUEUE_BYTES="1")
        held = ("-m", "tests.e2e.held_sidecar", "judging")  # its queue has room for one request
        with running_sidecar("--criteria", str(EVALUATIONS), environ=environ, program=held) as sidecar:
            assert [post(sidecar.http, request, content_type=JSON)[0] for _ in range(3)] == [200] * 3
            wait_for(lambda: len(behaviour.got) == 3, "all requests")
            sidecar.process.send_signal(signal.SIGUSR1)  # judges from here on
            found = verdicts(sidecar, 4)
            wait_for(lambda: counted(sidecar, "forward_requests_total", result="delivered") == 3, "the count of all requests")
            wait_for(lambda: counted(sidecar, "spans_received_total", transport="http/json") == 3 * 399, "the count of all spans")
            received = counted(sidecar, "spans_received_total", transport="http/json")
            parts = {name: counted(sidecar, f"spans_{name}_total", transport="http/json") for name in WHERE_TO}
            sidecar.terminate()
    assert set(behaviour.bodies) == {request}
    assert parts["skipped"] == 2 * 399
    assert received == sum(parts.values()) == 3 * 399
    assert {(record["label"], record["completeness"]) for record in found} == {("inconclusive", "partial")}


WHERE_TO = ("relevant", "ignored", "duplicate", "conflict", "rejected", "skipped")


@pytest.mark.slow
def test_sigterm_waits_for_a_slow_downstream_and_tells_what_was_lost() -> None:
    behaviour = Behaviour(always=Answer(status=503))
    with http_downstream(behaviour) as port:
        environ = forwarding_to(f"http://127.0.0.1:{port}", FORWARD_PROTOCOL="http/protobuf", COMPLETION_SHUTDOWN_TIMEOUT="2s")
        with running_sidecar(environ={**environ, f"{PREFIX}LOG_FORMAT": "json"}) as sidecar:
            for number in range(3):
                send_json(sidecar.http, otlp(otlp_span(number + 1, 1)))
            assert sidecar.terminate() == 0
            lines: list[dict[str, Any]] = [json.loads(line) for line in sidecar.log]
    (lost,) = [line for line in lines if "before the end" in line["message"]]
    assert lost["requests"] == 3
    assert "ended before everything was evaluated and sent" in lines[-1]["message"]


def test_a_second_sigterm_does_not_wait(free_port: int) -> None:
    with running_sidecar(environ=forwarding_to(f"http://127.0.0.1:{free_port}", COMPLETION_SHUTDOWN_TIMEOUT="1h")) as sidecar:
        send_json(sidecar.http, otlp(otlp_span(1, 1)))
        sidecar.process.send_signal(signal.SIGTERM)
        wait_for(lambda: not _answers(sidecar.http), "the end of intake")
        sidecar.process.send_signal(signal.SIGTERM)
        assert sidecar.process.wait(PATIENCE_SECONDS) == 1


def _answers(address: str) -> bool:
    try:
        return get(address, "/livez")[0] == 200
    except OSError:
        return False


def test_what_leads_back_to_ourselves_is_refused_at_the_start(free_port: int) -> None:
    port = free_port
    command = [sys.executable, "-m", "otel_toolcall_eval", "serve", "--grpc", f"127.0.0.1:{port}", "--http", "127.0.0.1:0"]
    ended = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS, env=forwarding_to(f"http://localhost:{port}")
    )
    assert ended.returncode == 2
    assert "forward.endpoint: it is our own listener" in ended.stderr
    assert "Traceback" not in ended.stderr
