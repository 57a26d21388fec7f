"""The time that the worker goes by."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Monotonic time."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        ...


class MonotonicClock:
    """The system's monotonic clock."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        return time.monotonic_ns()
