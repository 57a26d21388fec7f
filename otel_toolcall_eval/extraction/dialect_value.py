"""Reads values out of a decoded document and gathers everything that is wrong with it, so a file is reported once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import TypeVar

from otel_toolcall_eval.model.errors import Problem

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

MAX_TEXT_LENGTH = 500
"""Longest text in a dialect. No attribute key or marker comes near it, and no pattern may be longer."""


class DialectValue:
    """One value of a document, with the place where it stands."""

    __slots__ = ("problems", "value", "where")

    def __init__(self, value: object, *, where: str, problems: list[Problem]) -> None:
        """Wrap ``value``; ``problems`` is shared by all parts of one document."""
        self.value = value
        self.where = where
        self.problems = problems

    def wrong(self, what: str, fix: str) -> None:
        """Note a problem at this place."""
        self.problems.append(Problem(where=self.where, what=what, fix=fix))

    def part(self, value: object, name: str) -> DialectValue:
        """Return a part of this value."""
        return DialectValue(value, where=f"{self.where}.{name}", problems=self.problems)

    def mapping(self, allowed: Sequence[str]) -> Mapping[str, DialectValue]:
        """Return the members; anything but an object, and every unknown key, is a problem."""
        if not isinstance(self.value, Mapping):
            self.wrong(f"an object is due, {_kind(self.value)} is here", f"write an object with keys such as {allowed[0]!r}")
            return {}
        members = {}
        for key, value in self.value.items():
            if key in allowed:
                members[str(key)] = self.part(value, str(key))
            else:
                close = get_close_matches(str(key)[:MAX_TEXT_LENGTH], allowed, n=1)
                known = f"use {close[0]!r}" if close else f"use one of {', '.join(allowed)}"
                self.wrong(f"{str(key)[:MAX_TEXT_LENGTH]!r} is not a known key", known)
        return members

    def items(self) -> Sequence[DialectValue]:
        """Return the items of a list; anything else is a problem."""
        if not isinstance(self.value, (list, tuple)):
            self.wrong(f"a list is due, {_kind(self.value)} is here", "write the entries as a list")
            return ()
        return [DialectValue(item, where=f"{self.where}[{index}]", problems=self.problems) for index, item in enumerate(self.value)]

    def each(self, read: Callable[[DialectValue], T | None]) -> tuple[T, ...]:
        """Read every item of a list and leave out those that were wrong."""
        return tuple(result for item in self.items() if (result := read(item)) is not None)

    def text(self, *, empty: bool = False) -> str:
        """Return a text of bounded length; ``""`` if there is a problem."""
        if not isinstance(self.value, str):
            self.wrong(f"a text is due, {_kind(self.value)} is here", "write a text")
        elif not self.value and not empty:
            self.wrong("an empty text is here", "write a text that is not empty")
        elif len(self.value) > MAX_TEXT_LENGTH:
            self.wrong(f"a text of {len(self.value)} characters is here", f"write at most {MAX_TEXT_LENGTH}")
        else:
            return self.value
        return ""

    def texts(self) -> tuple[str, ...]:
        """Return a list of texts; a single text counts as a list of one."""
        if isinstance(self.value, str):
            return (self.text(empty=True),)
        return self.each(lambda item: item.text(empty=True))

    def spelling(self) -> str:
        """Return a text, a number or a boolean as JSON spells it."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, (int, float)):
            return repr(self.value)
        return self.text(empty=True)

    def truth(self) -> bool:
        """Return a boolean; False if there is a problem."""
        if not isinstance(self.value, bool):
            self.wrong(f"true or false is due, {_kind(self.value)} is here", "write true or false")
            return False
        return self.value

    def integer(self, low: int, high: int) -> int:
        """Return an integer within bounds; ``low`` if there is a problem."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            self.wrong(f"an integer from {low} to {high} is due", "write such a number")
            return low
        return self.value

    def choice(self, choices: type[E]) -> E | None:
        """Return a member of an enumeration; None if there is a problem."""
        names = [member.value for member in choices]
        if isinstance(self.value, str) and self.value in names:
            return choices(self.value)
        close = get_close_matches(str(self.value)[:MAX_TEXT_LENGTH], names, n=1)
        self.wrong(
            f"{str(self.value)[:MAX_TEXT_LENGTH]!r} is not possible here",
            f"use {close[0]!r}" if close else f"use one of {', '.join(names)}",
        )
        return None


def _kind(value: object) -> str:
    """Name the kind of a value in the words of its file."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "an object" if isinstance(value, Mapping) else "a list"
