"""Shows values to people, in Python's spelling and bounded in length. Source: the guides' "Justification Details"."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.text import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RENDERED: Final = 2_000
"""Longest rendering of one value, in characters: enough for any value that a person reads, little for a thousand of them."""

_CUT: Final = "..."
_MAX_DECIMAL_BITS: Final = 2_000  # spelling an integer in decimal takes quadratic time and is refused beyond 4300 digits


def render(value: object, *, limit: int = MAX_RENDERED) -> str:
    """Return ``repr(value)``, ending in ``...`` where it would be longer than ``limit`` characters.

    Integers of more than 2000 bits are shown in hexadecimal. Lone surrogates and control characters are escaped, so the
    text can be encoded and stays on one line. Of a text that is cut, the quotes are those that suit the part that is shown.

    Cost: that of the part that is shown, however long the value is.
    """
    pieces = []
    left = limit
    for piece in _pieces(value, MAX_DEPTH, limit):
        pieces.append(piece)
        left -= len(piece)
        if left < 0:
            return "".join(pieces)[:limit] + _CUT
    return "".join(pieces)


def _pieces(value: object, depth: int, limit: int) -> Iterator[str]:
    if isinstance(value, str):
        yield repr(value[: limit + 1])
    elif isinstance(value, int) and value.bit_length() > _MAX_DECIMAL_BITS:
        yield hex(value)
    elif value is None or isinstance(value, bool | int | float):
        yield repr(value)
    elif depth == 0:
        yield _CUT
    elif isinstance(value, Mapping):
        yield "{"
        for position, (key, member) in enumerate(value.items()):
            if position:
                yield ", "
            yield from _pieces(key, depth - 1, limit)
            yield ": "
            yield from _pieces(member, depth - 1, limit)
        yield "}"
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        yield from _sequence_pieces(value, depth - 1, limit)
    else:
        yield f"<{type(value).__name__}>"  # no part of Json


def _sequence_pieces(value: Sequence[object], depth: int, limit: int) -> Iterator[str]:
    """Yield the rendering of a list or tuple; a tuple of one has a comma behind it."""
    opener, closer = ("(", ")") if isinstance(value, tuple) else ("[", "]")
    yield opener
    for position, member in enumerate(value):
        if position:
            yield ", "
        yield from _pieces(member, depth, limit)
    yield "," + closer if closer == ")" and len(value) == 1 else closer


# C0 and C1 controls, among them line breaks and the escape that begins a terminal's commands; marks that turn the direction of text;
# lone surrogates, which no terminal can be sent.
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return text on one line in which controls are spelled out, so that what an agent recorded can't forge lines or move the cursor."""
    return _UNSAFE.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode()
