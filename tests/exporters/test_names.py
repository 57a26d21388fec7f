from __future__ import annotations

import pytest

from otel_toolcall_eval.engine import pipeline
from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.names import Attribute, Instrument, InstrumentKind, NameOrigin

_TRACE_ATTRIBUTES = {"toolcall_eval.trigger", "toolcall_eval.completeness"}
_TRANSPORT = {"toolcall_eval.transport"}

# The promised names, one by one.
PROMISED = [
    pytest.param(
        "gen_ai.evaluation.score",
        "histogram",
        "1",
        {
            "gen_ai.evaluation.name",
            "gen_ai.evaluation.score.label",
            "gen_ai.agent.name",
            "toolcall_eval.criteria",
            "toolcall_eval.service.name",
        },
        id="score",
    ),
    pytest.param(
        "toolcall_eval.evaluations",
        "counter",
        "{evaluation}",
        {
            "gen_ai.evaluation.name",
            "gen_ai.evaluation.score.label",
            "toolcall_eval.criteria",
            "toolcall_eval.service.name",
            *_TRACE_ATTRIBUTES,
        },
        id="evaluations",
    ),
    # What makes verdicts inconclusive is shown by reason.
    pytest.param(
        "toolcall_eval.inconclusive",
        "counter",
        "{evaluation}",
        {"gen_ai.evaluation.name", "toolcall_eval.criteria", "toolcall_eval.reason", "toolcall_eval.service.name"},
        id="inconclusive",
    ),
    pytest.param(
        "toolcall_eval.expectations",
        "counter",
        "{expectation}",
        {"gen_ai.evaluation.name", "gen_ai.tool.name", "toolcall_eval.result"},
        id="expectations",
    ),
    pytest.param("toolcall_eval.traces.active", "observable up-down counter", "{trace}", set(), id="traces.active"),
    pytest.param("toolcall_eval.traces.memory", "observable gauge", "By", set(), id="traces.memory"),
    pytest.param("toolcall_eval.traces.completed", "counter", "{trace}", _TRACE_ATTRIBUTES, id="traces.completed"),
    pytest.param("toolcall_eval.traces.evicted", "counter", "{trace}", _TRACE_ATTRIBUTES, id="traces.evicted"),
    pytest.param(
        "toolcall_eval.traces.unbound",
        "counter",
        "{trace}",
        {"toolcall_eval.service.name", *_TRACE_ATTRIBUTES},
        id="traces.unbound",
    ),
    pytest.param("toolcall_eval.spans.received", "observable counter", "{span}", _TRANSPORT, id="spans.received"),
    pytest.param("toolcall_eval.spans.relevant", "observable counter", "{span}", _TRANSPORT, id="spans.relevant"),
    pytest.param("toolcall_eval.spans.ignored", "observable counter", "{span}", _TRANSPORT, id="spans.ignored"),
    pytest.param("toolcall_eval.spans.late", "observable counter", "{span}", _TRANSPORT, id="spans.late"),
    pytest.param("toolcall_eval.spans.skipped", "observable counter", "{span}", _TRANSPORT, id="spans.skipped"),
    pytest.param("toolcall_eval.spans.dropped", "observable counter", "{span}", _TRANSPORT, id="spans.dropped"),
    pytest.param("toolcall_eval.spans.duplicate", "observable counter", "{span}", _TRANSPORT, id="spans.duplicate"),
    pytest.param("toolcall_eval.spans.conflict", "observable counter", "{span}", _TRANSPORT, id="spans.conflict"),
    pytest.param(
        "toolcall_eval.spans.rejected",
        "observable counter",
        "{span}",
        {"toolcall_eval.transport", "toolcall_eval.reason"},
        id="spans.rejected",
    ),
    pytest.param(
        "toolcall_eval.requests.rejected",
        "observable counter",
        "{request}",
        {"toolcall_eval.transport", "toolcall_eval.reason"},
        id="requests.rejected",
    ),
    # Verdicts in time under full load.
    pytest.param("toolcall_eval.requests.delayed", "observable counter", "{request}", _TRANSPORT, id="requests.delayed"),
    # Log records as source of content, counted like spans.
    pytest.param("toolcall_eval.log_records.received", "observable counter", "{record}", _TRANSPORT, id="log_records.received"),
    pytest.param("toolcall_eval.log_records.ignored", "observable counter", "{record}", _TRANSPORT, id="log_records.ignored"),
    pytest.param("toolcall_eval.log_records.correlated", "observable counter", "{record}", set(), id="log_records.correlated"),
    pytest.param("toolcall_eval.log_records.dropped", "observable counter", "{record}", {"toolcall_eval.reason"}, id="log_records.dropped"),
    pytest.param("toolcall_eval.completion.delay", "histogram", "s", set(), id="completion.delay"),
    pytest.param("toolcall_eval.late_span.age", "histogram", "s", set(), id="late_span.age"),
    pytest.param("toolcall_eval.evaluation.duration", "histogram", "s", set(), id="evaluation.duration"),
    pytest.param("toolcall_eval.internal_errors", "observable counter", "{error}", set(), id="internal_errors"),
    # The journal, whose failures, losses and size an operator has to see.
    pytest.param("toolcall_eval.journal.failures", "observable counter", "{failure}", set(), id="journal.failures"),
    pytest.param("toolcall_eval.journal.discarded", "observable counter", "{file}", set(), id="journal.discarded"),
    pytest.param("toolcall_eval.journal.damaged", "observable counter", "{row}", set(), id="journal.damaged"),
    pytest.param("toolcall_eval.journal.size", "observable gauge", "By", set(), id="journal.size"),
    # Own telemetry that does not arrive has to be seen by an operator.
    pytest.param("toolcall_eval.export.failures", "observable counter", "{export}", {"toolcall_eval.signal"}, id="export.failures"),
    pytest.param("toolcall_eval.export.dropped", "observable counter", "{item}", {"toolcall_eval.signal"}, id="export.dropped"),
    pytest.param("toolcall_eval.export.queue", "observable gauge", "By", {"toolcall_eval.signal"}, id="export.queue"),
    # Runs spread over several traces are counted, and not joined.
    pytest.param("toolcall_eval.traces.in_conversation", "observable counter", "{trace}", set(), id="traces.in_conversation"),
    # A revision never counts twice.
    pytest.param(
        "toolcall_eval.revisions",
        "counter",
        "{revision}",
        {"gen_ai.evaluation.name", "toolcall_eval.label.from", "toolcall_eval.label.to"},
        id="revisions",
    ),
    # What an operator watches beside scores.
    pytest.param(
        "toolcall_eval.service.info",
        "observable gauge",
        "{service}",
        {"toolcall_eval.service.name", "toolcall_eval.service.version"},
        id="service.info",
    ),
    pytest.param(
        "toolcall_eval.criteria.info",
        "observable gauge",
        "{criteria}",
        {"toolcall_eval.criteria", "toolcall_eval.criteria.version"},
        id="criteria.info",
    ),
    pytest.param("toolcall_eval.criteria.reloads", "observable counter", "{reload}", {"toolcall_eval.result"}, id="criteria.reloads"),
    pytest.param("toolcall_eval.queue.memory", "observable gauge", "By", set(), id="queue.memory"),
    pytest.param("process.memory.usage", "observable up-down counter", "By", set(), id="process.memory.usage"),
]

