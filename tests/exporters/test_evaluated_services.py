from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.evaluated_services import BoundedNames, EvaluatedServices, service_of
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from tests.exporters.reports import evaluated_span, report, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Value

SERVICE = "toolcall_eval.service.name"


class Emitted:
    """An emitter over the SDK, and the services that its metrics name."""

    def __init__(self) -> None:
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)
        self.emitter = MetricsEmitter(SdkRecorder(self.provider))
        observe(self.provider, self.emitter)

    def services(self) -> Mapping[str, Sequence[str]]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: sorted(str((point.attributes or {}).get(SERVICE)) for point in metric.data.data_points)
            for resourced in data.resource_metrics
            for scoped in resourced.scope_metrics
            for metric in scoped.metrics
        }


@pytest.fixture
def emitted() -> Iterator[Emitted]:
    fresh = Emitted()
    yield fresh
    fresh.provider.shutdown()


def _of(name: Value = "agents", version: Value = None, *, judged: bool = True) -> TraceReport:
    resource = {"service.name": name} | ({} if version is None else {"service.version": version})
    return report(*([verdict()] if judged else []), span=evaluated_span(resource=resource))


def _infos(services: EvaluatedServices) -> Mapping[str, str]:
    found = [dict(attributes) for _, attributes in services.counts()]
    return {attributes["service.name"]: attributes.get("service.version", "") for attributes in found}


def test_service_of_the_judged_trace_is_an_attribute_of_scores_verdicts_and_unbound_traces(emitted: Emitted) -> None:
    for item in (_of("agents", "1.2"), _of("others", judged=False), report(verdict(), span=None)):
        emitted.emitter.emit(item)
    found = emitted.services()
    assert found["gen_ai.evaluation.score"] == ["None", "agents"]
    assert found["toolcall_eval.evaluations"] == ["None", "agents"]
    assert found["toolcall_eval.traces.unbound"] == ["others"]
    assert found["toolcall_eval.service.info"] == ["agents"]
    assert set(found["toolcall_eval.traces.completed"]) == {"None"}


def test_services_that_nothing_judges_do_not_crowd_out_those_that_are_judged(emitted: Emitted) -> None:
    for number in range(150):
        emitted.emitter.emit(_of(f"mesh-{number}", judged=False))
    for number in range(150):
        emitted.emitter.emit(_of(f"agents-{number}"))
    found = emitted.services()
    for name, word in (("gen_ai.evaluation.score", "agents"), ("toolcall_eval.traces.unbound", "mesh")):
        assert found[name] == sorted(["_OTHER", *(f"{word}-{number}" for number in range(100))])
    assert found["toolcall_eval.service.info"] == sorted(f"agents-{number}" for number in range(100))


@pytest.mark.parametrize("name", [None, "", 7, b"agents", ("agents",), {"a": "b"}])
def test_service_that_no_text_names_is_left_out(name: Value) -> None:
    services = EvaluatedServices(BoundedNames(100))
    services.note(_of(name))
    assert service_of(_of(name)) is services.name_of(_of(name)) is None
    assert services.counts() == {}


def test_name_is_that_of_the_report_whatever_came_before() -> None:
    services, without = EvaluatedServices(BoundedNames(100)), report(verdict(), span=None)
    for item in (without, _of("a"), _of("a"), without, _of("b"), _of(7), _of(""), _of("a", judged=False), _of("a")):
        for _ in range(2):
            assert services.name_of(item) == service_of(item)


def test_version_is_the_one_seen_last_of_each_service() -> None:
    services = EvaluatedServices(BoundedNames(100))
    for item in (_of("a", "1"), _of("b"), _of("a", "2"), _of("c", "1"), _of("c", ""), _of("a", "1"), _of("a", 3), _of("d\ud800", "\ud800")):
        services.note(item)
    assert _infos(services) == {"a": "1", "b": "", "c": "1", "d?": "?"}


def test_version_that_is_new_with_every_trace_is_bounded() -> None:
    services = EvaluatedServices(BoundedNames(100))
    seen: set[str] = set()
    for number in range(1_500):
        services.note(_of(f"s{number % 3}", f"v{number}"))
        seen.update(f"{name} {version}" for name, version in _infos(services).items())
    assert len(seen) == 1000 + 3
    assert _infos(services) == dict.fromkeys(("s0", "s1", "s2"), "_OTHER")
    services.note(_of("s0", "v0"))
    assert _infos(services)["s0"] == "v0"
