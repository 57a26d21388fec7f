"""What the hooks of ``plugin`` do once a test uses it: evaluate marked tests, and write the verdicts to a file as JSON lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.inprocess.pytest_plugin import CRITERIA_INI, FIXTURE, MARKER
from otel_toolcall_eval.inprocess.pytest_plugin.items import checks_of, criteria_paths
from otel_toolcall_eval.inprocess.pytest_plugin.tool_calls import ToolCalls
from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.model.score import Label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.inprocess.pytest_plugin.items import ItemVerdict

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


def evaluate_item(item: pytest.Item) -> str:
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


VERDICTS = "tool_call_verdicts"
"""Attribute of a test's report that carries them."""


def lines_of(test: str, judged: Sequence[ItemVerdict]) -> list[Mapping[str, object]]:
    """Return the verdicts on a test in plain values; names tools, paths and reasons, and no argument or output."""
    return [
        {
            "test": test,
            "criteria": one.criteria,
            "evaluator": one.result.evaluator,
            "label": one.result.label.value,
            "score": None if one.result.label is Label.INCONCLUSIVE else one.result.score,
            "explanation": one.result.explanation,
            "doubts": [doubt.value for doubt in one.result.doubts],
        }
        for one in judged
    ]


class VerdictReport:
    """A plugin that writes what the reports of tests carry."""

    def __init__(self, path: str) -> None:
        """Begin the file anew."""
        self._path = Path(path)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text("", encoding="utf-8")
        except OSError as error:
            message = f"--tool-calls-report: {path} can't be written ({error.strerror}); name a file in a folder that you may write to"
            raise pytest.UsageError(message) from error

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the verdicts of one test."""
        verdicts = getattr(report, VERDICTS, ())
        if verdicts:
            with self._path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(verdict, ensure_ascii=False) + "\n" for verdict in verdicts)
