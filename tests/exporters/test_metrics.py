from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Histogram,
    HistogramDataPoint,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
)
from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.collection import Collection
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.evaluated_services import BoundedNames
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from otel_toolcall_eval.exporters.names import QUEUE_MEMORY
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.score import ExpectationOutcome, Label, Outcome
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from otel_toolcall_eval.otlp.decoded import DecodedTraces
from otel_toolcall_eval.sidecar.journal.sqlite_journal import SqliteJournal
from otel_toolcall_eval.sidecar.journal.store import Sync
from tests.exporters.reports import CANARY, SPAN_ID, TRACE_ID, evaluated_span, inconclusive, report, score, verdict
from tests.fakes import SECOND_NS, PlainReader, span
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey, CountSource
    from otel_toolcall_eval.model.score import TraceReport, Verdict

    Attributes = tuple[tuple[str, object], ...]


class Recorded:
    """An emitter over the real SDK or over our own aggregator, and what they hold."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.reader = InMemoryMetricReader()
        self.provider = MeterProvider([self.reader], shutdown_on_exit=False)
        self.aggregator = Aggregator(Resource({}))
        self.collection = Collection(self.aggregator)
        self.emitter = MetricsEmitter(SdkRecorder(self.provider) if kind == "sdk" else self.aggregator, flush=self.provider.force_flush)

    def observe(self, source: CountSource) -> None:
        if self.kind == "sdk":
            observe(self.provider, source)
        else:
            self.aggregator.source = source

    def emit(self, *reports: TraceReport) -> Recorded:
        for item in reports:
            self.emitter.emit(item)
        return self

    def metrics(self) -> Mapping[str, Metric]:
        data = self.reader.get_metrics_data() if self.kind == "sdk" else self.collection.collect()
        if data is None:
            return {}
        return {
            metric.name: metric for resourced in data.resource_metrics for scoped in resourced.scope_metrics for metric in scoped.metrics
        }

    def sums(self, name: str) -> Mapping[Attributes, float]:
        """Return the value of each series of a counter, or the count of each series of a histogram."""
        metric = self.metrics().get(name)
        return {} if metric is None else dict(_series(metric))


def _series(metric: Metric) -> Iterator[tuple[Attributes, float]]:
    for point in metric.data.data_points:
        attributes = tuple(sorted((point.attributes or {}).items()))
        if isinstance(point, HistogramDataPoint):
            yield attributes, point.count
        elif isinstance(point, NumberDataPoint):
            yield attributes, point.value


@pytest.fixture(params=["sdk", "aggregator"])
def recorded(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    fresh = Recorded(request.param)
    yield fresh
    fresh.provider.shutdown()


def test_score_is_recorded_with_bounds_attributes_and_exemplar(recorded: Recorded) -> None:
    metric = recorded.emit(report(verdict(given=score(0.75)))).metrics()["gen_ai.evaluation.score"]
    assert metric.unit == "1"
    assert isinstance(metric.data, Histogram)
    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert point.explicit_bounds == names.SCORE.bounds
    assert (point.count, point.sum) == (1, 0.75)
    assert point.bucket_counts[8] == 1
    assert point.attributes == {
        "gen_ai.evaluation.name": "ToolCallCountEvaluator",
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.agent.name": "weather_agent",
        "toolcall_eval.criteria": "weather",
    }
    (exemplar,) = point.exemplars
    assert exemplar.trace_id == int.from_bytes(TRACE_ID)
    assert exemplar.span_id == int.from_bytes(SPAN_ID)


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        pytest.param(0.0, 0, id="worst"),
        pytest.param(0.05, 1, id="between"),
        pytest.param(0.1, 1, id="upper-bound-is-inside"),
        pytest.param(2 / 3, 7, id="two-thirds"),
        pytest.param(19 / 20, 10, id="all-but-one-of-twenty"),
        pytest.param(999 / 1000, 10, id="all-but-one-of-a-thousand"),
        pytest.param(1.0, 11, id="best"),
    ],
)
def test_score_falls_into_its_bucket(recorded: Recorded, value: float, bucket: int) -> None:
    metric = recorded.emit(report(verdict(given=score(value)))).metrics()["gen_ai.evaluation.score"]
    (point,) = metric.data.data_points
    assert isinstance(point, HistogramDataPoint)
    assert [position for position, count in enumerate(point.bucket_counts) if count] == [bucket]


def test_agent_that_nobody_names_is_left_out(recorded: Recorded) -> None:
    ((attributes, _),) = recorded.emit(report(verdict(), agent=None)).sums("gen_ai.evaluation.score").items()
    assert "gen_ai.agent.name" not in dict(attributes)


def test_verdict_is_counted_with_label_trigger_and_completeness(recorded: Recorded) -> None:
    recorded.emit(report(verdict(), inconclusive(IncompletenessReason.ORPHAN, criteria="other"), trigger=Trigger.IDLE_TIMEOUT))
    name = ("gen_ai.evaluation.name", "ToolCallCountEvaluator")
    trigger = ("toolcall_eval.trigger", "idle_timeout")
    assert recorded.sums("toolcall_eval.evaluations") == {
        (
            name,
            ("gen_ai.evaluation.score.label", "fail"),
            ("toolcall_eval.completeness", "complete"),
            ("toolcall_eval.criteria", "weather"),
            trigger,
        ): 1,
        (
            name,
            ("gen_ai.evaluation.score.label", "inconclusive"),
            ("toolcall_eval.completeness", "partial"),
            ("toolcall_eval.criteria", "other"),
            trigger,
        ): 1,
    }


@pytest.mark.parametrize(
    "without_score",
    [
        pytest.param(inconclusive(), id="inconclusive"),
        pytest.param(verdict(Label.INCONCLUSIVE, failed=True), id="evaluator-failed"),
    ],
)
def test_without_a_score_a_verdict_is_only_counted(recorded: Recorded, without_score: object) -> None:
    recorded.emit(report(without_score))  # type: ignore[arg-type]  # a verdict
    assert sum(recorded.sums("toolcall_eval.evaluations").values()) == 1
    assert recorded.sums("gen_ai.evaluation.score") == {}
    assert recorded.sums("toolcall_eval.expectations") == {}


@pytest.mark.parametrize(
    ("given", "reasons"),
    [
        pytest.param(inconclusive(IncompletenessReason.ORPHAN), {"orphan": 1}, id="one-reason"),
        pytest.param(
            inconclusive(IncompletenessReason.NO_ROOT, IncompletenessReason.VALUE_REDACTED),
            {"no_root": 1, "value_redacted": 1},
            id="each-of-several",
        ),
        pytest.param(verdict(Label.INCONCLUSIVE), {"unknown": 1}, id="none-is-told"),
        pytest.param(
            verdict(Label.INCONCLUSIVE, failed=True, doubts=[IncompletenessReason.ORPHAN]), {"evaluator_failed": 1}, id="evaluator-failed"
        ),
        pytest.param(verdict(Label.FAIL, doubts=[IncompletenessReason.ORPHAN]), {}, id="doubts-that-did-not-matter"),
    ],
)
def test_inconclusive_verdicts_are_counted_by_reason(recorded: Recorded, given: Verdict, reasons: Mapping[str, int]) -> None:
    sums = recorded.emit(report(given), report(given, revision=1)).sums("toolcall_eval.inconclusive")
    evaluator, criteria = ("gen_ai.evaluation.name", "ToolCallCountEvaluator"), ("toolcall_eval.criteria", "weather")
    assert sums == {(evaluator, criteria, ("toolcall_eval.reason", reason)): number for reason, number in reasons.items()}


def test_expectations_are_counted_by_tool_and_result(recorded: Recorded) -> None:
    outcomes = [("search", Outcome.MATCHED), ("search", Outcome.WRONG_COUNT), ("*", Outcome.MATCHED), ("search", Outcome.MATCHED)]
    recorded.emit(report(verdict(given=score(outcomes=outcomes))))
    name = ("gen_ai.evaluation.name", "ToolCallCountEvaluator")
    assert recorded.sums("toolcall_eval.expectations") == {
        (name, ("gen_ai.tool.name", "search"), ("toolcall_eval.result", "matched")): 2,
        (name, ("gen_ai.tool.name", "search"), ("toolcall_eval.result", "wrong_count")): 1,
        (name, ("gen_ai.tool.name", "*"), ("toolcall_eval.result", "matched")): 1,
    }


@pytest.mark.parametrize(
    ("given", "decided", "evicted", "unbound", "durations"),
    [
        pytest.param(report(verdict()), 1, 0, 0, 1, id="judged"),
        pytest.param(report(), 1, 0, 1, 0, id="unbound"),
        pytest.param(report(verdict(), trigger=Trigger.EVICTION), 1, 1, 0, 1, id="evicted"),
        pytest.param(report(verdict(), trigger=Trigger.MEMORY), 1, 1, 0, 1, id="memory"),
    ],
)
def test_trace_is_counted_by_its_fate(  # noqa: PLR0917 - a table's row
    recorded: Recorded, given: TraceReport, decided: int, evicted: int, unbound: int, durations: int
) -> None:
    recorded.emit(given)
    assert sum(recorded.sums("toolcall_eval.traces.completed").values()) == decided
    assert sum(recorded.sums("toolcall_eval.traces.evicted").values()) == evicted
    assert sum(recorded.sums("toolcall_eval.traces.unbound").values()) == unbound
    assert sum(recorded.sums("toolcall_eval.evaluation.duration").values()) == durations


def test_delays_are_in_seconds(recorded: Recorded) -> None:
    recorded.emit(report(verdict(), decided_after_ns=2_500_000_000)).emitter.late_span(75.0)
    metrics = recorded.metrics()
    for name, expected in (
        ("toolcall_eval.completion.delay", 2.5),
        ("toolcall_eval.evaluation.duration", 0.0002),
        ("toolcall_eval.late_span.age", 75.0),
    ):
        (point,) = metrics[name].data.data_points
        assert isinstance(point, HistogramDataPoint)
        assert metrics[name].unit == "s"
        assert point.sum == pytest.approx(expected)


def test_revision_counts_as_a_revision_and_as_nothing_else(recorded: Recorded) -> None:
    first = recorded.emit(report(verdict(Label.FAIL), verdict(Label.PASS, criteria="other")))
    before = {name: first.sums(name) for name in ("gen_ai.evaluation.score", "toolcall_eval.evaluations", "toolcall_eval.expectations")}
    recorded.emit(report(verdict(Label.PASS), verdict(Label.PASS, criteria="other"), revision=1))
    recorded.emit(report(inconclusive(), verdict(Label.PASS, criteria="other"), revision=2))
    assert {name: recorded.sums(name) for name in before} == before
    assert sum(recorded.sums("toolcall_eval.traces.completed").values()) == 1
    name = ("gen_ai.evaluation.name", "ToolCallCountEvaluator")
    assert recorded.sums("toolcall_eval.revisions") == {
        (name, ("toolcall_eval.label.from", "fail"), ("toolcall_eval.label.to", "pass")): 1,
        (name, ("toolcall_eval.label.from", "pass"), ("toolcall_eval.label.to", "pass")): 2,
        (name, ("toolcall_eval.label.from", "pass"), ("toolcall_eval.label.to", "inconclusive")): 1,
    }


def test_criteria_bound_only_after_the_first_verdict_count_as_first(recorded: Recorded) -> None:
    recorded.emit(report(), report(verdict(), revision=1))
    assert sum(recorded.sums("toolcall_eval.evaluations").values()) == 1
    assert sum(recorded.sums("gen_ai.evaluation.score").values()) == 1
    assert recorded.sums("toolcall_eval.revisions") == {}


@pytest.mark.parametrize(
    "revised",
    [
        pytest.param(report(verdict(Label.PASS), revision=1), id="first-verdict-forgotten"),
        pytest.param(report(verdict(Label.PASS), revision=1, span=None), id="no-judged-span"),
    ],
)
def test_revision_of_something_unknown_says_so(recorded: Recorded, revised: TraceReport) -> None:
    ((attributes, value),) = recorded.emit(revised).sums("toolcall_eval.revisions").items()
    assert dict(attributes)["toolcall_eval.label.from"] == "unknown"
    assert value == 1
    assert recorded.sums("toolcall_eval.evaluations") == {}


def test_revision_that_nothing_is_bound_to_records_nothing(recorded: Recorded) -> None:
    assert set(recorded.emit(report(revision=1)).metrics()) == set()


def test_memory_of_labels_is_bounded(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.exporters.metrics.emitter._REMEMBERED_TRACES", 2)
    spans = [evaluated_span(span_id=bytes([number] * 8)) for number in (1, 2, 3)]
    recorded.emit(*(report(verdict(), span=span) for span in spans))
    recorded.emit(*(report(verdict(Label.PASS), span=span, revision=1) for span in (spans[2], spans[1], spans[0])))
    assert {
        dict(attributes)["toolcall_eval.label.from"]: value for attributes, value in recorded.sums("toolcall_eval.revisions").items()
    } == {
        "fail": 2,
        "unknown": 1,
    }


def test_invented_names_make_a_bounded_number_of_series_and_lose_nothing(recorded: Recorded) -> None:
    for number in range(2_000):
        outcomes = [(f"tool-{number}", Outcome.MATCHED)]
        given = score(outcomes=outcomes)
        recorded.emitter.emit(report(verdict(given=given, criteria=f"criteria-{number % 3}"), agent=f"agent-{number}"))
    scores = recorded.sums("gen_ai.evaluation.score")
    assert len(scores) <= 100 + 3
    assert sum(scores.values()) == 2_000
    assert any(("gen_ai.agent.name", "_OTHER") in attributes for attributes in scores)
    expectations = recorded.sums("toolcall_eval.expectations")
    assert len(expectations) == 500 + 1
    assert sum(expectations.values()) == 2_000
    assert len(recorded.sums("toolcall_eval.evaluations")) == 3


def test_beyond_the_sdks_own_bound_totals_are_kept(recorded: Recorded) -> None:
    for criteria in range(25):
        for agent in range(90):
            recorded.emitter.emit(report(verdict(criteria=f"criteria-{criteria}"), agent=f"agent-{agent}"))
    scores = recorded.sums("gen_ai.evaluation.score")
    if len(scores) < 25 * 90:  # older SDKs have no such bound
        assert len(scores) == 2001
        assert (("otel.metric.overflow", True),) in scores
    assert sum(scores.values()) == 25 * 90


def test_no_metric_holds_ids_arguments_or_names_of_called_tools(recorded: Recorded) -> None:
    recorded.emit(report(verdict(), inconclusive(criteria="other"), verdict(Label.INCONCLUSIVE, failed=True, criteria="third")))
    recorded.emit(report(verdict(Label.PASS), revision=1))
    shown = repr([(name, [point.attributes for point in metric.data.data_points]) for name, metric in recorded.metrics().items()])
    for secret in (CANARY, TRACE_ID.hex(), SPAN_ID.hex(), "invoke_agent"):
        assert secret not in shown


@pytest.mark.parametrize("name", ["\ud800", "x" * 100_000, 'a"b\\c\nd\0', ""])
def test_hostile_agent_names_are_recorded(recorded: Recorded, name: str) -> None:
    ((attributes, _),) = recorded.emit(report(verdict(), agent=name)).sums("gen_ai.evaluation.score").items()
    agent = dict(attributes)["gen_ai.agent.name"]
    assert isinstance(agent, str)
    assert len(agent.encode()) <= 255


def test_vocabulary_keeps_the_first_values() -> None:
    vocabulary = BoundedNames(2)
    assert [vocabulary.admit(value) for value in ("a", "b", "c", "a", "d", "b")] == ["a", "b", "_OTHER", "a", "_OTHER", "b"]


class Counts:
    """A source of counts that can be changed, and that says how often it was asked."""

    def __init__(self, counts: Mapping[CountKey, int | float]) -> None:
        self.current = counts
        self.asked = 0

    def counts(self) -> Mapping[CountKey, int | float]:
        self.asked += 1
        # What a worker may do between two readings of one collection: everything moves on.
        return {key: value * self.asked for key, value in self.current.items()}


def test_counts_are_observed_under_their_names_and_of_one_moment(recorded: Recorded) -> None:
    grpc = (("transport", "grpc"),)
    source = Counts(
        {
            ("toolcall_eval.spans.received", grpc): 10,
            ("toolcall_eval.spans.received", (("transport", "http"),)): 4,
            ("toolcall_eval.spans.relevant", ()): 8,
            ("toolcall_eval.spans.ignored", ()): 5,
            ("toolcall_eval.spans.rejected", (*grpc, ("reason", "trace_id"))): 1,
            ("toolcall_eval.requests.rejected", (*grpc, ("reason", "overload"))): 2,
            ("toolcall_eval.traces.active", ()): 3,
            ("toolcall_eval.traces.memory", ()): 4096.5,
            ("toolcall_eval.nobody.knows", ()): 1,
        }
    )
    recorded.observe(source)
    metrics = recorded.metrics()
    assert source.asked == 1
    values = {name: dict(_series(metric)) for name, metric in metrics.items()}
    assert values["toolcall_eval.spans.received"] == {
        (("toolcall_eval.transport", "grpc"),): 10,
        (("toolcall_eval.transport", "http"),): 4,
    }
    assert values["toolcall_eval.spans.rejected"] == {(("toolcall_eval.reason", "trace_id"), ("toolcall_eval.transport", "grpc")): 1}
    assert values["toolcall_eval.traces.active"] == {(): 3}
    assert values["toolcall_eval.traces.memory"] == {(): 4096.5}
    assert "toolcall_eval.nobody.knows" not in values
    assert metrics["toolcall_eval.traces.memory"].unit == "By"
    assert sum(recorded.sums("toolcall_eval.spans.received").values()) == 28  # the second collection took its own counts


def test_every_count_of_the_worker_is_known(recorded: Recorded, tmp_path: Path) -> None:
    logs = LogCorrelator(LogJoiner(lambda _: ()))
    journal = SqliteJournal(tmp_path / "j", Sync.NONE, limits=BufferLimits(), late_window_ns=0, flush=lambda _: True)
    worker = Worker(Pipeline(reader=PlainReader(), evaluators={}, logs=logs), [], journal=journal)
    worker.refuse("grpc", "queue_full")
    for _ in range(1_000):
        worker._pace.record_ingest(10, ns=SECOND_NS)  # noqa: SLF001 - a worker that is behind would take minutes to make
    assert worker.offer(DecodedTraces(spans=(span(1), span(2))), transport="grpc") is not None
    worker.pipeline.add([], now_ns=0, transport="grpc", rejected={"end": 1})
    worker.pipeline.add_logs([LogRecord(trace_id=None, span_id=None, event_name="e")], received=2, now_ns=0, transport="grpc")
    instruments = {
        instrument.name: {attribute.name for attribute in instrument.attributes} for instrument in (*names.OBSERVED, QUEUE_MEMORY)
    }
    recorded.observe(worker)
    metrics = recorded.metrics()
    of_others = {names.EXPORT_FAILURES.name, names.EXPORT_DROPPED.name}
    assert set(metrics) == {name for name, _ in worker.counts()} == set(instruments) - of_others
    for name, metric in metrics.items():
        for point in metric.data.data_points:
            assert set(point.attributes or {}) <= instruments[name]
    assert worker.shutdown(PATIENCE_SECONDS)
    journal.close(delivered=True, ended=True)


def test_accounting_identity_holds_in_every_collection(recorded: Recorded) -> None:
    source = Counts({(f"toolcall_eval.spans.{name}", ()): value for name, value in (("received", 7), ("relevant", 4), ("ignored", 3))})
    recorded.observe(source)
    for _ in range(3):
        values = {name: sum(dict(_series(metric)).values()) for name, metric in recorded.metrics().items()}
        assert values["toolcall_eval.spans.received"] == values["toolcall_eval.spans.relevant"] + values["toolcall_eval.spans.ignored"]


def test_provider_without_flush_is_flushed_at_once() -> None:
    emitter = MetricsEmitter(SdkRecorder(NoOpMeterProvider()))
    emitter.emit(report(verdict()))
    assert emitter.flush(0)


def test_shutdown_leaves_the_callers_provider_running(recorded: Recorded) -> None:
    assert recorded.emitter.flush(PATIENCE_SECONDS)
    recorded.emitter.shutdown(10)
    recorded.emitter.shutdown(10)
    assert sum(recorded.emit(report(verdict())).sums("toolcall_eval.evaluations").values()) == 1


MET = [
    tuple(ExpectationOutcome(tool=tool, outcome=Outcome.MATCHED) for tool in tools)
    for tools in (["search"], ["search"], ["search", "book"])
]
"""The first two are equal, as those of criteria that were loaded anew."""

VERDICTS = st.builds(
    lambda label, evaluator, criteria, value, outcomes, doubts, failed: verdict(
        label,
        evaluator=evaluator,
        criteria=criteria,
        given=replace(score(value), outcomes=outcomes),
        doubts=doubts,
        failed=failed and label is Label.INCONCLUSIVE,
    ),
    st.sampled_from(Label),
    st.sampled_from(["ToolCallCountEvaluator", "ToolCallOrderEvaluator"]),
    st.sampled_from(["weather", "other"]),
    st.sampled_from([1.0, 1.0, 0.5]),
    st.sampled_from(MET),
    st.sampled_from([(), (), (IncompletenessReason.ORPHAN,)]),
    st.booleans(),
)
REPORTS = st.builds(
    lambda verdicts, service, agent, trigger: report(
        *verdicts, span=evaluated_span(resource={"service.name": service} if service else {}), agent=agent, trigger=trigger
    ),
    st.lists(VERDICTS, max_size=3),
    st.sampled_from(["", "shop", "x" * 300]),
    st.sampled_from([None, "a", "b", "y" * 300]),
    st.sampled_from([Trigger.ROOT_SPAN, Trigger.EVICTION]),
)


@given(st.lists(st.tuples(REPORTS, st.integers(1, 3)), max_size=6), st.booleans())
def test_emitter_that_has_seen_much_records_what_fresh_ones_do(reports: list[tuple[TraceReport, int]], read_between: bool) -> None:  # noqa: FBT001 - drawn
    seasoned, fresh = Aggregator(Resource({})), Aggregator(Resource({}))
    emitter = MetricsEmitter(seasoned)
    for item, times in reports:
        for _ in range(times):
            emitter.emit(item)
            MetricsEmitter(fresh).emit(item)
        if read_between:
            seasoned.states(take_extremes=False)
    assert held_by(seasoned) == held_by(fresh)


def held_by(aggregator: Aggregator) -> Mapping[tuple[str, object], tuple[object, ...]]:
    """All cells, their exemplars by value and span: the two aggregators are told of a report one after the other."""
    return {
        (name, key): (state.total, state.counts, state.low, state.high, {value: told.span for value, told in state.exemplars})
        for name, cells in aggregator.states(take_extremes=False).items()
        for key, state in cells
    }


def test_names_that_are_too_long_are_recorded_and_not_remembered() -> None:
    aggregator = Aggregator(Resource({}))
    emitter, met = MetricsEmitter(aggregator), verdict(Label.PASS, given=score(1.0))
    emitter.emit(report(met, agent="a"))
    before = len(emitter._cells)  # noqa: SLF001 - what is remembered is not visible otherwise
    for number in range(20):
        emitter.emit(report(met, agent=f"{number}" * 300))
    assert len(emitter._cells) == before  # noqa: SLF001
    assert sum(state.total for _, state in aggregator.states(take_extremes=False)[names.TRACES_COMPLETED.name]) == 21
