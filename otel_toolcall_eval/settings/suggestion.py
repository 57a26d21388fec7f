"""The words of a complaint: quoting what a user wrote, and guessing what was meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_QUOTED_CHARACTERS = 60  # a message stays a line, whatever a file holds
_GUESSED_CHARACTERS = 80  # difflib takes quadratic time; no name of ours comes near
_LIKENESS = 0.6


def quoted(text: str) -> str:
    """Return the text in quotes, on one line, clipped, control characters escaped."""
    return repr(text if len(text) <= _QUOTED_CHARACTERS else f"{text[:_QUOTED_CHARACTERS]}...")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that comes closest, or None if none comes close. Case does not matter for closeness."""
    if len(word) > _GUESSED_CHARACTERS:
        return None
    by_lower = {candidate.lower(): candidate for candidate in known}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=_LIKENESS)
    return by_lower[found[0]] if found else None


def use_one_of(word: str, known: Iterable[str]) -> str:
    """Return the cure for an unknown word: the one that was probably meant, else all of them."""
    choices = sorted(known)
    guess = nearest(word, choices)
    if guess is not None:
        return f"did you mean {quoted(guess)}?"
    return f"use one of {', '.join(choices)}" if choices else "remove it"
