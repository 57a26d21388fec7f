"""Where each process has its journal, and what to do about files that another number of processes left.

A trace belongs to one process by its ID and the number of processes, so what is open in a file of another number belongs elsewhere now.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.journal.entries import Kind

if TYPE_CHECKING:
    from pathlib import Path

_OPEN: Final = """
SELECT EXISTS (SELECT max(CASE WHEN kind = :decision THEN number END) AS decided
               FROM entries WHERE kind IN (:spans, :open, :settled, :decision) GROUP BY trace_id
               HAVING decided IS NULL OR decided > (SELECT number FROM delivered))
"""
_KINDS: Final = {kind.name.lower(): int(kind) for kind in Kind}


def file_of(path: Path, *, index: int, workers: int) -> Path:
    """Return the journal's file of one process: the path itself if there is one, else beside it ``NAME-1-of-2.SUFFIX``."""
    return path if workers == 1 else path.with_name(f"{path.stem}-{index + 1}-of-{workers}{path.suffix}")


def check_left_behind(path: Path | None, *, workers: int) -> None:
    """Look for journals of another number of processes that still hold something open.

    Raises:
        SettingsError: there is one. What is in it would not be judged.
    """
    if path is None:
        return
    for file, number in sorted(_others(path, workers)):
        if holds_open(file):
            what = f"it holds traces that {number} process{'es' if number > 1 else ''} left open, and workers is {workers} now"
            raise SettingsError(where=str(file), what=what, fix=f"start once with workers: {number} and end it, or remove the file")


def _others(path: Path, workers: int) -> list[tuple[Path, int]]:
    name = re.compile(rf"{re.escape(path.stem)}-[0-9]+-of-([0-9]+){re.escape(path.suffix)}", re.ASCII)
    beside = list(path.parent.iterdir()) if path.parent.is_dir() else []
    found = [(file, int(match[1])) for file in beside if (match := name.fullmatch(file.name)) is not None]
    return [(file, number) for file, number in [*found, (path, 1)] if number != workers and file.is_file()]


def holds_open(file: Path) -> bool:
    """Tell whether a file holds traces that are not decided, or of which what was decided may not have reached whoever listens.

    False for what is no journal, or can't be read, which nobody could take up either. Of what is decided only revisions are lost.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return bool(connection.execute(_OPEN, _KINDS).fetchone()[0])
    except sqlite3.Error:
        return False
