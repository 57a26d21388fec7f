"""Loads criteria and settings out of text, and shows what was said about them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.errors import CriteriaError, SettingsError
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, LoadedCriteria, load_criteria
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation
from otel_toolcall_eval.settings.service import Deployment, Settings
from otel_toolcall_eval.settings.service_file import load_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from otel_toolcall_eval.model.criteria import CriteriaSet


def write(folder: Path, files: Mapping[str, object]) -> Path:
    """Write files below a folder: text as it is, everything else as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


def load(folder: Path, files: Mapping[str, object], *named: str, services: frozenset[str] = frozenset()) -> LoadedCriteria:
    """Write files and load the named ones, or the whole folder."""
    write(folder, files)
    return load_criteria([CriteriaSource(path=folder / name, services=services) for name in named or ("",)])


def only_set(loaded: LoadedCriteria) -> CriteriaSet:
    (found,) = loaded.sets
    return found


def shown(problems: object, folder: Path) -> list[str]:
    """Return problems as text, with the folder's path left out."""
    return [str(problem).replace(f"{folder}/", "").replace(str(folder), ".") for problem in problems]  # type: ignore[attr-defined]


def complaints(folder: Path, files: Mapping[str, object], *named: str) -> list[str]:
    """Return what is said when files can't be loaded."""
    with pytest.raises(CriteriaError) as caught:
        load(folder, files, *named)
    return shown(caught.value.problems, folder)


def warnings(folder: Path, files: Mapping[str, object], *named: str) -> list[str]:
    return shown(load(folder, files, *named).warnings, folder)


def setting_complaints(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return what is said when settings can't be loaded."""
    with pytest.raises(SettingsError) as caught:
        load_settings(write(folder, {"sidecar.yaml": text}) / "sidecar.yaml", environ or {}, Deployment.SIDECAR)
    return shown(caught.value.problems, folder)


def settings(text: str = "", environ: Mapping[str, str] | None = None, *, folder: Path | None = None) -> Settings:
    file = None if folder is None else write(folder, {"sidecar.yaml": text}) / "sidecar.yaml"
    return load_settings(file, environ or {}, Deployment.SIDECAR)


def said(diagnostics: Diagnostics) -> list[str]:
    return [str(problem) for problem in diagnostics.problems]


def top(origin: str = "f.yaml") -> SourceLocation:
    return SourceLocation(origin=origin)


def item(**members: object) -> dict[str, object]:
    """Return an eval item in the sample's form that asks for one call of ``a``."""
    criterias: object = {"ToolCallCountEvaluator": {"toolCallsCount": {"a": ["=", 1]}}}
    return {"id": "one", "evaluationCriterias": criterias, **members}


def eval_set(*items: object, **members: object) -> dict[str, object]:
    return {"version": "1.0", "id": "default", "name": "Default", "evaluations": list(items), **members}


def evaluator(key: str = "my-count", kind: str = "tool-call-count", **config: object) -> dict[str, object]:
    return {"id": key, "evaluatorTypeId": kind, "evaluatorConfig": config}
