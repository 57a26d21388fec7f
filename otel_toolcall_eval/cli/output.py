"""Where commands write: tables through rich for people, JSON for programs, remarks and progress to standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.model.payload.rendering import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console


def console() -> Console:
    """Return a console on standard output.

    Raises:
        SettingsError: rich is not installed.
    """
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra: the plain install has no rich
    except ImportError as error:
        raise SettingsError(
            where="table output", what="rich is not installed", fix="pip install 'otel-toolcall-eval[cli]', or use --format json"
        ) from error
    made = Console(highlight=False, soft_wrap=False)
    if not made.is_terminal:  # behind a pipe nobody sees the window's edge, and a cut table is useless to grep
        made = Console(highlight=False, width=200)
    return made


def text(value: str) -> str:
    """Return recorded text for a table or a line with markup: nothing in it is taken as a command by rich or by the terminal."""
    from rich.markup import escape  # noqa: PLC0415 - an extra

    return escape(printable(value))


def counted(number: object, noun: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_json(document: object) -> None:
    """Write a document to standard output as strict JSON."""
    json.dump(json_ready(document), sys.stdout, indent=2, allow_nan=False)
    sys.stdout.write("\n")


def remark(problems: Iterable[Problem], kind: str = "warning") -> None:
    """Write problems to standard error, one a line."""
    for problem in problems:
        sys.stderr.write(printable(f"{kind}: {problem}") + "\n")


def json_ready(value: object) -> object:
    """Return a value that strict JSON can hold: bytes as hex, NaN and infinity as text, keys as text."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): json_ready(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [json_ready(item) for item in value]
    return value
