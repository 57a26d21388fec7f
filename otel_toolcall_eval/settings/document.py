"""Reads a JSON or YAML file into plain values, within bounds, remembering where things stand.

Files are the user's, but a wrong path may lead anywhere: only regular files are opened, and sizes are looked at first.
"""

from __future__ import annotations

import json
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.payload.integers import read_integer
from otel_toolcall_eval.settings.diagnostics import SourceLocation, Spelling
from otel_toolcall_eval.settings.plain_values import RepeatingObject, plain_values

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.settings.diagnostics import Diagnostics


YAML_SUFFIXES = frozenset({".yaml", ".yml"})
SUFFIXES = YAML_SUFFIXES | {".json"}

_MIB = 1024 * 1024
MAX_JSON_BYTES = 16 * _MIB
MAX_YAML_BYTES = 2 * _MIB
"""YAML is read at about 140 KB a second, so this takes a quarter of a minute; JSON is read two hundred times as fast."""

_SPLIT = f"split it; JSON may have {MAX_JSON_BYTES // _MIB} MiB, YAML {MAX_YAML_BYTES // _MIB}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsDocument:
    """A file that was read.

    Attributes:
        value: plain values: dict with text keys, list, text, numbers, booleans, None.
        place: its top.
        yaml: True for YAML, False for JSON.
    """

    value: object
    place: SourceLocation
    yaml: bool


def read_document(path: Path, diagnostics: Diagnostics) -> SettingsDocument | None:
    """Read a file; what is wrong with it goes to ``diagnostics``, and None comes back.

    The format follows the name: ``.yaml`` and ``.yml`` are YAML 1.2 (``on`` and ``no`` are text), everything else is JSON.
    In both, a key that stands twice is an error, numbers are finite, text is UTF-8, and nesting is bounded.
    """
    yaml = path.suffix.lower() in YAML_SUFFIXES
    place = SourceLocation(origin=str(path), spelling=Spelling.SNAKE if yaml else Spelling.CAMEL)
    text = _read_text(path, place, MAX_YAML_BYTES if yaml else MAX_JSON_BYTES, diagnostics)
    if text is None:
        return None
    known = len(diagnostics.problems)
    if yaml:
        from otel_toolcall_eval.settings.yaml_tree import parse_yaml  # noqa: PLC0415 - its library is large, and many files are JSON

        value, lines = parse_yaml(text, place, diagnostics)
        place = SourceLocation(origin=place.origin, lines=lines, spelling=place.spelling)
    else:
        value = _parse_json(text, place, diagnostics)
    if len(diagnostics.problems) == known:
        value = plain_values(value, place, diagnostics)
    if len(diagnostics.problems) > known:
        return None
    return SettingsDocument(value=value, place=place, yaml=yaml)


def _read_text(path: Path, place: SourceLocation, limit: int, diagnostics: Diagnostics) -> str | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            diagnostics.problem(place, "this is not a regular file", "name a .json or .yaml file")
            return None
        if status.st_size > limit:
            diagnostics.problem(place, f"the file has {status.st_size / _MIB:.1f} MiB, more than {limit // _MIB}", _SPLIT)
            return None
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
        diagnostics.problem(place, f"the file can't be read ({reason})", "check its name and permissions")
        return None
    if len(data) > limit:
        diagnostics.problem(place, f"the file has grown beyond {limit // _MIB} MiB", _SPLIT)
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        diagnostics.problem(place, f"byte {error.start} is not UTF-8", "save the file as UTF-8")
        return None


def _parse_json(text: str, place: SourceLocation, diagnostics: Diagnostics) -> object:
    try:
        value: object = json.loads(text, object_pairs_hook=_members, parse_int=read_integer)
    except json.JSONDecodeError as error:
        where = SourceLocation(origin=f"{place.origin}:{error.lineno}")
        what = "the file is empty" if not text.strip() else f"not valid JSON in column {error.colno}: {error.msg}"
        diagnostics.problem(where, what, "mend the syntax")
        return None
    except RecursionError:
        diagnostics.problem(place, "the values are nested too deep", "flatten them")
        return None
    except ValueError:  # read_integer's: more digits than anyone counts
        diagnostics.problem(place, "a number is too long", "write it as text")
        return None
    return value


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found = RepeatingObject(found)
        found.pairs = pairs
    return found