OBSERVED = (*names.OBSERVED, *names.OPERATION_OBSERVED)
ALL_INSTRUMENTS = (*names.RECORDED, *OBSERVED)
ALL_ATTRIBUTES = [value for value in vars(names).values() if isinstance(value, Attribute)]


@pytest.mark.parametrize(("name", "kind", "unit", "attributes"), PROMISED)
def test_instrument_is_the_one_that_the_design_promises(name: str, kind: str, unit: str, attributes: set[str]) -> None:
    (instrument,) = [instrument for instrument in ALL_INSTRUMENTS if instrument.name == name]
    assert (instrument.kind.value, instrument.unit) == (kind, unit)
    assert {attribute.name for attribute in instrument.attributes} == attributes


def test_there_are_no_instruments_beside_the_design() -> None:
    assert sorted(instrument.name for instrument in ALL_INSTRUMENTS) == sorted(str(row.values[0]) for row in PROMISED)


def test_scores_fall_into_tenths_and_perfect_ones_are_apart() -> None:
    assert names.SCORE.bounds == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.999, 1.0)


@pytest.mark.parametrize("instrument", [pytest.param(item, id=item.name) for item in ALL_INSTRUMENTS])
def test_recorded_and_observed_instruments_are_told_apart_by_kind(instrument: Instrument) -> None:
    assert instrument.kind.value.startswith("observable") is (instrument in OBSERVED)


@pytest.mark.parametrize("attribute", [pytest.param(item, id=item.name) for item in ALL_ATTRIBUTES])
def test_origin_agrees_with_the_namespace(attribute: Attribute) -> None:
    assert (attribute.origin is NameOrigin.OURS) is attribute.name.startswith("toolcall_eval.")


def test_every_attribute_of_metrics_that_others_choose_is_bounded() -> None:
    ours = {
        names.SCORE_LABEL,
        names.TRIGGER,
        names.COMPLETENESS,
        names.RESULT,
        names.LABEL_FROM,
        names.LABEL_TO,
        names.TRANSPORT,
        names.REASON,
        names.SIGNAL,
        names.CRITERIA_VERSION,
    }
    others = {attribute for instrument in ALL_INSTRUMENTS for attribute in instrument.attributes} - ours
    assert {attribute.name for attribute in others if attribute.limit is None} == set()


def test_our_scope_is_the_one_that_is_never_judged() -> None:
    assert names.SCOPE_NAME == pipeline.OWN_SCOPE == "otel_toolcall_eval"


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        pytest.param(InstrumentKind.HISTOGRAM, (), id="histogram-without-bounds"),
        pytest.param(InstrumentKind.HISTOGRAM, (0.5, 0.5), id="bounds-that-do-not-rise"),
        pytest.param(InstrumentKind.COUNTER, (1.0,), id="counter-with-bounds"),
    ],
)
def test_impossible_instrument_cannot_be_built(kind: InstrumentKind, bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="x"):
        Instrument(name="x", kind=kind, unit="1", description="", bounds=bounds)
