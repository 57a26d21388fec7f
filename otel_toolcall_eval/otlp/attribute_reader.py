"""Picks the attributes that a projection keeps out of their protobuf bytes.

Most attributes are not kept, and some are a hundred kilobytes long, so the key's bytes are tested before anything is decoded.
Short attributes that are kept, names of operations and tools for the most part, come again and again: they are remembered by their bytes,
which saves a tenth of what an evaluated span costs and makes all spans share one text.
Rejected: one pattern over the bytes of the span (finds keys inside values, too, and has to try each of some hundred keys at every 0x0A).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.otlp.any_value import NestedTooDeepError, read_key_value, read_value, text_of
from otel_toolcall_eval.otlp.span_factory import KeptAttributes, value_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Projection, Value
    from otel_toolcall_eval.otlp.limits import MemberBudget

_TAG_OF_KEY: Final = 0x0A
_LONG_KEY: Final = 0x80  # from here on the length takes two bytes
_KEY_START: Final = 2  # behind tag and length
_RECENT_BYTES: Final = 64  # longer values seldom come twice
_RECENT_ENTRIES: Final = 4096  # all are forgotten when there are more


class AttributeReader:
    """Reads the kept attributes of spans, for one projection."""

    __slots__ = ("_names", "_prefixes", "_recent", "event_names")

    def __init__(self, projection: Projection) -> None:
        """Prepare the tests; done once for each projection.

        ``event_names`` maps the encoded names of the events that are kept to their text.
        """
        self._names = {key.encode(): key for key in projection.keys}
        self._prefixes = tuple(prefix.encode() for prefix in projection.prefixes)
        self._recent: dict[bytes, tuple[str, Value]] = {}  # written by any decoding thread; a lost entry changes nothing
        self.event_names = {name.encode(): name for name in projection.event_names}

    def read(self, encoded: Sequence[bytes], budget: MemberBudget) -> KeptAttributes:
        """Return the attributes that are kept.

        Args:
            encoded: one ``KeyValue`` each; of equal keys the last one counts.
            budget: members that the request may still hold.

        Raises:
            MalformedError: one that may be kept is not protobuf.
            TooLargeError: the budget is spent.
        """
        kept = KeptAttributes()
        names, prefixes, recent, attributes = self._names, self._prefixes, self._recent, kept.attributes
        for data in encoded[:]:  # one copy: reading the container costs an object for each attribute each time
            size = len(data)
            if size < _RECENT_BYTES and (seen := recent.get(data)) is not None:
                attributes[seen[0]] = seen[1]
                continue
            if size >= _KEY_START and data[0] == _TAG_OF_KEY and (length := data[1]) < _LONG_KEY:  # as every encoder writes it
                key = data[_KEY_START : _KEY_START + length]
                if key not in names and not key.startswith(prefixes):
                    continue
            self._take(data, kept, budget)
        return kept

    def _take(self, data: bytes, kept: KeptAttributes, budget: MemberBudget) -> None:
        key, value_start, value_end = read_key_value(data, 0, len(data))
        name = self._names.get(key)
        if name is None:
            if not key.startswith(self._prefixes):
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
            self._remember(data, name, value)

    def _remember(self, data: bytes, name: str, value: Value) -> None:
        if len(self._recent) >= _RECENT_ENTRIES:
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
