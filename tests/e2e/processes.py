"""Processes of other people's programs: their logs, their ends, and waiting for what they do."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator


@contextmanager
def logged(process: subprocess.Popen[str], log: list[str]) -> Iterator[None]:
    """Keep what a process says on standard error, until it has ended; it is ended if the block did not do so."""
    reader = threading.Thread(target=lambda: log.extend(process.stderr or ()))
    reader.start()
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        reader.join()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
