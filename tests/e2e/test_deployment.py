"""The Collector configurations and the compose set-up of config/, run with the real programs as far as that goes without containers."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from tests.e2e.jaeger import tracing
from tests.e2e.ports import held_ports
from tests.e2e.processes import logged
from tests.e2e.toolchain import COLLECTOR, built
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import RunningSidecar, get, metric_sums, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.e2e.jaeger import Tracing

pytestmark = pytest.mark.e2e

CONFIG = Path(__file__).resolve().parent.parent.parent / "config"
CRITERIA = CONFIG / "weather"
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TOKEN = secrets.token_hex(16)


# In gateway.yaml the exporter loadbalancing is a stand-in; collector/loadbalancing.go says what it can and can't show.
@pytest.mark.parametrize("name", ["sidecar", "fan_out", "gateway"])
def test_collector_finds_nothing_wrong_with_its_configuration(name: str) -> None:
    program = [str(built(COLLECTOR) / "otelcol"), "validate", "--config", str(CONFIG / "collector" / f"{name}.yaml")]
    ended = subprocess.run(program, check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert ended.returncode == 0, ended.stderr


@contextmanager
def collector(name: str, environ: Mapping[str, str], *, exporters: Mapping[str, object] | None = None) -> Iterator[None]:
    """Run the Collector with a configuration of ours, at the addresses that its variables name; settings of exporters are laid over it."""
    # Its page on itself has a fixed port, which two of them can't share.
    changes = {"exporters": exporters or {}, "service": {"telemetry": {"metrics": {"level": "none"}}}}
    files = (str(CONFIG / "collector" / f"{name}.yaml"), f"yaml:{json.dumps(changes)}")
    program = [str(built(COLLECTOR) / "otelcol"), *(f"--config={file}" for file in files)]
    process = subprocess.Popen(program, env={**os.environ, **environ}, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    log: list[str] = []
    with logged(process, log):
        wait_for(lambda: process.poll() is not None or _is_up(environ["COLLECTOR_HEALTH"]), "the Collector")
        assert process.poll() is None, "".join(log)
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, "".join(log)


def _is_up(address: str) -> bool:
    try:
        return get(address, "/")[0] == 200
    except OSError:
        return False


@contextmanager
def sample_agent(endpoint: str, *, batch: int = 512) -> Iterator[None]:
    """Run the sample agent of compose.yaml, without its pauses; ``batch`` is the most spans of one request."""
    environ = {
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": str(batch),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{endpoint}",
        "AGENT_PAUSE_SECONDS": "0.05",
        "OTEL_EXPORTER_OTLP_INSECURE": "true",
    }
    program = [sys.executable, str(CONFIG / "compose" / "agent.py")]
    process = subprocess.Popen(program, env={**os.environ, **environ}, stderr=subprocess.PIPE, text=True)
    log: list[str] = []
    with logged(process, log):
        yield
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0, "".join(log)


def _judged(running: RunningSidecar, number: int) -> dict[str, list[dict[str, Any]]]:
    """Return verdicts by trace, of so many traces at least."""
    found: dict[str, list[dict[str, Any]]] = {}
    while len(found) < number:
        verdict = running.verdicts.get(timeout=PATIENCE_SECONDS)
        assert verdict["label"] != "unbound", verdict
        found.setdefault(verdict["trace_id"], []).append(verdict)
    return found


def _wait_for_verdicts(jaeger: Tracing, trace_id: str) -> None:
    """Wait until the agent's spans and our own are there."""

    def there() -> bool:
        names = {span.name for span in jaeger.trace(trace_id)}
        return "evaluate_tool_calls" in names and len(names) > 1

    wait_for(there, f"the verdicts on {trace_id} in Jaeger")


def _families(page: bytes) -> Mapping[str, tuple[str, Mapping[tuple[str, frozenset[tuple[str, str]]], float]]]:
    """Return kind and samples of each family; labels that say where a sample came from are left out."""
    families = text_string_to_metric_families(page.decode())  # type: ignore[no-untyped-call]  # the library's parser has no types
    added = {"job", "instance", "otel_scope_schema_url", "otel_scope_version"}
    return {
        family.name: (
            family.type,
            {
                (sample.name, frozenset((key, value) for key, value in sample.labels.items() if key not in added)): sample.value
                for sample in family.samples
                if not sample.name.endswith("_created")
            },
        )
        for family in families
    }


def test_compose_set_up_judges_its_agent_and_the_collector_shows_what_the_sidecar_shows(tmp_path: Path) -> None:
    with (
        tracing(tmp_path) as jaeger,
        held_ports(3) as (grpc, metrics, health),
        collector(
            "sidecar",
            {"COLLECTOR_GRPC": grpc, "COLLECTOR_METRICS": metrics, "COLLECTOR_HEALTH": health, "TRACES_BACKEND": jaeger.grpc},
        ),
        running_sidecar(
            *("--config", str(CONFIG / "compose" / "sidecar.yaml"), "--criteria", str(CRITERIA)),
            environ={
                "OTEL_TOOLCALL_EVAL_FORWARD_ENDPOINT": f"http://{grpc}",
                "OTEL_TOOLCALL_EVAL_EXPORT_OTLP_ENDPOINT": f"http://{grpc}",
                "OTEL_METRIC_EXPORT_INTERVAL": "500",
            },
        ) as running,
    ):
        with sample_agent(running.grpc):
            judged = _judged(running, 12)
        labels = {verdict["label"] for verdicts in judged.values() for verdict in verdicts}
        assert labels == {"pass", "fail"}  # every sixth run misbehaves
        for trace_id in judged:
            _wait_for_verdicts(jaeger, trace_id)

        # Both pages side by side, once nothing changes any more: what is scraped here, and what went through OTLP and the Collector.
        wait_for(lambda: metric_sums(running.http).get("toolcall_eval_traces_active") == 0.0, "the last trace")
        still = ("gen_ai_evaluation_score", "toolcall_eval_evaluations", "toolcall_eval_expectations", "toolcall_eval_traces_completed")

        def agree() -> bool:
            ours, theirs = (_families(get(address, "/metrics", accept=OPENMETRICS)[1]) for address in (running.http, metrics))
            return all(name in theirs and ours[name] == theirs[name] for name in still)

        wait_for(agree, "the same numbers on both pages")
        ours, theirs = (_families(get(address, "/metrics", accept=OPENMETRICS)[1]) for address in (running.http, metrics))
        # The Collector leaves "# UNIT" lines out; names and kinds, by which queries go, are the same.
        kinds = {name: family[0] for name, family in ours.items() if name != "target"}
        assert kinds == {name: family[0] for name, family in theirs.items() if name in kinds}
        assert b'trace_id="' in get(metrics, "/metrics", accept=OPENMETRICS)[1]  # exemplars came through


