"""Copies what YAML, JSON or code gave into plain values, within bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from otel_toolcall_eval.settings.diagnostics import quoted

if TYPE_CHECKING:
    from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation

MAX_DEPTH = 100
MAX_VALUES = 1_000_000
"""Aliases in YAML, and shared objects in code, can unfold a few lines into more than memory holds."""


class RepeatingObject(dict[str, object]):
    """An object in which a key stands twice; ``pairs`` are all its members."""

    pairs: list[tuple[str, object]]


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
        for key, member in value.pairs if isinstance(value, RepeatingObject) else value.items():
            if isinstance(key, str) and key in copied:
                self._diagnostics.problem(place, f"the key {quoted(key)} stands twice", "remove one of them")
            if isinstance(key, str):
                copied[key] = self.copy(member, place.at(key), depth + 1)
            elif self._from_code and (key is None or isinstance(key, bool | int | float)):
                copied[key] = self.copy(member, place, depth + 1)
            else:
                self._diagnostics.problem(place, f"the key {quoted(str(key))} is not text", "put it in quotes")
        return copied
