"""Lays out the spans of a trace: the tree, and the position of each bar."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 1000.0
"""Of the time line, in units of the drawing."""

LEAST_BAR: Final = 4.0
MAX_DEPTH: Final = 8
"""Of indentation; deeper spans stand as deep as this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """One span.

    Attributes:
        depth: 0 for a span whose parent is not shown.
        left: of its bar, 0 to WIDTH.
        width: at least LEAST_BAR, and never beyond WIDTH.
        seconds: that it took; None if it ended before it began, by its producer's clock.
        calls: numbers of the tool calls that were found in it, from 1.
        merged: numbers of the calls that it says something of, and another span shows.
        reason: why it is no call; empty if it is one.
        dialects: those that read it.
    """

    span_id: str
    name: str
    depth: int
    left: float
    width: float
    seconds: float | None
    error: bool
    evaluated: bool
    calls: tuple[int, ...] = ()
    merged: tuple[int, ...] = ()
    reason: str = ""
    dialects: tuple[str, ...] = ()


def lay_out(document: Mapping[str, Any], *, evaluated: str) -> Sequence[TimelineBar]:
    """Return the bars of a stored trace, each below its parent, siblings by their start."""
    spans = document["spans"]
    if not spans:
        return []
    shown: defaultdict[str, list[int]] = defaultdict(list)
    merged: defaultdict[str, list[int]] = defaultdict(list)
    dialects: dict[str, list[str]] = {}
    for number, call in enumerate(document["calls"], start=1):
        if call["span"] is not None:
            shown[call["span"]].append(number)
            dialects[call["span"]] = call["dialects"]
        for span_id in call["merged"]:
            merged[span_id].append(number)
            dialects.setdefault(span_id, call["dialects"])
    ignored = {span["span"]: span for span in document["ignored"]}
    began = min(span["start"] for span in spans)
    whole = max(1, max(span["end"] for span in spans) - began)
    bars = []
    for span, depth in _in_order(spans):
        span_id, length = span["id"], span["end"] - span["start"]
        width = min(WIDTH, max(LEAST_BAR, WIDTH * length / whole))
        left_out = ignored.get(span_id)
        family = [] if left_out is None or left_out["dialect"] is None else [left_out["dialect"]]
        bars.append(
            TimelineBar(
                span_id=span_id,
                name=span["name"],
                depth=min(depth, MAX_DEPTH),
                left=min(WIDTH - width, WIDTH * (span["start"] - began) / whole),
                width=width,
                seconds=length / 1e9 if length >= 0 else None,
                error=span["error"],
                evaluated=span_id == evaluated,
                calls=tuple(shown.get(span_id, ())),
                merged=tuple(merged.get(span_id, ())),
                reason="" if left_out is None else left_out["reason"],
                dialects=tuple(dialects.get(span_id, family)),
            )
        )
    return bars


def whole_seconds(document: Mapping[str, Any]) -> float:
    """Return how long the time line is."""
    spans = document["spans"]
    return (max(span["end"] for span in spans) - min(span["start"] for span in spans)) / 1e9 if spans else 0.0


def _in_order(spans: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], int]]:
    """Return the spans with their depths, parents first. Spans that are each other's ancestors stand at the end, flat."""
    known = {span["id"] for span in spans}
    below: defaultdict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    for span in spans:
        below[span["parent"] if span["parent"] in known and span["parent"] != span["id"] else None].append(span)
    ordered: list[tuple[Mapping[str, Any], int]] = []
    waiting = [(span, 0) for span in reversed(below[None])]
    while waiting:
        span, depth = waiting.pop()
        ordered.append((span, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(span["id"], ()))]
    placed = {span["id"] for span, _ in ordered}
    return ordered + [(span, 0) for span in spans if span["id"] not in placed]
