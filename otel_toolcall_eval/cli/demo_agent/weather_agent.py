"""An agent with five tools and three actions, traced as its authors would trace it, and the runs that the demonstration shows.

The agent knows nothing of evaluation. Its root span names the agent and records input and output. Below it stands one span for each tool
call, in the guides' convention: ``tool.name``, ``input.value`` and ``output.value``, the last two as JSON, and each output wrapped as
``{"content": {...}}``. A model would choose the tools. Here a fixed plan does, on made-up weather, so that every run is the same and
criteria can name outputs. A ``Misbehaviour`` spoils the plan as models spoil theirs. Source: guide of the weather sample.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Flag, StrEnum, auto
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer, TracerProvider


AGENT_NAME = "weather_agent"
TRACER_NAME = "weather_tools"

Content: TypeAlias = Mapping[str, str | int | float | Sequence[str]]
Tool: TypeAlias = Callable[[str], Awaitable[Content]]


class Action(StrEnum):
    """What the agent can be asked for."""

    GET_WEATHER = "get_weather"
    GET_FORECAST = "get_forecast"
    GET_ALERTS = "get_alerts"


class Misbehaviour(Flag):
    """What goes wrong in a run; faults may be combined. In a forecast for London one evaluator alone sees each of them."""

    NONE = 0
    DOUBLED_CALL = auto()  # the temperature is asked for twice
    SWAPPED_ORDER = auto()  # each tool changes places with its neighbour
    WRONG_CITY = auto()  # the humidity is that of another city
    WRONG_OUTPUT = auto()  # the forecast is an old one


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What one run gives back.

    Attributes:
        content: the contents of all outputs, joined.
        trace_id: 32 hex digits, under which the run is found in a trace back end.
    """

    content: Content
    trace_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStep:
    """One tool call that the plan provides for; ``name`` is what the span calls it."""

    name: str
    tool: Tool
    city: str


async def get_temperature(city: str) -> Content:
    """Return the temperature of a city in degrees Fahrenheit."""
    return {"temperature": STATIONS[city].temperature, "unit": "fahrenheit"}


async def get_weather_condition(city: str) -> Content:
    """Return the sky over a city in a word or two."""
    return {"condition": STATIONS[city].condition}


async def get_humidity(city: str) -> Content:
    """Return the relative humidity of a city in percent."""
    return {"humidity": STATIONS[city].humidity}


async def get_forecast(city: str) -> Content:
    """Return a line on the coming days in a city."""
    return {"forecast": STATIONS[city].forecast}


async def get_weather_alerts(city: str) -> Content:
    """Return the warnings in force for a city, none on a calm day."""
    return {"alerts": list(STATIONS[city].alerts)}


async def _remembered_forecast(_city: str) -> Content:
    """Return the forecast of some other day, as a stale cache would."""
    return {"forecast": "Fog"}


PLANS: Mapping[Action, Sequence[Tool]] = {
    Action.GET_WEATHER: (get_temperature, get_weather_condition, get_humidity),
    Action.GET_FORECAST: (get_temperature, get_weather_condition, get_humidity, get_forecast),
    Action.GET_ALERTS: (get_temperature, get_weather_condition, get_humidity, get_weather_alerts),
}
# Asked for where the agent mixes up its cities.
WRONG_CITY = "Dublin"


class WeatherAgent:
    """Answers questions about the weather, and leaves one trace for each answer."""

    def __init__(self, tracer_provider: TracerProvider, *, misbehaviour: Misbehaviour = Misbehaviour.NONE) -> None:
        """Trace with the given provider; ``misbehaviour`` is what each run gets wrong."""
        self._tracer: Tracer = tracer_provider.get_tracer(TRACER_NAME)
        self._misbehaviour = misbehaviour

    async def run(self, *, city: str, action: Action) -> ModelAnswer:
        """Call the tools of an action one after the other, and join what they return.

        Args:
            city: one of ``STATIONS``; another raises KeyError, and the spans say so.
            action: what the agent is asked for.
        """
        with self._tracer.start_as_current_span("invoke_agent weather_agent") as span:
            span.set_attribute("gen_ai.operation.name", "invoke_agent")
            span.set_attribute("gen_ai.agent.name", AGENT_NAME)
            span.set_attribute("input.value", json.dumps({"city": city, "action": action}))
            content: dict[str, str | int | float | Sequence[str]] = {}
            for step in plan(city, action, self._misbehaviour):
                content.update(await self._call(step))
            span.set_attribute("output.value", json.dumps({"content": content}))
            return ModelAnswer(content=content, trace_id=f"{span.get_span_context().trace_id:032x}")

    async def _call(self, step: AgentStep) -> Content:
        """Call one tool inside a span that records its name, its arguments and its output."""
        with self._tracer.start_as_current_span(step.name) as span:
            span.set_attribute("tool.name", step.name)
            span.set_attribute("input.value", json.dumps({"city": step.city}))
            content = await step.tool(step.city)
            span.set_attribute("output.value", json.dumps({"content": content}))
            return content


