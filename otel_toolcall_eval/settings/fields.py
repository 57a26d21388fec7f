"""The types of single values in files and settings. Each complains in our words, and tells JSON Schema what it takes.

A validator raises ``PydanticCustomError`` with ``what`` and ``fix`` in its context; ``shape.check`` turns that into a Problem.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from otel_toolcall_eval.model.criteria import Operator
from otel_toolcall_eval.settings.suggestion import quoted, use_one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

OURS: Final = "ours"
"""Type of the errors raised here."""


@dataclass(frozen=True, slots=True, eq=False)  # typing wants to hash it, and a dict has no hash
class SchemaOf:
    """Says what a type's JSON Schema is. pydantic has its own, which in some versions mixes up the fields that share a type."""

    schema: Mapping[str, object]

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, object]:
        """Return a copy, since pydantic writes titles, descriptions and defaults into it."""
        return copy.deepcopy(dict(self.schema))


_LONG = 10**20  # Python refuses to print integers of thousands of digits

_Choice = TypeVar("_Choice", bound=StrEnum)

_KINDS: Mapping[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a whole number",
    float: "a decimal number",
    str: "text",
    list: "a list",
    dict: "an object",
}


def kind_of(value: object) -> str:
    """Say what a plain value is, without saying its content."""
    return _KINDS.get(type(value), "text" if isinstance(value, str) else "something else")


def complaint(*, what: str, fix: str) -> PydanticCustomError:
    """Build the error that a validator raises."""
    return PydanticCustomError(OURS, "{what}; {fix}", {"what": what, "fix": fix})


def wrong_kind(value: object, due: str, fix: str) -> PydanticCustomError:
    """Build the error for a value of another kind than the one due."""
    return complaint(what=f"this is {kind_of(value)}, not {due}", fix=fix)


def _name(value: object) -> str:
    if not isinstance(value, str):
        scalar = isinstance(value, bool | int | float)
        raise wrong_kind(value, "text", "put it in quotes" if scalar else "write a name")
    if not value:
        raise complaint(what="this is empty", fix="write a name")
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can escape: no telemetry could carry the name
        raise complaint(what="this is not valid Unicode", fix="write the character itself in place of its escapes") from None
    return value


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("true", "false"):  # golden case count-config-strict-string
        return word == "true"
    if isinstance(value, str):
        raise complaint(what=f"{quoted(value)} is neither true nor false", fix="write true or false, without quotes")
    raise wrong_kind(value, "true or false", "write true or false")


def _share(value: object) -> float:
    fix = "write a number from 0.0 to 1.0"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_kind(value, "a number", fix)
    if not 0 <= value <= 1:  # NaN is not, either
        raise complaint(what=f"{_number(value)} is not between 0.0 and 1.0", fix=fix)
    return float(value)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}" if math.isfinite(value) else str(value)
    return str(value) if isinstance(value, int) and abs(value) < _LONG else "a huge number"


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise wrong_kind(value, "an object", "write keys with values, as in {city: Tokyo}")
    for key in value:
        if not isinstance(key, str):
            raise complaint(what=f"the key {quoted(str(key))} is not text", fix="put it in quotes")
    return value


_PAIR = 'write a list of an operator and a whole number, as in [">=", 1]'
_OPERATORS: Mapping[str, Operator] = {**{operator.value: operator for operator in Operator}, "==": Operator.EQUAL}


def _count(value: object) -> tuple[Operator, int]:
    if not isinstance(value, list):
        raise wrong_kind(value, "a list", _PAIR)
    if len(value) != 2:  # noqa: PLR2004 - an operator and a number
        raise complaint(what=f"the list has length {len(value)}, not 2", fix=_PAIR)
    operator, count = value
    if not isinstance(operator, str):
        raise complaint(what=f"the operator is {kind_of(operator)}, not text", fix=_PAIR)
    if operator not in _OPERATORS:
        raise complaint(what=f"{quoted(operator)} is not an operator", fix="use one of = == != > >= < <=")
    if isinstance(count, bool) or not isinstance(count, int):
        raise complaint(what=f"the count is {kind_of(count)}, not a whole number", fix=_PAIR)
    if count < 0:
        raise complaint(what=f"the count {_number(count)} is negative", fix="calls are counted from 0")
    return _OPERATORS[operator], count


