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
from otel_toolcall_eval.wire.span_factory import Kept, value_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mypy_extensions import i64

    from otel_toolcall_eval.model.trace import Projection, Value
    from otel_toolcall_eval.wire.limits import MemberBudget

_KEY_TAG = b"\x0a"
_TAG_OF_KEY: Final = 0x0A
_TAG_OF_VALUE: Final = 0x12
_TAG_OF_TEXT: Final = 0x0A
_CONTINUES: Final = 0x80
_PAYLOAD: Final = 0x7F
_LENGTH_BITS: Final = 35  # of a length in five bytes
_LONG_KEY: Final = 0x80  # from here on the length takes two bytes
_KEY_START: Final = 2  # behind tag and length
_HEAD_BYTES = 10  # tag, length, and the first eight bytes of the key: tells most keys of one convention apart
_KEY_HEAD_BYTES = _HEAD_BYTES - _KEY_START
_MEMO_ENTRIES: Final = 4096
_RECENT_BYTES: Final = 64  # longer values seldom come twice

_head_of: Callable[[bytes], bytes] = itemgetter(slice(0, _HEAD_BYTES))


class _Memo(dict[bytes, bool]):
    """Maps the head of an attribute to whether it may be kept. False is certain, True has to be looked at closely.

    Written by any decoding thread; a lost or doubled entry changes nothing.
    """

    def __init__(self, names: Iterable[bytes], prefixes: tuple[bytes, ...]) -> None:
        super().__init__()
        self._heads = frozenset((len(name), name[:_KEY_HEAD_BYTES]) for name in names)
        self._prefixes = prefixes
        self._prefix_heads = tuple(prefix[:_KEY_HEAD_BYTES] for prefix in prefixes)

    def __missing__(self, head: bytes) -> bool:
        if len(head) < _HEAD_BYTES or head[:1] != _KEY_TAG or head[1] >= _LONG_KEY:
            return True  # unusual order of fields, a short or very long key
        size = head[1]
        if size < _KEY_HEAD_BYTES:  # the head holds some of the value, so there is no end of such heads to remember
            key = head[_KEY_START : _KEY_START + size]
            return (size, key) in self._heads or key.startswith(self._prefixes)
        start = head[_KEY_START:]
        answer = (size, start) in self._heads or start.startswith(self._prefix_heads)
        if len(self) >= _MEMO_ENTRIES:
            self.clear()  # somebody sends made-up keys
        self[head] = answer
        return answer


class AttributeReader:
    """Reads the kept attributes of spans, for one projection."""

    __slots__ = ("_keys", "_known", "_may_be_kept", "_names", "_prefixes", "_recent", "event_names")

    def __init__(self, projection: Projection) -> None:
        """Prepare the tests; done once for each projection.

        ``event_names`` maps the encoded names of the events that are kept to their text.
        """
        self._keys = projection.keys
        self._names = {key.encode(): key for key in projection.keys}
        self._prefixes = tuple(prefix.encode() for prefix in projection.prefixes)
        self._may_be_kept = _Memo(self._names, self._prefixes).__getitem__
        # Memos, by any decoding thread; a lost entry changes nothing.
        self._recent: dict[bytes, tuple[str, Value]] = {}
        self._known: dict[bytes, str] = {}
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
        text: i64 = _skip_length(data, value, stop, _TAG_OF_VALUE)
        if text > 0:
            text = _skip_length(data, text, stop, _TAG_OF_TEXT)
        if text > 0 and name in self._keys:
            found = text_of(data[text:stop])
            kept.attributes[name] = found
            kept.size_bytes += value_bytes(found)
        else:
            self._take(data[start:stop], kept, budget)

    def _take_odd(self, data: bytes, kept: Kept, budget: MemberBudget) -> None:
        if self._may_be_kept(_head_of(data)):
            self._take(data, kept, budget)

    def _know(self, key: bytes) -> str:
        """Return the name of an attribute that is kept, empty for another one, and remember it if it is short."""
        name = self._names.get(key) or (text_of(key) if self._prefixes and key.startswith(self._prefixes) else "")
        if len(self._known) >= _MEMO_ENTRIES:
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
        if len(self._recent) >= _MEMO_ENTRIES:
            self._recent.clear()
        self._recent[data] = (name, value)


def _skip_length(data: bytes, at: i64, stop: i64, tag: i64) -> i64:
    """Return where the content of a field begins that reaches to ``stop``, if there is one of this tag; else -1."""
    if at >= stop or data[at] != tag:
        return -1
    at += 1
    length: i64 = 0
    shift: i64 = 0
    while at < stop and shift < _LENGTH_BITS:
        byte: i64 = data[at]
        at += 1
        length |= (byte & _PAYLOAD) << shift
        if byte < _CONTINUES:
            return at if at + length == stop else -1
        shift += 7
    return -1


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
