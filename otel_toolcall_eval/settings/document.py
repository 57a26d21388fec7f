"""Reads a JSON or YAML file into plain values, within bounds, remembering where things stand.

Files are the user's, but a wrong path may lead anywhere: only regular files are opened, and sizes are looked at first.
"""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.payload.integers import read_integer
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, Spelling, quoted

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


class _Repeating(dict[str, object]):
    """An object in which a key stands twice; ``pairs`` are all its members."""

    pairs: list[tuple[str, object]]


def _members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        found = _Repeating(found)
        found.pairs = pairs
    return found


MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""Aliases in YAML, and shared objects in code, can unfold a few lines into more than memory holds."""


class _TooMuchError(Exception):
    """The bound on values is used up; what is wrong has been reported."""


def plain_values(value: object, place: SourceLocation, diagnostics: Diagnostics, *, from_code: bool = False) -> object:
    """Return a copy made of dict, list, text, numbers, booleans and None; what can't be copied goes to ``diagnostics``.

    Args:
        value: anything.
        place: its place.
        diagnostics: takes what is wrong.
        from_code: allow what Python literals can hold and files can't: NaN, infinities, and keys of nested objects that
            are numbers or booleans.

    Cost: one visit for each value, at most MAX_VALUES.
    """
    try:
        return _Copier(diagnostics, from_code=from_code).copy(value, place)
    except _TooMuchError:
        return None


class _Copier:
    def __init__(self, diagnostics: Diagnostics, *, from_code: bool) -> None:
        self._diagnostics = diagnostics
        self._from_code = from_code
        self._left = MAX_VALUES

    def copy(self, value: object, place: SourceLocation, depth: int = 0) -> object:
        self._left -= 1
        if self._left < 0:
            self._diagnostics.problem(place, f"more than {MAX_VALUES:,} values", "split them, or use fewer aliases")
            raise _TooMuchError
        if depth > MAX_DEPTH:
            self._diagnostics.problem(place, f"nested more than {MAX_DEPTH} deep", "flatten it, or cut the loop in it")
            raise _TooMuchError
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            if not self._from_code and not math.isfinite(value):
                self._diagnostics.problem(place, "the number is not finite", "use a finite number, or text")
            return value
        if isinstance(value, Mapping):
            return self._object(value, place, depth)
        if isinstance(value, list | tuple):
            return [self.copy(member, place.at(index), depth + 1) for index, member in enumerate(value)]
        self._diagnostics.problem(place, f"{type(value).__name__} is not a JSON value", "use text, a number, a list or an object")
        return None

    def _object(self, value: Mapping[object, object], place: SourceLocation, depth: int) -> object:
        copied: dict[object, object] = {}
        for key, member in value.pairs if isinstance(value, _Repeating) else value.items():
            if isinstance(key, str) and key in copied:
                self._diagnostics.problem(place, f"the key {quoted(key)} stands twice", "remove one of them")
            if isinstance(key, str):
                copied[key] = self.copy(member, place.at(key), depth + 1)
            elif self._from_code and (key is None or isinstance(key, bool | int | float)):
                copied[key] = self.copy(member, place, depth + 1)
            else:
                self._diagnostics.problem(place, f"the key {quoted(str(key))} is not text", "put it in quotes")
        return copied
