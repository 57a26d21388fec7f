"""Turns recorded values into contents."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.extraction.dialect import Decode, Dialect, Source
from otel_toolcall_eval.extraction.matching import at_path
from otel_toolcall_eval.extraction.payload_envelopes import SHAPES, Unwrapped, members_of
from otel_toolcall_eval.model.payload.text import MAX_DEPTH, UnreadableTextError, read_text
from otel_toolcall_eval.model.payload.truncated import CutObject, read_cut
from otel_toolcall_eval.model.tool_call import Content, ContentState, Json

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.reading import Found
    from otel_toolcall_eval.model.trace import Value

MAX_LAYERS: Final = 4
"""How often text is decoded while the answer is quoted text: once, then at most three times."""

MAX_MARK_LENGTH: Final = 200
"""Longest text that can be a mask, and how far from the end of a text a mark that it was cut is looked for."""

MIN_CUT_LENGTH: Final = 32
"""In the guides' own convention, the shortest text that counts as one cut off by a limit. Nobody sets a limit on attributes below
it, so what is shorter and broken was written so and is unusable: golden case ``args-malformed-empty-expected``."""

REDACTION_MARKS: Final = frozenset({"__REDACTED__", "<REDACTED>", "[REDACTED]"})
"""Texts that stand for a hidden value whoever wrote them."""

_CUT_MARK: Final = re.compile(r"(?:\.\.\.|\u2026)? ?\[(?:TRUNCATED|truncated)[^\[\]\n]{0,80}\]\s*+\Z")
_ABSENT: Final = Content(state=ContentState.ABSENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A decoded value with what its wrappers record about the call."""

    content: Content
    said: tuple[Unwrapped, ...] = ()


class TooDeepError(ValueError):
    """A recorded value is nested deeper than any reader of values may recurse."""


def plain(value: Value, depth: int = 0) -> Json:
    """Return a recorded value as Json: bytes as base64, as in OTLP/JSON. Raises TooDeepError beyond MAX_DEPTH."""
    if depth > MAX_DEPTH:
        raise TooDeepError
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {key: plain(member, depth + 1) for key, member in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item, depth + 1) for item in value)
    return value


def decode_arguments(found: Found | None, *, nothing_means_empty: bool = False) -> Decoded:
    """Decode arguments: an object, or a state that says why there is none."""
    if found is None:
        empty = Content(state=ContentState.FULL, value={}, nothing=True)
        return Decoded(content=empty if nothing_means_empty else _ABSENT)
    value = found.value
    text = value if isinstance(value, str) else None
    if value is None or (text is not None and _says_nothing(text, found.dialect)):
        return Decoded(content=Content(state=ContentState.FULL, value={}, text=text, nothing=True))
    decoded = _decode(found)
    content = decoded.content
    if content.state is not ContentState.FULL or isinstance(content.value, Mapping):
        return decoded
    if content.value is None:
        return Decoded(content=Content(state=ContentState.FULL, value={}, text=text, nothing=True), said=decoded.said)
    return Decoded(content=Content(state=ContentState.UNPARSED, text=text), said=decoded.said)


def _says_nothing(text: str, dialect: Dialect) -> bool:
    return not text or text.isspace() or (bool(dialect.empty_arguments) and text.strip() in dialect.empty_arguments)


def decode_output(found: Found | None, *, nothing_means_empty: bool = False) -> Decoded:
    """Decode an output: any value; text that is nothing else stands for itself."""
    if found is None:
        return Decoded(content=Content(state=ContentState.FULL, nothing=True) if nothing_means_empty else _ABSENT)
    return _decode(found)


def is_hidden(value: Value, dialect: Dialect) -> bool:
    """Tell whether a mask stands in a value's place."""
    if not isinstance(value, str) or len(value) > MAX_MARK_LENGTH:
        return False
    stripped = value.strip()
    return stripped in REDACTION_MARKS or stripped in dialect.placeholders.get("redacted", ())


def _decode(found: Found) -> Decoded:
    source, value = found.source, found.value
    text = value if isinstance(value, str) else None
    marked = _marked(found, text)
    if marked is not None:
        return Decoded(content=marked)
    try:
        read = plain(value) if text is None else read_as(text, source.decode)
    except TooDeepError:
        return Decoded(content=Content(state=ContentState.UNPARSED))
    if text is not None and isinstance(read, str) and _may_be_cut(text, source.decode) and read_cut(text) is not None:
        return Decoded(content=_cut(text, text, source))
    if source.decode is Decode.ONCE:
        return Decoded(content=Content(state=ContentState.FULL, value=read, text=text))
    return _unwrapped(found, read, text)


def _may_be_cut(text: str, decode: Decode) -> bool:
    """Tell whether text that can't be read may be what a limit left of a value."""
    return decode is not Decode.TEXT and (decode is not Decode.ONCE or len(text) >= MIN_CUT_LENGTH)


def _marked(found: Found, text: str | None) -> Content | None:
    """Return the content of a value that a mark says is hidden or cut off; None if there is no mark."""
    if text is not None and text[-1:] == "}" and not found.cut and "redacted" not in found.dialect.placeholders:
        return None  # as nearly all end, and no mark does
    if is_hidden(found.value, found.dialect):
        return Content(state=ContentState.REDACTED, text=text)
    if found.cut:
        return _cut(text or "", text or "", found.source)
    if text is not None and _may_end_in_mark(text) and _CUT_MARK.search(text, max(0, len(text) - MAX_MARK_LENGTH)) is not None:
        return _cut(_CUT_MARK.sub("", text), text, found.source)
    return None


