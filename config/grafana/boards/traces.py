"""Ways from a score to the trace behind it: exemplars in a table, and searches for evaluation spans in Tempo and in Jaeger."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import quote

from grafana_foundation_sdk.builders import common, table, tempo
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import dashboard as model

from boards import metrics
from boards.panels import rows_and_columns
from boards.variables import JAEGER, TEMPO
from otel_toolcall_eval.exporters import names

SHARED_RESULTS: Final = model.DataSourceRef(type_val="datasource", uid="-- Dashboard --")
"""What another panel of the same dashboard was answered: part of Grafana, not somebody's data source."""

_HIDDEN: Final = ("__name__", "le", "span_id", "instance", "job", "otel_scope_name", "otel_scope_version", "otel_scope_schema_url")


class _PanelResults(Dataquery):
    """The exemplars that another panel was given."""

    def __init__(self, panel: int) -> None:
        self._panel = panel

    def to_json(self) -> dict[str, object]:
        return {"refId": "A", "datasource": SHARED_RESULTS, "panelId": self._panel, "topic": "annotations", "withTransforms": False}


class _JaegerSearch(Dataquery):
    """Spans that carry a failing verdict; the SDK has no class for Jaeger's queries."""

    def to_json(self) -> dict[str, object]:
        tags = f"{names.SCORE_LABEL.name}=fail"
        search = {"service": names.SERVICE_NAME, "operation": names.SPAN_NAME, "tags": tags, "limit": 20}
        return {"refId": "A", "datasource": JAEGER, "queryType": "search", **search}


class _Ready(Builder[Dataquery]):
    """A query that needs no building."""

    def __init__(self, query: Dataquery) -> None:
        self._query = query

    def build(self) -> Dataquery:
        return self._query


def links() -> list[model.DynamicConfigValue]:
    """Return links of a cell that holds a trace ID, to Tempo and to Jaeger, whichever the reader has chosen."""
    found = [_link("Open in Tempo", TEMPO, "traceql"), _link("Open in Jaeger", JAEGER, None)]
    return [model.DynamicConfigValue(id_val="links", value=found)]


def exemplars(title: str, description: str, *, panel: int, width: int = 12, worst_first: bool = True) -> table.Panel:
    """Return a table of the exemplars that another panel shows as dots, each with links to its trace."""
    renamed = {
        "trace_id": "Trace",
        "Value": "Score",
        metrics.EVALUATOR: "Evaluator",
        metrics.CRITERIA: "Criteria",
        metrics.AGENT: "Agent",
        metrics.SERVICE: "Service",
        metrics.LABEL: "Label",
    }
    order = {name: position for position, name in enumerate(("Time", *renamed))}
    options = {"excludeByName": dict.fromkeys(_HIDDEN, True), "indexByName": order, "renameByName": renamed}
    sort = common.TableSortByFieldState().display_name("Score" if worst_first else "Time").desc(not worst_first)
    return (
        _table(title, description, SHARED_RESULTS, _PanelResults(panel), width=width)
        .with_transformation(model.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(model.DataTransformerConfig(id_val="organize", options=options))
        .override_by_name("Trace", links())
        .override_by_name("Score", [model.DynamicConfigValue(id_val="decimals", value=2)])
        .sort_by([sort])
    )


def tempo_search(title: str, description: str) -> table.Panel:
    """Return a table of spans in Tempo that carry failing verdicts: our own, or evaluated roots."""
    failed, least = f"span.{names.VERDICTS_FAIL.name}", f"span.{names.MIN_SCORE.name}"
    query = (
        tempo.TempoQuery()
        .ref_id("A")
        .datasource(TEMPO)
        .query_type("traceql")
        .limit(20)
        .query(f"{{ {failed} > 0 }} | select({failed}, {least})")
    )
    return _table(title, description, TEMPO, query, width=24)


def jaeger_search(title: str, description: str) -> table.Panel:
    """Return a table of traces in Jaeger with a failing verdict on a span of ours."""
    return _table(title, description, JAEGER, _JaegerSearch(), width=24)


def _table(title: str, description: str, source: model.DataSourceRef, query: Dataquery | Builder[Dataquery], *, width: int) -> table.Panel:
    target = _Ready(query) if isinstance(query, Dataquery) else query
    return (
        rows_and_columns().title(title).description(description).unit("short").datasource(source).with_target(target).span(width).height(8)
    )


def _link(title: str, source: model.DataSourceRef, query_type: str | None) -> dict[str, object]:
    query = {"refId": "A", "datasource": {"type": source.type_val, "uid": source.uid}, "query": "${__value.raw}"}
    if query_type is not None:
        query["queryType"] = query_type
    panes = {"trace": {"datasource": source.uid, "queries": [query], "range": {"from": "${__from}", "to": "${__to}"}}}
    # Grafana fills in what is between braces after a dollar sign, so these signs stay as they are.
    url = f"/explore?schemaVersion=1&panes={quote(json.dumps(panes, separators=(',', ':')), safe='${}')}"
    return {"title": title, "url": url, "targetBlank": True}
