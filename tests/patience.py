"""How long tests wait for what has to come: for the thing itself, and never for time to pass."""

from __future__ import annotations

from contextlib import suppress
from http.client import HTTPException
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_SECONDS = 300.0
"""For anything that has to happen; only a watchdog, far beyond what a slow and shared machine takes, so that no test hangs for ever."""


def wait_for(condition: Callable[[], object], what: str = "what has to come") -> None:
    """Wait until a condition holds, and fail with words if it never does."""
    deadline = monotonic() + PATIENCE_SECONDS
    while not condition():
        assert monotonic() < deadline, f"waited in vain for {what}"
        Event().wait(0.01)


def with_a_limit(hold: Callable[[float], None]) -> None:
    """Hold something under a limit of half a second, or under a longer one: what is in good time may be late on a busy machine."""
    for seconds in (0.5, 5.0):
        with suppress(AssertionError, OSError, HTTPException):
            hold(seconds)
            return
    hold(50.0)
