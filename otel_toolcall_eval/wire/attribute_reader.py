"""Picks the attributes that a projection keeps out of their protobuf bytes.

Most attributes of most spans are kept by nobody, and some are a hundred kilobytes long. So the key's bytes are tested before anything is
decoded, and that test runs in C: the first bytes of each attribute, cut by ``itemgetter``, are looked up in a memo, and
``compress`` leaves those that may be kept. Cost: about 0.15 microseconds for an attribute that is not kept.
Short attributes that are kept, names of operations and tools for the most part, come again and again: they are remembered by their bytes,
which saves three quarters of the time and makes all spans share one text.
Rejected: a loop with a test in Python (twice the time), one pattern over the bytes of the span (finds keys inside values, too, and has to
try each of some hundred keys at every 0x0A).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import compress
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.wire.any_value import NestedTooDeepError, read_key_value, read_value, text_of
from otel_toolcall_eval.wire.head_memo import HEAD_BYTES, MEMO_ENTRIES, HeadMemo
from otel_toolcall_eval.wire.patterns import MAX_PLACES, Patterns, Place
from otel_toolcall_eval.wire.span_factory import Kept, decoded_bytes, value_bytes
from otel_toolcall_eval.wire.varint import content_start, read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_extensions import i64

    from otel_toolcall_eval.model.trace import Projection, Value
    from otel_toolcall_eval.wire.limits import MemberBudget
    from otel_toolcall_eval.wire.patterns import Piece

_TAG_OF_KEY: Final = 0x0A
_TAG_OF_VALUE: Final = 0x12
_TAG_OF_TEXT: Final = 0x0A
_CONTINUES: Final = 0x80
_PAYLOAD: Final = 0x7F
_LENGTH_BITS: Final = 28  # of a length in four bytes; `SpanReader.scan` leaves longer ones to the parser, too
_LONG_KEY: Final = 0x80  # from here on the length takes two bytes
_KEY_START: Final = 2  # behind tag and length
_TAG_OF_ATTRIBUTE: Final = 0x4A  # in a span
_RECENT_BYTES: Final = 64  # longer values seldom come twice

_head_of: Callable[[bytes], bytes] = itemgetter(slice(0, HEAD_BYTES))


class AttributeReader:
    """Reads the kept attributes of spans, for one projection."""

    __slots__ = ("_keys", "_known", "_may_be_kept", "_names", "_patterns", "_prefixes", "_recent", "event_names")

    def __init__(self, projection: Projection) -> None:
        """Prepare the tests; done once for each projection.

        ``event_names`` maps the encoded names of the events that are kept to their text.
        """
        self._keys = projection.keys
        self._names = {key.encode(): key for key in projection.keys}
        self._prefixes = tuple(prefix.encode() for prefix in projection.prefixes)
        self._may_be_kept = HeadMemo(self._names, self._prefixes).__getitem__
        # Memos, by any decoding thread; a lost entry changes nothing.
        self._recent: dict[bytes, tuple[str, Value]] = {}
        self._known: dict[bytes, str] = {}
        self._patterns = Patterns()
        self.event_names = {name.encode(): name for name in projection.event_names}

    def read(self, encoded: Sequence[bytes], budget: MemberBudget) -> Kept:
        """Return the attributes that are kept.

        Args:
            encoded: one ``KeyValue`` each; of equal keys the last one counts.
            budget: members that the request may still hold.

        Raises:
            MalformedError: one that may be kept is not protobuf.
            TooLargeError: the budget is spent.
        """
        every = encoded[:]  # one copy: reading the container costs an object for each attribute each time
        kept = Kept()
        recent, attributes = self._recent, kept.attributes
        for data in compress(every, map(self._may_be_kept, map(_head_of, every))):
            seen = recent.get(data) if len(data) < _RECENT_BYTES else None
            if seen is None:
                self._take(data, kept, budget)
            else:
                attributes[seen[0]] = seen[1]
        return kept

    def take(self, data: bytes, start: i64, stop: i64, kept: Kept, budget: MemberBudget) -> None:
        """Add the ``KeyValue`` that lies between two positions, if it is kept; else as ``read``.

        For the compiled core: on positions, since each object that is not made saves more than all that is done to them.
        """
        value: i64 = start + _KEY_START
        if value <= stop:
            value += data[start + 1]
        if value > stop or data[start] != _TAG_OF_KEY or data[start + 1] >= _LONG_KEY:
            self._take_odd(data[start:stop], kept, budget)
            return
        key = data[start + _KEY_START : value]
        name = self._known.get(key)
        if name is None:
            name = self._know(key)
        if not name:
            return
        if stop - start < _RECENT_BYTES:
            short = data[start:stop]
            seen = self._recent.get(short)
            if seen is None:
                self._take(short, kept, budget)
            else:
                kept.attributes[seen[0]] = seen[1]
            return
        self._take_long(name, data, start, content_start(data, value, stop, _TAG_OF_VALUE), stop, kept, budget)

    def take_usual(self, name: bytes, data: bytes, at: i64, kept: Kept, budget: MemberBudget) -> i64:
        """Take the first attributes of a span at once, if they are like those of earlier spans of its name. Raises as ``read`` does.

        Args:
            name: of the span, encoded.
            data: the span.
            at: where its first attribute begins, with its tag.
            kept: nothing yet.
            budget: members that the request may still hold.

        Returns:
            Where the attributes end that were taken; 0 if none were, and all is to be read one by one.
        """
        pattern = self._patterns.by_name.get(name)
        if pattern is None or not pattern.pieces:
            return 0
        members_left = budget.left
        kept.attributes = pattern.attributes.copy()
        for piece in pattern.pieces:
            if piece.is_whole:
                end: i64 = at + piece.size
                if data[at:end] != piece.encoded:
                    end = 0
            else:
                end = self._take_varying(data, at, piece, kept, budget)
            if end == 0:
                budget.left = members_left
                kept.start_again()
                return 0
            at = end
        pattern.fits()
        kept.pattern = pattern
        return at

    def _take_varying(  # noqa: C901, PLR0911 - in one, as `SpanReader.scan`
        self, data: bytes, at: i64, piece: Piece, kept: Kept, budget: MemberBudget
    ) -> i64:
        """Take the attribute at a position, if it has the key that is expected, and is written as usual; return its end, else 0."""
        size: i64 = len(data)
        if at + _KEY_START > size or data[at] != _TAG_OF_ATTRIBUTE:
            return 0
        stop: i64 = data[at + 1]
        start: i64 = at + 2
        shift: i64 = 7
        if stop >= _CONTINUES:
            stop &= _PAYLOAD
            while True:
                if start == size or shift == _LENGTH_BITS:
                    return 0
                byte: i64 = data[start]
                start += 1
                stop |= (byte & _PAYLOAD) << shift
                shift += 7
                if byte < _CONTINUES:
                    break
        stop += start
        value: i64 = start + piece.size
        if stop > size or value > stop or data[start:value] != piece.encoded:
            return 0
        name = piece.name
        if not name:
            return stop
        content: i64 = content_start(data, value, stop, _TAG_OF_VALUE)
        if content < 0:  # another field, which may be a second key
            return 0
        if stop - start < _RECENT_BYTES:
            short = data[start:stop]
            seen = self._recent.get(short)
            if seen is None:
                self._take(short, kept, budget)
            else:
                kept.attributes[name] = seen[1]
            return stop  # nothing this short is nested too deep
        self._take_long(name, data, start, content, stop, kept, budget)
        return 0 if kept.too_deep else stop

    def _take_long(  # noqa: PLR0917 - positions, as of `take`
        self, name: str, data: bytes, start: i64, content: i64, stop: i64, kept: Kept, budget: MemberBudget
    ) -> None:
        """Take what is too long to be remembered, nearly always a text; its value begins at ``content``, below 0 if there is more to it."""
        text: i64 = content_start(data, content, stop, _TAG_OF_TEXT) if content > 0 else -1
        if text > 0 and name in self._keys:
            found = text_of(data[text:stop])
            kept.attributes[name] = found
            kept.size_bytes += decoded_bytes(found, stop - text)
        else:
            self._take(data[start:stop], kept, budget)

    def learn(self, name: bytes, text: str, data: bytes, at: int) -> None:
        """Remember for ``take_usual``, if it is due, how a span begins that did not go that way; ``at`` as there."""
        if not self._patterns.is_due(name, text):
            return
        places: list[Place] = []
        size = len(data)
        while at < size and data[at] == _TAG_OF_ATTRIBUTE and len(places) < MAX_PLACES:
            length, start = read_varint(data, at + 1, size)
            stop = start + length
            key_end = start + _KEY_START
            if key_end <= stop:
                key_end += data[start + 1]
            if key_end > stop or data[start] != _TAG_OF_KEY or data[start + 1] >= _LONG_KEY:
                break
            head, content = data[start:key_end], data[start:stop]
            known = self._know(head[_KEY_START:])
            seen = self._recent.get(content) if known and len(content) < _RECENT_BYTES else None
            kept_as, value = seen or (known, None)
            if kept_as != known:  # a second key follows
                break
            is_whole = len(content) < _RECENT_BYTES and (seen is not None or not known)
            places.append(Place(head, known, data[at:stop] if is_whole else b"", value))
            at = stop
        self._patterns.learn(name, text, places)

    def _take_odd(self, data: bytes, kept: Kept, budget: MemberBudget) -> None:
        if self._may_be_kept(_head_of(data)):
            self._take(data, kept, budget)

    def _know(self, key: bytes) -> str:
        """Return the name of an attribute that is kept, empty for another one, and remember it if it is short."""
        name = self._names.get(key) or (text_of(key) if self._prefixes and key.startswith(self._prefixes) else "")
        if len(self._known) >= MEMO_ENTRIES:
            self._known.clear()  # somebody sends made-up keys
        if len(key) < _RECENT_BYTES:
            self._known[key] = name
        return name

    def _take(self, data: bytes, kept: Kept, budget: MemberBudget) -> None:
        key, value_start, value_end = read_key_value(data, 0, len(data))
        name = self._names.get(key)
        if name is None:
            if not self._prefixes or not key.startswith(self._prefixes):
                return
            name = text_of(key)
            kept.size_bytes += len(name)
        try:
            value = read_value(data, value_start, value_end, budget)
        except NestedTooDeepError:
            kept.too_deep += 1
            return
        kept.attributes[name] = value
        kept.size_bytes += value_bytes(value)
        if len(data) < _RECENT_BYTES and not isinstance(value, dict):
            kept.remembered_bytes += value_bytes(value)
            self._remember(data, name, value)

    def _remember(self, data: bytes, name: str, value: Value) -> None:
        if len(self._recent) >= MEMO_ENTRIES:
            self._recent.clear()
        self._recent[data] = (name, value)


def read_all(encoded: Sequence[bytes], budget: MemberBudget) -> tuple[dict[str, Value], int]:
    """Return all attributes, and how many were left out because they are nested too deep. Raises as ``AttributeReader.read`` does."""
    kept: dict[str, Value] = {}
    too_deep = 0
    for data in encoded:
        key, start, end = read_key_value(data, 0, len(data))
        try:
            kept[text_of(key)] = read_value(data, start, end, budget)
        except NestedTooDeepError:
            too_deep += 1
    return kept, too_deep


@lru_cache(maxsize=8)
def reader_for(projection: Projection) -> AttributeReader:
    """Return the reader of a projection, the same one while the projection is in use."""
    return AttributeReader(projection)
