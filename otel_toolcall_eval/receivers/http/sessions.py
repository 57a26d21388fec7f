"""Sessions of browsers, which can't send a bearer token by themselves: opened with a token, and valid as long as that is.

A session is named by 256 random bits in a cookie; here only a hash of them is kept, in memory, so all end with the process. A token that is
taken out of the file ends the sessions that were opened with it. Whoever has no token can't open one, so nobody else can fill the room.
"""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.receivers.tokens import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.receivers.tokens import Tokens

MAX_SESSIONS = 100
"""Beyond it, the oldest ends."""

SESSION_SECONDS = 12 * 3600.0
"""A working day, whether or not the session is used."""


class Sessions:
    """Open sessions. Belongs to one thread."""

    def __init__(self, tokens: Tokens, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without any.

        Args:
            tokens: open sessions.
            clock: seconds from any origin.
        """
        self._tokens = tokens
        self._clock = clock
        self._open: dict[bytes, tuple[bytes, float]] = {}

    def begin(self, token: str) -> str | None:
        """Return the name of a new session, for a cookie; None if the token is not valid."""
        digest = digest_of(token.encode(errors="replace"))
        if not self._tokens.holds(digest):
            return None
        if len(self._open) >= MAX_SESSIONS:
            del self._open[next(iter(self._open))]
        name = secrets.token_urlsafe(32)
        self._open[digest_of(name.encode())] = (digest, self._clock() + SESSION_SECONDS)
        return name

    def is_open(self, name: str | None) -> bool:
        """Tell whether a session is open. It is found by its hash, so the time that this takes tells nothing of its name."""
        key = digest_of((name or "").encode(errors="replace"))
        if key not in self._open:
            return False
        token, until = self._open[key]
        if self._clock() < until and self._tokens.holds(token):
            return True
        del self._open[key]
        return False

    def end(self, name: str | None) -> None:
        """End a session, if it is open."""
        self._open.pop(digest_of((name or "").encode(errors="replace")), None)