def plan(city: str, action: Action, misbehaviour: Misbehaviour) -> list[AgentStep]:
    """Return the calls that an action takes, in order, spoiled by ``misbehaviour``."""
    steps = [AgentStep(name=tool.__name__, tool=tool, city=city) for tool in PLANS[action]]
    if Misbehaviour.SWAPPED_ORDER in misbehaviour:
        for first in range(0, len(steps) - 1, 2):
            steps[first : first + 2] = reversed(steps[first : first + 2])
    if Misbehaviour.WRONG_CITY in misbehaviour:
        steps = [replace(step, city=WRONG_CITY) if step.tool is get_humidity else step for step in steps]
    if Misbehaviour.WRONG_OUTPUT in misbehaviour:
        steps = [replace(step, tool=_remembered_forecast) if step.tool is get_forecast else step for step in steps]
    if Misbehaviour.DOUBLED_CALL in misbehaviour:
        steps = [step for step in steps for _ in range(2 if step.tool is get_temperature else 1)]
    return steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Station:
    """The weather of one city.

    Attributes:
        temperature: in the unit that the tool reports, degrees Fahrenheit.
        humidity: relative, in percent.
        alerts: warnings in force; empty on a calm day.
    """

    temperature: float
    condition: str
    humidity: int
    forecast: str
    alerts: tuple[str, ...] = ()


# Tokyo is the city of the sample's guide, number for number.
STATIONS = {
    "New York": Station(temperature=72.5, condition="partly cloudy", humidity=58, forecast="Clearing towards the evening"),
    "London": Station(temperature=59.0, condition="rainy", humidity=81, forecast="Showers, dry by Thursday"),
    "Dublin": Station(temperature=57.2, condition="windy", humidity=84, forecast="Gusty with sunny spells"),
    "Miami": Station(
        temperature=88.0,
        condition="stormy",
        humidity=90,
        forecast="Thunderstorms until Sunday",
        alerts=("Hurricane watch", "Rip current statement"),
    ),
    "Los Angeles": Station(temperature=84.2, condition="sunny", humidity=35, forecast="Sunny and dry"),
    "Tokyo": Station(temperature=25.0, condition="cloudy", humidity=65, forecast="Overcast with mild temperatures"),
}


SERVICE_NAME = "weather-agent"
"""What the agent's resource should say as ``service.name``."""

EVALUATIONS = Path(__file__).parent / "evaluations"
"""Folder of the sample's criteria: four evaluator files and one eval set, in the sample's own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run of the agent.

    Attributes:
        title: for people, in a few words.
        criteria: ID of the test case for it, found by the run's inputs.
    """

    title: str
    criteria: str
    city: str
    action: Action
    misbehaviour: Misbehaviour = Misbehaviour.NONE

    async def play(self, tracer_provider: TracerProvider) -> ModelAnswer:
        """Let the agent run once; its spans go where the provider sends them."""
        return await WeatherAgent(tracer_provider, misbehaviour=self.misbehaviour).run(city=self.city, action=self.action)


GOOD_RUNS = (
    Scenario(title="basic weather", criteria="basic_weather", city="New York", action=Action.GET_WEATHER),
    Scenario(title="weather with forecast", criteria="weather_with_forecast", city="London", action=Action.GET_FORECAST),
    Scenario(title="weather with alerts", criteria="weather_with_alerts", city="Miami", action=Action.GET_ALERTS),
    Scenario(title="sunny weather", criteria="sunny_weather", city="Los Angeles", action=Action.GET_WEATHER),
    Scenario(title="Tokyo forecast", criteria="tokyo_forecast", city="Tokyo", action=Action.GET_FORECAST),
)
MISBEHAVING_RUN = Scenario(
    title="misbehaving forecast",
    criteria="weather_with_forecast",
    city="London",
    action=Action.GET_FORECAST,
    misbehaviour=~Misbehaviour.NONE,
)
SCENARIOS = (*GOOD_RUNS, MISBEHAVING_RUN)
