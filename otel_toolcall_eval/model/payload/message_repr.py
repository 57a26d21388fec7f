r"""Reads objects that were printed by their ``repr``, such as ``content='18 C' name='get_weather' tool_call_id='call_1'``.

pydantic prints a model's fields as ``key=value`` with blanks between, a dataclass as ``Name(key=value, ...)``. Values are
Python literals, or objects that nobody can read back, which are left out. Nothing is evaluated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.text import UnreadableTextError, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.tool_call import Json

MAX_REPR_LENGTH: Final = 1_000_000
"""Longest text that is read, in characters."""

_HEAD: Final = re.compile(r"\s*+(?:[A-Za-z_][\w.]*+\()?+(?=[A-Za-z_]\w*+=)")
_KEY: Final = re.compile(r"[\s,]*+([A-Za-z_]\w*+)=")
# What may stand in a value: quoted text, brackets, anything else that is neither blank, comma nor closing bracket.
_PIECE: Final = re.compile(r"""'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[({]|[\])}]|[^\s,'"\[\](){}]++|[\s,]""", re.DOTALL)


def read_message_repr(text: str) -> Mapping[str, Json] | None:
    """Return the fields of a printed object that can be read; None if the text is no printed object.

    Cost: linear in the length.
    """
    head = _HEAD.match(text)
    if head is None or len(text) > MAX_REPR_LENGTH:
        return None
    position = head.end()
    fields: dict[str, Json] = {}
    while (key := _KEY.match(text, position)) is not None:
        end = _end_of_value(text, key.end())
        if end is None:
            return None
        fields.update(_readable(key[1], text[key.end() : end]))
        position = end
    return fields if text[position:].strip() in {"", ")"} else None


def _readable(key: str, text: str) -> Mapping[str, Json]:
    """Return a field; nothing if its value is an object that can't be read back."""
    try:
        return {key: read_text(text)}
    except UnreadableTextError:
        return {}


def _end_of_value(text: str, position: int) -> int | None:
    """Return where the value that begins at ``position`` ends; None if it does not."""
    depth = 0
    while (piece := _PIECE.match(text, position)) is not None:
        mark = piece[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0:
                return position
            depth -= 1
        elif depth == 0 and (mark == "," or mark.isspace()):
            return position
        position = piece.end()
    return position if depth == 0 and position == len(text) else None
