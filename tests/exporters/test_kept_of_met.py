"""What is kept of a report that is met, told row by row from the next, which differs in one thing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.resources import Resource

from otel_toolcall_eval.exporters.events.attributes import ExplainValues
from otel_toolcall_eval.exporters.metrics.aggregator import Aggregator
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.model.score import ExpectationOutcome, Label, Outcome
from otel_toolcall_eval.model.trace import Trigger
from tests.exporters.reports import FakeJustification, evaluated_span, inconclusive, report, score, verdict
from tests.exporters.test_batched_events import Emitted, by_the_sdk
from tests.exporters.test_metrics import held_by
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport, Verdict

ONE = (ExpectationOutcome(tool="a", outcome=Outcome.MATCHED),)
OTHER = (ExpectationOutcome(tool="b", outcome=Outcome.MATCHED),)


def met(
    outcomes: tuple[ExpectationOutcome, ...] = ONE,
    *,
    line: str = "all match",
    shown: str = "1",
    criteria: str = "policy",
    evaluator: str = "ToolCallCountEvaluator",
) -> Verdict:
    """Return a verdict of which all expectations are met."""
    given = replace(score(1.0, justification=FakeJustification(line=line, values={"shown": shown})), outcomes=outcomes)
    return verdict(Label.PASS, given=given, criteria=criteria, evaluator=evaluator)


TOLD = {
    "trigger": report(met(), trigger=Trigger.EVICTION),
    "revision": report(met(), revision=1),
    "criteria": report(met(criteria="other")),
    "evaluator": report(met(evaluator="ToolCallOrderEvaluator")),
    "outcomes": report(met(OTHER, line="loaded anew")),
    "version": report(replace(met(line="loaded anew"), criteria_version="2")),
    "values": report(met(shown="2")),
    "agent": report(met(), agent="b"),
    "number": report(met(), met(criteria="other")),
}
RECORDED = {
    **{name: TOLD[name] for name in ("trigger", "criteria", "evaluator", "agent", "number")},
    "service": report(met(), span=evaluated_span(resource={"service.name": "shop"})),
    "outcomes": report(met(OTHER)),
    "one is not met": report(met(), inconclusive(criteria="other")),
    "another label": report(verdict(Label.FAIL, given=replace(score(1.0), outcomes=ONE))),
    "none": report(),
}


@pytest.mark.parametrize("values", ExplainValues)
@pytest.mark.parametrize("other", [pytest.param(one, id=name) for name, one in TOLD.items()])
def test_what_is_kept_of_a_met_verdict_is_not_told_of_another(other: TraceReport, values: ExplainValues) -> None:
    emitted = Emitted(values=values)
    for one in (report(met()), other, report(met()), other):
        emitted.emitter.emit(one)
        assert emitted.emitter.flush(PATIENCE_SECONDS)
        assert (emitted.logs.logs(), emitted.spans.spans()) == by_the_sdk(one, values)
        emitted.logs.bodies.clear()
        emitted.spans.bodies.clear()
    emitted.emitter.shutdown(PATIENCE_SECONDS)


@pytest.mark.parametrize("other", [pytest.param(one, id=name) for name, one in RECORDED.items()])
def test_what_is_kept_of_a_met_report_is_not_recorded_of_another(other: TraceReport) -> None:
    seasoned, fresh = Aggregator(Resource({})), Aggregator(Resource({}))
    emitter = MetricsEmitter(seasoned)
    for one in (report(met()), other) * 3:
        emitter.emit(one)
        MetricsEmitter(fresh).emit(one)
        assert held_by(seasoned) == held_by(fresh)


def test_span_without_an_id_gets_no_span_of_ours() -> None:
    emitted = Emitted()
    emitted.emitter.emit(report(met(), span=evaluated_span(span_id=bytes(8))))
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    assert emitted.spans.bodies == []
    assert emitted.logs.bodies != []