def _may_end_in_mark(text: str) -> bool:
    """Tell whether a text ends like a mark that it was cut, without looking for one: nearly none does."""
    last = text[-1:]
    return last == "]" or last.isspace()


def _unwrapped(found: Found, read: Json, text: str | None) -> Decoded:
    """Follow the source's path into a decoded value and take off its wrappers."""
    source = found.source
    if source.path:
        read = _as_json(at_path(read, source.path))
        if read is None:
            return Decoded(content=_ABSENT)
        if isinstance(read, str):
            text = read
            read = read_as(read, Decode.AUTO)
        else:
            text = None
    if source.refuse_schema and looks_like_schema(read):
        return Decoded(content=_ABSENT)
    if source.wrap_as:
        return Decoded(content=Content(state=ContentState.FULL, value={source.wrap_as: read}, text=text))
    value, said = unwrap(read, source.unwrap, () if found.names is None else parameter_names(found.names))
    if isinstance(value, str) and is_hidden(value, found.dialect):
        return Decoded(content=Content(state=ContentState.REDACTED, text=text), said=said)
    if not said:
        return Decoded(content=Content(state=ContentState.FULL, value=value, text=text))
    if isinstance(value, str):
        text = value
    positional = next((one.positional for one in said if one.positional), ())
    names_from = source.names_from if any(one.named for one in said) else None
    content = Content(state=ContentState.FULL, value=value, text=text, positional=positional, names_from=names_from)
    return Decoded(content=content, said=said)


def _as_json(value: object) -> Json:
    """Narrow what a path reached; it came out of a Json value."""
    return value  # type: ignore[return-value]


def _cut(kept: str, text: str, source: Source) -> Content:
    """Build the content of a cut value: its whole members, below the source's path and inside its wrappers."""
    cut = read_cut(kept)
    partial: Mapping[str, Json] | None = None if cut is None else _cut_at(cut, source)
    return Content(state=ContentState.TRUNCATED, text=text, partial=partial or {})


def _cut_at(cut: CutObject, source: Source) -> Mapping[str, Json]:
    """Follow a path, then a wrapper such as ``kwargs``, into a cut object."""
    here: CutObject | None = cut
    for step in source.path:
        if here is None:
            return {}
        if step in here.whole:
            reached = here.whole[step]
            return {str(key): value for key, value in reached.items()} if isinstance(reached, Mapping) else {}
        here = here.inner if here.open_key == step else None
    if here is None:
        return {}
    for wrapper in ("kwargs", "arguments", "inputs"):
        if here.open_key == wrapper and here.inner is not None and source.unwrap:
            return here.inner.whole
    return here.whole


def read_as(text: str, decode: Decode) -> Json:
    """Read text by a rule; text that is nothing else stands for itself."""
    if decode is Decode.TEXT:
        return text
    if decode is not Decode.AUTO:
        try:
            return read_text(text)
        except UnreadableTextError:
            return text
    read: Json = text
    for _ in range(MAX_LAYERS):
        if not isinstance(read, str):
            break
        layer = _read_layer(read)
        if layer is None:
            break
        read = layer
    return read


def _read_layer(text: str) -> Json:
    """Read a container, or quoted text; None if the text is neither, since bare scalars stay text."""
    start = text.lstrip()[:1] if text[:1].isspace() else text[:1]
    if start not in {"{", "[", "(", '"'}:
        return None
    try:
        read = read_text(text)
    except UnreadableTextError:
        return None
    if start == '"':
        return read if isinstance(read, str) else None
    return read if isinstance(read, (dict, list, tuple)) else None


def unwrap(value: Json, shapes: Sequence[str], names: Sequence[str] = ()) -> tuple[Json, tuple[Unwrapped, ...]]:
    """Take off the shapes, each at most once and in their order; text inside is read again."""
    if not shapes or (isinstance(value, dict) and members_of(tuple(shapes)).isdisjoint(value)):
        return value, ()
    said: list[Unwrapped] = []
    for shape in shapes:
        unwrapped = SHAPES[shape](value, names)
        if unwrapped is not None:
            said.append(unwrapped)
            value = read_as(unwrapped.value, Decode.AUTO) if isinstance(unwrapped.value, str) else unwrapped.value
    return value, tuple(said)


def looks_like_schema(value: Json) -> bool:
    """Tell whether a value describes parameters instead of giving arguments."""
    if not isinstance(value, Mapping):
        return False
    if value.get("type") == "object" and isinstance(value.get("properties"), Mapping):
        return True
    return bool(value) and all(isinstance(member, Mapping) and "type" in member for member in value.values())


def parameter_names(schema: Value) -> Sequence[str]:
    """Return the names of a tool's parameters in order: the properties of a JSON schema, or the keys of smolagents' ``inputs``."""
    read = _read_layer(schema) if isinstance(schema, str) else schema
    if not isinstance(read, Mapping):
        return ()
    properties = read.get("properties")
    named = properties if isinstance(properties, Mapping) else read
    return [str(name) for name, value in named.items() if isinstance(value, Mapping)]
