"""Reads dialect files: the one that is shipped, and users' own."""

from __future__ import annotations

import json
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.extraction.dialect_parser import parse_dialects
from otel_toolcall_eval.extraction.extractor import Extractor
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.place import Findings

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from otel_toolcall_eval.extraction.dialect import Dialect, Pattern, PatternMatch

USER_PRIORITY = 1_000_000
"""Added to the priorities of users' dialects, so that they are asked before all of ours."""


MAX_PATTERN_MEMORY = 1024 * 1024
"""How much memory one compiled pattern may take, in bytes."""


class _LinearPattern:
    """A pattern that takes time linear in the text, whatever the pattern is (RE2)."""

    __slots__ = ("_compiled",)

    def __init__(self, compiled: Pattern) -> None:
        """Wrap a pattern of google-re2."""
        self._compiled = compiled

    def search(self, text: str, /) -> PatternMatch | None:
        """Return the first place where the pattern holds; lone surrogates, which RE2 can't see, count as question marks."""
        return self._compiled.search(text.encode("utf-8", "replace").decode("utf-8"))


def compile_pattern(text: str) -> Pattern:
    """Compile a user's pattern; raises ValueError if RE2 can't.

    Rejected: the standard library's ``re``, in which a pattern of ten characters takes hours on a text of forty. None of the
    shipped dialects needs a pattern, so the package is looked for only when a user's dialect has one.
    """
    try:
        re2 = import_module("re2")
    except ImportError as error:
        message = "patterns need the package google-re2, which is not installed"
        raise ValueError(message) from error
    options = re2.Options()
    options.max_mem = MAX_PATTERN_MEMORY
    options.log_errors = False
    try:
        return _LinearPattern(re2.compile(text, options))
    except (re2.error, UnicodeEncodeError) as error:
        cause = error.args[0] if error.args else ""
        message = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else "not valid text"
        raise ValueError(message) from error


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
    findings = Findings()
    documents = [read_document(path, findings) for path in paths]
    findings.raise_any(SettingsError)
    found = list(shipped_dialects())
    for path, document in zip(paths, documents, strict=True):
        if document is not None:
            found += parse_dialects(
                document.value, where=str(path), compile_pattern=compile_pattern, family_prefix="user:", priority_offset=USER_PRIORITY
            )
    return Extractor(found)
