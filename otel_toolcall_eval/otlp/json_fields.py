"""Reads the fields of OTLP/JSON objects, each with the spellings that its type may have.

A field that is missing or ``null`` has its default, as in protobuf's JSON mapping. Whatever has the wrong type raises WrongTypeError, which
collects the path to it on its way out and never holds the value.
Source: OTLP specification, "JSON Protobuf Encoding"; protobuf's JSON mapping, "int64, fixed64, uint64".
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias

JsonObject: TypeAlias = Mapping[str, object]

_DIGITS = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")
_DOUBLE = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN", re.ASCII)
_URL_SAFE = str.maketrans("-_", "+/")
_NAMES = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}


class WrongTypeError(Exception):
    """A field has a type that OTLP/JSON doesn't allow. Stays within this room."""

    def __init__(self, *, expected: str, found: object, at: str = "") -> None:
        """Say what was expected at field ``at``; of ``found`` only the type is kept."""
        super().__init__()
        self._what = f"expected {expected}, found {_NAMES.get(type(found), 'something else')}"
        self._path = [at] if at else []

    def inside(self, *steps: str) -> None:
        """Put steps in front of the path: names of fields, or ``[3]``."""
        self._path[:0] = steps

    @property
    def where(self) -> str:
        """Return the path, such as ``resourceSpans[0].scopeSpans[1].spans[2].startTimeUnixNano``."""
        path = "".join(step if step.startswith("[") else f".{step}" for step in self._path)
        return path.removeprefix(".") or "request"

    @property
    def what(self) -> str:
        """Return what is wrong."""
        return self._what


def as_object(value: object) -> JsonObject:
    """Return an object; None is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise WrongTypeError(expected="an object", found=value)


def object_of(fields: JsonObject, name: str) -> JsonObject:
    """Return a field that holds an object."""
    try:
        return as_object(fields.get(name))
    except WrongTypeError as error:
        error.inside(name)
        raise


def list_of(fields: JsonObject, name: str) -> Sequence[object]:
    """Return a field that holds a list."""
    value = fields.get(name)
    if value is None:
        return ()
    if isinstance(value, list):
        return value
    raise WrongTypeError(expected="a list", found=value, at=name)


def text_of(fields: JsonObject, name: str) -> str:
    """Return a field that holds text; half of a surrogate pair becomes U+FFFD, as it could not be written out again."""
    value = fields.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value if value.isascii() else _HALF_PAIR.sub("\ufffd", value)
    raise WrongTypeError(expected="text", found=value, at=name)


def integer_of(fields: JsonObject, name: str, *, low: int, high: int) -> int:
    """Return a field that holds an integer from ``low`` to ``high``: digits as text, or a number without fraction."""
    value = fields.get(name)
    if value is None:
        return 0
    number: int | None = None
    if isinstance(value, str):
        number = int(value) if _DIGITS.fullmatch(value) else None
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    if number is None or not low <= number <= high:
        raise WrongTypeError(expected=f"an integer from {low} to {high}", found=value, at=name)
    return number


def double_of(fields: JsonObject, name: str) -> float:
    """Return a field that holds a double: a number, or text such as ``"1.5"``, ``"NaN"`` and ``"-Infinity"``."""
    value = fields[name]
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return _float(value)
    if isinstance(value, str) and _DOUBLE.fullmatch(value):
        return float(value)
    raise WrongTypeError(expected="a number", found=value, at=name)


def bool_of(fields: JsonObject, name: str) -> bool:
    """Return a field that holds true or false."""
    value = fields[name]
    if isinstance(value, bool):
        return value
    raise WrongTypeError(expected="a boolean", found=value, at=name)


def base64_of(fields: JsonObject, name: str) -> bytes:
    """Return a field that holds base64, standard or URL-safe, padded or not, as protobuf's JSON mapping allows."""
    text = text_of(fields, name).translate(_URL_SAFE).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise WrongTypeError(expected="base64 text", found=text, at=name) from None


def _float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:  # an integer literal beyond the largest double
        return float("inf") if number > 0 else float("-inf")


def enum_of(fields: JsonObject, name: str, numbers: Mapping[str, int]) -> int:
    """Return the number of an enum; it is sent as number or name. An unknown name is 0, the unspecified value of every enum."""
    value = fields.get(name)
    if isinstance(value, str):
        return numbers.get(value, 0)
    return integer_of(fields, name, low=-(1 << 31), high=(1 << 31) - 1)


def id_of(fields: JsonObject, name: str) -> bytes:
    """Return an ID, which is hexadecimal in any case and not base64. Text that is not comes back empty, thus invalid."""
    value = fields.get(name)
    if value is None:
        return b""
    if not isinstance(value, str):
        raise WrongTypeError(expected="hexadecimal text", found=value, at=name)
    try:
        found = bytes.fromhex(value)
    except ValueError:
        return b""
    return found if 2 * len(found) == len(value) else b""  # fromhex skips blanks
