"""Tells by the first bytes of an attribute whether a projection may keep it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

HEAD_BYTES: Final = 10
"""Tag, length, and the first eight bytes of the key, which tell most keys of one convention apart."""

MEMO_ENTRIES: Final = 4096
"""Of each memo of a reader; all are forgotten when there are more."""

_KEY_TAG = b"\x0a"
_LONG_KEY: Final = 0x80  # from here on the length takes two bytes
_KEY_START: Final = 2  # behind tag and length
_KEY_HEAD_BYTES: Final = HEAD_BYTES - _KEY_START


class HeadMemo(dict[bytes, bool]):
    """Maps the head of an attribute to whether it may be kept. False is certain, True has to be looked at closely.

    Written by any decoding thread; a lost or doubled entry changes nothing.
    """

    def __init__(self, names: Iterable[bytes], prefixes: tuple[bytes, ...]) -> None:
        """Take what is kept, encoded."""
        super().__init__()
        self._heads = frozenset((len(name), name[:_KEY_HEAD_BYTES]) for name in names)
        self._prefixes = prefixes
        self._prefix_heads = tuple(prefix[:_KEY_HEAD_BYTES] for prefix in prefixes)

    def __missing__(self, head: bytes) -> bool:
        """Look closely, and remember the answer."""
        if len(head) < HEAD_BYTES or head[:1] != _KEY_TAG or head[1] >= _LONG_KEY:
            return True  # unusual order of fields, a short or very long key
        size = head[1]
        if size < _KEY_HEAD_BYTES:  # the head holds some of the value, so there is no end of such heads to remember
            key = head[_KEY_START : _KEY_START + size]
            return (size, key) in self._heads or key.startswith(self._prefixes)
        start = head[_KEY_START:]
        answer = (size, start) in self._heads or start.startswith(self._prefix_heads)
        if len(self) >= MEMO_ENTRIES:
            self.clear()  # somebody sends made-up keys
        self[head] = answer
        return answer
