"""One function for each kind of panel, so that all panels of a kind look and read alike.

Descriptions say what is shown, then what to do when it looks bad.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from boards.promql import previous
from boards.variables import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Steps = Sequence[tuple[float | None, str]]
    """Values from which on a colour holds; None is below all of them."""

AnyPanel = TypeVar("AnyPanel", stat.Panel, timeseries.Panel, table.Panel, bargauge.Panel, heatmap.Panel)

GOOD_FROM_90: Final[Steps] = ((None, "red"), (0.7, "orange"), (0.9, "green"))
BAD_FROM_10: Final[Steps] = ((None, "green"), (0.1, "orange"), (0.3, "red"))
BAD_ABOVE_0: Final[Steps] = ((None, "green"), (1e-9, "red"))
SINKING_IS_BAD: Final[Steps] = ((None, "red"), (-0.05, "orange"), (-0.01, "text"), (0.01, "green"))
NEUTRAL: Final[Steps] = ((None, "text"),)
NEUTRAL_BARS: Final[Steps] = ((None, "blue"),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question to Prometheus.

    Attributes:
        legend: name of the series, with ``{{label}}`` for the value of a label.
        exemplars: whether traces behind the values are asked for, too; only series of buckets have any.
    """

    expr: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table: its title, where its values come from, and how they are written."""

    title: str
    expr: str
    unit: str
    decimals: int


def number(
    title: str, description: str, *, unit: str, expr: str, steps: Steps = NEUTRAL, nothing: str = "none", decimals: int | None = None
) -> stat.Panel:
    """Return one number for the period that is shown."""
    panel = (
        stat.Panel()
        .with_target(_instant(expr, "A"))
        .graph_mode(shapes.BigValueGraphMode.NONE)
        .color_mode(shapes.BigValueColorMode.VALUE)
        .reduce_options(_last())
        .no_value(nothing)
        .thresholds(_thresholds(steps))
    )
    if decimals is not None:
        panel.decimals(decimals)
    return _framed(panel, title, description, unit, width=4, height=4)


def graph(
    title: str,
    description: str,
    *,
    unit: str,
    queries: Sequence[Query],
    width: int = 12,
    stacked: bool = False,
    most: float | None = None,
) -> timeseries.Panel:
    """Return a graph over time; ``most`` is the upper end of its axis, whose lower end is 0."""
    panel = (
        timeseries.Panel()
        .targets([_range(query, _REF_IDS[position]) for position, query in enumerate(queries)])
        .min(0)
        .line_width(1)
        .fill_opacity(40 if stacked else 0)
        .show_points(shapes.VisibilityMode.AUTO)
        # Agents rest; a line across an hour without verdicts would say that there were some.
        .span_nulls(300_000)
        .legend(
            common.VizLegendOptions().display_mode(shapes.LegendDisplayMode.LIST).placement(shapes.LegendPlacement.BOTTOM).show_legend(True)
        )
        .tooltip(common.VizTooltipOptions().mode(shapes.TooltipDisplayMode.MULTI).sort(shapes.SortOrder.DESCENDING))
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL).group("A"))
    if most is not None:
        panel.max(most)
    return _framed(panel, title, description, unit, width=width, height=8)


def against_previous(title: str, description: str, *, unit: str, expr: str, width: int = 12) -> timeseries.Panel:
    """Return a graph of an expression in this period and in the one before."""
    queries = [Query(expr=expr, legend="this period"), Query(expr=previous(expr), legend="the period before")]
    panel = graph(title, description, unit=unit, queries=queries, width=width, most=1)
    dashed = shapes.LineStyle(fill="dash", dash=[6, 6])
    return panel.override_by_name("the period before", [model.DynamicConfigValue(id_val="custom.lineStyle", value=dashed)])


def rows_and_columns() -> table.Panel:
    """Return a table with nothing in it: what Grafana's schema asks of every table, and the SDK leaves out."""
    auto = shapes.TableAutoCellOptions()
    return table.Panel().show_header(True).frame_index(0).align(shapes.FieldTextAlignment.AUTO).cell_options(auto).inspect(False)


