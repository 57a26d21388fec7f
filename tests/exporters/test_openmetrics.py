from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import (
    Gauge,
    InMemoryMetricReader,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.openmetrics import MetricsPage, prefers_openmetrics
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from otel_toolcall_eval.model.score import Label
from tests.exporters.reports import CANARY, SPAN_ID, TRACE_ID, evaluated_span, inconclusive, report, score, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.metrics import CallbackOptions
    from opentelemetry.sdk.metrics.view import Aggregation
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample

    from otel_toolcall_eval.exporters.metrics.emitter import CountKey

ACCEPT = "application/openmetrics-text;version=1.0.0"
RESOURCE = Resource({"service.name": "otel-toolcall-eval", "service.version": "1.2.3"})


class Scraped:
    """A page over the real SDK, scraped as Prometheus does it."""

    def __init__(self, *, views: Sequence[View] = ()) -> None:
        reader = InMemoryMetricReader()
        self.provider = MeterProvider([reader], resource=RESOURCE, views=views, shutdown_on_exit=False)
        self.page = MetricsPage(reader.get_metrics_data)
        self.emitter = MetricsEmitter(SdkRecorder(self.provider))

    def families(self) -> Mapping[str, Family]:
        page = self.page.render(ACCEPT)
        return {family.name: family for family in parse_openmetrics(page.body.decode())}  # type: ignore[no-untyped-call]

    def samples(self, family: str) -> Sequence[Sample]:
        return self.families()[family].samples


@pytest.fixture
def scraped() -> Iterator[Scraped]:
    fresh = Scraped()
    yield fresh
    fresh.provider.shutdown()


def test_score_is_a_histogram_with_our_buckets_and_an_exemplar_of_the_trace(scraped: Scraped) -> None:
    scraped.emitter.emit(report(verdict(given=score(0.75))))
    family = scraped.families()["gen_ai_evaluation_score"]
    assert (family.type, family.unit) == ("histogram", "")
    buckets = {sample.labels["le"]: sample for sample in family.samples if sample.name.endswith("_bucket")}
    assert list(buckets) == ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "0.999", "1.0", "+Inf"]
    assert [sample.value for sample in buckets.values()] == [0] * 8 + [1] * 5
    assert [bound for bound, sample in buckets.items() if sample.exemplar] == ["0.8"]
    exemplar = buckets["0.8"].exemplar
    assert exemplar is not None
    assert (exemplar.labels, exemplar.value) == ({"trace_id": TRACE_ID.hex(), "span_id": SPAN_ID.hex()}, 0.75)
    assert exemplar.timestamp is not None
    assert {sample.name: sample.value for sample in family.samples if "le" not in sample.labels} == {
        "gen_ai_evaluation_score_count": 1,
        "gen_ai_evaluation_score_sum": 0.75,
    }
    assert {key: value for key, value in buckets["1.0"].labels.items() if key != "le"} == {
        "gen_ai_agent_name": "weather_agent",
        "gen_ai_evaluation_name": "ToolCallCountEvaluator",
        "gen_ai_evaluation_score_label": "fail",
        "otel_scope_name": "otel_toolcall_eval",
        "toolcall_eval_criteria": "weather",
    }


def test_exemplar_stays_until_a_newer_one_comes(scraped: Scraped) -> None:
    emitter = scraped.emitter

    def shown() -> Mapping[str, str]:
        samples = scraped.samples("gen_ai_evaluation_score")
        return {sample.labels["le"]: sample.exemplar.labels["span_id"] for sample in samples if sample.exemplar}

    emitter.emit(report(verdict(given=score(0.75))))
    assert shown() == {"0.8": SPAN_ID.hex()}
    assert scraped.provider.force_flush()  # collects too, and gets the exemplars that a scrape would have got
    assert shown() == {"0.8": SPAN_ID.hex()}
    emitter.emit(report(verdict(given=score(0.75)), span=evaluated_span(span_id=b"\x00" * 7 + b"\x02")))
    emitter.emit(report(verdict(given=score(0.0)), span=evaluated_span(span_id=b"\x00" * 7 + b"\x03")))
    assert shown() == {"0.8": "0000000000000002", "0.0": "0000000000000003"}


def test_counter_is_a_counter_with_an_exemplar(scraped: Scraped) -> None:
    scraped.emitter.emit(report(verdict()))
    family = scraped.families()["toolcall_eval_evaluations"]
    (sample,) = family.samples
    assert (family.type, sample.name, sample.value) == ("counter", "toolcall_eval_evaluations_total", 1)
    assert sample.exemplar is not None
    assert sample.exemplar.labels["trace_id"] == TRACE_ID.hex()


