"""Counts the TLS handshakes of an HTTP listener that come to nothing, and tells the operator once an episode.

A sender that does not trust our certificate, shows none, or speaks plain HTTP to us, retries for ever, and what it is told is in its log
alone. Not counted: connections that are closed before their handshake has failed, as a load balancer's probes of the port are.
gRPC does TLS by itself and tells nobody, so its handshakes are neither counted nor logged.
Threads: the receiver's event loop only.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)

QUIET_SECONDS = 600.0
"""Without a failure, end an episode. Senders retry within minutes, so one that fails for days is one episode."""

FAILED = "tls"
"""The reason under which a handshake that failed is counted; one that took too long is ``too_slow``."""


class Handshakes:
    """Those of one listener."""

    def __init__(self, *, refused: Callable[[str], None], listener: str, seconds: float) -> None:
        """Start with nothing told.

        Args:
            refused: counts, by reason.
            listener: its name in the log.
            seconds: how long a handshake may take; asyncio ends it then.
        """
        self._refused = refused
        self._listener = listener
        self._seconds = seconds
        self._latest: float | None = None

    def failed(self, reason: str) -> None:
        """Hear that one failed, and OpenSSL's word for it."""
        self._refused(FAILED)
        self._tell(reason)

    def watch(self, is_made: Callable[[], bool]) -> None:
        """Watch over the handshake of a connection that is being accepted; ``is_made`` tells whether it became one.

        To be called where asyncio asks for the connection's protocol: in the task that waits for the handshake and swallows its end.
        """
        loop, accepting = asyncio.get_running_loop(), asyncio.current_task()
        if accepting is None:
            return
        begun = loop.time()

        def ended(_accepted: asyncio.Task[object]) -> None:
            if not is_made() and loop.time() - begun >= self._seconds:
                self._refused("too_slow")
                self._tell("too slow")

        accepting.add_done_callback(ended)

    def _tell(self, reason: str) -> None:
        now = asyncio.get_running_loop().time()
        begins = self._latest is None or now - self._latest > QUIET_SECONDS
        self._latest = now
        if begins:
            _logger.warning(
                "a client could not begin TLS; does it trust our certificate, speak TLS 1.2 or later, show a certificate where one is "
                "asked for? those that follow are counted in toolcall_eval.requests.rejected",
                extra={"listener": self._listener, "reason": reason},
            )
