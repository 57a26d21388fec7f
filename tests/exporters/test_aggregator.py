from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, HistogramDataPoint, NumberDataPoint, Sum
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import INVALID_SPAN_CONTEXT, SpanContext

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics import aggregator as module
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.export_plan import Temporality
from otel_toolcall_eval.exporters.metrics.recording import RecordingContext

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.metrics.export import Metric

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey

SPAN = SpanContext(trace_id=7, span_id=9, is_remote=True)
GRPC = (("transport", "grpc"),)


class Clock:
    def __init__(self) -> None:
        self.now_ns = 100

    def __call__(self) -> int:
        return self.now_ns


class Counts:
    def __init__(self) -> None:
        self.received = 5

    def counts(self) -> Mapping[CountKey, int | float]:
        return {(names.SPANS_RECEIVED.name, GRPC): self.received, (names.TRACES_MEMORY.name, ()): 7, (names.TRACES_ACTIVE.name, ()): 2}


class Held:
    def __init__(self) -> None:
        self.clock = Clock()
        self.aggregator = Aggregator(Resource({"service.name": "s"}), clock=self.clock)
        self.aggregator.source = self.source = Counts()

    def score(self, value: float, *, agent: str = "a", span: SpanContext = SPAN) -> None:
        self.aggregator.cell(names.SCORE, {"agent": agent}).record(value, RecordingContext(lambda: span, self.clock.now_ns))

    def decide(self) -> None:
        self.aggregator.cell(names.TRACES_COMPLETED, {"b": "2", "a": "1"}).record(1, RecordingContext(lambda: SPAN, self.clock.now_ns))


@pytest.fixture
def held() -> Held:
    return Held()


def _metrics(collection: Collection) -> Mapping[str, Metric]:
    (resourced,) = collection.collect().resource_metrics
    assert resourced.resource.attributes == {"service.name": "s"}
    (scoped,) = resourced.scope_metrics
    assert scoped.scope.name == "otel_toolcall_eval"
    return {metric.name: metric for metric in scoped.metrics}


def _distribution(metrics: Mapping[str, Metric]) -> HistogramDataPoint:
    data = metrics["gen_ai.evaluation.score"].data
    assert isinstance(data, Histogram)
    (point,) = data.data_points
    return point


def _number(metrics: Mapping[str, Metric], name: str) -> NumberDataPoint:
    data = metrics[name].data
    assert isinstance(data, Sum | Gauge)
    (point,) = data.data_points
    return point


def test_same_attributes_are_one_cell_whatever_their_order(held: Held) -> None:
    cells = [held.aggregator.cell(names.TRACES_COMPLETED, given) for given in ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})]
    assert cells[0] is cells[1]


def test_cumulative_sums_count_since_the_start(held: Held) -> None:
    collection = Collection(held.aggregator)
    for expected in (1, 2):
        held.decide()
        held.score(0.5)
        held.clock.now_ns += 50
        metrics = _metrics(collection)
        decided, score = _number(metrics, "toolcall_eval.traces.completed"), _distribution(metrics)
        assert (decided.value, decided.attributes) == (expected, {"a": "1", "b": "2"})
        assert (score.count, score.sum, score.min, score.max) == (expected, expected / 2, 0.5, 0.5)
        assert (decided.start_time_unix_nano, decided.time_unix_nano) == (100, held.clock.now_ns)
        for name in ("toolcall_eval.traces.completed", "toolcall_eval.spans.received", "toolcall_eval.traces.active"):
            data = metrics[name].data
            assert isinstance(data, Sum)
            assert data.aggregation_temporality is AggregationTemporality.CUMULATIVE
            assert data.is_monotonic is (name != "toolcall_eval.traces.active")


