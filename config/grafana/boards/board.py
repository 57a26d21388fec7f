"""What all dashboards have in common: names, links to each other, variables, marks of changes, numbered panels in rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from boards.annotations import version_changes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.builders import bargauge, heatmap, stat, table, timeseries

    from boards.variables import Variables

    Panel = stat.Panel | timeseries.Panel | table.Panel | bargauge.Panel | heatmap.Panel

TAG: Final = "otel-toolcall-eval"
_ROW_NUMBERS: Final = 1000
"""Rows are numbered from here on; panels from 1, in the order in which they are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under a heading; a folded one asks nothing until it is opened."""

    title: str
    panels: Sequence[Panel]
    folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard.

    Attributes:
        name: of its file, and the end of its uid.
        chosen: whether its readers choose whose scores they see.
    """

    name: str
    title: str
    description: str
    variables: Variables
    rows: Sequence[Row]
    chosen: bool
    since: str = field(default="now-6h")

    @property
    def uid(self) -> str:
        """Return what links to it name."""
        return f"toolcall-eval-{self.name}"

    def to_json(self) -> str:
        """Return the text of its file."""
        content = json.loads(json.dumps(self._built(), cls=JSONEncoder))
        for variable in content["templating"]["list"]:  # the SDK gives every variable the settings of those that are intervals
            for setting in ("auto", "auto_count", "auto_min"):
                variable.pop(setting, None)
        _close_up(content["panels"])
        return json.dumps(content, indent=2, sort_keys=True) + "\n"

    def _built(self) -> model.Dashboard:
        board = (
            build.Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags([TAG])
            .timezone("browser")
            .editable()
            .tooltip(model.DashboardCursorSync.CROSSHAIR)
            .time(self.since, "now")
            .refresh("1m")
            .link(_others())
        )
        for variable in self.variables:
            board.with_variable(variable)
        for annotation in version_changes(chosen=self.chosen):
            board.annotation(annotation)
        numbers = iter(range(1, _ROW_NUMBERS))
        for number, row in enumerate(self.rows, _ROW_NUMBERS):
            panels = [panel.id(next(numbers)) for panel in row.panels]
            heading = build.Row(row.title).id(number)
            if row.folded:
                for panel in panels:
                    heading.with_panel(panel)
            board.with_row(heading)
            if not row.folded:
                for panel in panels:
                    board.with_panel(panel)
        return board.build()


def _close_up(panels: Sequence[dict[str, Any]]) -> None:
    """Move up what stands below folded rows, for whose panels the SDK leaves room."""
    folded = 0
    for panel in panels:
        hidden = panel.get("panels") or ()
        for each in (panel, *hidden):
            each["gridPos"]["y"] = each["gridPos"].get("y", 0) - folded
        folded += max((each["gridPos"]["h"] for each in hidden), default=0)


def _others() -> build.DashboardLink:
    links = build.DashboardLink("Tool calls").type(model.DashboardLinkType.DASHBOARDS).tags([TAG])
    return links.include_vars(True).keep_time(True)
