"""The types of single values in files and settings: pydantic's own, with a validator where people write them in another way.

pydantic's errors become ours in ``config_model``. A validator of ours says itself what is wrong and how to mend it (``complaint``).
"""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass, replace
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo
from pydantic_core import PydanticCustomError

from otel_toolcall_eval.model.criteria import Operator
from otel_toolcall_eval.model.payload.redaction import words_of
from otel_toolcall_eval.settings.diagnostics import quoted
from otel_toolcall_eval.settings.patterns import LinearPattern, compile_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

OURS: Final = "ours"
"""Type of the errors raised here."""

OFF: Final = "off"
"""In place of a value: without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Where values come from; the context of their validation.

    Attributes:
        folder: what relative paths are relative to.
        text: everything is text, as in environment variables.
    """

    folder: Path = Path()
    text: bool = False


FROM_TEXT: Final = Layer(text=True)


@dataclass(frozen=True, slots=True, eq=False)  # typing wants to hash it, and a dict has no hash
class SchemaOf:
    """Says what a type's JSON Schema is. pydantic has its own, which in some versions mixes up the fields that share a type."""

    schema: Mapping[str, object]

    def __get_pydantic_json_schema__(self, _core: CoreSchema, _handler: GetJsonSchemaHandler) -> dict[str, object]:
        """Return a copy, since pydantic writes titles, descriptions and defaults into it."""
        return copy.deepcopy(dict(self.schema))


@dataclass(frozen=True, slots=True, eq=False)
class AlsoShort:
    """Says in JSON Schema which single value may stand in place of an object."""

    schema: Mapping[str, object]

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, object]:
        """Return both forms."""
        return {"anyOf": [dict(self.schema), handler(core)]}


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


_LONG = 10**20  # Python refuses to print integers of thousands of digits


def shown_number(value: object) -> str:
    """Return a number as text, unless it is a huge one."""
    return str(value) if isinstance(value, float) or (isinstance(value, int) and abs(value) < _LONG) else "a huge number"


def complaint(*, what: str, fix: str) -> PydanticCustomError:
    """Build the error that a validator raises."""
    return PydanticCustomError(OURS, "{what}; {fix}", {"what": what, "fix": fix})


def wrong_kind(value: object, due: str, fix: str) -> PydanticCustomError:
    """Build the error for a value of another kind than the one due."""
    return complaint(what=f"this is {kind_of(value)}, not {due}", fix=fix)


def is_text(value: object, info: ValidationInfo) -> bool:
    """Tell whether this is text only because its source, an environment variable, holds nothing but text."""
    return isinstance(info.context, Layer) and info.context.text and isinstance(value, str)


def _not_null(value: object) -> object:
    if value is None:
        raise complaint(what="this is null", fix="give a value, or leave the key out")
    return value


def _flag(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else ""
    return word == "true" if word in ("true", "false") else value  # golden case count-config-strict-string


def _names(value: object) -> object:
    return value if isinstance(value, list) else [_not_null(value)]


def _object(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise wrong_kind(value, "an object", "write keys with values, as in {city: Tokyo}")
    for key in value:
        if not isinstance(key, str):
            raise complaint(what=f"the key {quoted(str(key))} is not text", fix="put it in quotes")
    return value


def _scalar(value: object) -> str | int | float:
    if not isinstance(value, str | int | float):
        raise complaint(what=f"this is {kind_of(value)}", fix="write text, a number, true or false")
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
        raise complaint(what=f"the count {shown_number(count)} is negative", fix="calls are counted from 0")
    return _OPERATORS[operator], count


AnyValue: TypeAlias = object
"""Any value; checked elsewhere, or never looked at."""

Name = Annotated[str, Field(strict=True, min_length=1)]
"""Text that is not empty."""

GivenName = Annotated[Name | None, BeforeValidator(_not_null), SchemaOf({"type": "string", "minLength": 1})]
"""A name that may be left out (None), but not be null."""

GivenNames = Annotated[
    Annotated[frozenset[Name], Field(min_length=1)] | None,
    BeforeValidator(_names),
    SchemaOf(
        {"anyOf": [{"type": "string", "minLength": 1}, {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}]}
    ),
]
"""One name, or a list of names; may be left out (None), but not be null."""

Flag = Annotated[bool, Field(strict=True), BeforeValidator(_flag), SchemaOf({"enum": [True, False, "true", "false"]})]
"""true or false, as a boolean or as text."""

GivenShare = Annotated[
    Annotated[float, Field(strict=True, ge=0, le=1)] | None,
    BeforeValidator(_not_null),
    SchemaOf({"type": "number", "minimum": 0, "maximum": 1}),
]
"""A number from 0.0 to 1.0 that may be left out (None), but not be null."""

# Not by dict[str, object], which refuses half of a surrogate pair in a key; arguments of a call may have it.
Object = Annotated[dict[str, object], PlainValidator(_object), SchemaOf({"type": "object"})]
"""An object with any members."""

Scalar = Annotated[str | int | float, PlainValidator(_scalar), SchemaOf({"type": ["string", "number", "boolean"]})]
"""Text, a number, true or false."""

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

_UNITS_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{1,9})?(?:ms|s|m|h))+", re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(ms|s|m|h)", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?", re.ASCII)
_DURATION_FIX = "write a number with a unit, as in 500ms, 10s, 5m or 1h, or a number of seconds"
_YEAR_SECONDS = 366 * 24 * 3600  # far below what a wait in C can take

