"""The runs that the demonstration shows: one for each test case of the eval set, and one in which everything goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.demo_agent.weather_agent import Action, Misbehaviour, WeatherAgent

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from otel_toolcall_eval.cli.demo_agent.weather_agent import ModelAnswer

SERVICE_NAME = "weather-agent"
"""What the agent's resource should say as ``service.name``."""

EVALUATIONS = Path(__file__).parent / "evaluations"
"""Folder of the sample's criteria: four evaluator files and one eval set, in the sample's own format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run of the agent.

    Attributes:
        title: for people, in a few words.
        criteria: ID of the test case that judges it, found by the run's inputs.
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
