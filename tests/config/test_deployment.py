"""What config/ says of deployment fits what it deploys: files, addresses, users, times; what needs the real programs is in tests/e2e."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Json = Any

CONFIG = Path(__file__).parent.parent.parent / "config"
KUBERNETES = sorted((CONFIG / "kubernetes").glob("*.yaml"))
COLLECTOR = sorted((CONFIG / "collector").glob("*.yaml"))
END_TO_END = CONFIG.parent / "tests" / "e2e"
SECOND_NS = 1_000_000_000
LEAST_KUBERNETES = "1.29"  # the first with native sidecars on by default


def documents(path: Path) -> list[Json]:
    return list(YAML(typ="safe").load_all(path))


COMPOSE = documents(CONFIG / "compose.yaml")[0]
SERVICES = COMPOSE["services"]


@pytest.mark.parametrize("version", [LEAST_KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.stem)
def test_manifests_are_what_kubernetes_takes(path: Path, version: str) -> None:
    for document in documents(path):
        if document["kind"] == "ServiceMonitor":  # the Prometheus Operator's; Kubernetes has no schema of it
            assert document["apiVersion"] == "monitoring.coreos.com/v1"
            continue
        kubernetes_validate.validate(document, version, strict=True)


def _pods() -> Iterator[Json]:
    for path in KUBERNETES:
        for document in documents(path):
            if document["kind"] == "Deployment":
                yield pytest.param(document, id=document["metadata"]["name"])


@pytest.mark.parametrize("deployment", list(_pods()))
def test_pods_run_with_no_more_rights_than_they_need_and_end_in_time(deployment: Json) -> None:
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    containers = [*pod.get("initContainers", ()), *pod["containers"]]
    for container in containers:
        secured = container["securityContext"]
        assert (secured["allowPrivilegeEscalation"], secured["readOnlyRootFilesystem"]) == (False, True)
        assert secured["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"]
        assert ":" in container["image"]
        assert not container["image"].endswith(":latest")
    (ours,) = [container for container in containers if container["name"] == "toolcall-eval"]
    pause = ours.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    shutdown_ns = load_settings(None, {}, Deployment.SIDECAR).shutdown_timeout_ns
    assert pod["terminationGracePeriodSeconds"] > pause + shutdown_ns / SECOND_NS


def _embedded() -> Iterator[Json]:
    for path in KUBERNETES:
        for document in documents(path):
            if document["kind"] == "ConfigMap":
                yield pytest.param(document["data"], id=path.stem)


@pytest.mark.parametrize("data", list(_embedded()))
def test_settings_in_manifests_are_right_and_name_what_is_mounted(data: Mapping[str, str], tmp_path: Path) -> None:
    for name, content in data.items():
        (tmp_path / name).write_text(content.replace("/etc/toolcall-eval/", f"{tmp_path}/"), encoding="utf-8")
    settings = load_settings(tmp_path / "sidecar.yaml", {}, Deployment.SIDECAR)
    assert settings.warnings == ()
    assert load_criteria(settings.criteria).warnings == ()
    assert settings.forward.endpoint is not None


def test_native_sidecar_starts_first_and_is_reached_on_loopback_alone() -> None:
    settings, deployment = documents(CONFIG / "kubernetes" / "sidecar.yaml")
    pod = deployment["spec"]["template"]["spec"]
    (ours,), (agent,) = pod["initContainers"], pod["containers"]
    assert ours["restartPolicy"] == "Always"
    assert agent["env"] == [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://127.0.0.1:4317"}]
    assert "listen" not in YAML(typ="safe").load(settings["data"]["sidecar.yaml"])  # the default is loopback
    known: set[str] = set()
    for variable in ours["env"]:  # Kubernetes expands only what stands above
        assert known.issuperset(re.findall(r"\$\((\w+)\)", variable.get("value", "")))
        known.add(variable["name"])


def test_gateway_is_found_under_one_name_by_the_collector_and_by_prometheus() -> None:
    found = {(document["kind"], document["metadata"]["name"]): document for path in KUBERNETES for document in documents(path)}
    service, monitor = found["Service", "toolcall-eval-sidecars"], found["ServiceMonitor", "toolcall-eval"]
    (gateway,) = documents(CONFIG / "collector" / "gateway.yaml")
    resolver = gateway["exporters"]["loadbalancing"]["resolver"]["dns"]
    assert service["spec"]["clusterIP"] == "None"
    name = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    assert (resolver["hostname"], resolver["port"]) == (f"${{env:SIDECARS:-{name}}}", "4317")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] in [port["name"] for port in service["spec"]["ports"]]
    tls = gateway["exporters"]["loadbalancing"]["protocol"]["otlp"]["tls"]
    certified = monitor["spec"]["endpoints"][0]["tlsConfig"]["serverName"]
    assert tls["server_name_override"] == f"${{env:SIDECAR_NAME:-{certified}}}"
    # The Collector before them is not the one behind them.
    behind = re.findall(r"endpoint: http://([\w-]+)\.", found["ConfigMap", "toolcall-eval"]["data"]["sidecar.yaml"])
    before = found["NetworkPolicy", "toolcall-eval"]["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    assert set(behind).isdisjoint(before.values())


@pytest.mark.parametrize("path", COLLECTOR, ids=lambda path: path.stem)
def test_collector_pipelines_use_all_that_is_defined_and_nothing_else(path: Path) -> None:
    (config,) = documents(path)
    service = config["service"]
    for kind in ("receivers", "processors", "exporters"):
        used = {name for pipeline in service["pipelines"].values() for name in pipeline.get(kind, ())}
        assert used == set(config.get(kind, ()))
    assert service["extensions"] == list(config["extensions"])
    endpoints = re.findall(r"endpoint: (\S+)", path.read_text(encoding="utf-8"))
    assert all(re.fullmatch(r"\$\{env:[A-Z_]+:-127\.0\.0\.1:\d+\}", endpoint) for endpoint in endpoints)  # loopback, unless told


def test_compose_opens_ports_to_this_machine_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) >= 5
    assert all(port.startswith("127.0.0.1:") for port in ports)


@pytest.mark.parametrize("name", SERVICES)
def test_compose_services_have_few_rights_bounded_memory_and_pinned_images(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9]\d*:\d+", service["user"])  # a number that is not root's
    assert (service["read_only"], service["cap_drop"], service["security_opt"]) == (True, ["ALL"], ["no-new-privileges:true"])
    assert service["mem_limit"]
    image, _, tag = service["image"].rpartition(":")
    assert image
    assert tag == "local" or re.fullmatch(r"v?\d+\.\d+\.\d+", tag)


def test_compose_runs_the_versions_that_the_end_to_end_tests_run() -> None:
    def built(name: str, module: str) -> tuple[int, ...]:
        pins = (END_TO_END / name / "go.mod").read_text(encoding="utf-8")
        (found,) = re.findall(rf"^(?:require)?\s+{re.escape(module)} v(\d+)\.(\d+)\.(\d+)", pins, re.MULTILINE)
        return tuple(map(int, found))

    def deployed(name: str) -> tuple[int, ...]:
        return tuple(int(part) for part in SERVICES[name]["image"].rpartition(":")[2].removeprefix("v").split("."))

    # Prometheus 3.16.0 is the module v0.316.0; Jaeger 2.13.0 was released as the module v1.76.0, and so are those around it.
    _, prometheus, patch = built("prometheus", "github.com/prometheus/prometheus")
    assert deployed("prometheus") == (*divmod(prometheus, 100), patch)
    _, jaeger, patch = built("jaeger", "github.com/jaegertracing/jaeger")
    assert deployed("jaeger") == (2, jaeger - 63, patch)
    assert deployed("collector") == built("collector", "go.opentelemetry.io/collector/otelcol")


def test_compose_waits_for_what_is_healthy_where_that_can_be_asked() -> None:
    for name, service in SERVICES.items():
        assert "healthcheck" in service or service["image"] == SERVICES["sidecar"]["image"], name  # ours has one of its own
        for above, wanted in service.get("depends_on", {}).items():
            unasked = SERVICES[above].get("healthcheck") == {"disable": True}
            assert wanted["condition"] == ("service_started" if unasked else "service_healthy"), (name, above)


@pytest.mark.parametrize("name", SERVICES)
def test_compose_mounts_what_is_there_and_read_only(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source, _, rest = volume.partition(":")
        if source.startswith("."):
            assert (CONFIG / source).exists(), source
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


def test_compose_sidecar_has_right_settings_and_time_to_end() -> None:
    settings = load_settings(CONFIG / "compose" / "sidecar.yaml", {}, Deployment.SIDECAR)
    # Only that its listeners are open to the compose network, as its first lines say.
    assert {problem.where for problem in settings.warnings} == {"listen.grpc", "listen.http"}
    assert [str(source.path) for source in settings.criteria] == ["/etc/toolcall-eval/criteria"]
    assert load_criteria([CriteriaSource(path=CONFIG / "weather")]).warnings == ()
    assert float(SERVICES["sidecar"]["stop_grace_period"].removesuffix("s")) > settings.shutdown_timeout_ns / SECOND_NS
    mounted = [volume.split(":")[1] for volume in SERVICES["sidecar"]["volumes"]]
    assert SERVICES["sidecar"]["command"][-1] in mounted


def test_prometheus_reads_the_sidecar_of_compose_and_rules_that_are_there() -> None:
    (config,) = documents(CONFIG / "prometheus" / "prometheus.yaml")
    (job,) = config["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["sidecar:4318"]}]
    assert all((CONFIG / "prometheus" / name).exists() for name in config["rule_files"])
    assert "--enable-feature=exemplar-storage" in SERVICES["prometheus"]["command"]
