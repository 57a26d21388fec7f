"""What a name that leaves us is made of; the names themselves are in ``names``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise


class NameOrigin(StrEnum):
    """Who gave a name."""

    CONVENTIONS = "semantic conventions"  # open-telemetry/semantic-conventions-genai, event gen_ai.evaluation.result
    OURS = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attribute:
    """An attribute of metrics, events or spans.

    Attributes:
        limit: how many values it may take in metrics before ``_OTHER`` stands for the rest; None if the values are ours.
    """

    name: str
    origin: NameOrigin = NameOrigin.OURS
    limit: int | None = None


class InstrumentKind(StrEnum):
    """Kind of an instrument. The observable ones are read at export time and cost nothing before."""

    COUNTER = "counter"
    HISTOGRAM = "histogram"
    OBSERVABLE_COUNTER = "observable counter"
    OBSERVABLE_UP_DOWN_COUNTER = "observable up-down counter"
    OBSERVABLE_GAUGE = "observable gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instrument:
    """A metric.

    Attributes:
        unit: UCUM code; ``{...}`` counts things.
        bounds: upper bounds of a histogram's buckets, ascending, in ``unit``; empty for all other kinds.
    """

    name: str
    kind: InstrumentKind
    unit: str
    description: str
    attributes: tuple[Attribute, ...] = ()
    bounds: tuple[float, ...] = ()
    origin: NameOrigin = NameOrigin.OURS

    def __post_init__(self) -> None:
        """Refuse bounds that are not ascending, and a histogram without any."""
        if any(low >= high for low, high in pairwise(self.bounds)) or (self.kind is InstrumentKind.HISTOGRAM) is not bool(self.bounds):
            raise ValueError(self.name)