def test_score_without_a_judged_span_has_no_exemplar(scraped: Scraped) -> None:
    scraped.emitter.emit(report(verdict(), span=None))
    assert not any(sample.exemplar for sample in scraped.samples("gen_ai_evaluation_score"))


def test_units_are_words_at_the_end_of_names(scraped: Scraped) -> None:
    class Counts:
        def counts(self) -> Mapping[CountKey, int | float]:
            return {("toolcall_eval.traces.memory", ()): 4096, ("toolcall_eval.traces.active", ()): 3, ("toolcall_eval.spans.late", ()): 2}

    scraped.emitter.emit(report(verdict()))
    observe(scraped.provider, Counts())
    families = scraped.families()
    assert {name: (families[name].type, families[name].unit) for name in families if name.startswith("toolcall_eval")} == {
        "toolcall_eval_completion_delay_seconds": ("histogram", "seconds"),
        "toolcall_eval_evaluation_duration_seconds": ("histogram", "seconds"),
        "toolcall_eval_evaluations": ("counter", ""),
        "toolcall_eval_expectations": ("counter", ""),
        "toolcall_eval_spans_late": ("counter", ""),
        "toolcall_eval_traces_active": ("gauge", ""),
        "toolcall_eval_traces_completed": ("counter", ""),
        "toolcall_eval_traces_memory_bytes": ("gauge", "bytes"),
    }
    assert [sample.name for sample in families["toolcall_eval_spans_late"].samples] == ["toolcall_eval_spans_late_total"]


def test_resource_is_the_target(scraped: Scraped) -> None:
    scraped.provider.get_meter("any").create_counter("c").add(1)
    (sample,) = scraped.samples("target")
    assert (sample.name, sample.labels, sample.value) == (
        "target_info",
        {"service_name": "otel-toolcall-eval", "service_version": "1.2.3"},
        1,
    )


def test_scope_is_in_the_labels(scraped: Scraped) -> None:
    scraped.provider.get_meter("a", version="2", schema_url="https://example.test/1").create_counter("c").add(1)
    scraped.provider.get_meter("b").create_counter("c").add(2)
    assert {tuple(sample.labels.items()): sample.value for sample in scraped.samples("c")} == {
        (("otel_scope_name", "a"), ("otel_scope_schema_url", "https://example.test/1"), ("otel_scope_version", "2")): 1,
        (("otel_scope_name", "b"),): 2,
    }


def test_page_without_metrics_is_valid(scraped: Scraped) -> None:
    assert scraped.families() == {}
    assert scraped.page.render(ACCEPT).body == b"# EOF\n"
    assert scraped.page.render().body == b""


HOSTILE = ['a"} 1\ninjected{x="', "back\\slash", "new\nline", "nul\0", "\ud800", "\r", "\u2028", "# EOF", "", " ", "\U0001f40d", "{}"]


@pytest.mark.parametrize("agent", HOSTILE)
def test_hostile_names_are_labels_and_nothing_else(scraped: Scraped, agent: str) -> None:
    scraped.emitter.emit(report(verdict(), agent=agent))
    for families in (scraped.families(), {f.name: f for f in parse_plain(scraped.page.render().body.decode())}):
        shown = {sample.labels["gen_ai_agent_name"] for sample in families["gen_ai_evaluation_score"].samples}
        assert shown == {agent.replace("\0", "\ufffd").replace("\ud800", "?")}
        assert "injected" not in families


@given(st.text(st.characters(), max_size=50))
def test_page_can_be_parsed_whatever_the_names(agent: str) -> None:
    scraped = Scraped()
    scraped.emitter.emit(report(verdict(criteria=agent), agent=agent))
    assert "gen_ai_evaluation_score" in scraped.families()
    scraped.provider.shutdown()


def test_plain_text_is_served_to_those_who_ask_for_nothing_else(scraped: Scraped) -> None:
    scraped.emitter.emit(report(verdict(given=score(0.75))))
    page = scraped.page.render("text/plain")
    assert page.content_type == "text/plain; version=0.0.4; charset=utf-8"
    text = page.body.decode()
    assert "# TYPE gen_ai_evaluation_score histogram" in text
    assert "# TYPE toolcall_eval_evaluations_total counter" in text
    assert TRACE_ID.hex() not in text  # the format has no exemplars
    assert 'target_info{service_name="otel-toolcall-eval",service_version="1.2.3"} 1.0' in text


def test_openmetrics_is_named_as_such(scraped: Scraped) -> None:
    page = scraped.page.render(ACCEPT)
    assert page.content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert page.body.endswith(b"# EOF\n")


PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(PROMETHEUS_3, True, id="prometheus-3"),
        pytest.param("application/openmetrics-text", True, id="any-version"),
        pytest.param("Application/OpenMetrics-Text; Version=0.0.1", True, id="old-version-and-case"),
        pytest.param("application/openmetrics-text;version=2.0.0", False, id="version-that-we-do-not-write"),
        pytest.param("text/html, text/plain;q=0.9", False, id="browser"),
        pytest.param("text/plain;version=0.0.4, application/openmetrics-text;q=0.5", False, id="plain-text-first"),
        pytest.param("application/openmetrics-text;q=0", False, id="refused"),
        pytest.param("application/openmetrics-text;q=much", False, id="weight-is-no-number"),
        pytest.param("application/openmetrics-text;q=nan", False, id="weight-is-nan"),
        pytest.param("application/openmetrics-text;q=7", False, id="weight-out-of-range"),
        pytest.param("*/*", False, id="anything"),
        pytest.param("", False, id="nothing"),
        pytest.param(",;=,;;", False, id="rubbish"),
    ],
)
def test_format_is_the_one_that_is_asked_for(accept: str, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert prefers_openmetrics(accept) is expected


@given(st.text())
def test_any_accept_header_is_answered(accept: str) -> None:
    assert prefers_openmetrics(accept) in (True, False)


def test_exponential_histograms_are_left_out() -> None:
    aggregation: dict[type, Aggregation] = {Histogram: ExponentialBucketHistogramAggregation()}
    scraped = Scraped(views=[View(instrument_type=Histogram, aggregation=aggregation[Histogram])])
    meter = scraped.provider.get_meter("any")
    meter.create_histogram("h").record(1)
    meter.create_counter("c").add(1)
    assert set(scraped.families()) == {"target", "c"}
    scraped.provider.shutdown()


def test_second_metric_of_a_taken_name_and_another_kind_is_left_out(scraped: Scraped) -> None:
    scraped.provider.get_meter("a").create_counter("c").add(1)
    scraped.provider.get_meter("b").create_histogram("c").record(1)
    assert [sample.name for sample in scraped.samples("c")] == ["c_total"]


def test_metric_whose_name_has_no_letter_is_left_out() -> None:
    point = NumberDataPoint(attributes={}, start_time_unix_nano=0, time_unix_nano=0, value=1)
    metrics = [Metric(name=name, description=None, unit=None, data=Gauge(data_points=[point])) for name in ("...", "kept")]
    scope = ScopeMetrics(scope=InstrumentationScope("s"), metrics=metrics, schema_url="")
    data = MetricsData(resource_metrics=[ResourceMetrics(resource=RESOURCE, scope_metrics=[scope], schema_url="")])
    families = parse_openmetrics(MetricsPage(lambda: data).render(ACCEPT).body.decode())  # type: ignore[no-untyped-call]
    assert [family.name for family in families] == ["target", "kept"]


def test_unit_inside_a_name_is_not_declared(scraped: Scraped) -> None:
    scraped.provider.get_meter("any").create_gauge("delay.seconds.max", unit="s").set(1)
    assert scraped.families()["delay_seconds_max"].unit == ""


def test_series_that_are_not_observed_any_more_vanish_with_their_exemplars(scraped: Scraped) -> None:
    seen = ["a"]

    def observed(_: CallbackOptions) -> Iterator[Observation]:
        yield from (Observation(1, {"name": name}) for name in seen)

    scraped.provider.get_meter("any").create_observable_gauge("g", callbacks=[observed])
    assert [sample.labels["name"] for sample in scraped.samples("g")] == ["a"]
    seen[:] = ["b"]
    assert [sample.labels["name"] for sample in scraped.samples("g")] == ["b"]


def test_ten_thousand_invented_names_make_a_bounded_page(scraped: Scraped) -> None:
    emitter = scraped.emitter
    for number in range(10_000):
        emitter.emit(report(verdict(), agent=f"agent-{number}-{CANARY}"))
    samples = scraped.samples("gen_ai_evaluation_score")
    counts = [sample for sample in samples if sample.name.endswith("_count")]
    assert len(counts) == 101
    assert sum(sample.value for sample in counts) == 10_000


def test_page_holds_nothing_that_a_user_recorded(scraped: Scraped) -> None:
    failed = verdict(Label.INCONCLUSIVE, failed=True, criteria="third")
    scraped.emitter.emit(report(verdict(), inconclusive(criteria="other"), failed))
    assert CANARY.encode() not in scraped.page.render(ACCEPT).body
    assert CANARY.encode() not in scraped.page.render().body
