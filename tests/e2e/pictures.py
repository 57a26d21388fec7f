"""Pictures of the dashboards for README, from what the real Prometheus answers about the invented hours: ``make pictures``."""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.score import Label
from tests.e2e.prometheus import promtool, serving
from tests.e2e.test_dashboards import EVERYTHING, filled_in
from tests.grafana.dashboards import FOLDER, load, rows
from tests.grafana.drawing import Drawn, picture, written
from tests.prometheus.seeding import write_samples
from tests.prometheus.world import END, HOUR, RUNS, trace_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.e2e.prometheus import Json, Serving

IMAGES = FOLDER.parent / "images"
STEP = 120
SHOWN = (float(END - HOUR), float(END))
COLOURS = {"purple": "#b877d9", "blue": "#5794f2"}


def named(target: Json, metric: Json) -> str:
    """Return the name of a series, by the legend that a query has."""
    legend = target.get("legendFormat") or "value"
    return re.sub(r"\{\{(\w+)\}\}", lambda found: metric.get(found[1]) or "(none)", legend)


def draw(prometheus: Serving, name: str) -> bytes:
    """Return a dashboard over the second hour, as PNG."""
    board = load(FOLDER / f"{name}.json")
    marks = [
        (float(at), COLOURS[mark["iconColor"]])
        for mark in board["annotations"]["list"]
        for series in _range(prometheus, mark["expr"], step=60)
        for at, _ in series["values"]
    ]
    shown = [panel for panel in board["panels"] if panel["type"] != "row"]
    return picture(board["title"], rows(board), [_drawn(prometheus, panel, marks) for panel in shown])


def _drawn(prometheus: Serving, panel: Json, marks: Sequence[tuple[float, str]]) -> Drawn:
    if panel["datasource"]["type"] == "datasource":
        return Drawn(panel=panel, shown=SHOWN, table=_traces(failing=panel["title"].startswith("Worst")))
    if panel["type"] == "table":
        return Drawn(panel=panel, shown=SHOWN, table=_table(prometheus, panel))
    if panel["type"] in {"stat", "bargauge"}:
        (target,) = panel["targets"]
        answer = prometheus.instant(filled_in(target["expr"], EVERYTHING), at=END)
        return Drawn(panel=panel, shown=SHOWN, numbers=[(named(target, one["metric"]), float(one["value"][1])) for one in answer])
    lines = {
        named(target, series["metric"]): [(float(at), float(value)) for at, value in series["values"]]
        for target in panel["targets"]
        for series in _range(prometheus, target["expr"], step=STEP)
    }
    exemplars = any(target.get("exemplar") for target in panel["targets"])
    return Drawn(
        panel=panel, shown=SHOWN, lines=lines, dots=_dots(failing=panel["title"].startswith("Failing")) if exemplars else (), marks=marks
    )


def _range(prometheus: Serving, expression: str, *, step: int) -> Sequence[Json]:
    given = filled_in(expression, EVERYTHING | {"__interval": f"{step}s"})
    return prometheus.range(given, start=END - HOUR, end=END, step=step)


def _scored(*, failing: bool) -> Iterator[tuple[int, str, str, str, float]]:
    """Yield every third scored verdict, since exemplars are a sample: blocks hold none, so they are taken from the inventions."""
    for number, run in enumerate(RUNS, 1):
        for judged in run.verdicts:
            if run.at > END - HOUR and number % 3 == 0 and judged.outcomes and (judged.label is Label.FAIL or not failing):
                yield run.at, trace_id(number).hex(), judged.evaluator, judged.criteria, judged.score


def _dots(*, failing: bool) -> list[tuple[float, float]]:
    return [(float(at), score) for at, *_, score in _scored(failing=failing)]


def _traces(*, failing: bool) -> list[list[str]]:
    found = sorted(_scored(failing=failing), key=lambda one: (one[-1], one[0]) if failing else -one[0])
    cells = [[f"{trace[:6]}\u2026{trace[-6:]}", f"{score:.2f}", evaluator, criteria] for _, trace, evaluator, criteria, score in found[:9]]
    return [["Trace", "Score", "Evaluator", "Criteria"], *cells]


def _table(prometheus: Serving, panel: Json) -> list[list[str]]:
    answers = [prometheus.instant(filled_in(target["expr"], EVERYTHING), at=END) for target in panel["targets"]]
    (last,) = [one for one in panel["transformations"] if one["id"] in {"organize", "groupingToMatrix"}]
    if last["id"] == "groupingToMatrix":
        down, across = last["options"]["rowField"], last["options"]["columnField"]
        values = {(one["metric"][down], one["metric"][across]): float(one["value"][1]) for one in answers[0]}
        columns = sorted({column for _, column in values})
        lines = [
            [row, *(written(values[row, column], "short", 0) if (row, column) in values else "" for column in columns)]
            for row in sorted({row for row, _ in values})
        ]
        return [["", *columns], *lines]
    label = min(last["options"]["indexByName"], key=last["options"]["indexByName"].__getitem__)
    titles = last["options"]["renameByName"]
    looks = {
        override["matcher"]["options"]: [prop["value"] for prop in override["properties"]] for override in panel["fieldConfig"]["overrides"]
    }
    heading = [titles[label], *(title for key, title in titles.items() if key != label)]
    found: dict[str, list[float]] = {}
    for answer in answers:
        for one in answer:
            found.setdefault(one["metric"].get(label, "(none)"), []).append(float(one["value"][1]))
    ordered = sorted(found.items(), key=lambda pair: pair[1][1])
    return [
        heading,
        *([name, *(written(value, *looks[title]) for value, title in zip(row, heading[1:], strict=True))] for name, row in ordered),
    ]


@contextmanager
def seeded() -> Iterator[Serving]:
    """Run a Prometheus that has the invented hours."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder / "samples.txt")
        promtool("tsdb", "create-blocks-from", "openmetrics", folder / "samples.txt", folder / "data")
        with serving(folder) as prometheus:
            yield prometheus


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with seeded() as prometheus:
        for name in ("verdicts", "failures", "pipeline-health"):
            content = draw(prometheus, name)
            (IMAGES / f"{name}.png").write_bytes(content)
            sys.stdout.write(f"wrote {name}.png, {len(content) // 1024} KiB\n")


if __name__ == "__main__":
    main()
