"""Ten thousand invented names in every place that a name can have: few series, and each total is what was recorded, to the last one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.aggregator import MAX_CELLS, Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.openmetrics import MetricsPage
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from otel_toolcall_eval.model.score import Label, Outcome
from tests.exporters.reports import evaluated_span, report, score, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from opentelemetry.sdk.metrics.export import MetricsData

    from otel_toolcall_eval.model.score import TraceReport

    Found = Mapping[tuple[tuple[str, object], ...], float]

INVENTED = 10_000
OVERFLOW = (("otel.metric.overflow", True),)


class Emitted:
    """An emitter, and what comes of it: over the SDK, as in the agent's process, or over our aggregator, as in the sidecar."""

    def __init__(self, kind: str) -> None:
        self.provider: MeterProvider | None = None
        if kind == "sdk":
            reader = InMemoryMetricReader()
            self.provider = MeterProvider([reader], shutdown_on_exit=False)
            self.emitter = MetricsEmitter(SdkRecorder(self.provider))
            observe(self.provider, self.emitter)
            self.collect: Callable[[], MetricsData | None] = reader.get_metrics_data
            self.limit = 2_000
        else:
            aggregator = Aggregator(Resource({}))
            self.emitter = MetricsEmitter(aggregator)
            aggregator.source = self.emitter
            self.collect = Collection(aggregator).collect
            self.limit = MAX_CELLS

    def series(self) -> Mapping[str, Found]:
        """Return the value of each series of a counter or a gauge, the count of each of a histogram, by instrument."""
        data = self.collect()
        assert data is not None
        return {
            metric.name: {
                tuple(sorted((point.attributes or {}).items())): point.count if isinstance(point, HistogramDataPoint) else point.value  # type: ignore[union-attr]  # no exponential histograms
                for point in metric.data.data_points
            }
            for resourced in data.resource_metrics
            for scoped in resourced.scope_metrics
            for metric in scoped.metrics
        }


@pytest.fixture(params=["sdk", "aggregator"])
def emitted(request: pytest.FixtureRequest) -> Iterator[Emitted]:
    fresh = Emitted(request.param)
    yield fresh
    if fresh.provider is not None:
        fresh.provider.shutdown()


def _invented(number: int) -> TraceReport:
    """Return a report in which all that has a name has one of its own; every tenth trace is bound to nothing."""
    resource = {"service.name": f"service-{number}", "service.version": f"version-{number}"}
    span = evaluated_span(span_id=(number + 1).to_bytes(8), resource=resource)
    if number % 10 == 0:
        return report(span=span, agent=f"agent-{number}")
    outcomes = [(f"tool-{number}", Outcome.MATCHED), (f"tool-{number}", Outcome.MISSING)]
    label = Label.PASS if number % 2 else Label.FAIL
    judged = verdict(
        label, evaluator=f"evaluator-{number}", criteria=f"criteria-{number}", given=score(number % 11 / 10, outcomes=outcomes)
    )
    return report(judged, span=span, agent=f"agent-{number}")


@pytest.mark.slow
def test_invented_names_make_as_few_series_as_documented_and_totals_are_exact(emitted: Emitted) -> None:
    for number in range(INVENTED):
        emitted.emitter.emit(_invented(number))
    judged = [number for number in range(INVENTED) if number % 10]
    found = emitted.series()
    assert {name: sum(series.values()) for name, series in found.items()} == {
        "gen_ai.evaluation.score": len(judged),
        "toolcall_eval.evaluations": len(judged),
        "toolcall_eval.expectations": 2 * len(judged),
        "toolcall_eval.traces.completed": INVENTED,
        "toolcall_eval.traces.unbound": INVENTED - len(judged),
        "toolcall_eval.completion.delay": INVENTED,
        "toolcall_eval.evaluation.duration": len(judged),
        "toolcall_eval.service.info": names.EVALUATED_SERVICE.limit,
    }
    values: dict[str, set[object]] = {}
    for series in found.values():
        for attributes in series:
            for name, value in attributes:
                values.setdefault(name, set()).add(value)
    for attribute in (names.EVALUATION_NAME, names.CRITERIA, names.TOOL_NAME, names.AGENT_NAME):
        assert attribute.limit is not None
        assert len(values[attribute.name]) == attribute.limit + 1
        assert names.OTHER in values[attribute.name]
    judged_services = {dict(attributes)["toolcall_eval.service.name"] for attributes in found["gen_ai.evaluation.score"]}
    unbound_services = {dict(attributes)["toolcall_eval.service.name"] for attributes in found["toolcall_eval.traces.unbound"]}
    assert len(judged_services) == len(unbound_services) == 100 + 1
    # Names that come together run out together, so the widest vocabulary says how many series there are, twice for two labels or results.
    assert len(found["gen_ai.evaluation.score"]) <= 500 + 2
    assert len(found["toolcall_eval.evaluations"]) <= 500 + 2
    assert len(found["toolcall_eval.expectations"]) <= 2 * (500 + 1)
    assert not any(OVERFLOW in series for series in found.values())


@pytest.mark.slow
def test_what_stands_on_the_page_is_bounded_and_exact_too(emitted: Emitted) -> None:
    for number in range(INVENTED):
        emitted.emitter.emit(_invented(number))
    judged = [number for number in range(INVENTED) if number % 10]
    page = MetricsPage(emitted.collect).render("application/openmetrics-text").body.decode()
    sums: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for family in text_string_to_metric_families(page):  # type: ignore[no-untyped-call]  # the library's parser has no types
        for sample in family.samples:
            sums[sample.name] += sample.value
            lines[sample.name] += 1
    assert sums["gen_ai_evaluation_score_count"] == len(judged)
    assert sums["gen_ai_evaluation_score_sum"] == pytest.approx(sum(number % 11 / 10 for number in judged))
    assert sums["toolcall_eval_evaluations_total"] == len(judged)
    assert sums["toolcall_eval_expectations_total"] == 2 * len(judged)
    assert sums["toolcall_eval_traces_completed_total"] == INVENTED
    assert lines["gen_ai_evaluation_score_count"] <= 500 + 2
    assert 'gen_ai_agent_name="_OTHER"' in page


def test_beyond_the_bound_on_series_the_rest_is_visible_as_one_and_totals_are_exact(emitted: Emitted) -> None:
    traces = 0
    for service in range(101):
        span = evaluated_span(resource={"service.name": f"service-{service}"})
        for agent in range(101):  # 10,201 pairs
            emitted.emitter.emit(report(verdict(given=score(0.25)), span=span, agent=f"agent-{agent}"))
            traces += 1
    scores = emitted.series()["gen_ai.evaluation.score"]
    assert sum(scores.values()) == traces
    if OVERFLOW in scores:  # older SDKs have no bound of their own
        assert len(scores) == emitted.limit + 1
        assert scores[OVERFLOW] == traces - emitted.limit
    else:
        assert emitted.provider is not None
        assert len(scores) == traces
