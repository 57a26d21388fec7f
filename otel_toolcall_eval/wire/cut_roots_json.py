"""Cuts root spans out of a trace request in JSON, as ``cut_roots`` does in protobuf.

Choice: on the text. The standard library's scanner says where each value ends, so all that is not cut out keeps its text, number formats
and unknown keys included; so does a root, whose verdict is put into its text. Rejected: parse, change, write, which keeps none of that.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.wire.json_fields import as_object, id_of, list_of, text_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from otel_toolcall_eval.wire.cut_roots import Additions, CutRoot

_PATH = ("resourceSpans", "scopeSpans", "spans")
_SPANS = len(_PATH) - 1
_BYTE_ORDER_MARK = "\ufeff"
_BLANKS = frozenset(" \t\r\n")
_scan = json.JSONDecoder().raw_decode


class _KeyTwiceError(Exception):
    """The request can't be cut without guessing which of two members counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    trace_id: bytes
    span_id: bytes
    span: str = field(repr=False)
    around: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # texts of its scope, then of its resource, before and behind

    @property
    def size_bytes(self) -> int:
        return len(self.span) + sum(len(before) + len(behind) for before, behind in self.around)

    def request(self, additions: Additions | None) -> bytes:
        text = self.span
        if additions is not None:
            known = {text_of(as_object(attribute), "key") for attribute in list_of(as_object(json.loads(text)), "attributes")}
            text = _with_more(text, additions.as_json(known=known))
        for before, behind in self.around:
            text = f"{before}[{text}]{behind}"
        return f'{{"resourceSpans":[{text}]}}'.encode()


def cut_roots_json(body: bytes, wanted: Collection[bytes]) -> tuple[bytes, Sequence[CutRoot]]:
    """Cut spans out of a request that could be decoded.

    Args, returns: as ``cut_roots``. What is not UTF-8, or has a key twice on the way to the spans, is left whole.
    Cost: that of parsing the request once more.
    """
    try:
        cutter = _Cutter(body.decode(), frozenset(wanted))
        left, roots = cutter.cut_object(0)
    except (UnicodeDecodeError, _KeyTwiceError):
        return body, ()
    return (body if left is None else left.encode()), roots


class _Cutter:
    """Walks along a text once. ``_at`` is where it stands."""

    def __init__(self, text: str, wanted: frozenset[bytes]) -> None:
        self._text = text
        self._wanted = wanted
        self._at = 0
        self._skip(len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0)

    def cut_object(self, level: int) -> tuple[str | None, Sequence[_Root]]:
        """Walk over an object.

        Returns:
            Its text without the spans that were cut out, None if none was, empty if nothing is left; and these spans.
        """
        text, start = self._text, self._at
        if text[start] != "{":
            self._value()
            return None, ()
        found: tuple[int, int, str, Sequence[_Root]] | None = None
        seen: set[object] = set()
        self._skip(1)
        while text[self._at] != "}":
            key = self._value()
            if key in seen:
                raise _KeyTwiceError
            seen.add(key)
            self._skip(1)  # the colon
            first = self._at
            if key == _PATH[level] and text[first] == "[":
                left, roots = self._list(level)
                found = (first, self._at, left, roots) if roots else found
            else:
                self._value()
            self._comma()
        end = self._at + 1
        self._skip(1)
        if found is None:
            return None, ()
        first, last, left, roots = found
        before, behind = text[start:first], text[last:end]
        if level:
            around = (before, behind)
            roots = [replace(root, around=(*root.around, around)) for root in roots]
        nothing = left == "[]" and (level or len(seen) == 1)
        return "" if nothing else before + left + behind, roots

    def _list(self, level: int) -> tuple[str, Sequence[_Root]]:
        """Walk over a list; return its text without the spans that were cut out, and these."""
        pieces: list[str] = []
        roots: list[_Root] = []
        self._skip(1)
        while self._text[self._at] != "]":
            start = self._at
            left, inner = self._span() if level == _SPANS else self.cut_object(level + 1)
            roots += inner
            if left is None:
                pieces.append(self._text[start : self._at].rstrip())
            elif left:
                pieces.append(left)
            self._comma()
        self._at += 1
        return f"[{','.join(pieces)}]", roots

    def _span(self) -> tuple[str | None, Sequence[_Root]]:
        start = self._at
        span, end = _scan(self._text, start)
        self._skip(end - start)
        fields = as_object(span)
        trace_id, span_id = id_of(fields, "traceId"), id_of(fields, "spanId")
        if trace_id + span_id not in self._wanted:
            return None, ()
        return "", [_Root(trace_id=trace_id, span_id=span_id, span=self._text[start:end])]

    def _value(self) -> object:
        value: object
        value, end = _scan(self._text, self._at)
        self._skip(end - self._at)
        return value

    def _comma(self) -> None:
        self._skip(0)
        if self._text[self._at] == ",":
            self._skip(1)

    def _skip(self, count: int) -> None:
        """Go on, and over the blanks that follow."""
        self._at = _over_blanks(self._text, self._at + count)


def _with_more(span: str, more: Mapping[str, Sequence[object]]) -> str:
    """Return the text of a span with more members in its lists; a list that it lacks, or that is null, is made."""
    for name, members in more.items():
        if not members:
            continue
        added = ",".join(json.dumps(member) for member in members)
        places = dict(_places(span))
        if name in places:
            at, end = places[name]
            inside = span[at + 1 : end - 1].strip() if span[at] == "[" else ""
            span = f"{span[:at]}[{inside}{',' if inside else ''}{added}]{span[end:]}"
        else:  # a span has IDs at least
            span = f'{{"{name}":[{added}],{span[1:]}'
    return span


def _places(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the keys of an object, and where the value of each begins and ends."""
    at = _over_blanks(text, 1)
    while text[at] != "}":
        key, at = _scan(text, at)
        at = _over_blanks(text, _over_blanks(text, at) + 1)
        _, end = _scan(text, at)
        yield key, (at, end)
        at = _over_blanks(text, end)
        at = _over_blanks(text, at + 1) if text[at] == "," else at


def _over_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in _BLANKS:
        at += 1
    return at