MIB: Final = 1024 * 1024
_UNITS_BYTES: Mapping[str, int] = {"": 1, "B": 1, "KiB": 1024, "MiB": MIB, "GiB": 1024 * MIB}
_SIZE = re.compile(r"([0-9]{1,15})\s*(|B|KiB|MiB|GiB)", re.ASCII)

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_MAX_WHOLE = 10**12


def _seconds(value: object) -> object:
    """Return seconds for ``10s``, ``1h30m``, ``500ms``, or a number of seconds as text."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if _DURATION.fullmatch(text):
        return sum(float(number) * _UNITS_SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
    if _NUMBER.fullmatch(text):
        return float(text)
    raise complaint(what=f"{quoted(value)} is not a duration", fix=_DURATION_FIX)


def _nanoseconds(seconds: float) -> int:
    if not seconds <= _YEAR_SECONDS:  # NaN is not, either
        raise complaint(what=f"{seconds:g} seconds are more than a year", fix=_DURATION_FIX)
    return round(seconds * 1_000_000_000)


def _bytes(value: object) -> object:
    """Return bytes for ``64MiB`` and its like."""
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip())
    if found is None:
        fix = "write a number of bytes, or one with a unit, as in 64MiB (KiB, MiB, GiB)"
        raise complaint(what=f"{quoted(value)} is not a size", fix=fix)
    return int(found[1]) * _UNITS_BYTES[found[2]]


def _number_in_text(value: object, info: ValidationInfo) -> object:
    return int(value.strip()) if isinstance(value, str) and is_text(value, info) and _WHOLE.fullmatch(value.strip()) else value


Duration = Annotated[
    float,
    Field(strict=True, ge=0),
    BeforeValidator(_seconds),
    AfterValidator(_nanoseconds),
    SchemaOf({"anyOf": [{"type": "string", "pattern": f"^({_DURATION.pattern}|{_NUMBER.pattern})$"}, {"type": "number", "minimum": 0}]}),
]
"""A duration; nanoseconds inside."""

Size = Annotated[
    int,
    Field(strict=True, ge=1, le=2**62),
    BeforeValidator(_bytes),
    SchemaOf({"anyOf": [{"type": "string", "pattern": f"^{_SIZE.pattern}$"}, {"type": "integer", "minimum": 1}]}),
]
"""A size; bytes inside."""

Positive = Annotated[int, Field(strict=True, ge=1, le=_MAX_WHOLE), BeforeValidator(_number_in_text)]
"""A whole number from 1."""

Natural = Annotated[int, Field(strict=True, ge=0, le=_MAX_WHOLE), BeforeValidator(_number_in_text)]
"""A whole number from 0."""

Mebibytes = Annotated[Positive, AfterValidator(lambda number: number * MIB)]
"""A whole number of MiB; bytes inside."""


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


_MAX_PORT = 65_535


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


def is_off(value: object) -> bool:
    """Tell whether a value switches something off; ``off`` is text in YAML 1.2, and false in what other programs write."""
    return value is False or (isinstance(value, str) and value.strip().lower() == OFF)


ADDRESS_SCHEMA: Mapping[str, object] = {"type": "string", "pattern": ":[0-9]{1,5}$"}
OFF_SCHEMA: Mapping[str, object] = {"enum": [OFF, False]}

ListenAddress = Annotated[Address, PlainValidator(_address), SchemaOf(ADDRESS_SCHEMA)]
"""``host:port``."""

OptionalAddress = Annotated[
    Address | str,
    PlainValidator(lambda value: OFF if is_off(value) else _address(value)),
    SchemaOf({"anyOf": [ADDRESS_SCHEMA, OFF_SCHEMA]}),
]
"""``host:port`` or ``off``."""


_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,*]+", re.ASCII)
# A name, an IPv4 address, or an IPv6 address with or without brackets; never with a port.
_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*", re.ASCII)


def _as_set(values: list[str]) -> frozenset[str]:
    return frozenset(values)  # frozenset itself as a validator costs 20 ms: its signature has to be parsed


def _words(value: object, info: ValidationInfo) -> object:
    """Return the words of a text, which commas or blanks separate."""
    return str(value).replace(",", " ").split() if is_text(value, info) else value


def _origin(value: str) -> str:
    if value != "*" and not _ORIGIN.fullmatch(value):
        fix = "list origins as browsers send them, as in https://app.example.com or http://localhost:3000; * alone is any"
        raise complaint(what=f"{quoted(value)} is not an origin", fix=fix)
    return value


def _host(value: str) -> str:
    if value != "*" and not _HOST.fullmatch(value):
        fix = "list names and addresses without scheme and port, as in scores.example.com or ::1; * alone is any"
        raise complaint(what=f"{quoted(value)} is not a host", fix=fix)
    return value.strip("[]")


Origins = Annotated[
    list[Annotated[Name, AfterValidator(_origin), SchemaOf({"type": "string", "pattern": f"^(\\*|{_ORIGIN.pattern})$"})]],
    BeforeValidator(_words),
    AfterValidator(_as_set),
]
"""Web origins: scheme, host and port, in lower case as browsers send them."""

Hosts = Annotated[
    list[Annotated[Name, AfterValidator(_host), SchemaOf({"type": "string", "pattern": f"^(\\*|{_HOST.pattern})$"})]],
    BeforeValidator(_words),
    AfterValidator(_as_set),
]
"""Names and addresses without ports; IPv6 without brackets."""

_HEADER_NAME = re.compile(r"[a-z0-9_.-]+")  # what both gRPC and HTTP take
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")
_OUR_HEADERS = frozenset(
    {"connection", "content-encoding", "content-length", "content-type", "host", "te", "transfer-encoding", "user-agent"}
)
_HEADERS_FIX = "write names with values, as in {x-tenant: agents}; in a variable x-tenant=agents,x-other=1"


def _headers(value: object) -> dict[str, str]:
    """Return headers by name in lower case. Complaints never show a value: it may be a credential."""
    if isinstance(value, str):
        value = _headers_in_text(value)
    if not isinstance(value, dict):
        raise wrong_kind(value, "an object", _HEADERS_FIX)
    found: dict[str, str] = {}
    for given, text in value.items():
        name = str(given).lower()
        if not _HEADER_NAME.fullmatch(name) or name.endswith("-bin"):
            raise complaint(what="a name is not that of a header with text", fix=_HEADERS_FIX)
        if name in _OUR_HEADERS or name.startswith("grpc-"):
            raise complaint(what=f"{name} is set by ourselves", fix="remove it")
        if not isinstance(text, str) or not _HEADER_VALUE.fullmatch(text):
            raise complaint(what=f"the value of {name} is not plain ASCII text", fix="put numbers in quotes, and encode what is not ASCII")
        found[name] = text.strip()
    return found


def _headers_in_text(text: str) -> dict[str, str]:
    """Read headers as ``OTEL_EXPORTER_OTLP_HEADERS`` has them."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise complaint(what="a header has no value", fix=_HEADERS_FIX)
    return {name.strip(): unquote(value.strip()) for name, _, value in pairs}


