from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval.cli.demo_agent.weather_agent import Action, Misbehaviour, ModelAnswer, WeatherAgent


async def spans_of(city: str, action: Action, misbehaviour: Misbehaviour = Misbehaviour.NONE) -> tuple[list[ReadableSpan], ModelAnswer]:
    """Run the agent with the real SDK; the spans come in the order in which they ended, the root last."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    answer = await WeatherAgent(provider, misbehaviour=misbehaviour).run(city=city, action=action)
    return list(exporter.get_finished_spans()), answer


def calls_of(spans: list[ReadableSpan]) -> list[tuple[object, object]]:
    """Return name and city of each tool call."""
    return [
        (span.attributes["tool.name"], json.loads(str(span.attributes["input.value"]))["city"])
        for span in spans
        if span.attributes and "tool.name" in span.attributes
    ]


async def test_the_root_span_says_which_agent_was_asked_what_and_what_it_answered() -> None:
    spans, answer = await spans_of("Tokyo", Action.GET_FORECAST)
    root = spans[-1]
    assert root.parent is None
    attributes = dict(root.attributes or {})
    assert json.loads(str(attributes.pop("input.value"))) == {"city": "Tokyo", "action": "get_forecast"}
    assert json.loads(str(attributes.pop("output.value"))) == {"content": answer.content}
    assert attributes == {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather_agent"}
    assert answer.trace_id == f"{root.context.trace_id:032x}"


async def test_a_tool_span_stands_below_the_root_and_records_name_arguments_and_wrapped_output() -> None:
    spans, _ = await spans_of("Tokyo", Action.GET_WEATHER)
    span, root = spans[0], spans[-1]
    assert span.parent is not None
    assert span.parent.span_id == root.context.span_id
    assert span.name == "get_temperature"
    assert span.attributes == {
        "tool.name": "get_temperature",
        "input.value": '{"city": "Tokyo"}',
        "output.value": '{"content": {"temperature": 25.0, "unit": "fahrenheit"}}',
    }


@pytest.mark.parametrize(
    ("action", "last"),
    [
        pytest.param(Action.GET_WEATHER, [], id="weather"),
        pytest.param(Action.GET_FORECAST, ["get_forecast"], id="forecast"),
        pytest.param(Action.GET_ALERTS, ["get_weather_alerts"], id="alerts"),
    ],
)
async def test_each_action_calls_the_three_common_tools_and_then_its_own(action: Action, last: list[str]) -> None:
    spans, _ = await spans_of("Miami", action)
    assert calls_of(spans) == [(name, "Miami") for name in ["get_temperature", "get_weather_condition", "get_humidity", *last]]


async def test_two_runs_differ_in_ids_and_times_only() -> None:
    (first, answer), (second, again) = [await spans_of("Miami", Action.GET_ALERTS) for _ in range(2)]
    assert [(span.name, span.attributes) for span in first] == [(span.name, span.attributes) for span in second]
    assert answer.content == again.content
    assert answer.trace_id != again.trace_id


@pytest.mark.parametrize(
    ("misbehaviour", "calls"),
    [
        pytest.param(
            Misbehaviour.DOUBLED_CALL,
            [
                ("get_temperature", "London"),
                ("get_temperature", "London"),
                ("get_weather_condition", "London"),
                ("get_humidity", "London"),
                ("get_forecast", "London"),
            ],
            id="doubled-call",
        ),
        pytest.param(
            Misbehaviour.SWAPPED_ORDER,
            [("get_weather_condition", "London"), ("get_temperature", "London"), ("get_forecast", "London"), ("get_humidity", "London")],
            id="swapped-order",
        ),
        pytest.param(
            Misbehaviour.WRONG_CITY,
            [("get_temperature", "London"), ("get_weather_condition", "London"), ("get_humidity", "Dublin"), ("get_forecast", "London")],
            id="wrong-city",
        ),
        pytest.param(
            ~Misbehaviour.NONE,
            [
                ("get_weather_condition", "London"),
                ("get_temperature", "London"),
                ("get_temperature", "London"),
                ("get_forecast", "London"),
                ("get_humidity", "Dublin"),
            ],
            id="all-at-once",
        ),
    ],
)
async def test_a_misbehaving_agent_calls_other_tools_than_it_should(misbehaviour: Misbehaviour, calls: list[tuple[str, str]]) -> None:
    spans, _ = await spans_of("London", Action.GET_FORECAST, misbehaviour)
    assert calls_of(spans) == calls


async def test_a_misbehaving_agent_reports_another_forecast_than_it_should() -> None:
    (good, answer), (bad, other) = [
        await spans_of("London", Action.GET_FORECAST, fault) for fault in (Misbehaviour.NONE, Misbehaviour.WRONG_OUTPUT)
    ]
    assert calls_of(good) == calls_of(bad)
    assert {**answer.content, "forecast": "Fog"} == other.content


async def test_an_unknown_city_fails_the_tool_and_the_run_and_both_spans_say_so() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with pytest.raises(KeyError, match="Atlantis"):
        await WeatherAgent(provider).run(city="Atlantis", action=Action.GET_WEATHER)
    assert [(span.name, span.status.is_ok) for span in exporter.get_finished_spans()] == [
        ("get_temperature", False),
        ("invoke_agent weather_agent", False),
    ]