def columns(
    title: str, description: str, *, label: str, heading: str, of: Sequence[Column], sort: str, falling: bool = False, width: int = 8
) -> table.Panel:
    """Return a table with a row for each value of a label."""
    panel = rows_and_columns().sort_by([common.TableSortByFieldState().display_name(sort).desc(falling)])
    for position, column in enumerate(of):
        panel.with_target(_instant(column.expr, _REF_IDS[position]).format(PromQueryFormat.TABLE))
        settings = {"unit": column.unit, "decimals": column.decimals}
        panel.override_by_name(column.title, [model.DynamicConfigValue(id_val=name, value=value) for name, value in settings.items()])
    values = {f"Value #{_REF_IDS[position]}" if len(of) > 1 else "Value": column.title for position, column in enumerate(of)}
    order = {label: 0, **{name: position + 1 for position, name in enumerate(values)}}
    panel.with_transformation(_transformation("merge"))
    panel.with_transformation(
        _transformation("organize", excludeByName={"Time": True}, indexByName=order, renameByName={label: heading, **values})
    )
    return _framed(panel, title, description, "short", width=width, height=8)


def matrix(title: str, description: str, *, expr: str, rows: str, across: str, width: int = 12) -> table.Panel:
    """Return a table with a row for each value of one label and a column for each of another."""
    panel = rows_and_columns().with_target(_instant(expr, "A").format(PromQueryFormat.TABLE)).decimals(0)
    panel.with_transformation(_transformation("groupingToMatrix", columnField=across, rowField=rows, valueField="Value", emptyValue="null"))
    return _framed(panel, title, description, "short", width=width, height=8)


def bars(
    title: str, description: str, *, unit: str, query: Query, steps: Steps, most: float | None = None, width: int = 12
) -> bargauge.Panel:
    """Return a bar for each series, in the order that Prometheus gives them."""
    panel = (
        bargauge.Panel()
        .with_target(_instant(query.expr, "A", query.legend))
        .display_mode(shapes.BarGaugeDisplayMode.BASIC)
        .orientation(shapes.VizOrientation.HORIZONTAL)
        .reduce_options(_last())
        .no_value("none")
        .min(0)
        .decimals(1 if unit == "percentunit" else 0)
        .thresholds(_thresholds(steps))
    )
    if most is not None:
        panel.max(most)
    return _framed(panel, title, description, unit, width=width, height=8)


def buckets(title: str, description: str, *, expr: str, width: int = 24) -> heatmap.Panel:
    """Return a heat map of a histogram, a row for each bucket, with exemplars as dots."""
    panel = (
        heatmap.Panel()
        .with_target(_range(Query(expr=expr, legend="{{le}}", exemplars=True), "A").format(PromQueryFormat.HEATMAP))
        .calculate(False)
        .exemplars_color("rgba(255, 0, 255, 0.7)")
        .cell_values(heatmap.CellValues().unit("short"))
        .y_axis(heatmap.YAxisConfig().unit("short").axis_label("at most"))
    )
    return _framed(panel, title, description, "short", width=width, height=8)


def _framed(panel: AnyPanel, title: str, description: str, unit: str, *, width: int, height: int) -> AnyPanel:
    return panel.title(title).description(description).unit(unit).datasource(METRICS).span(width).height(height)


def _instant(expr: str, ref_id: str, legend: str = "") -> prometheus.Dataquery:
    query = prometheus.Dataquery().expr(expr).instant().ref_id(ref_id).datasource(METRICS)
    return query.legend_format(legend) if legend else query


def _range(query: Query, ref_id: str) -> prometheus.Dataquery:
    asked = prometheus.Dataquery().expr(query.expr).range().ref_id(ref_id).datasource(METRICS).interval("1m")
    if query.exemplars:
        asked.exemplar(True)
    return asked.legend_format(query.legend) if query.legend else asked


def _last() -> common.ReduceDataOptions:
    return common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)


def _thresholds(steps: Steps) -> build.ThresholdsConfig:
    return (
        build.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in steps])
    )


def _transformation(name: str, **options: Mapping[str, object] | str) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=name, options=options)


_REF_IDS: Final = "ABCDEF"