Headers = Annotated[
    dict[str, str],
    PlainValidator(_headers),
    SchemaOf({"anyOf": [{"type": "object", "additionalProperties": {"type": "string"}}, {"type": "string"}]}),
]
"""Headers by name, in lower case."""


def _redacted_key(value: str) -> str:
    if not words_of(value):
        raise complaint(what=f"{quoted(value)} has neither letters nor digits", fix="list keys, as in [customer_number, iban]")
    return value


def _pattern(text: str) -> LinearPattern:
    try:
        pattern = compile_pattern(text)
    except ValueError as error:
        missing = isinstance(error.__cause__, ImportError)
        fix = "list regular expressions that RE2 takes, as in ['[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}']"
        if missing:
            fix = "pip install 'otel-toolcall-eval[patterns]'"
        raise complaint(what=f"{quoted(text)} can't be used: {error}", fix=fix) from error
    if pattern.search("") is not None:
        raise complaint(what=f"{quoted(text)} holds for the empty text, thus everywhere", fix="let it ask for one character at least")
    return pattern


RedactedKeys = Annotated[
    list[Annotated[Name, AfterValidator(_redacted_key)]],
    BeforeValidator(lambda value, info: [key.strip() for key in value.split(",")] if is_text(value, info) else value),
]
"""Keys whose values are taken out."""

Patterns = Annotated[
    list[Annotated[Name, AfterValidator(_pattern)]],
    # Commas are part of patterns; several are one with | between them.
    BeforeValidator(lambda value, info: [value] if is_text(value, info) else value),
]
"""Regular expressions (RE2)."""


def _located(value: str, info: ValidationInfo) -> Path:
    return info.context.folder / value if isinstance(info.context, Layer) else Path(value)


LocalPath = Annotated[Name, AfterValidator(_located)]
"""A path; relative ones are relative to the file that holds them."""

AS_PATHS: Final = BeforeValidator(lambda value, info: [path for path in value.split(os.pathsep) if path] if is_text(value, info) else value)
"""In text, paths are separated as the system's ``PATH`` is."""
