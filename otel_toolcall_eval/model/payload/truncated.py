r"""Recovers the whole members of a value that was cut off, such as ``{"title": "trip", "body": "day one: we arr``.

Attribute limits cut in the middle of JSON and of Python literals alike. Only members that were followed by another one are
whole: of ``{"n": 12`` nobody knows whether the number went on. Nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.payload.text import MAX_DEPTH, UnreadableTextError, read_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.tool_call import Json

MAX_CUT_LENGTH: Final = 1_000_000
"""How much of a cut text is looked at, in characters. Limits that cut are far below; what is beyond counts as lost."""

_TOKEN: Final = re.compile(
    r"""\s*+(?:(?P<text>"[^"\\]*+(?:\\.[^"\\]*+)*+"|'[^'\\]*+(?:\\.[^'\\]*+)*+')|(?P<open>["'])|(?P<mark>[\[\](){},:])|(?P<word>[^\s"'\[\](){},:]++))""",
    re.DOTALL,
)
_CLOSERS: Final = {"{": "}", "[": "]", "(": ")"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CutObject:
    """An object that was cut off.

    Attributes:
        whole: the members that are known to be complete.
        open_key: the member that the cut goes through, if its key is complete.
        inner: that member's own members, if it is an object.
    """

    whole: Mapping[str, Json]
    open_key: str | None = None
    inner: CutObject | None = None


@dataclass(slots=True)
class _Frame:
    """A bracket that is still open. ``start`` is where it, or its current member, begins."""

    opener: str
    start: int
    members: list[tuple[int, int, int]]
    key_end: int | None = None
    value_start: int | None = None


def read_cut(text: str) -> CutObject | None:
    """Return what is left of a cut object; None if the text is no object that goes wrong exactly at its end.

    Cost: linear in the length, up to MAX_CUT_LENGTH.
    """
    text = text[:MAX_CUT_LENGTH]
    if not text.lstrip().startswith(("{", "[")):
        return None
    frames: list[_Frame] = []
    position = 0
    while (token := _TOKEN.match(text, position)) is not None:
        if token["open"] is not None:
            break  # the cut goes through a text
        position = token.end()
        start = token.start(token.lastgroup or 0)
        if not _take(frames, token["mark"], start) or len(frames) > MAX_DEPTH:
            return None
        if not frames:
            return None  # it closes, so it was not cut; what is wrong with it is something else
    return _built(frames, text)


def _take(frames: list[_Frame], mark: str | None, start: int) -> bool:
    """Take one token; False if it can't stand here."""
    if mark is not None and mark in _CLOSERS:
        if frames and frames[-1].value_start is None:
            frames[-1].value_start = start
        frames.append(_Frame(opener=mark, start=start, members=[]))
        return True
    frame = frames[-1]  # there is one: the text begins with a bracket
    if mark is None:
        frame.value_start = start if frame.value_start is None else frame.value_start
        return True
    if mark in ",:":
        return _separate(frame, mark, start)
    frames.pop()
    return _CLOSERS[frame.opener] == mark


def _separate(frame: _Frame, mark: str, start: int) -> bool:
    """Take a colon or comma; False if it can't stand here."""
    if frame.value_start is None or (mark == ":" and frame.opener != "{"):
        return False
    if frame.opener == "{" and (mark == ":") is (frame.key_end is not None):
        return False  # a second colon, or a comma after a key
    if mark == ":":
        frame.key_end, frame.start, frame.value_start = start, frame.value_start, None
        return True
    if frame.key_end is not None:
        frame.members.append((frame.start, frame.key_end, start))
    frame.key_end, frame.value_start = None, None
    return True


def _built(frames: list[_Frame], text: str) -> CutObject | None:
    """Build the objects that are open at the cut, inside out."""
    inner: CutObject | None = None
    for frame in reversed(frames):
        if frame.opener != "{":
            inner = None
            continue
        whole: dict[str, Json] = {}
        for start, colon, end in frame.members:
            try:
                key, value = read_text(text[start:colon].strip()), read_text(text[colon + 1 : end].strip())
            except UnreadableTextError:
                return None  # what is wrong is not the cut
            whole[str(key)] = value
        inner = CutObject(whole=whole, open_key=_key(frame, text), inner=inner)
    return inner if frames and frames[0].opener == "{" else CutObject(whole={})


def _key(frame: _Frame, text: str) -> str | None:
    """Return the key of the member that the cut goes through."""
    if frame.key_end is None:
        return None
    try:
        return str(read_text(text[frame.start : frame.key_end].strip()))
    except UnreadableTextError:
        return None
