"""Opens recorded telemetry: a file, standard input, or either in gzip, which is told by its content."""

from __future__ import annotations

import gzip
import io
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from otel_toolcall_eval.otlp.unpacking import GZIP_MAGIC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STANDARD_INPUT = "-"

_BUFFER_BYTES = 1 << 20


class _Counted(io.RawIOBase):
    """Reports how many bytes were read, packed as they are."""

    def __init__(self, source: BinaryIO, progress: Callable[[int], None]) -> None:
        self._source = source
        self._progress = progress

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override] # the stub names every kind of buffer
        read = self._source.read(len(buffer))
        buffer[: len(read)] = read
        self._progress(len(read))
        return len(read)


@contextmanager
def open_stream(path: str, progress: Callable[[int], None] | None) -> Iterator[io.BufferedReader]:
    """Open ``path`` for reading, unpacked; ``-`` is standard input, which stays open.

    Args:
        path: file to read.
        progress: gets the number of bytes just read from the file, before unpacking.

    Raises:
        OSError: it can't be opened. Reading raises OSError, EOFError or zlib.error for bad gzip.
    """
    with Path(path).open("rb", buffering=0) if path != STANDARD_INPUT else _KeptOpen() as source:
        stream = _buffered(_Counted(source, progress or _nobody))
        if stream.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            stream = _buffered(gzip.GzipFile(fileobj=stream, mode="rb"))
        yield stream


def _buffered(source: object) -> io.BufferedReader:
    return io.BufferedReader(cast("io.RawIOBase", source), _BUFFER_BYTES)


class _KeptOpen:
    """Standard input, which is not ours to close."""

    def __enter__(self) -> BinaryIO:
        return sys.stdin.buffer

    def __exit__(self, *_: object) -> None:
        """Leave it open."""


def _nobody(_read: int) -> None:
    """Report to nobody."""
