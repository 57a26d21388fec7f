"""Compresses spans by what they have in common with those of other traces.

Traces of one agent are alike: keys, names, prompts, the schemas of its tools. A packer that was shown one of them finds the text of the
others there, in long pieces, and is done in a third of the time with a third of the bytes.
Rejected: ``marshal`` alone (a third of the memory is won, and not nine tenths); compressing many traces at once (one of them could not be
read without the others).
"""

from __future__ import annotations

import weakref
import zlib
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

LEVEL: Final = 1
RAW: Final = -14
"""A window of 16 KiB; no header and no checksum: the bytes never leave this process."""

DICTIONARY_BYTES: Final = 15 << 10  # what is further back than the window reaches is of no use to its end
MAX_KINDS: Final = 16  # some 100 KiB each
MAX_USES: Final = 1_000
"""After so many all are shown anew what traces look like, since agents change."""

MAX_SHOWN: Final = 64
"""What was shown stays as long as anything made with it. While so many are left, 1 MiB, and with Zstandard 37 KiB more for each that was
read from, the last ones stay in use."""

_MEMORY: Final = 5


class Decompressor(Protocol):
    """Reads what a packer made short, and is kept as long as that.

    Attributes:
        shown: what the packer was shown; none if it knew nothing.
    """

    shown: memoryview | None

    def expand(self, data: bytes) -> bytes:
        """Return what was made short."""
        ...


class Compressor(Protocol):
    """Makes bytes short. Owned by the buffer's thread.

    Attributes:
        expander: reads them again.
    """

    expander: Decompressor

    def compress(self, data: bytes) -> bytes:
        """Return bytes in short."""
        ...


class ZlibExpander:
    """Reads what ``ZlibPacker`` wrote."""

    __slots__ = ("shown",)

    def __init__(self, shown: memoryview | None) -> None:
        """Take what the packer was shown."""
        self.shown = shown

    def expand(self, data: bytes) -> bytes:
        """Return what was made short."""
        return zlib.decompress(data, RAW) if self.shown is None else zlib.decompressobj(RAW, zdict=self.shown).decompress(data)


class ZlibPacker:
    """Is there wherever Python is."""

    __slots__ = ("_begun", "expander")

    def __init__(self, shown: memoryview | None) -> None:
        """Get ready; ``shown`` is what others look like that it makes short."""
        self.expander: Decompressor = ZlibExpander(shown)
        if shown is None:
            self._begun = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW, _MEMORY)
        else:
            self._begun = zlib.compressobj(LEVEL, zlib.DEFLATED, RAW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, shown)

    def compress(self, data: bytes) -> bytes:
        """Return bytes in short."""
        begun = self._begun.copy()
        return begun.compress(data) + begun.flush()


class CompressorPool:
    """A packer for each kind of trace. Owned by the buffer."""

    __slots__ = ("_known", "_make", "_plain", "_shown", "_uses")

    def __init__(self, make: Callable[[memoryview | None], Compressor] = ZlibPacker) -> None:
        """Know no kind; ``make`` returns a packer that was shown one trace, or none."""
        self._make = make
        self._plain = make(None)
        self._known: dict[str, Compressor] = {}
        self._shown: list[weakref.ref[memoryview]] = []
        self._uses = 0

    def compress(self, data: bytes, *, kind: str) -> tuple[bytes, Decompressor]:
        """Return data in short, and what can read it."""
        self._uses += 1
        if self._uses > MAX_USES:
            self._uses = 1
            self._shown = [one for one in self._shown if one() is not None]
            if len(self._shown) <= MAX_SHOWN - MAX_KINDS:
                self._known.clear()
        packer = self._known.get(kind)
        if packer is None:
            packer = self._plain
            if len(self._known) < MAX_KINDS:
                shown = memoryview(data[-DICTIONARY_BYTES:])  # bytes that can be seen to be gone
                self._known[kind] = self._make(shown)
                self._shown.append(weakref.ref(shown))
        return packer.compress(data), packer.expander
