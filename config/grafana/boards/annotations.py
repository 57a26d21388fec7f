"""Marks in time: what changed when, so that a drop in scores is seen beside what may have caused it."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard as model

from boards import metrics
from boards.promql import appeared, select
from boards.variables import METRICS, OF_CRITERIA, OF_SERVICE

STEP: Final = "60s"


class _Query(model.AnnotationQuery):
    """An annotation asked of Prometheus. The SDK's class knows the query alone, not its step and what is written beside the mark."""

    def __init__(self, *, title: str, text: str, tags: str) -> None:
        super().__init__()
        self._said = {"step": STEP, "titleFormat": title, "textFormat": text, "tagKeys": tags}

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), **self._said}


class _Annotation(build.AnnotationQuery):
    def __init__(self, *, title: str, text: str, tags: str) -> None:
        super().__init__()
        self._internal = _Query(title=title, text=text, tags=tags)


def version_changes(*, chosen: bool) -> list[build.AnnotationQuery]:
    """Return marks where criteria and services change their version; ``chosen`` leaves out those that are not looked at."""
    return [
        _change(
            "Criteria changed", "purple", metrics.CRITERIA_INFO, OF_CRITERIA if chosen else "", metrics.CRITERIA, metrics.CRITERIA_VERSION
        ),
        _change("Service changed", "blue", metrics.SERVICE_INFO, OF_SERVICE if chosen else "", metrics.SERVICE, metrics.SERVICE_VERSION),
    ]


def _change(  # noqa: PLR0917 - a row of the table above
    name: str, color: str, info: str, matcher: str, identity: str, version: str
) -> build.AnnotationQuery:
    annotation = _Annotation(title=f"{{{{{identity}}}}}", text=f"now at version {{{{{version}}}}}", tags=identity)
    expression = appeared(select(info, matcher), identity, version)
    return annotation.name(name).datasource(METRICS).enable(True).icon_color(color).expr(expression)
