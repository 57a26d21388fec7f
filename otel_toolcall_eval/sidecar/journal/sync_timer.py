"""Does something again and again, on a thread of its own, since it may take long: flushing, and waiting for the disk."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class SyncTimer:
    """A thread that calls."""

    def __init__(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Prepare to call every so many seconds. ``call`` must not raise."""
        self._seconds = seconds
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"toolcall-eval-journal-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Call no more; waits for a call that is under way, but not for longer than told."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._call()
