"""Processes of other people's programs: their logs, their ends, and waiting for what they do."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

WAIT_SECONDS = 120.0
"""For anything that has to happen; only a watchdog, since CI's machines are slow and shared."""


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition, and fail with words if it does not come."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


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
