"""Translates OpenTelemetry names, units and values into Prometheus' own, as the Collector's prometheus exporter does by default.

So a dashboard works the same on ``/metrics`` and behind a Collector. Left out are rates (``By/s``) and units that nobody here uses.
Source: OpenTelemetry specification, "Prometheus and OpenMetrics Compatibility"; the Collector's name translation.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NOT_IN_METRICS: Final = re.compile(r"[^a-zA-Z0-9:]+")
_NOT_IN_LABELS: Final = re.compile(r"[^a-zA-Z0-9]+")

_UNITS: Final = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "%": "percent",
}


def unit_name(unit: str) -> str:
    """Return the word that a unit adds to a metric's name; empty for counts (``{trace}``), for ``1``, and for unknown units."""
    return _UNITS.get(unit, "")


def family_name(name: str, *, unit: str, is_gauge: bool = False, is_counter: bool = False) -> str:
    """Return the name of a metric family, without the ``_total`` of a counter, which belongs to its samples.

    Args:
        name: in OpenTelemetry's spelling.
        unit: UCUM code.
        is_gauge: a gauge of unit ``1`` is a ratio. A sum that can fall is shown as a gauge too, but is none here.
        is_counter: a ``total`` in the name is moved to its end, hence left out.
    """
    words = [word for word in _NOT_IN_METRICS.split(name) if word]
    word = unit_name(unit)
    if word and word not in words:
        words.append(word)
    suffix = "total" if is_counter else "ratio" if is_gauge and unit == "1" else ""
    if suffix:
        words = [word for word in words if word != suffix]
    if suffix == "ratio":
        words.append(suffix)
    joined = "_".join(words)
    return f"_{joined}" if joined[:1].isdigit() else joined


def label_name(attribute: str) -> str:
    """Return the label of an attribute: what labels can't hold becomes an underscore."""
    name = _NOT_IN_LABELS.sub("_", attribute)
    return f"key_{name}" if name[:1].isdigit() else name


def label_value(value: object) -> str:
    """Return a value as text that a scrape can carry: booleans and lists as JSON, without NUL (it ends a scrape) and lone surrogates."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, bool | list | tuple):
        text = json.dumps(value, ensure_ascii=False)
    else:
        text = str(value)
    return text.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def labels(*sources: Iterable[tuple[str, object]]) -> Mapping[str, str]:
    """Return the labels of attributes, sorted by name; the values of attributes whose labels coincide are joined by ``;``."""
    collected: dict[str, list[str]] = {}
    for attribute, value in sorted((pair for source in sources for pair in source), key=lambda pair: pair[0]):
        collected.setdefault(label_name(attribute), []).append(label_value(value))
    return {name: ";".join(values) for name, values in sorted(collected.items())}