def choice(kind: type[_Choice]) -> PlainValidator:
    """Build the validator of an enumeration: its values as text, with a guess at what was meant."""
    by_text = {member.value: member for member in kind}

    def validate(value: object) -> _Choice:
        if not isinstance(value, str):
            raise wrong_kind(value, "text", f"use one of {', '.join(sorted(by_text))}")
        if value not in by_text:
            raise complaint(what=f"{quoted(value)} is not known here", fix=use_one_of(value, by_text))
        return by_text[value]

    return PlainValidator(validate)


def choices(kind: type[_Choice]) -> PlainValidator:
    """Build the validator of a list of an enumeration's values, which must not be empty."""
    by_text = {member.value: member for member in kind}
    one_of = f"list some of {', '.join(sorted(by_text))}"

    def validate(value: object) -> frozenset[_Choice]:
        if not isinstance(value, list):
            raise wrong_kind(value, "a list", one_of)
        if not value:
            raise complaint(what="the list is empty", fix=one_of)
        for member in value:
            if not isinstance(member, str):
                raise complaint(what=f"the list holds {kind_of(member)}, not only text", fix=one_of)
            if member not in by_text:
                raise complaint(what=f"{quoted(member)} is not known here", fix=use_one_of(member, by_text))
        return frozenset(by_text[member] for member in value)

    return PlainValidator(validate)


def _names(value: object) -> frozenset[str]:
    if isinstance(value, list) and not value:
        raise complaint(what="the list is empty", fix="name at least one, or remove it")
    return frozenset(_name(member) for member in (value if isinstance(value, list) else [value]))


def schema_of(kind: type[StrEnum]) -> SchemaOf:
    """Return the JSON Schema of an enumeration."""
    return SchemaOf({"enum": [member.value for member in kind]})


def list_schema_of(kind: type[StrEnum]) -> SchemaOf:
    """Return the JSON Schema of a list of an enumeration's values."""
    return SchemaOf({"type": "array", "items": {"enum": [member.value for member in kind]}, "minItems": 1})


_NAME_SCHEMA = {"type": "string", "minLength": 1}

Name = Annotated[str, PlainValidator(_name), SchemaOf(_NAME_SCHEMA)]
"""Text that is not empty."""

GivenName = Annotated[str | None, PlainValidator(_name), SchemaOf(_NAME_SCHEMA)]
"""A name that may be left out (None), but not be null."""

GivenNames = Annotated[
    frozenset[str] | None,
    PlainValidator(_names),
    SchemaOf({"anyOf": [_NAME_SCHEMA, {"type": "array", "items": _NAME_SCHEMA, "minItems": 1}]}),
]
"""One name, or a list of names; may be left out (None), but not be null."""

Flag = Annotated[bool, PlainValidator(_flag), SchemaOf({"enum": [True, False, "true", "false"]})]
"""true or false, as a boolean or as text."""

GivenShare = Annotated[float | None, PlainValidator(_share), SchemaOf({"type": "number", "minimum": 0, "maximum": 1})]
"""A number from 0.0 to 1.0 that may be left out (None), but not be null."""

Object = Annotated[dict[str, object], PlainValidator(_object), SchemaOf({"type": "object"})]
"""An object with any members."""

Count = Annotated[
    tuple[Operator, int],
    PlainValidator(_count),
    SchemaOf(
        {
            "type": "array",
            "prefixItems": [{"enum": list(_OPERATORS)}, {"type": "integer", "minimum": 0}],
            "minItems": 2,
            "maxItems": 2,
        },
    ),
]
"""``[operator, n]`` with n >= 0, a true integer: not "2", not 2.0, not true. Golden cases count-count-* and count-pair-*."""

Whatever = Annotated[object, PlainValidator(lambda value: value), SchemaOf({})]
"""Any value; checked elsewhere, or never looked at."""