@pytest.mark.parametrize(
    ("temporality", "received"),
    [pytest.param(Temporality.DELTA, [5, 3], id="delta"), pytest.param(Temporality.LOWMEMORY, [5, 8], id="low")],
)
def test_deltas_count_since_the_last_export(held: Held, temporality: Temporality, received: list[int]) -> None:
    collection, page = Collection(held.aggregator, temporality), Collection(held.aggregator)
    held.decide()
    held.score(0.1)
    held.clock.now_ns = 200
    first = _metrics(collection)
    held.source.received = 8
    held.score(0.9)
    held.score(0.7)
    held.clock.now_ns = 300
    _metrics(page)  # another reader takes nothing away
    second = _metrics(collection)
    score = _distribution(second)
    assert (score.count, round(score.sum, 9), score.min, score.max) == (2, 1.6, 0.7, 0.9)
    assert sum(score.bucket_counts) == 2
    assert (score.start_time_unix_nano, score.time_unix_nano) == (200, 300)
    assert "toolcall_eval.traces.completed" in first
    assert "toolcall_eval.traces.completed" not in second  # nothing came
    assert [_number(metrics, "toolcall_eval.spans.received").value for metrics in (first, second)] == received
    assert _number(second, "toolcall_eval.traces.memory").value == 7
    assert _number(second, "toolcall_eval.traces.active").value == 2
    assert _distribution(_metrics(page)).count == 3


def test_exemplar_is_the_newest_of_its_bucket_and_comes_again_with_sums_since_the_start(held: Held) -> None:
    collections = [Collection(held.aggregator, temporality) for temporality in (Temporality.CUMULATIVE, Temporality.DELTA)]
    for value in (0.51, 0.55, 0.95):
        held.clock.now_ns += 1
        held.score(value)
    held.clock.now_ns += 1
    for collection in collections:
        exemplars = _distribution(_metrics(collection)).exemplars
        assert [(one.value, one.time_unix_nano, one.trace_id, one.span_id) for one in exemplars] == [(0.55, 102, 7, 9), (0.95, 103, 7, 9)]
    held.clock.now_ns += 1
    held.score(0.1)
    assert [[one.value for one in _distribution(_metrics(collection)).exemplars] for collection in collections] == [
        [0.55, 0.95, 0.1],
        [0.1],
    ]


def test_exemplar_of_a_counter_is_an_integer_as_its_sum_is(held: Held) -> None:
    for value in (1, 1.0):
        held.aggregator.cell(names.TRACES_COMPLETED, {}).record(value, RecordingContext(lambda: SPAN, held.clock.now_ns))
        point = _number(_metrics(Collection(held.aggregator)), "toolcall_eval.traces.completed")
        assert [(type(one.value), one.value) for one in point.exemplars] == [(int, 1)]
    assert (type(point.value), point.value) == (int, 2)


def test_without_a_span_there_is_no_exemplar(held: Held) -> None:
    held.score(0.5, span=INVALID_SPAN_CONTEXT)
    held.aggregator.cell(names.SCORE, {"agent": "a"}).record(0.5)
    held.aggregator.cell(names.TRACES_COMPLETED, {}).record(1)
    metrics = _metrics(Collection(held.aggregator))
    assert _distribution(metrics).exemplars == []
    assert _number(metrics, "toolcall_eval.traces.completed").exemplars == []


def test_beyond_the_bound_one_cell_stands_for_all_others_and_nothing_is_lost(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 3)
    for number in range(10):
        held.score(1.0, agent=f"agent-{number}")
    data = _metrics(Collection(held.aggregator))["gen_ai.evaluation.score"].data
    assert isinstance(data, Histogram)
    counts = {str((point.attributes or {}).get("agent", "other")): point.count for point in data.data_points}
    assert counts == {"agent-0": 1, "agent-1": 1, "agent-2": 1, "other": 7}
    assert data.data_points[-1].attributes == {"otel.metric.overflow": True}


def test_nothing_is_lost_between_threads(held: Held) -> None:
    cell, collection = held.aggregator.cell(names.TRACES_COMPLETED, {}), Collection(held.aggregator, Temporality.DELTA)

    def work() -> None:
        for _ in range(20_000):
            cell.record(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    total = 0
    while any(thread.is_alive() for thread in threads):
        if "toolcall_eval.traces.completed" in (metrics := _metrics(collection)):
            total += int(_number(metrics, "toolcall_eval.traces.completed").value)
    if "toolcall_eval.traces.completed" in (metrics := _metrics(collection)):
        total += int(_number(metrics, "toolcall_eval.traces.completed").value)
    assert total == 80_000


def test_nothing_recorded_and_nobody_who_counts_is_an_empty_collection() -> None:
    aggregator = Aggregator(Resource({"service.name": "s"}))
    assert _metrics(Collection(aggregator)) == {}
