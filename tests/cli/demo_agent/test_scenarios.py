from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, GOOD_RUNS, MISBEHAVING_RUN, Action, Misbehaviour, Scenario
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.inprocess.sdk_spans import SpanConverter
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Trigger
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.score import TraceReport


async def report_on(scenario: Scenario) -> TraceReport:
    """Play a scenario with the real SDK and judge its spans by the sample's own files."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await scenario.play(provider)
    criteria = load_criteria([CriteriaSource(path=EVALUATIONS)])
    pipeline = Pipeline(reader=default_extractor(), evaluators=evaluators_by_criteria(), criteria=criteria.sets)
    converter = SpanConverter()
    spans = [converter.convert(span, pipeline.projection) for span in exporter.get_finished_spans()]
    pipeline.add(spans, now_ns=0, transport="test")
    [report] = pipeline.drain(now_ns=0, trigger=Trigger.RECORDED)
    return report


def scores(report: TraceReport) -> Mapping[str, float]:
    return {
        verdict.evaluator.removeprefix("ToolCall").removesuffix("Evaluator"): verdict.score.value
        for verdict in report.verdicts
        if verdict.score
    }


def test_the_samples_files_load_without_a_warning() -> None:
    assert load_criteria([CriteriaSource(path=EVALUATIONS)]).warnings == ()


@pytest.mark.parametrize("scenario", GOOD_RUNS, ids=lambda scenario: scenario.criteria)
async def test_a_good_run_passes_all_four_evaluators_of_its_own_test_case_and_no_other(scenario: Scenario) -> None:
    report = await report_on(scenario)
    assert [verdict.criteria for verdict in report.verdicts] == [scenario.criteria] * 4
    assert scores(report) == {"Count": 1.0, "Order": 1.0, "Args": 1.0, "Output": 1.0}
    assert report.agent == "weather_agent"


async def test_the_misbehaving_run_gets_the_scores_worked_out_by_hand() -> None:
    # Called:            condition(London) temperature(London) temperature(London) forecast(London) humidity(Dublin)
    # Expected in order: temperature condition humidity forecast
    expected = {
        # temperature 2 = 1 no, condition 1 = 1 yes, humidity 1 = 1 yes, forecast 1 = 1 yes, alerts 0 = 0 yes: 4 of 5
        "Count": (0 + 1 + 1 + 1 + 1) / 5,
        # The longest sequences in both have two names, such as temperature, humidity; no three: 2 of 4
        "Order": 2 / 4,
        # temperature yes, condition yes, humidity no (Dublin is not London), forecast yes: 3 of 4
        "Args": (1 + 1 + 0 + 1) / 4,
        # temperature yes, condition yes, forecast no ("Fog" is not "Showers, dry by Thursday"); humidity is not asked for: 2 of 3
        "Output": (1 + 1 + 0) / 3,
    }
    report = await report_on(MISBEHAVING_RUN)
    assert scores(report) == pytest.approx(expected, abs=1e-9)
    assert {verdict.label for verdict in report.verdicts} == {Label.FAIL}


@pytest.mark.parametrize(
    ("misbehaviour", "expected"),
    [
        pytest.param(Misbehaviour.DOUBLED_CALL, {"Count": 4 / 5, "Order": 1.0, "Args": 1.0, "Output": 1.0}, id="doubled-call"),
        pytest.param(Misbehaviour.SWAPPED_ORDER, {"Count": 1.0, "Order": 2 / 4, "Args": 1.0, "Output": 1.0}, id="swapped-order"),
        pytest.param(Misbehaviour.WRONG_CITY, {"Count": 1.0, "Order": 1.0, "Args": 3 / 4, "Output": 1.0}, id="wrong-city"),
        pytest.param(Misbehaviour.WRONG_OUTPUT, {"Count": 1.0, "Order": 1.0, "Args": 1.0, "Output": 2 / 3}, id="wrong-output"),
    ],
)
async def test_each_fault_is_seen_by_one_evaluator_alone(misbehaviour: Misbehaviour, expected: dict[str, float]) -> None:
    run = Scenario(title="", criteria="weather_with_forecast", city="London", action=Action.GET_FORECAST, misbehaviour=misbehaviour)
    assert scores(await report_on(run)) == pytest.approx(expected, abs=1e-9)
