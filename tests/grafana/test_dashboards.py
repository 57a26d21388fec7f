"""The committed dashboards are what their code makes, and hold together without a Grafana to say so."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from boards.__main__ import BOARDS
from boards.metrics import metric
from boards.variables import CHOSEN
from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.prometheus_names import label_name
from otel_toolcall_eval.exporters.metrics.recording import OBSERVED, RECORDED
from otel_toolcall_eval.exporters.names import InstrumentKind
from tests.grafana.dashboards import FILES, FOLDER, load, panels, rows, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from boards.board import Board
    from otel_toolcall_eval.exporters.names import Instrument
    from tests.grafana.dashboards import Json

each_board = pytest.mark.parametrize("board", [pytest.param(load(file), id=file.stem) for file in FILES])
each_panel = pytest.mark.parametrize(
    "panel", [pytest.param(panel, id=f"{file.stem}: {panel['title']}") for file in FILES for panel in panels(load(file))]
)
SOURCES = {
    ("prometheus", "${datasource}"),
    ("tempo", "${tempo}"),
    ("jaeger", "${jaeger}"),
    ("datasource", "-- Dashboard --"),  # another panel's results, no data source of anybody's
}


@pytest.mark.parametrize("board", [pytest.param(board, id=board.name) for board in BOARDS])
def test_the_file_is_what_the_code_makes(board: Board) -> None:
    assert (FOLDER / f"{board.name}.json").read_text(encoding="utf-8") == board.to_json(), "run `make dashboards`"


def test_there_is_a_file_for_each_dashboard_and_no_other() -> None:
    assert [file.stem for file in FILES] == sorted(board.name for board in BOARDS) == ["failures", "pipeline-health", "verdicts"]
    assert len({board.uid for board in BOARDS}) == len(BOARDS)


@each_panel
def test_panel_says_what_it_shows_and_what_to_do_when_it_looks_bad(panel: Json) -> None:
    assert panel["title"]
    assert panel["fieldConfig"]["defaults"]["unit"]
    shown, _, cure = panel["description"].partition(" If ")
    assert len(shown) > 20
    assert re.search(r"[,:] .{15}", cure), "what to do"
    assert panel["description"].endswith(".") or panel["description"].endswith(").")


@each_board
def test_titles_and_numbers_are_unique(board: Json) -> None:
    everything = [*panels(board), *rows(board)]
    for key in ("id", "title"):
        assert [found for found, times in Counter(panel[key] for panel in everything).items() if times > 1] == []


@each_board
def test_panels_do_not_overlap_and_stay_on_the_grid(board: Json) -> None:
    def cells(panel: Json) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        x, y = at.get("x", 0), at.get("y", 0)
        return {(column, row) for column in range(x, x + at["w"]) for row in range(y, y + at["h"])}

    shown = board["panels"]
    assert all(column < 24 for panel in shown for column, _ in cells(panel))
    assert [(one["title"], other["title"]) for one, other in combinations(shown, 2) if cells(one) & cells(other)] == []


@each_board
def test_no_gap_is_left_between_panels(board: Json) -> None:
    widths: Counter[int] = Counter()
    for panel in board["panels"]:
        for row in range(panel["gridPos"].get("y", 0), panel["gridPos"].get("y", 0) + panel["gridPos"]["h"]):
            widths[row] += panel["gridPos"]["w"]
    assert {row: width for row, width in widths.items() if width != 24} == {}
    assert sorted(widths) == list(range(max(widths) + 1))


@each_board
def test_data_sources_are_chosen_by_the_reader(board: Json) -> None:
    used = {(value["type"], value["uid"]) for key, value in values(board) if key == "datasource" and isinstance(value, dict)}
    assert used <= SOURCES
    chosen = {variable["name"]: variable["query"] for variable in board["templating"]["list"] if variable["type"] == "datasource"}
    assert {(kind, f"${{{name}}}") for name, kind in chosen.items()} >= used - {("datasource", "-- Dashboard --")}
    assert [panel["title"] for panel in panels(board) if any("datasource" not in target for target in panel["targets"])] == []


@each_board
def test_every_variable_is_used_and_every_used_one_exists(board: Json) -> None:
    built_in = {"__range", "__interval", "__rate_interval", "__value.raw", "__from", "__to", "__all"}
    texts = [value for _, value in values(board) if isinstance(value, str)]
    used = {name for text in texts for name in re.findall(r"\$\{?([A-Za-z_][\w.]*)", text)} - built_in
    assert used == {variable["name"] for variable in board["templating"]["list"]}


def test_readers_of_scores_choose_service_agent_criteria_and_evaluator() -> None:
    for name in ("verdicts", "failures"):
        variables = {variable["name"]: variable for variable in load(FOLDER / f"{name}.json")["templating"]["list"]}
        assert {"service", "agent", "criteria", "evaluator"} <= set(variables)
        # All is everything, also what has no such label: an agent that nobody names.
        assert {variables[each]["allValue"] for each in ("service", "agent", "criteria", "evaluator")} == {".*"}


@each_board
def test_versions_that_change_are_marked(board: Json) -> None:
    marks = {mark["name"]: mark for mark in board["annotations"]["list"]}
    assert set(marks) == {"Criteria changed", "Service changed"}
    assert "toolcall_eval_criteria_info" in marks["Criteria changed"]["expr"]
    assert "toolcall_eval_service_info" in marks["Service changed"]["expr"]
    for mark in marks.values():
        assert mark["enable"]
        assert mark["textFormat"].startswith("now at version {{toolcall_eval_")


def test_scores_over_time_come_with_their_traces() -> None:
    for name in ("verdicts", "failures"):
        over_time = [panel for panel in panels(load(FOLDER / f"{name}.json")) if panel["type"] in {"timeseries", "heatmap"}]
        scores = [panel for panel in over_time if "core" in panel["title"] and "Perfect" not in panel["title"]]
        assert scores
        assert [panel["title"] for panel in scores if not any(target.get("exemplar") for target in panel["targets"])] == []


@each_board
def test_a_panel_that_lists_exemplars_takes_them_from_one_that_asks_for_them(board: Json) -> None:
    numbered = {panel["id"]: panel for panel in panels(board)}
    for panel in numbered.values():
        for target in panel["targets"]:
            if "panelId" in target:
                assert any(asked.get("exemplar") for asked in numbered[target["panelId"]]["targets"])
                ((links,),) = [
                    [prop["value"] for prop in override["properties"] if prop["id"] == "links"]
                    for override in panel["fieldConfig"]["overrides"]
                    if override["matcher"]["options"] == "Trace"
                ]
                assert [link["title"] for link in links] == ["Open in Tempo", "Open in Jaeger"]


@each_board
def test_every_metric_and_label_is_one_that_is_emitted(board: Json) -> None:
    expressions = " ".join(_expressions(board))
    told = set(re.findall(r"\b(?:gen_ai|toolcall_eval|process)_\w+", re.sub(r'"[^"]*"', "", expressions)))
    metrics = {_sample(instrument, name) for instrument in _INSTRUMENTS for name in _suffixes(instrument.kind)}
    labels = {label_name(attribute.name) for instrument in _INSTRUMENTS for attribute in instrument.attributes}
    assert told - metrics - labels == set()


def test_chosen_filters_name_attributes_of_the_score() -> None:
    labels = {label_name(attribute.name) for attribute in names.SCORE.attributes}
    assert set(re.findall(r"(\w+)=~", CHOSEN)) <= labels


_INSTRUMENTS = (*RECORDED, *OBSERVED)


def _suffixes(kind: InstrumentKind) -> tuple[str, ...]:
    return ("_bucket", "_count", "_sum") if kind is InstrumentKind.HISTOGRAM else ("",)


def _sample(instrument: Instrument, suffix: str) -> str:
    return metric(instrument) + suffix


def _expressions(board: Json) -> Iterator[str]:
    for key, value in values(board):
        if key == "expr":
            assert isinstance(value, str)
            yield value
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]
