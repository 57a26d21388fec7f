"""Tells where two values differ, in paths and kinds and without the values themselves.

The walk asks ``identity`` what is equal, as the scores do, so that an explanation can't contradict its score.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import eq
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.equality import identity
from otel_toolcall_eval.model.payload.rendering import render
from otel_toolcall_eval.model.payload.text import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_DIFFERENCES: Final = 3
"""How many differences are reported: enough to act on, short enough for one line."""

_MAX_KEY: Final = 60  # keys come from the payload too, and nothing bounds them there
_OBJECT: Final = "an object"
_LIST: Final = "a list"
_OTHER: Final = "no JSON value"
_KINDS: Final = (
    (str, "text"),
    (bool, "a boolean"),  # before numbers: Python counts it among them, we don't
    ((int, float), "a number"),
    (Mapping, _OBJECT),
    ((bytes, bytearray), "bytes"),  # before lists, for the same reason
    (Sequence, _LIST),
)
_PLAIN_KEY: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{_MAX_KEY - 1}}}")


def differences(expected: object, actual: object, *, extra_allowed: bool = False) -> tuple[str, ...]:
    """Return up to MAX_DIFFERENCES differences, such as ``$.address.city differs`` or ``$.zip is missing``.

    Args:
        expected: what should be there.
        actual: what is there.
        extra_allowed: members that only ``actual`` has at its top level are no difference (subset mode).

    Returns:
        Empty exactly if the two are equal (or, with ``extra_allowed``, all expected members are there). Keys appear, bounded in
        length; values never.

    Cost: linear in the size of both.
    """
    return tuple(islice(_walk("$", expected, actual, MAX_DEPTH, extra_allowed=extra_allowed), MAX_DIFFERENCES))


def likeness(expected: object, actual: object) -> int:
    """Return how many members of an expected object or list the actual one has, at the same key or place and equal.

    Cost: linear in the size of both.
    """
    wanted, found = identity(expected), identity(actual)
    if isinstance(wanted, frozenset) and isinstance(found, frozenset):
        return len(wanted & found)
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        return sum(map(eq, wanted, found))
    return 0


def _walk(path: str, expected: object, actual: object, depth: int, *, extra_allowed: bool = False) -> Iterator[str]:
    wanted, found = _kind(expected), _kind(actual)
    if wanted != found:
        yield f"{path} differs" if wanted == _OTHER else f"{path} is {found}, expected {wanted}"
    elif depth == 0 and wanted in {_OBJECT, _LIST}:
        yield f"{path} differs"  # deeper than identity looks, which then finds nothing equal
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _walk_object(path, expected, actual, depth - 1, extra_allowed=extra_allowed)
    elif wanted == _LIST and isinstance(expected, Sequence) and isinstance(actual, Sequence):
        if len(expected) != len(actual):
            yield f"{path} has length {len(actual)}, expected {len(expected)}"
        for position, (inner_expected, inner_actual) in enumerate(zip(expected, actual, strict=False)):
            yield from _walk(f"{path}[{position}]", inner_expected, inner_actual, depth - 1)
    elif identity(expected) != identity(actual):
        yield f"{path} differs"


def _walk_object(
    path: str, expected: Mapping[object, object], actual: Mapping[object, object], depth: int, *, extra_allowed: bool
) -> Iterator[str]:
    members = {identity(key): (key, member) for key, member in actual.items()}
    for key, member in expected.items():
        found = members.pop(identity(key), None)
        inner = path + _step(key)
        if found is None:
            yield f"{inner} is missing"
        else:
            yield from _walk(inner, member, found[1], depth)
    if not extra_allowed:
        for key, _ in members.values():
            yield f"{path + _step(key)} is not expected"


def _step(key: object) -> str:
    """Return the part of a path that leads to a member: ``.city``, or ``['two words']``."""
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return "." + key
    return f"[{render(key, limit=_MAX_KEY)}]"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return next((name for kinds, name in _KINDS if isinstance(value, kinds)), _OTHER)
