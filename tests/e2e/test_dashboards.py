"""Every query of every panel, asked of the real Prometheus: two invented hours are in it, and what it answers is what was invented."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import pytest

from tests.grafana.dashboards import FILES, FOLDER, load, panels
from tests.prometheus.expected_health import pipeline_health
from tests.prometheus.expected_scores import failures, verdicts
from tests.prometheus.truth import Quantile, Truth
from tests.prometheus.world import BEGIN, CRITERIA_CHANGED, END, HOUR, RUNS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.e2e.prometheus import Serving
    from tests.grafana.dashboards import Json
    from tests.prometheus.expected_scores import Panels
    from tests.prometheus.truth import Labels, Vector

pytestmark = pytest.mark.e2e

STEP = 300
"""Seconds from one point of a graph to the next, and of the window behind each."""

EVERYTHING = dict.fromkeys(("service", "agent", "criteria", "evaluator", "instance"), ".*")
EXPECTED = {"verdicts": verdicts, "failures": failures, "pipeline-health": pipeline_health}
PANELS = [(file.stem, panel) for file in FILES for panel in panels(load(file)) if panel["datasource"]["type"] == "prometheus"]
each_panel = pytest.mark.parametrize(("board", "panel"), [pytest.param(*one, id=f"{one[0]}: {one[1]['title']}") for one in PANELS])


@pytest.fixture(scope="module")
def everything() -> Truth:
    return Truth()


def filled_in(expression: str, chosen: Mapping[str, str]) -> str:
    """Return an expression as Grafana sends it, over the second hour."""
    given = {"__range": f"{HOUR}s", "__rate_interval": f"{STEP}s", **chosen}
    text = re.sub(r"\$(\w+)", lambda found: given[found[1]], expression)
    assert "$" not in text
    return text


def labels(series: Json) -> Labels:
    return frozenset((key, value) for key, value in series["metric"].items() if value)


def shown(prometheus: Serving, target: Json, chosen: Mapping[str, str]) -> Mapping[int, Vector]:
    """Return what a query shows at each time that it is asked for."""
    expression = filled_in(target["expr"], chosen)
    if target.get("instant"):
        answer = prometheus.instant(expression, at=END)
        return {END: {labels(each): float(each["value"][1]) for each in answer}}
    found: dict[int, dict[Labels, float]] = {at: {} for at in range(END - HOUR + STEP, END + 1, STEP)}
    for each in prometheus.range(expression, start=min(found), end=END, step=STEP):
        for at, value in each["values"]:
            if not math.isnan(float(value)):
                found[int(at)][labels(each)] = float(value)
    return found


def compare(prometheus: Serving, panel: Json, wanted: Panels, chosen: Mapping[str, str]) -> None:
    expected = wanted[panel["title"]]
    assert len(expected) == len(panel["targets"])
    for target, want in zip(panel["targets"], expected, strict=True):
        for at, answer in shown(prometheus, target, chosen).items():
            window = HOUR if target.get("instant") else STEP
            rights = want.ends(at, window) if isinstance(want, Quantile) else (want(at, window),)
            assert any(answer == {key: pytest.approx(value, rel=1e-6, abs=1e-9) for key, value in right.items()} for right in rights), (
                f"query {target['refId']} at {at}: {answer} instead of {' or '.join(map(str, rights))}"
            )


@each_panel
def test_panel_shows_what_was_invented(seeded: Serving, everything: Truth, board: str, panel: Json) -> None:
    compare(seeded, panel, EXPECTED[board](everything), EVERYTHING)


@pytest.mark.parametrize(
    "choice",
    [
        pytest.param({"criteria": "refund_policy", "evaluator": "ToolCallOrderEvaluator"}, id="criteria-and-evaluator"),
        pytest.param({"agent": "forecast"}, id="agent"),
        pytest.param({"service": "travel"}, id="service"),
    ],
)
@pytest.mark.parametrize("board", ["verdicts", "failures"])
def test_only_what_the_reader_chose_is_shown(seeded: Serving, everything: Truth, board: str, choice: Mapping[str, str]) -> None:
    wanted, all_ = EXPECTED[board](Truth(**choice)), EXPECTED[board](everything)
    changed = []
    for of, panel in PANELS:
        if of == board:
            compare(seeded, panel, wanted, {**EVERYTHING, **choice})
            changed += [
                panel["title"]
                for some, other in zip(wanted[panel["title"]], all_[panel["title"]], strict=True)
                if some(END, HOUR) != other(END, HOUR)
            ]
    assert len(changed) > 5


@pytest.mark.parametrize("board", EXPECTED)
def test_every_panel_has_an_expectation(everything: Truth, board: str) -> None:
    asked = [panel["title"] for of, panel in PANELS if of == board]
    assert sorted(EXPECTED[board](everything)) == sorted(asked)


@pytest.mark.parametrize("board", EXPECTED)
def test_marks_stand_where_versions_changed_and_nowhere_else(seeded: Serving, board: str) -> None:
    marks = {}
    for mark in load(FOLDER / f"{board}.json")["annotations"]["list"]:
        expression = filled_in(mark["expr"], EVERYTHING | {"__interval": "60s"})
        for series in seeded.range(expression, start=BEGIN, end=END, step=60):
            marks[frozenset(series["metric"].values())] = [int(at) for at, _ in series["values"]]
    (travelled,) = [min(run.at for run in RUNS if run.service == "travel" and run.version == "1.5")]
    assert marks == {frozenset({"refund_policy", "2"}): [CRITERIA_CHANGED], frozenset({"travel", "1.5"}): [-(-travelled // 60) * 60]}


@pytest.mark.parametrize("board", EXPECTED)
def test_readers_can_choose_what_there_is(seeded: Serving, board: str) -> None:
    there = {
        "service": {run.service for run in RUNS if run.verdicts},
        "agent": {run.agent for run in RUNS if run.agent},
        "criteria": {judged.criteria for run in RUNS for judged in run.verdicts},
        "evaluator": {judged.evaluator for run in RUNS for judged in run.verdicts},
        "instance": {"sidecar-a", "sidecar-b", "sidecar-c"},
    }
    for variable in load(FOLDER / f"{board}.json")["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]).groups()  # type: ignore[union-attr]
            found = seeded.instant(f"group by ({label}) (last_over_time({filled_in(series, EVERYTHING)}[1h]))", at=END)
            assert {one["metric"][label] for one in found if one["metric"]} == there[variable["name"]]
