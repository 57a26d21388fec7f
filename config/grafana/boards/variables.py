"""What a reader of a dashboard chooses: where metrics and traces are, and whose scores are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from boards import metrics
from boards.promql import select
from otel_toolcall_eval.exporters import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grafana_foundation_sdk.cog.builder import Builder

    Variables = Sequence[Builder[model.VariableModel]]

METRICS: Final = model.DataSourceRef(type_val="prometheus", uid="${datasource}")
TEMPO: Final = model.DataSourceRef(type_val="tempo", uid="${tempo}")
JAEGER: Final = model.DataSourceRef(type_val="jaeger", uid="${jaeger}")

OF_AGENT: Final = f'{metrics.AGENT}=~"$agent"'
OF_SERVICE: Final = f'{metrics.SERVICE}=~"$service"'
OF_CRITERIA: Final = f'{metrics.CRITERIA}=~"$criteria"'
OF_EVALUATOR: Final = f'{metrics.EVALUATOR}=~"$evaluator"'
OF_INSTANCE: Final = 'instance=~"$instance"'
CHOSEN: Final = f"{OF_SERVICE}, {OF_AGENT}, {OF_CRITERIA}, {OF_EVALUATOR}"
"""Whose scores are shown."""


def data_sources(*, traces: bool) -> Variables:
    """Return the choice of data sources; ``traces`` adds where traces are opened."""
    found = [_data_source("datasource", "Metrics", "prometheus", "Prometheus that has the sidecar's metrics.")]
    if traces:
        found += [
            _data_source("tempo", "Tempo", "tempo", "Where links to a trace lead, if traces are in Tempo."),
            _data_source("jaeger", "Jaeger", "jaeger", "Where links to a trace lead, if traces are in Jaeger."),
        ]
    return found


def scores() -> Variables:
    """Return the choice of service, agent, criteria and evaluator, each among those that go with the choices before it."""
    evaluations = metrics.metric(names.EVALUATIONS)
    count = f"{metrics.SCORE}_count"
    return [
        _labels("service", "Service", select(evaluations), metrics.SERVICE, "service.name of the evaluated traces."),
        _labels(
            "agent",
            "Agent",
            select(count, OF_SERVICE),
            metrics.AGENT,
            "The top-most agent of the evaluated traces. Verdicts without a score have none.",
        ),
        _labels("criteria", "Criteria", select(evaluations, OF_SERVICE), metrics.CRITERIA, "Criteria that the traces were evaluated by."),
        _labels(
            "evaluator",
            "Evaluator",
            select(evaluations, OF_SERVICE, OF_CRITERIA),
            metrics.EVALUATOR,
            "What was evaluated: counts, order, arguments, outputs.",
        ),
    ]


def instances() -> Variables:
    """Return the choice of sidecars."""
    active = metrics.metric(names.TRACES_ACTIVE)
    return [
        _labels(
            "instance",
            "Sidecar",
            select(active),
            "instance",
            "Sidecars, or agents that evaluate their own traces, as Prometheus names them.",
        )
    ]


def sidecars(metric: str, *matchers: str) -> str:
    """Return a selector of the series of the chosen sidecars."""
    return select(metric, OF_INSTANCE, *matchers)


def _data_source(name: str, label: str, kind: str, description: str) -> build.DatasourceVariable:
    return build.DatasourceVariable(name).label(label).description(description).type(kind)


def _labels(name: str, label: str, series: str, of: str, description: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .description(description)
        .datasource(METRICS)
        .query(f"label_values({series}, {of})")
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")  # matches series without the label, too
        .current(model.VariableOption(selected=True, text="All", value="$__all"))
    )
