"""Writes the verdicts of a test run to a file, one JSON object on a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.score import Label

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.inprocess.pytest_plugin.items import ItemVerdict

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
