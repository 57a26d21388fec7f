"""Compiles users' patterns for google-re2, in which no pattern takes more than linear time."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.dialect import PatternMatch

MAX_PATTERN_MEMORY = 1024 * 1024
"""How much memory one compiled pattern may take, in bytes."""


@dataclass(frozen=True, slots=True)
class LinearPattern:
    """A pattern that takes time linear in the text, whatever the pattern is (RE2). Equal to others of the same text.

    Lone surrogates, which RE2 can't see, count as question marks.
    """

    pattern: str
    compiled: Any = field(compare=False, repr=False)  # google-re2 has no types

    def search(self, text: str, /) -> PatternMatch | None:
        """Return the first place where the pattern holds."""
        found: PatternMatch | None = self.compiled.search(_visible(text))
        return found

    def sub(self, replacement: str, text: str, /) -> str:
        """Return the text with each place where the pattern holds replaced."""
        return str(self.compiled.sub(replacement, _visible(text)))


def compile_pattern(text: str) -> LinearPattern:
    """Compile a user's pattern; raises ValueError if RE2 can't.

    Rejected: the standard library's ``re``, in which a pattern of ten characters takes hours on a text of forty. Nothing that is
    shipped needs a pattern of this kind, so the package is looked for only when a user has one.
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
        return LinearPattern(text, re2.compile(text, options))
    except (re2.error, UnicodeEncodeError) as error:
        cause = error.args[0] if error.args else ""
        message = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else "not valid text"
        raise ValueError(message) from error


def _visible(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
