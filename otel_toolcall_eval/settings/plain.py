"""Copies values that came from outside into plain JSON values, within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from otel_toolcall_eval.settings.suggestion import quoted

if TYPE_CHECKING:
    from otel_toolcall_eval.settings.place import Findings, Place

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""Aliases in YAML, and shared objects in code, can unfold a few lines into more than memory holds."""


class _TooMuchError(Exception):
    """The bound on values is used up; what is wrong has been reported."""


def to_plain(value: object, place: Place, findings: Findings, *, from_code: bool = False) -> object:
    """Return a copy made of dict, list, text, numbers, booleans and None; what can't be copied goes to ``findings``.

    Args:
        value: anything.
        place: its place.
        findings: takes what is wrong.
        from_code: allow what Python literals can hold and files can't: NaN, infinities, and keys of nested objects that
            are numbers or booleans.

    Cost: one visit for each value, at most MAX_VALUES.
    """
    try:
        return _Copier(findings, from_code=from_code).copy(value, place)
    except _TooMuchError:
        return None


class _Copier:
    def __init__(self, findings: Findings, *, from_code: bool) -> None:
        self._findings = findings
        self._from_code = from_code
        self._left = MAX_VALUES

    def copy(self, value: object, place: Place, depth: int = 0) -> object:
        self._left -= 1
        if self._left < 0:
            self._findings.problem(place, f"more than {MAX_VALUES:,} values", "split them, or use fewer aliases")
            raise _TooMuchError
        if depth > MAX_DEPTH:
            self._findings.problem(place, f"nested more than {MAX_DEPTH} deep", "flatten it, or cut the loop in it")
            raise _TooMuchError
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            if not self._from_code and not math.isfinite(value):
                self._findings.problem(place, "the number is not finite", "use a finite number, or text")
            return value
        if isinstance(value, Mapping):
            return self._object(value, place, depth)
        if isinstance(value, list | tuple):
            return [self.copy(member, place.at(index), depth + 1) for index, member in enumerate(value)]
        self._findings.problem(place, f"{type(value).__name__} is not a JSON value", "use text, a number, a list or an object")
        return None

    def _object(self, value: Mapping[object, object], place: Place, depth: int) -> object:
        copied: dict[object, object] = {}
        for key, member in value.items():
            if isinstance(key, str):
                copied[key] = self.copy(member, place.at(key), depth + 1)
            elif self._from_code and (key is None or isinstance(key, bool | int | float)):
                copied[key] = self.copy(member, place, depth + 1)
            else:
                self._findings.problem(place, f"the key {quoted(str(key))} is not text", "put it in quotes")
        return copied
