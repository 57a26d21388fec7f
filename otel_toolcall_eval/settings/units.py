"""Durations, sizes, whole numbers and addresses, as people write them in settings."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import PlainValidator, ValidationInfo

from otel_toolcall_eval.settings.fields import SchemaOf, complaint, wrong_kind
from otel_toolcall_eval.settings.suggestion import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

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
