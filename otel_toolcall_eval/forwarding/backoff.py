"""When to try again, without I/O: how long one request waits, and when the downstream as a whole is left in peace.

A downstream that is down fails whatever it is sent; asking it for each of a thousand waiting requests helps nobody. So after a failure
all wait, and then one request goes ahead and tells how things are. But what fails may be the one request, so a single failure costs the
others little, and that request the more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND_NS = 1_000_000_000
FIRST_SECONDS: Final = 0.25
LONGEST_SECONDS: Final = 5.0
"""So what was down is in use again within 5 s of its return."""
LONGEST_ASKED_SECONDS: Final = 60.0
"""Most that a downstream's own wish is followed; by the word of a confused one we would never ask again."""


def backoff_ns(tries: int, random: Callable[[], float]) -> int:
    """Return how long to wait after so many failures in a row: doubling, with a jitter of half of it.

    Args:
        tries: from 1.
        random: from 0 to 1.
    """
    seconds = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(tries - 1, 10))
    return round(seconds * (0.5 + 0.5 * random()) * _SECOND_NS)


def asked_ns(after_seconds: float | None) -> int:
    """Return how long the downstream asks to wait, within reason."""
    return 0 if after_seconds is None else round(min(max(after_seconds, 0.0), LONGEST_ASKED_SECONDS) * _SECOND_NS)


class Gate:
    """Holds all requests back while the downstream fails. Guarded by its owner's lock."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Start open."""
        self._random = random
        self._failed_ns = -1
        self._probing = False
        self.failures = 0
        self.opens_ns = 0

    @property
    def waits_for_probe(self) -> bool:
        """True while all depends on one request that is under way."""
        return self.failures > 0 and self._probing

    def passed(self) -> None:
        """Note that a request went; after failures it is the only one."""
        self._probing = self.failures > 0

    def answered(self) -> None:
        """Note an answer that shows that the downstream works."""
        self.failures = 0
        self._probing = False

    def failed(self, *, began_ns: int, now_ns: int, after_seconds: float | None) -> None:
        """Note a failure. What was under way beside another failure tells nothing new.

        What a downstream asks for is followed from the second failure on: the first may be about the one request alone.
        """
        self._probing = False
        if began_ns <= self._failed_ns:
            return
        self._failed_ns = now_ns
        self.failures += 1
        wait_ns = backoff_ns(self.failures, self._random)
        self.opens_ns = now_ns + (max(wait_ns, asked_ns(after_seconds)) if self.failures > 1 else wait_ns)
