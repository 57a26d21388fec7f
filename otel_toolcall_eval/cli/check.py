"""``check``: validates criteria and settings files, with the certificates, keys and tokens that they name; shows what criteria select."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.cli.output import console, counted, print_json, remark, text
from otel_toolcall_eval.model.errors import Problem, SettingsError, ToolCallEvalError
from otel_toolcall_eval.settings.build_pipeline import own_version
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, LoadedCriteria, files_of, load_criteria
from otel_toolcall_eval.settings.diagnostics import Diagnostics, did_you_mean
from otel_toolcall_eval.settings.dialect_file import build_extractor
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings
from otel_toolcall_eval.settings.service_models import ServiceModel
from otel_toolcall_eval.sidecar.admin.status.labels import selects
from otel_toolcall_eval.sidecar.build_forwarding import build_client

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.settings.service import Settings


_SETTINGS_KEYS = frozenset(ServiceModel.model_fields)
_CRITERIA_KEYS = frozenset({"evaluations", "evaluators", "evaluatorTypeId", "evaluator_type_id"})


class _Kind(StrEnum):
    """What a path holds."""

    CRITERIA = "criteria"
    SETTINGS = "settings"
    DIALECTS = "dialects"


def run(arguments: argparse.Namespace) -> int:
    """Validate; 0 if everything can be used, 2 if not."""
    found = _FoundPaths()
    for path in map(Path, arguments.paths):
        found.sort(path)
    problems, warnings, sets = found.check()
    _report(arguments.format, found.checked, sets, warnings, problems)
    return 2 if problems else 0


@dataclass(slots=True)
class _FoundPaths:
    """Paths by what they hold. Criteria are read together, since eval sets refer to evaluators."""

    checked: list[tuple[str, str]] = field(default_factory=list)
    criteria: list[CriteriaSource] = field(default_factory=list)
    settings: list[Path] = field(default_factory=list)
    dialects: list[Path] = field(default_factory=list)

    def sort(self, path: Path) -> None:
        """Note a path, and what else than criteria lies in a folder."""
        kind = _kind_of(path)
        self.checked.append((str(path), kind.value))
        if path.is_dir():
            for file in files_of(CriteriaSource(path=path), Diagnostics()):
                if _kind_of(file) is not _Kind.CRITERIA:
                    self.sort(file)
        if kind is _Kind.CRITERIA:
            self.criteria.append(CriteriaSource(path=path))
        else:
            (self.settings if kind is _Kind.SETTINGS else self.dialects).append(path)

    def check(self) -> tuple[list[Problem], list[Problem], tuple[CriteriaSet, ...]]:
        """Return what is wrong, what is odd, and the criteria."""
        problems: list[Problem] = []
        warnings: list[Problem] = []
        sources, dialects = list(self.criteria), list(self.dialects)
        for path in self.settings:
            try:
                settings = load_settings(path, {}, Deployment.SIDECAR)
                warnings += settings.warnings
                sources += settings.criteria
                dialects += settings.dialects
                warnings += read_files(settings)
            except ToolCallEvalError as error:
                problems += error.problems
        loaded = LoadedCriteria()
        try:
            loaded = load_criteria(sources)
            build_extractor(tuple(dialects))
        except ToolCallEvalError as error:
            problems += error.problems
        known = tuple(str(path) for path in (*self.settings, *self.dialects))  # said to be no criteria, which they needn't be
        warnings += [warning for warning in loaded.warnings if not warning.where.startswith(known)] if known else loaded.warnings
        return problems, warnings, loaded.sets


def _report(
    form: str, checked: Sequence[tuple[str, str]], sets: Sequence[CriteriaSet], warnings: Sequence[Problem], problems: Sequence[Problem]
) -> None:
    if form == "json":
        print_json(
            {
                "checked": [{"path": path, "kind": kind} for path, kind in checked],
                "criteria": [
                    {
                        "name": found.name,
                        "evaluators": [c.evaluator for c in found.checks],
                        "judges": selects(found.selector, values=True),
                        "source": found.source,
                    }
                    for found in sets
                ],
                "warnings": [_problem(warning) for warning in warnings],
                "errors": [_problem(problem) for problem in problems],
            }
        )
        return
    if sets and not problems:
        _print_sets(sets)
    remark(warnings)
    remark(problems, "error")
    paths = ", ".join(f"{path} ({kind})" for path, kind in checked)
    console().print(f"{paths}: {counted(len(problems), 'error')}, {counted(len(warnings), 'warning')}", markup=False, soft_wrap=True)


def _print_sets(sets: Sequence[CriteriaSet]) -> None:
    from rich.table import Table  # noqa: PLC0415 - an extra

    table = Table(header_style="bold")
    for title in ("criteria", "evaluators", "selects"):
        table.add_column(title, overflow="fold")
    for found in sets:
        evaluators = ", ".join(check.evaluator for check in found.checks)
        table.add_row(text(found.name), text(evaluators), text(selects(found.selector, values=True)))
    console().print(table)


def _problem(problem: Problem) -> dict[str, str]:
    return {"where": problem.where, "what": problem.what, "fix": problem.fix}


def _kind_of(path: Path) -> _Kind:
    # Folders, and files that are none of ours or can't be read, count as criteria: they get its errors.
    document = None if path.is_dir() else read_document(path, Diagnostics())
    value = None if document is None else document.value
    if not isinstance(value, dict) or not _CRITERIA_KEYS.isdisjoint(value):
        return _Kind.CRITERIA
    if isinstance(value.get("dialects"), list) and any(isinstance(dialect, dict) for dialect in value["dialects"]):
        return _Kind.DIALECTS
    known = _SETTINGS_KEYS | _CRITERIA_KEYS
    meant = {key if key in known else did_you_mean(key, known) for key in value}
    return _Kind.SETTINGS if meant & _SETTINGS_KEYS else _Kind.CRITERIA


def read_files(settings: Settings) -> Sequence[Problem]:
    """Read the files of certificates, keys and tokens as a sidecar does when it starts, and return what is odd about them.

    Raises:
        SettingsError: files can't be used; with all that is wrong.
    """
    forward = settings.forward
    protected = any(listener.tls is not None or listener.tokens is not None for listener in settings.listen.listeners.values())
    passes_on = forward.endpoint is not None and any((forward.token_file, forward.ca_file, forward.cert_file, forward.key_file))
    if not protected and not passes_on:
        return ()
    try:
        from otel_toolcall_eval.sidecar.build_receivers import Protection  # noqa: PLC0415 - needs the sidecar's extra, which whoever checks may not have
    except ImportError as error:
        what = f"certificates, keys and tokens were not looked at: {error.name} is not installed"
        return [Problem(where="settings", what=what, fix="pip install 'otel-toolcall-eval[sidecar]'")]
    warnings: list[Problem] = []
    problems: list[Problem] = []
    try:
        warnings += Protection(settings.listen).warnings
    except SettingsError as error:
        problems += error.problems
    try:
        client = build_client(settings, version=own_version())
        warnings += () if client is None else client.warnings
    except SettingsError as error:
        problems += error.problems
    if problems:
        raise SettingsError.of(problems)
    return warnings