def test_agents_that_send_to_a_collector_are_judged_by_a_copy(tmp_path: Path) -> None:
    with (
        tracing(tmp_path) as jaeger,
        held_ports(7) as (grpc, http, scores, metrics, health, sidecar_grpc, sidecar_http),
        collector(
            "fan_out",
            {
                "COLLECTOR_GRPC": grpc,
                "COLLECTOR_HTTP": http,
                "COLLECTOR_SCORES": scores,
                "COLLECTOR_METRICS": metrics,
                "COLLECTOR_HEALTH": health,
                "TRACES_BACKEND": jaeger.grpc,
                "SIDECAR_GRPC": sidecar_grpc,
            },
        ),
        running_sidecar(
            *("--criteria", str(CRITERIA), "--grpc", sidecar_grpc, "--http", sidecar_http),
            environ={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{scores}"},
            quiet="2s",
        ) as running,
    ):
        with sample_agent(grpc):
            judged = _judged(running, 6)
        for trace_id in judged:
            _wait_for_verdicts(jaeger, trace_id)


def _mounted(folder: Path) -> Path:
    """Write what a pod of kubernetes/gateway.yaml has mounted, secrets made for the test; return its settings."""
    documents = YAML(typ="safe").load_all(CONFIG / "kubernetes" / "gateway.yaml")
    (files,) = [document["data"] for document in documents if document["kind"] == "ConfigMap"]
    authority = trustme.CA()
    shown = authority.issue_cert("toolcall-eval-sidecars.observability.svc")
    private = {
        "ca.crt": authority.cert_pem.bytes(),
        "tls.crt": b"".join(pem.bytes() for pem in shown.cert_chain_pems),
        "tls.key": shown.private_key_pem.bytes(),
        "tokens": TOKEN.encode(),
    }
    for name, content in private.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    for name, content in files.items():
        for mount in ("/etc/toolcall-eval-tls/", "/etc/toolcall-eval-tokens/", "/etc/toolcall-eval/"):
            content = content.replace(mount, f"{folder}/")  # noqa: PLW2901 - the same text, at home here
        (folder / name).write_text(content, encoding="utf-8")
    return folder / "sidecar.yaml"


def test_gateway_with_certificate_and_token_judges_each_trace_once_at_one_of_its_sidecars(tmp_path: Path) -> None:
    settings = _mounted(tmp_path)
    with (
        tracing(tmp_path) as jaeger,
        held_ports(6) as (grpc, http, health, behind, metrics, health_behind),
        collector(
            "sidecar",
            {"COLLECTOR_GRPC": behind, "COLLECTOR_METRICS": metrics, "COLLECTOR_HEALTH": health_behind, "TRACES_BACKEND": jaeger.grpc},
        ),
        _gateway_sidecar(settings, behind) as first,
        _gateway_sidecar(settings, behind) as second,
    ):
        sidecars = (first, second)
        resolver = {"dns": None, "static": {"hostnames": [sidecar.grpc for sidecar in sidecars]}}
        with (
            collector(
                "gateway",
                {
                    "COLLECTOR_GRPC": grpc,
                    "COLLECTOR_HTTP": http,
                    "COLLECTOR_HEALTH": health,
                    "SIDECAR_CA": str(tmp_path / "ca.crt"),
                    "SIDECAR_TOKEN": TOKEN,
                },
                exporters={"loadbalancing": {"resolver": resolver}},
            ),
            sample_agent(grpc, batch=2),  # each trace comes in several requests
        ):
            taken = [_judged(sidecar, 6) for sidecar in sidecars]
        # The Collector has sent all that it had. What is open is judged when its sidecar ends.
        for sidecar, judged in zip(sidecars, taken, strict=True):
            assert sidecar.terminate() == 0, "".join(sidecar.log)
            for verdict in sidecar.drained():
                judged.setdefault(verdict["trace_id"], []).append(verdict)
        ours, theirs = taken
        assert ours.keys().isdisjoint(theirs)
        for trace_id, verdicts in (ours | theirs).items():
            assert [verdict["label"] for verdict in verdicts] == ["pass"], verdicts
            _wait_for_verdicts(jaeger, trace_id)


@contextmanager
def _gateway_sidecar(settings: Path, behind: str) -> Iterator[RunningSidecar]:
    environ = {f"OTEL_TOOLCALL_EVAL_{name}_ENDPOINT": f"http://{behind}" for name in ("FORWARD", "EXPORT_OTLP")}
    with running_sidecar("--config", str(settings), environ=environ, quiet="2s") as running:
        yield running
