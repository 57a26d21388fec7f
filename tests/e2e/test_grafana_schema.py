"""The dashboards fit Grafana's own types: a dashboard's, and each panel's and query's by its kind."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft7Validator

from tests.e2e.toolchain import GRAFANA_SCHEMA, built
from tests.grafana.dashboards import FILES, load, panels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.grafana.dashboards import Json

pytestmark = pytest.mark.e2e

OF_PROMETHEUS = frozenset({"expr", "step", "tagKeys", "textFormat", "titleFormat"})
"""What Prometheus' plug-in keeps in an annotation; Grafana's own types leave that to plug-ins."""


@cache
def schema() -> Json:
    content: Json = json.loads((built(GRAFANA_SCHEMA) / "schema.json").read_text(encoding="utf-8"))
    return content


def faults(content: object, *path: str) -> list[str]:
    """Return what is wrong with a part of a dashboard, by its shape's place among the shapes."""
    shape: Any = schema()["definitions"]["Shapes"]
    for step in path:
        shape = shape["properties"][step]
    validator = Draft7Validator({**shape, "definitions": schema()["definitions"]})
    return [f"{'/'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in validator.iter_errors(content)]


def kinds(kind: str) -> Iterator[tuple[str, Json]]:
    for file in FILES:
        for panel in panels(load(file)):
            if panel["type"] == kind:
                yield f"{file.stem}: {panel['title']}", panel


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in FILES])
def test_dashboard_fits_grafanas_types(file: Path) -> None:
    board = dict(load(file))
    marks = [{key: value for key, value in mark.items() if key not in OF_PROMETHEUS} for mark in board["annotations"]["list"]]
    assert faults({**board, "annotations": {**board["annotations"], "list": marks}}, "dashboard") == []


@pytest.mark.parametrize("kind", ["bargauge", "heatmap", "stat", "table", "timeseries"])
def test_options_of_each_panel_fit_its_kind(kind: str) -> None:
    found = dict(kinds(kind))
    assert found
    assert {title: wrong for title, panel in found.items() if (wrong := faults(panel["options"], kind, "options"))} == {}
    if kind in {"heatmap", "table", "timeseries"}:
        custom = {title: panel["fieldConfig"]["defaults"].get("custom", {}) for title, panel in found.items()}
        assert {title: wrong for title, value in custom.items() if (wrong := faults(value, kind, "custom"))} == {}


def test_there_are_no_panels_of_another_kind() -> None:
    assert {panel["type"] for file in FILES for panel in panels(load(file))} == {"bargauge", "heatmap", "stat", "table", "timeseries"}


def test_queries_of_tempo_fit_its_type() -> None:
    targets = [target for _, panel in kinds("table") for target in panel["targets"] if target["datasource"]["type"] == "tempo"]
    assert targets
    assert [wrong for target in targets for wrong in faults(target, "tempo")] == []


def test_a_slip_is_found() -> None:
    panel = next(panel for _, panel in kinds("stat"))
    assert faults({**panel["options"], "graphMode": "pie"}, "stat", "options") != []
    assert faults({"title": "no panels", "panel": []}, "dashboard") != []
