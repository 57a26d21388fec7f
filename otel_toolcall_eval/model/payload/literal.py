r"""Reads Python literals of JSON-like values, such as ``{'city': 'Tokyo', 'on': True, 'tags': ('a',)}``.

Producers record ``str(value)`` as often as JSON. Rejected: ``ast.literal_eval``. It builds a syntax tree of a hundred times
the text's size, may overflow the C stack where an application has raised the recursion limit, warns about odd escapes
through process-wide filters that a thread of ours must not touch, and refuses text with lone surrogates. The reader below
walks the text once, with a stack of its own. Cost of the choice: the grammar of literals is spelled out here.

It reads what ``ast.literal_eval`` reads, so ``1_000`` and ``0x1F`` are numbers, and ``1, 2`` is a tuple. Left out is what has
no JSON-like value (sets, bytes, complex numbers, ``...``) and what neither ``repr`` nor ``pprint`` writes (comments,
arithmetic, ``\N{...}``, line continuation outside of text).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.integers import read_integer

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

MAX_LITERAL_LENGTH: Final = 250_000
"""Longest text that is read, in characters. At worst it takes 0.3 s, where JSON of that length takes five milliseconds."""

# Hashes of numbers are predictable: a sender who lets thousands of keys collide stalls a dictionary for minutes.
_MAX_EQUAL_HASHES: Final = 32

_BLANKS: Final = " \t\n\r\f"
_DIGITS: Final = r"[0-9](?:_?[0-9])*+"
_TOKEN: Final = re.compile(
    rf"""[ \t\n\r\f]*+(?:
        (?P<mark>[\[\](){{}},:])
      | (?:(?P<raw>[rR])|[uU])?+(?:
            '''(?P<s3>[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*+)'''
          | \"""(?P<d3>[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+)\"""
          | '(?!'')(?P<s1>[^'\\\n\r]*+(?:\\.[^'\\\n\r]*+)*+)'
          | "(?!"")(?P<d1>[^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+)"
        )
      | (?P<word>None|True|False)(?!\w)
      | (?P<sign>[+-][ \t\n\r\f]*+)?+(?:
            (?P<based>0[xX](?:_?[0-9a-fA-F])++|0[oO](?:_?[0-7])++|0[bB](?:_?[01])++)
          | (?P<float>(?:{_DIGITS}\.(?:{_DIGITS})?+|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?+|{_DIGITS}[eE][+-]?{_DIGITS})
          | (?P<int>[1-9](?:_?[0-9])*+|0(?:_?0)*+)
        )(?![\w.])
    )""",
    re.VERBOSE | re.DOTALL,
)
_TEXT_GROUPS: Final = frozenset({"s1", "d1", "s3", "d3"})
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPED: Final = {"\n": "", "\\": "\\", "'": "'", '"': '"', "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORDS: Final = {"None": None, "True": True, "False": False}
_OPENER: Final = {")": "(", "]": "[", "}": "{"}


class NotALiteralError(ValueError):
    """The text is no Python literal of a JSON-like value, or goes beyond the bounds."""


@dataclass(slots=True)
class _Open:
    """A bracket that is not closed yet. The text as a whole counts as one, which its end closes."""

    opener: str
    items: list[Json] = field(default_factory=list)  # of an object: key, value, key, value, ...
    due: bool = True  # a value may stand here
    commas: bool = False


def read_literal(text: str, *, max_depth: int) -> Json:
    """Return the value of a Python literal.

    Args:
        text: may have blanks and line breaks around it and between its parts.
        max_depth: how many brackets may stand inside one another.

    Returns:
        bool, int, float, str, None, lists, tuples, and dictionaries whose keys are anything that Python can hash.

    Raises:
        NotALiteralError: it can't be read. The message tells no part of the text.

    Cost: linear in the length, about 0.5 us for each token; see MAX_DIGITS for long integers.
    """
    text = text.rstrip(_BLANKS)
    if len(text) > MAX_LITERAL_LENGTH:
        raise NotALiteralError
    stack = [_Open("")]
    position, end = 0, len(text)
    while position < end:
        token = _TOKEN.match(text, position)
        if token is None:
            raise NotALiteralError
        position = token.end()
        kind = token.lastgroup
        if kind == "mark":
            _take_mark(stack, token[kind], max_depth)
        elif kind in _TEXT_GROUPS:
            value, position = _read_texts(text, token)
            _place(stack[-1], value)
        else:
            _place(stack[-1], _read_scalar(token))
    if len(stack) > 1 or not stack[0].items:
        raise NotALiteralError
    return _close(stack[0])


def _take_mark(stack: list[_Open], mark: str, max_depth: int) -> None:
    frame = stack[-1]
    if mark in ",:":
        _separate(frame, mark)
    elif mark in "([{":
        if not frame.due or len(stack) > max_depth:
            raise NotALiteralError
        stack.append(_Open(mark))
    elif _OPENER[mark] == frame.opener:
        stack.pop()
        _place(stack[-1], _close(frame))
    else:
        raise NotALiteralError


def _place(frame: _Open, value: Json) -> None:
    if not frame.due:
        raise NotALiteralError
    frame.items.append(value)
    frame.due = False


def _separate(frame: _Open, mark: str) -> None:
    """Take a comma or colon: in an object a colon follows each key and a comma each value, elsewhere there are no colons."""
    after_key = frame.opener == "{" and len(frame.items) % 2 == 1
    if frame.due or after_key is not (mark == ":"):
        raise NotALiteralError
    frame.due = True
    frame.commas = frame.commas or mark == ","


def _close(frame: _Open) -> Json:
    """Return the value of a bracket at its end. Round ones with a single item and no comma only group."""
    items = frame.items
    if frame.opener == "[":
        return items
    if frame.opener == "{":
        return _read_object(items)
    if len(items) == 1 and not frame.commas:
        return items[0]
    return tuple(items)


def _read_object(items: list[Json]) -> dict[object, Json]:
    """Build a dictionary from keys and values in turn; of equal keys the last wins."""
    keys = items[::2]
    if len(items) % 2:
        raise NotALiteralError
    try:
        others = [hash(key) for key in keys if not isinstance(key, str)]
    except TypeError:  # a list or an object can't be a key
        raise NotALiteralError from None
    if len(others) > _MAX_EQUAL_HASHES and max(Counter(others).values()) > _MAX_EQUAL_HASHES:
        raise NotALiteralError
    return dict(zip(keys, items[1::2], strict=True))


def _read_scalar(token: re.Match[str]) -> Json:
    word = token["word"]
    if word is not None:
        return _WORDS[word]
    negative = (token["sign"] or "").startswith("-")
    number: int | float
    if token["float"] is not None:
        number = float(token["float"])
    elif token["based"] is not None:
        number = int(token["based"], 0)  # linear, and without the limit on digits: the base is a power of two
    else:
        try:
            number = read_integer(token["int"].replace("_", ""))
        except ValueError:
            raise NotALiteralError from None
    return -number if negative else number


def _read_texts(text: str, token: re.Match[str]) -> tuple[str, int]:
    """Return one text, or several side by side, joined (``pprint`` breaks long text so), and the position behind."""
    pieces = []
    following: re.Match[str] | None = token
    while following is not None and following.lastgroup in _TEXT_GROUPS:
        token = following
        piece = token[token.lastgroup]  # type: ignore[index]  # the loop's condition says that there is one
        pieces.append(piece if token["raw"] or "\\" not in piece else _ESCAPE.sub(_unescape, piece))
        following = _TOKEN.match(text, token.end())
    return (pieces[0] if len(pieces) == 1 else "".join(pieces)), token.end()


def _unescape(escape: re.Match[str]) -> str:
    """Return what one escape stands for; an unknown one stands for itself, backslash included, as in Python."""
    code = escape[1]
    if code in _ESCAPED:
        return _ESCAPED[code]
    if len(code) > 1 and code[0] in "xuU":
        number = int(code[1:], 16)
        if number > 0x10FFFF:  # noqa: PLR2004 - the last code point of Unicode
            raise NotALiteralError
        return chr(number)
    if code[0] in "01234567":
        return chr(int(code, 8))
    if code in "xuUN":
        raise NotALiteralError
    return "\\" + code
