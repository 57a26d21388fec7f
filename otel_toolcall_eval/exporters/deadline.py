"""Waits for calls that may hang no longer than told.

The SDK's ``force_flush`` ignores its time-out (opentelemetry-python 4568) and blocks while a dead collector is retried: 10 s for every
batch that is queued. Its ``shutdown`` joins for up to 30 s. Neither can be interrupted, so each runs on a daemon thread of its own,
which is left behind when time is up. Rejected: reaching into the processors for their private time-outs.
"""

from __future__ import annotations

import time
from threading import Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Attempt:
    """One call on a thread of its own."""

    def __init__(self, call: Callable[[], object], *, name: str) -> None:
        """Start the call; ``name`` is for whoever looks at the threads of a process.

        Where no thread can be started any more (at interpreter exit), the call is not made, and the attempt has failed.
        """
        self._succeeded = False
        self._call = call
        self._thread: Thread | None = Thread(target=self._run, name=f"toolcall-eval-{name}", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # "can't start new thread": CPython says it like this
            self._thread = None

    def _run(self) -> None:
        # Whatever the SDK, an exporter or a user's processor throws means the same here: it did not work. SDK parts log it themselves.
        try:
            self._succeeded = self._call() is not False
        except Exception:  # noqa: BLE001 - see above
            self._succeeded = False

    @property
    def running(self) -> bool:
        """Tell whether the call has not come back."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def started(self) -> bool:
        """Tell whether the call was made at all."""
        return self._thread is not None

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for the call; True if it came back in time, did not raise, and did not return False."""
        if self._thread is not None:
            self._thread.join(max(0.0, timeout_seconds))
        return not self.running and self._succeeded


class Flusher:
    """Flushes providers within a time-out; from any thread, any number of times.

    A flush that still hangs when the next one comes is waited for instead of started again, so that a dead collector costs one
    thread for each provider and not one for each flush.
    """

    def __init__(self, flushes: Sequence[Callable[[], object]]) -> None:
        """Keep the calls that flush, one for each provider; they run at the same time."""
        self._flushes = flushes
        self._lock = Lock()
        self._attempts: tuple[Attempt, ...] = ()

    def flush(self, timeout_seconds: float) -> bool:
        """Return True if all was handed over in time. A backend may have refused it all the same; the SDK does not tell."""
        deadline = time.monotonic() + timeout_seconds
        # With a time-out, since a fork may have copied the lock while another thread held it.
        if not self._lock.acquire(timeout=max(0.0, timeout_seconds)):
            return False
        try:
            hanging = any(attempt.running for attempt in self._attempts)
            if not hanging:
                self._attempts = tuple(Attempt(flush, name="flush") for flush in self._flushes)
            attempts = self._attempts
        finally:
            self._lock.release()
        done = [attempt.wait(deadline - time.monotonic()) for attempt in attempts]
        # What hung already may have left out what was emitted since.
        return all(done) and not hanging
