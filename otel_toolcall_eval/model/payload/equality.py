"""When two decoded values are equal. Golden cases: ``args-*``.

Values are not compared pair by pair: each is turned into an identity once, and identities are looked up in dictionaries, so
that holding n calls against m expectations costs n + m and not n times m. Rejected: canonical JSON text, which has to spell
numbers and sort keys, takes twice as long, and has no spelling for keys that are not text. Where it is known which two values
are to be compared with each other, ``same`` walks both at once, hashes nothing, and stops at the first difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from otel_toolcall_eval.model.payload.text import MAX_DEPTH

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
_NO_MEMBER: Final = _Mark("no member")


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


def same(left: object, right: object) -> bool:
    """Tell whether two values are equal: whether their identities are.

    Cost: linear in the part that is equal, and a fifth of what two identities cost.
    """
    return _same(left, right, MAX_DEPTH)


def contains(whole: Mapping[KeyT, object], part: Mapping[str, object]) -> bool:
    """Tell whether an object has all members of another one, equal in value."""
    members: Mapping[object, object] = whole  # type: ignore[assignment] # a key that is no text equals none of these
    for key, member in part.items():  # noqa: SIM110 - as in ``_same_items``
        if key not in members or not _same(member, members[key], MAX_DEPTH - 1):
            return False
    return True


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


def _same(left: object, right: object, depth: int) -> bool:
    """Tell whether two values that may have ``depth`` levels are equal. What is usual is compared here, the rest by identity."""
    kind = type(left)
    if kind is type(right):
        if kind is str or kind is int or kind is float or kind is bool:
            return left == right
        if isinstance(left, dict) and isinstance(right, dict):
            return _same_members(left, right, depth - 1) if depth else False
        if isinstance(left, list) and isinstance(right, list):
            return _same_items(left, right, depth - 1) if depth else False
    return _identity(left, depth) == _identity(right, depth)


def _same_members(left: dict[object, object], right: dict[object, object], depth: int) -> bool:
    if len(left) != len(right):
        return False
    for key in left:  # before any member, so that none is walked twice
        if type(key) is not str:  # Python finds 1 where True was meant
            return _object_identity(left, depth) == _object_identity(right, depth)
    for key, member in left.items():  # noqa: SIM110 - as in ``_same_items``
        if not _same(member, right.get(key, _NO_MEMBER), depth):
            return False
    return True


def _same_items(left: list[object], right: list[object], depth: int) -> bool:
    if len(left) != len(right):
        return False
    for place, item in enumerate(left):  # noqa: SIM110 - a generator would be one more frame at each level
        if not _same(item, right[place], depth):
            return False
    return True


def _object_identity(value: Mapping[KeyT, object], depth: int) -> frozenset[tuple[Hashable, Hashable]]:
    return frozenset(
        [(key if type(key) is str else _identity(key, depth), _identity(member, depth)) for key, member in value.items()],
    )


def _rare_identity(value: object, depth: int) -> Hashable:
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int | float):
        return value if value == value else _Mark("nan")  # noqa: PLR0124 - NaN is what does not equal itself
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return _identity(list(value), depth)
    return _Mark("no value")  # no part of Json
