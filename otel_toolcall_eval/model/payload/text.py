"""Reads recorded text as a value: JSON first, else a Python literal."""

from __future__ import annotations

import re
from itertools import accumulate
from json import JSONDecodeError, JSONDecoder
from json.scanner import make_scanner
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.integers import read_integer
from otel_toolcall_eval.model.payload.literal import NotALiteralError, read_literal

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

MAX_DEPTH: Final = 100
"""How many lists and objects may stand inside one another. Whoever walks a value may recurse this deep."""

# What ``raw_decode`` calls, which would add a frame and a tenth of the time. typeshed has a wrong type for its argument.
_FAST: Final = make_scanner(JSONDecoder())  # type: ignore[arg-type]
_EXACT: Final = JSONDecoder(parse_int=read_integer).raw_decode
_OBJECT: Final = '{"'
_FEW: Final = 8  # brackets, found one by one
_BLANKS: Final = " \t\n\r"  # what JSON allows around a value
# All that is no bracket of JSON: text, ended or not, and everything else. Possessive, so that it can't go back on itself.
_NOT_A_BRACKET: Final = re.compile(r'(?:"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[^"\[\]{}]++)++', re.DOTALL)
_STEP: Final = {"[": 1, "{": 1, "]": -1, "}": -1}
# How JSON and Python literals begin, blanks aside. Most text that tools return is prose and told apart here, and most literals
# can't be JSON, which saves the price of an exception.
_START: Final = re.compile(
    r"""[ \t\n\r\f]*+(?:(?P<literal>[\[{]?'|\(|None|True|False|[uUrR]["'])|["\[{0-9.+-]|null|true|false|NaN|Infinity)"""
)


class UnreadableTextError(ValueError):
    """The text is neither JSON nor a Python literal, or goes beyond the bounds. The message tells no part of it."""


def read_text(text: str) -> Json:
    """Return the value that recorded text stands for.

    Args:
        text: as recorded, of any length.

    Returns:
        The value of the JSON text, else of the Python literal. ``NaN`` and ``Infinity`` count as JSON, lone surrogates are
        kept, integers are exact, of equal keys the last wins. ``1_000`` is a Python literal, hence a number.

    Raises:
        UnreadableTextError: it is neither (a byte order mark is no part of JSON), or it has brackets more than MAX_DEPTH deep,
            an integer of more than 100,000 digits, or, if it is no JSON, more than 250,000 characters. Nothing else.

    Cost: linear in the length, long integers aside. A small object takes 2 us as JSON and 10 us as a Python literal.
    """
    is_literal = False
    if not text.startswith(_OBJECT):  # as nearly all that is worth reading does, and most of that is JSON
        start = _START.match(text)
        if start is None:
            raise UnreadableTextError
        is_literal = start.lastgroup is not None
    try:
        if not is_literal:
            return _read_json(text)
    except ValueError:
        pass  # no JSON: the literal reader has the last word
    try:
        return read_literal(text, max_depth=MAX_DEPTH)
    except NotALiteralError:
        raise UnreadableTextError from None


def _read_json(text: str) -> Json:
    """Return the value of a JSON text, or raise ValueError.

    The depth is looked at before the text is read, since the reader recurses: its own guard is Python's recursion limit,
    which an application may have raised beyond what the C stack holds.
    """
    if len(text) > MAX_DEPTH and _count(text, "[") + _count(text, "{") > MAX_DEPTH:
        brackets = _NOT_A_BRACKET.sub("", text)
        if max(accumulate(map(_STEP.__getitem__, brackets)), default=0) > MAX_DEPTH:
            raise ValueError
    begin = 0 if text[0] not in _BLANKS else len(text) - len(text.lstrip(_BLANKS))
    value: Json
    try:
        value, end = _FAST(text, begin)
    except StopIteration:  # nothing begins here
        raise ValueError from None
    except JSONDecodeError:
        raise
    except ValueError:  # an integer beyond sys.set_int_max_str_digits
        value, end = _EXACT(text, begin)
    if end != len(text) and text[end:].strip(_BLANKS):
        raise ValueError
    return value


def _count(text: str, bracket: str) -> int:
    """Return how often a bracket stands in a text. ``count`` looks at each character; the next of a few is found in leaps."""
    found = 0
    place = text.find(bracket)
    while place >= 0:
        found += 1
        if found > _FEW:
            return text.count(bracket)
        place = text.find(bracket, place + 1)
    return found
