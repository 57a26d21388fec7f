"""The one shape of every figure: ours, the yardstick's in the same run, their ratio, and whether it is what we want."""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FOLDER: Final = Path(__file__).resolve().parent.parent.parent / ".build" / "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a figure should be.

    Attributes:
        limit: the bound, inclusive.
        of: ``ratio``, ``ours``, or one of the further figures.
        least: True if more is better, as with a rate.
    """

    limit: float
    of: str = "ratio"
    least: bool = False

    def __str__(self) -> str:
        """Return it as the table shows it."""
        return f"{self.of} {'>=' if self.least else '<='} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure.

    Attributes:
        name: of the part that was measured.
        load: under which it was.
        ours: our CPU time, in ``unit``; the median of the rounds. None if this part is measured by its further figures alone.
        yardstick: what it stands beside.
        theirs: the yardstick's, in the same unit; None if it could not be had, and ``yardstick`` says why.
        unit: of both.
        goals: all of them have to be reached.
        more: further figures, by name with unit.
    """

    name: str
    load: str
    ours: float | None = None
    yardstick: str = ""
    theirs: float | None = None
    unit: str = "us/span"
    goals: tuple[Goal, ...] = ()
    more: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Return how many times as much ours is."""
        return None if self.ours is None or not self.theirs else self.ours / self.theirs

    def reached(self, goal: Goal) -> bool | None:
        """Tell whether a goal is reached; None if the figure is not there."""
        found = {"ratio": self.ratio, "ours": self.ours}.get(goal.of) if goal.of in {"ratio", "ours"} else self.more.get(goal.of)
        if not isinstance(found, int | float):
            return None
        return found >= goal.limit if goal.least else found <= goal.limit

    @property
    def all_reached(self) -> bool | None:
        """Tell whether all goals are; None if there is none, or one can't be told."""
        told = [self.reached(goal) for goal in self.goals]
        return False if False in told else None if not told or None in told else True

    def as_json(self) -> dict[str, object]:
        goals = [{**asdict(goal), "reached": self.reached(goal)} for goal in self.goals]
        return {**asdict(self), "goals": goals, "more": dict(self.more), "ratio": self.ratio, "reached": self.all_reached}


def middle(values: Iterable[float]) -> float:
    """Return the median of the rounds, so that one disturbed by the machine's other work does not count."""
    return median(values)


def quantile(values: Sequence[float], part: float) -> float:
    """Return the least value that ``part`` of all are not above; 0.0 of none."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(part * len(ranked)))] if ranked else 0.0


def machine() -> dict[str, object]:
    """Say where this was measured, and how busy it was."""
    return {"python": platform.python_version(), "system": platform.platform(), "cpus": os.cpu_count(), "load average": os.getloadavg()}


def write(part: str, results: Sequence[Result]) -> Path:
    """Write a part's results as JSON and return where."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{part}.json"
    text = json.dumps({"machine": machine(), "results": [result.as_json() for result in results]}, indent=2)
    file.write_text(text + "\n", encoding="utf-8")
    return file


def show(results: Iterable[Result]) -> None:
    """Print the table, and the load average below it."""
    rows = [("what", "load", "ours", "theirs", "ratio", "goal", "reached", "yardstick")]
    notes = [""]
    for result in results:
        rows.append(
            (
                result.name,
                result.load,
                "" if result.ours is None else f"{_number(result.ours)} {result.unit}",
                "" if result.theirs is None else _number(result.theirs),
                "" if result.ratio is None else f"{result.ratio:.2f}",
                "; ".join(map(str, result.goals)),
                {True: "yes", False: "NO", None: "?" if result.goals else ""}[result.all_reached],
                result.yardstick,
            )
        )
        notes.append("; ".join(f"{name} {value if isinstance(value, str) else _number(value)}" for name, value in result.more.items()))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, note in zip(rows, notes, strict=True):
        sys.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")
        if note:
            sys.stdout.write(f"    {note}\n")
    legend = "ours, theirs: in the unit beside ours; ratio: ours to theirs; goals are those of a machine with nothing else to do"
    sys.stdout.write(f"{legend}\n")
    sys.stdout.write(f"load average {', '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} CPUs\n")
    sys.stdout.flush()


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
