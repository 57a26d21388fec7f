"""When two decoded values are equal. Source: SEMANTICS, section 2; the golden cases ``args-*`` hold it.

Values are not compared pair by pair: each is turned into an identity once, and identities are looked up in dictionaries, so
that holding n calls against m expectations costs n + m and not n times m. Rejected: canonical JSON text, which has to spell
numbers and sort keys, takes twice as long, and has no spelling for keys that are not text.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from otel_toolcall_eval.values.text import MAX_DEPTH

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

KeyT = TypeVar("KeyT")


class _Mark:
    """Equal to itself only. Stands where Python's own equality is wider than ours."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<{self.name}>"


_TRUE: Final = _Mark("true")
_FALSE: Final = _Mark("false")


def identity(value: object) -> Hashable:
    """Return a stand-in that equals another value's stand-in exactly when the two values are equal.

    Deep: objects are equal whatever the order of their keys, lists only in order, a tuple is a list. Numbers are equal by
    value, exactly, at any size (``1`` and ``1.0``); booleans are no numbers. A key that is not text differs from the text that
    spells it. NaN equals nothing, and neither does a value that holds one, has more than MAX_DEPTH levels, or is no Json.

    Returns:
        Good for comparing and hashing, never for showing. An object gives a frozenset with a pair for each member, a list a
        tuple, and nothing else gives either.

    Cost: linear, about 0.2 us for each member. Depth is bounded, so neither this walk nor a hash can exhaust the stack.
    """
    return _identity(value, MAX_DEPTH)


def member_identities(value: Mapping[str, Json]) -> frozenset[tuple[Hashable, Hashable]]:
    """Return the identity of an object: the identities of its members' keys and values."""
    return _object_identity(value, MAX_DEPTH - 1)


def _identity(value: object, depth: int) -> Hashable:
    """Return the identity of a value that may have ``depth`` levels of lists and objects. Exact types first: they are fast."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is dict or isinstance(value, Mapping):
        return _object_identity(value, depth - 1) if depth else _Mark("too deep")  # type: ignore[arg-type]
    if kind is list or kind is tuple:
        return tuple([_identity(member, depth - 1) for member in value]) if depth else _Mark("too deep")  # type: ignore[attr-defined]
    return _rare_identity(value, depth)


def _object_identity(value: Mapping[KeyT, object], depth: int) -> frozenset[tuple[Hashable, Hashable]]:
    """Return the identity of an object whose members may have ``depth`` levels."""
    return frozenset(
        [(key if type(key) is str else _identity(key, depth), _identity(member, depth)) for key, member in value.items()],
    )


def _rare_identity(value: object, depth: int) -> Hashable:
    """Return the identity of anything but text, integers, null and the built-in containers."""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int | float):
        return value if value == value else _Mark("nan")  # noqa: PLR0124 - NaN is what does not equal itself
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return _identity(list(value), depth)
    return _Mark("no value")  # no part of Json
