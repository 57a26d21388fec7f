"""The types of single values in files and settings. Each complains in our words, and tells JSON Schema what it takes.

A validator raises ``PydanticCustomError`` with ``what`` and ``fix`` in its context; ``model.check`` turns that into a Problem.
"""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from otel_toolcall_eval.model.criteria import Operator
from otel_toolcall_eval.settings.diagnostics import quoted, use_one_of

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

AnyValue = Annotated[object, PlainValidator(lambda value: value), SchemaOf({})]
"""Any value; checked elsewhere, or never looked at."""


FROM_TEXT: Final = "text"
"""Validation context of environment variables, where everything is text."""

OFF: Final = "off"
"""In place of a value: without it."""

_SECOND_NS = 1_000_000_000
_MAX_NS = 366 * 24 * 3600 * _SECOND_NS  # a year; far below what a wait in C can take
_UNITS_NS: Mapping[str, int] = {"ms": 1_000_000, "s": _SECOND_NS, "m": 60 * _SECOND_NS, "h": 3600 * _SECOND_NS}
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_DURATION_FIX = "write a number with a unit, as in 500ms, 10s, 5m or 1h, or a number of seconds"

MAX_WORKERS: Final = 64
MIB = 1024 * 1024
_UNITS_BYTES: Mapping[str, int] = {"": 1, "B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}
_SIZE = re.compile(r"([0-9]{1,15})\s*(|B|KiB|MiB|GiB)", re.ASCII)
_SIZE_FIX = "write a number of bytes, or one with a unit, as in 64MiB (KiB, MiB, GiB)"
_MAX_BYTES = 2**62

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_MAX_WHOLE = 10**12
_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a receiver listens. ``port`` 0 lets the system choose one."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """True if nobody but this machine can reach it. Names are not looked up; only ``localhost`` is known."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_every(self) -> bool:
        """True if it stands for every address of this machine, as 0.0.0.0 does; nobody can be sent to such an address."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    @property
    def from_here(self) -> Address:
        """Return what a client on this machine connects to."""
        return replace(self, host="::1" if ":" in self.host else "127.0.0.1") if self.is_every else self

    def __str__(self) -> str:
        """Return ``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def duration_ns(value: object) -> int:
    """Return nanoseconds for ``10s``, ``1h30m``, ``500ms``, or a number of seconds as a number or text."""
    if isinstance(value, str):
        text = value.strip()
        if _DURATION.fullmatch(text):
            parts = ((float(number), _UNITS_NS[unit]) for number, unit in _DURATION_PART.findall(text))
            return _bounded_ns(sum(number * unit for number, unit in parts), value)
        if not _NUMBER.fullmatch(text):
            raise complaint(what=f"{quoted(value)} is not a duration", fix=_DURATION_FIX)
        return _bounded_ns(float(text) * _SECOND_NS, value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_kind(value, "a duration", _DURATION_FIX)
    if value < 0:
        raise complaint(what="the duration is negative", fix=_DURATION_FIX)
    return _bounded_ns(value * _SECOND_NS, value)


def _bounded_ns(nanoseconds: float, value: object) -> int:
    if not nanoseconds <= _MAX_NS:  # NaN is not, either
        raise complaint(what=f"{quoted(str(value))[:80]} is longer than a year", fix=_DURATION_FIX)
    return round(nanoseconds)


def size_bytes(value: object) -> int:
    """Return bytes for ``64MiB`` and its like, or a whole number of bytes; at least 1."""
    if isinstance(value, str):
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            raise complaint(what=f"{quoted(value)} is not a size", fix=_SIZE_FIX)
        return _bounded_bytes(int(found[1]) * _UNITS_BYTES[found[2]])
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_kind(value, "a size", _SIZE_FIX)
    return _bounded_bytes(value)


def _bounded_bytes(size: int) -> int:
    if not 1 <= size <= _MAX_BYTES:
        raise complaint(what="the size is not positive" if size < 1 else "the size is beyond all memory", fix=_SIZE_FIX)
    return size


def _whole(value: object, info: ValidationInfo, least: int) -> int:
    fix = f"write a whole number from {least}"
    if info.context == FROM_TEXT and isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_kind(value, "a whole number", fix)
    if not least <= value <= _MAX_WHOLE:
        raise complaint(what=f"the number is less than {least}" if value < least else "the number is too large", fix=fix)
    return value


def _positive(value: object, info: ValidationInfo) -> int:
    return _whole(value, info, 1)


def _workers(value: object, info: ValidationInfo) -> int:
    number = _whole(value, info, 1)
    if number > MAX_WORKERS:
        raise complaint(what=f"{number} is more than {MAX_WORKERS}", fix="set as many as there are cores, less one for receiving")
    return number


def _natural(value: object, info: ValidationInfo) -> int:
    return _whole(value, info, 0)


def _mib(value: object, info: ValidationInfo) -> int:
    return _whole(value, info, 1) * MIB


def _address(value: object) -> Address:
    fix = "write host:port, as in 127.0.0.1:4317 or [::1]:4317"
    if not isinstance(value, str):
        raise wrong_kind(value, "an address", fix)
    if "://" in value:
        raise complaint(what=f"{quoted(value)} is a URL", fix=f"leave out what stands before the host: {fix}")
    host, colon, port = value.strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or len(port) > 5 or int(port) > _MAX_PORT:  # noqa: PLR2004 - 65535
        raise complaint(what=f"{quoted(value)} has no port from 0 to {_MAX_PORT}", fix=fix)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise complaint(what=f"{quoted(value)} is an IPv6 address without brackets", fix=fix)
    if not host or any(character.isspace() or character in "/[]@" for character in host):
        raise complaint(what=f"{quoted(value)} has no host", fix=fix)
    return Address(host=host, port=int(port))


def _optional_address(value: object) -> Address | str:
    if value is False or (isinstance(value, str) and value.strip().lower() == OFF):
        return OFF
    return _address(value)


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,*]+", re.ASCII)


def _origins(value: object, info: ValidationInfo) -> frozenset[str]:
    fix = "list origins as browsers send them, as in https://app.example.com or http://localhost:3000; * alone is any"
    return _listed(value, info, "an origin", _ORIGIN, fix)


# A name, an IPv4 address, or an IPv6 address with or without brackets; never with a port.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", re.ASCII)


def _hosts(value: object, info: ValidationInfo) -> frozenset[str]:
    fix = "list names and addresses without scheme and port, as in scores.example.com or ::1; * alone is any"
    return frozenset(host.strip("[]") for host in _listed(value, info, "a host", _HOST, fix))


def _listed(value: object, info: ValidationInfo, kind: str, form: re.Pattern[str], fix: str) -> frozenset[str]:
    """Return the members of a list, each of the given form or ``*``; in a variable they are separated by commas."""
    if info.context == FROM_TEXT and isinstance(value, str):
        value = value.replace(",", " ").split()
    if not isinstance(value, list):
        raise wrong_kind(value, "a list", fix)
    for each in value:
        if not isinstance(each, str):
            raise wrong_kind(each, kind, fix)
        if each != "*" and not form.fullmatch(each):
            raise complaint(what=f"{quoted(each)} is not {kind}", fix=fix)
    return frozenset(value)


Duration = Annotated[
    int,
    PlainValidator(duration_ns),
    SchemaOf({"anyOf": [{"type": "string", "pattern": f"^({_DURATION.pattern}|{_NUMBER.pattern})$"}, {"type": "number", "minimum": 0}]}),
]
"""A duration; nanoseconds inside."""

Size = Annotated[
    int,
    PlainValidator(size_bytes),
    SchemaOf({"anyOf": [{"type": "string", "pattern": f"^{_SIZE.pattern}$"}, {"type": "integer", "minimum": 1}]}),
]
"""A size; bytes inside."""

Positive = Annotated[int, PlainValidator(_positive), SchemaOf({"type": "integer", "minimum": 1})]
"""A whole number from 1."""

Workers = Annotated[int, PlainValidator(_workers), SchemaOf({"type": "integer", "minimum": 1, "maximum": MAX_WORKERS})]
"""How many processes."""

Natural = Annotated[int, PlainValidator(_natural), SchemaOf({"type": "integer", "minimum": 0})]
"""A whole number from 0."""

Mebibytes = Annotated[int, PlainValidator(_mib), SchemaOf({"type": "integer", "minimum": 1})]
"""A whole number of MiB; bytes inside."""

_ADDRESS_SCHEMA = {"type": "string", "pattern": ":[0-9]{1,5}$"}

ListenAddress = Annotated[Address, PlainValidator(_address), SchemaOf(_ADDRESS_SCHEMA)]
"""``host:port``."""

OptionalAddress = Annotated[
    Address | str, PlainValidator(_optional_address), SchemaOf({"anyOf": [_ADDRESS_SCHEMA, {"enum": [OFF, False]}]})
]
"""``host:port`` or ``off``."""

Origins = Annotated[
    frozenset[str],
    PlainValidator(_origins),
    SchemaOf({"type": "array", "items": {"type": "string", "pattern": f"^(\\*|{_ORIGIN.pattern})$"}}),
]
"""Web origins: scheme, host and port, in lower case as browsers send them."""

Hosts = Annotated[
    frozenset[str],
    PlainValidator(_hosts),
    SchemaOf({"type": "array", "items": {"type": "string", "pattern": f"^(\\*|{_HOST.pattern})$"}}),
]
"""Names and addresses without ports; IPv6 without brackets."""
