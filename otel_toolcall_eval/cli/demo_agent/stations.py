"""What the sample's tools know of the weather: made up, and the same on every run, so that criteria can name outputs."""

from __future__ import annotations

from dataclasses import dataclass


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
