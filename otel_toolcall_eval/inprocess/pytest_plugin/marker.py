"""Tests that are marked with what their tool calls have to meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.inprocess.pytest_plugin.items import checks_of, criteria_paths
from otel_toolcall_eval.inprocess.pytest_plugin.plugin import CRITERIA_INI, FIXTURE, MARKER
from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import ToolCalls
from otel_toolcall_eval.model.errors import CriteriaError

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

OPTIONS = frozenset({"criteria", "config"})


def look_up(item: pytest.Item) -> None:
    """Raise CriteriaError for a marker that names what is not there, before the agent runs."""
    for marker in item.iter_markers(MARKER):
        unknown = set(marker.kwargs) - OPTIONS
        if unknown:
            what = f"the marker {MARKER} has no option {', '.join(sorted(unknown))}"
            raise CriteriaError(where=item.nodeid, what=what, fix=f"it has {' and '.join(sorted(OPTIONS))}")
        if not marker.args:
            example = f'@pytest.mark.{MARKER}("tokyo_forecast", criteria="evaluations/")'
            raise CriteriaError(where=item.nodeid, what=f"the marker {MARKER} names nothing", fix=f"name an item, as in {example}")
        for named in marker.args:
            checks_of(named, _paths(item, marker), config=marker.kwargs.get("config"))


def judge(item: pytest.Item) -> str:
    """Return what is wrong with the tool calls of a marked test; empty if nothing is."""
    recorded = getattr(item, "funcargs", {}).get(FIXTURE)
    if not isinstance(recorded, ToolCalls):
        return f"{item.nodeid}: the fixture {FIXTURE} is not ours, so its tool calls were not recorded; give yours another name"
    failures = []
    for marker in reversed(list(item.iter_markers(MARKER))):
        try:
            recorded.assert_meets(*marker.args, **marker.kwargs)
        except AssertionError as failure:
            failures.append(str(failure))
    return "\n".join(failures)


def _paths(item: pytest.Item, marker: pytest.Mark) -> tuple[Path, ...]:
    return criteria_paths(marker.kwargs.get("criteria", ()), root=item.config.rootpath, default=item.config.getini(CRITERIA_INI))
