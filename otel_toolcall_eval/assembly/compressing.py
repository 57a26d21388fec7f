"""Compresses spans by what they have in common with those of other traces.

Traces of one agent are alike: keys, names, prompts, the schemas of its tools. A compressor that was shown one of them finds the text of the
others there, in long pieces, and is done in a third of the time with a third of the bytes.
Rejected: ``marshal`` alone (a third of the memory is won, and not nine tenths); compressing many traces at once (one of them could not be
read without the others).
"""

from __future__ import annotations

import weakref
import zlib
from typing import Final

LEVEL: Final = 1
RAW: Final = -14
"""A window of 16 KiB; no header and no checksum: the bytes never leave this process."""

DICTIONARY_BYTES: Final = 15 << 10  # what is further back than the window reaches is of no use to its end
MAX_KINDS: Final = 16  # 80 KiB each
MAX_USES: Final = 1_000
"""After so many all are shown anew what traces look like, since agents change."""

MAX_SHOWN: Final = 64
"""What was shown stays as long as anything made with it. While so many are left, 1 MiB, the last ones stay in use."""

_MEMORY: Final = 5


class Compressors:
    """One for each kind of trace. Owned by the buffer."""

    __slots__ = ("_known", "_shown", "_uses")

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[str, tuple[memoryview, zlib._Compress]] = {}
        self._shown: list[weakref.ref[memoryview]] = []
        self._uses = 0

    def compress(self, data: bytes, *, kind: str) -> tuple[bytes, memoryview | None]:
        """Return data in short, and what has to be known to read it: what the first of its kind looked like, or nothing."""
        self._uses += 1
        if self._uses > MAX_USES:
            self._uses = 1
            self._shown = [one for one in self._shown if one() is not None]
            if len(self._shown) <= MAX_SHOWN - MAX_KINDS:
                self._known.clear()
        known = self._known.get(kind)
        if known is not None:
            begun = known[1].copy()
            return begun.compress(data) + begun.flush(), known[0]
        if len(self._known) < MAX_KINDS:
            shown = memoryview(data[-DICTIONARY_BYTES:])  # bytes that can be seen to be gone
            self._known[kind] = shown, zlib.compressobj(LEVEL, zlib.DEFLATED, RAW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, shown)
            self._shown.append(weakref.ref(shown))
        return plainly(data), None


def plainly(data: bytes) -> bytes:
    """Return data in short by itself."""
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW, _MEMORY)
    return packer.compress(data) + packer.flush()


def expanded(data: bytes, shown: memoryview | None) -> bytes:
    """Return what was compressed."""
    return zlib.decompress(data, RAW) if shown is None else zlib.decompressobj(RAW, zdict=shown).decompress(data)
