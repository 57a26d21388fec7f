from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder

ALL = (*names.FORWARD_RECORDED, *names.FORWARD_OBSERVED)


@pytest.mark.parametrize(
    ("name", "kind", "unit", "attributes"),
    [
        ("toolcall_eval.forward.requests", "observable counter", "{request}", {"toolcall_eval.result", "toolcall_eval.signal"}),
        ("toolcall_eval.forward.retries", "observable counter", "{request}", {"toolcall_eval.signal"}),
        ("toolcall_eval.forward.rejected", "observable counter", "{item}", {"toolcall_eval.signal"}),
        ("toolcall_eval.forward.queue", "observable gauge", "By", set()),
        ("toolcall_eval.forward.delay", "histogram", "s", set()),
    ],
)
def test_instrument_is_the_one_that_is_promised(name: str, kind: str, unit: str, attributes: set[str]) -> None:
    (instrument,) = [instrument for instrument in ALL if instrument.name == name]
    assert (instrument.kind.value, instrument.unit) == (kind, unit)
    assert {attribute.name for attribute in instrument.attributes} == attributes


def test_no_name_is_given_twice() -> None:
    found = [instrument.name for instrument in (*ALL, *names.RECORDED, *names.OBSERVED, *names.OPERATION_OBSERVED)]
    assert len(found) == len(set(found))
    assert len(ALL) == 5


class Counts:
    """Counts of passing on, as the forwarder gives them."""

    def counts(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], int | float]:
        return {
            ("toolcall_eval.forward.requests", (("result", "delivered"), ("signal", "logs"))): 3,
            ("toolcall_eval.forward.queue", ()): 7,
        }


def test_counts_and_delays_come_out_under_their_names() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    emitter = MetricsEmitter(SdkRecorder(provider))
    observe(provider, Counts())
    emitter.passed_on(0.3)
    data = reader.get_metrics_data()
    assert data is not None
    points = {
        (metric.name, tuple(sorted((point.attributes or {}).items()))): getattr(point, "value", None) or getattr(point, "count", None)
        for resourced in data.resource_metrics
        for scoped in resourced.scope_metrics
        for metric in scoped.metrics
        for point in metric.data.data_points
    }
    provider.shutdown()
    assert points == {
        ("toolcall_eval.forward.requests", (("toolcall_eval.result", "delivered"), ("toolcall_eval.signal", "logs"))): 3,
        ("toolcall_eval.forward.queue", ()): 7,
        ("toolcall_eval.forward.delay", ()): 1,
    }
