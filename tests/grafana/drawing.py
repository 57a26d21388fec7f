"""Draws a dashboard's panels from what Prometheus answered, laid out on Grafana's grid. It is no picture of Grafana's own."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.dates as mdates
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    Json = Mapping[str, Any]
    Point = tuple[float, float]

COLUMNS: Final = 24
COLUMN_INCHES: Final = 0.6
ROW_INCHES: Final = 0.3
INK, DIM, BACK, PANEL = "#d8d9da", "#8e9299", "#111217", "#181b1f"
LINES: Final = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#b877d9", "#56a64b", "#fade2a", "#3274d9")
NAMED: Final = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c", "blue": "#5794f2", "text": INK}
DOT: Final = "#ff00ff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """What a panel shows.

    Attributes:
        shown: the time that the dashboard is looked at for.
        lines: by name, points of time (Unix seconds) and value.
        dots: exemplars.
        marks: times at which a version changed.
        table: a heading and rows, of a table.
        numbers: by name, of a number or of bars.
    """

    panel: Json
    shown: tuple[float, float]
    lines: Mapping[str, Sequence[Point]] = field(default_factory=dict)
    dots: Sequence[Point] = ()
    marks: Sequence[tuple[float, str]] = ()
    table: Sequence[Sequence[str]] = ()
    numbers: Sequence[tuple[str, float]] = ()


def written(value: float, unit: str, decimals: int | None = None) -> str:
    """Return a value as Grafana writes it in a unit."""
    if unit == "percentunit":
        return f"{value * 100:.{1 if decimals is None else decimals}f} %"
    if unit == "bytes":
        for word in ("B", "KiB", "MiB", "GiB"):
            if abs(value) < 1024 or word == "GiB":
                return f"{value:.4g} {word}"
            value /= 1024
    if unit == "s":
        return f"{value:.3g} s" if value >= 1 or value == 0 else f"{value * 1000:.3g} ms"
    if unit == "cps":
        return f"{value:.3g}/s"
    return f"{value:,.{decimals}f}" if decimals is not None else f"{value:,.4g}"


def picture(title: str, rows: Sequence[Json], panels: Sequence[Drawn]) -> bytes:
    """Return a dashboard as PNG."""
    height = max(one["gridPos"].get("y", 0) + one["gridPos"]["h"] for one in [*rows, *(drawn.panel for drawn in panels)]) + 2
    figure = Figure(figsize=(COLUMNS * COLUMN_INCHES, height * ROW_INCHES), facecolor=BACK, dpi=100)
    figure.text(0.008, 1 - 1.2 / height, title, color=INK, fontsize=15, va="center", weight="bold")

    def place(at: Json) -> tuple[float, float, float, float]:
        x, y, w, h = at.get("x", 0) / COLUMNS, at.get("y", 0) + 2, at["w"] / COLUMNS, at["h"]
        return x + 0.003, 1 - (y + h) / height + 0.1 / height, w - 0.006, (h - 0.25) / height

    for row in rows:
        left, bottom, _, tall = place(row["gridPos"])
        sign = "\u25b8" if row.get("collapsed") else "\u25be"
        figure.text(left + 0.004, bottom + tall / 2, f"{sign} {row['title']}", color=INK, fontsize=10, va="center")
    for drawn in panels:
        frame = figure.add_axes(place(drawn.panel["gridPos"]), facecolor=PANEL)
        frame.set(xticks=[], yticks=[], xlim=(0, 1), ylim=(0, 1))
        for spine in frame.spines.values():
            spine.set_color("#2c3235")
        tall = drawn.panel["gridPos"]["h"]
        frame.text(0.012 if tall > 4 else 0.03, 1 - 0.55 / tall, drawn.panel["title"], color=INK, fontsize=8.5, va="center", weight="bold")
        _KINDS[drawn.panel["type"]](frame, drawn)
    out = io.BytesIO()
    figure.savefig(out, format="png")
    small = io.BytesIO()
    Image.open(out).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def _colour(panel: Json, value: float) -> str:
    steps = panel["fieldConfig"]["defaults"].get("thresholds", {}).get("steps", [])
    names = [step["color"] for step in steps if step.get("value") is None or value >= step["value"]]
    return NAMED.get(names[-1], INK) if names else INK


def _unit(panel: Json) -> tuple[str, int | None]:
    defaults = panel["fieldConfig"]["defaults"]
    return defaults["unit"], defaults.get("decimals")


def _number(frame: Axes, drawn: Drawn) -> None:
    unit, decimals = _unit(drawn.panel)
    if not drawn.numbers:
        frame.text(
            0.5, 0.42, drawn.panel["fieldConfig"]["defaults"].get("noValue", "No data"), color=DIM, fontsize=14, ha="center", va="center"
        )
        return
    value = drawn.numbers[0][1]
    sign = "+" if unit == "percentunit" and drawn.panel["title"].startswith("Change") and value > 0 else ""
    colour = _colour(drawn.panel, value)
    frame.text(0.5, 0.42, sign + written(value, unit, decimals), color=colour, fontsize=20, ha="center", va="center", weight="bold")


def _inner(frame: Axes, *, legend: bool) -> Axes:
    inner = frame.inset_axes((0.085, 0.25 if legend else 0.13, 0.89, 0.6 if legend else 0.72))
    inner.set_facecolor(PANEL)
    inner.tick_params(colors=DIM, labelsize=7, length=2)
    for spine in inner.spines.values():
        spine.set_visible(False)
    return inner


def _moment(at: float) -> float:
    return float(mdates.date2num(datetime.fromtimestamp(at, UTC)))  # type: ignore[no-untyped-call]


def _clock(inner: Axes) -> None:
    inner.xaxis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=UTC))  # type: ignore[no-untyped-call]
    inner.xaxis.set_major_locator(mdates.MinuteLocator(byminute=range(0, 60, 10)))  # type: ignore[no-untyped-call]


def _graph(frame: Axes, drawn: Drawn) -> None:
    inner = _inner(frame, legend=True)
    unit, _ = _unit(drawn.panel)
    custom = drawn.panel["fieldConfig"]["defaults"].get("custom", {})
    stacked = custom.get("stacking", {}).get("mode") == "normal"
    names = list(drawn.lines)
    if stacked and names:
        times = sorted({at for line in drawn.lines.values() for at, _ in line})
        values = [[dict(line).get(at, 0.0) for at in times] for line in drawn.lines.values()]
        inner.stackplot([_moment(at) for at in times], values, colors=[f"{colour}99" for colour in LINES], labels=names)
    else:
        for place, (name, line) in enumerate(drawn.lines.items()):
            dashed = "before" in name
            (curve,) = inner.plot([_moment(at) for at, _ in line], [value for _, value in line], linewidth=1.2, label=name)
            curve.set(
                color=DIM if dashed else LINES[place % len(LINES)], linestyle="--" if dashed else "-", marker="." if len(line) < 3 else ""
            )
    if drawn.dots:
        inner.scatter(
            [_moment(at) for at, _ in drawn.dots],
            [value for _, value in drawn.dots],
            s=9,
            color=DOT,
            marker="D",
            linewidths=0,
            alpha=0.7,
            zorder=3,
        )
    for at, colour in drawn.marks:
        inner.axvline(_moment(at), color=colour, linewidth=1, linestyle=":")
    inner.grid(color="#2c3235", linewidth=0.5)
    most = drawn.panel["fieldConfig"]["defaults"].get("max")
    inner.set_ylim(0, most * 1.04 if most else None)
    inner.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit, 0 if unit == "percentunit" else None)))
    _clock(inner)
    inner.set_xlim(*map(_moment, drawn.shown))
    if not drawn.lines:
        inner.text(0.5, 0.5, "No data", color=DIM, ha="center", transform=inner.transAxes, fontsize=9)
        inner.set_xticks([])
        inner.set_yticks([])
        return
    inner.legend(
        loc="upper left",
        bbox_to_anchor=(-0.08, -0.13),
        ncol=3 * drawn.panel["gridPos"]["w"] // 8,
        fontsize=6.5,
        frameon=False,
        labelcolor=INK,
        handlelength=1.2,
        columnspacing=1.2,
    )


def _heat(frame: Axes, drawn: Drawn) -> None:
    inner = _inner(frame, legend=False)
    bounds = sorted(drawn.lines, key=float)
    times = sorted({at for line in drawn.lines.values() for at, _ in line})
    upto = np.array([[dict(drawn.lines[bound]).get(at, 0.0) for at in times] for bound in bounds])
    cells = np.diff(upto, axis=0, prepend=0)
    shown = np.ma.masked_less_equal(cells, 1e-9)
    step = times[1] - times[0]
    edges = [_moment(at - step) for at in times[:1]] + [_moment(at) for at in times]
    inner.pcolormesh(edges, range(len(bounds) + 1), shown, cmap="YlOrRd", edgecolors=PANEL, linewidth=1)
    inner.set_yticks(
        [place + 0.5 for place in range(len(bounds))], [f"\u2264 {float(bound):g}" if bound != "+Inf" else "more" for bound in bounds]
    )
    numbers = [float(bound) for bound in bounds]
    heights = [next(place for place, bound in enumerate(numbers) if value <= bound) + 0.5 for _, value in drawn.dots]
    inner.scatter([_moment(at) for at, _ in drawn.dots], heights, s=10, color=DOT, marker="D", linewidths=0, alpha=0.7)
    for at, colour in drawn.marks:
        inner.axvline(_moment(at), color=colour, linewidth=1, linestyle=":")
    _clock(inner)


def _table(frame: Axes, drawn: Drawn) -> None:
    if len(drawn.table) < 2:
        frame.text(0.5, 0.45, "No data", color=DIM, ha="center", fontsize=9)
        return
    heading, *rows = drawn.table
    fit = 9
    widths = [max(len(row[column]) for row in (heading, *rows[:fit])) + 2 for column in range(len(heading))]
    lefts = [sum(widths[:column]) / sum(widths) for column in range(len(heading))]
    for line, row in enumerate((heading, *rows[:fit])):
        for left, cell in zip(lefts, row, strict=True):
            colour = "#6e9fff" if line == 0 else INK
            frame.text(0.015 + left * 0.97, 0.83 - line * 0.085, cell, color=colour, fontsize=7, va="center")
        if line:
            frame.plot([0.01, 0.99], [0.83 - line * 0.085 + 0.043] * 2, color="#2c3235", linewidth=0.5)


def _bars(frame: Axes, drawn: Drawn) -> None:
    unit, decimals = _unit(drawn.panel)
    if not drawn.numbers:
        frame.text(0.5, 0.45, "none", color=DIM, ha="center", fontsize=9)
        return
    most = drawn.panel["fieldConfig"]["defaults"].get("max") or max(value for _, value in drawn.numbers)
    tall = min(0.2, 0.8 / len(drawn.numbers))
    for place, (name, value) in enumerate(drawn.numbers):
        bottom = 0.84 - (place + 1) * tall
        frame.barh(bottom + tall / 2, 0.58, height=tall * 0.6, left=0.28, color="#22252b")
        frame.barh(bottom + tall / 2, 0.58 * value / most, height=tall * 0.6, left=0.28, color=_colour(drawn.panel, value) if most else INK)
        frame.text(0.27, bottom + tall / 2, name, color=INK, fontsize=8, ha="right", va="center")
        frame.text(0.87, bottom + tall / 2, written(value, unit, decimals), color=INK, fontsize=8, va="center")


_KINDS: Final = {"stat": _number, "timeseries": _graph, "heatmap": _heat, "table": _table, "bargauge": _bars}
