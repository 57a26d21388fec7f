"""Tells what a path holds, so that ``check`` takes any of our files without being told."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.place import Findings
from otel_toolcall_eval.settings.service_shapes import SECTIONS
from otel_toolcall_eval.settings.suggestion import nearest

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS_KEYS = frozenset({*SECTIONS, "criteria"})
_CRITERIA_KEYS = frozenset({"evaluations", "evaluators", "evaluatorTypeId", "evaluator_type_id"})


class PathKind(StrEnum):
    """What a path holds."""

    CRITERIA = "criteria"
    SETTINGS = "settings"
    DIALECTS = "dialects"


def kind_of_path(path: Path) -> PathKind:
    """Return what a path holds. Folders, and files that are none of ours or can't be read, count as criteria: they get its errors."""
    document = None if path.is_dir() else read_document(path, Findings())
    value = None if document is None else document.value
    if not isinstance(value, dict) or not _CRITERIA_KEYS.isdisjoint(value):
        return PathKind.CRITERIA
    if isinstance(value.get("dialects"), list) and any(isinstance(dialect, dict) for dialect in value["dialects"]):
        return PathKind.DIALECTS
    known = {*_SETTINGS_KEYS, "dialects", *_CRITERIA_KEYS}
    meant = {key if key in known else nearest(key, known) for key in value}
    return PathKind.SETTINGS if meant & {*_SETTINGS_KEYS, "dialects"} else PathKind.CRITERIA
