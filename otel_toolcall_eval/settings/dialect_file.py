"""Reads dialect files: the one that is shipped, and users' own."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect_parser import parse_dialects
from otel_toolcall_eval.extraction.extractor import Extractor
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.patterns import compile_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from otel_toolcall_eval.extraction.dialect import Dialect

USER_PRIORITY = 1_000_000
"""Added to the priorities of users' dialects, so that they are asked before all of ours."""


@cache
def shipped_dialects() -> tuple[Dialect, ...]:
    """Return the dialects that are shipped with the package."""
    text = files("otel_toolcall_eval.extraction").joinpath("dialects.json").read_text(encoding="utf-8")
    return parse_dialects(json.loads(text), where="dialects.json", compile_pattern=compile_pattern)


@cache
def default_extractor() -> Extractor:
    """Return the extractor for the shipped dialects."""
    return Extractor(shipped_dialects())


def build_extractor(paths: Sequence[Path] = ()) -> Extractor:
    """Return an extractor for the shipped dialects and those in users' files.

    Raises:
        SettingsError: with all that is wrong with the files.
    """
    if not paths:
        return default_extractor()
    diagnostics = Diagnostics()
    documents = [read_document(path, diagnostics) for path in paths]
    diagnostics.raise_any(SettingsError)
    found = list(shipped_dialects())
    for path, document in zip(paths, documents, strict=True):
        if document is not None:
            found += parse_dialects(
                document.value, where=str(path), compile_pattern=compile_pattern, family_prefix="user:", priority_offset=USER_PRIORITY
            )
    return Extractor(found)
