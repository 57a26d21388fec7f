"""Lets scripts of listed web origins send OTLP from a browser. Source: Fetch Standard, "CORS protocol".

Nothing is said to a browser unless origins are listed: then, too, only at the paths of OTLP; pages are for programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY = "*"

_HEADERS = "authorization, baggage, content-encoding, content-type, traceparent, tracestate, x-requested-with"
_SECONDS = "7200"  # how long a browser remembers the answer; none remembers longer


class Cors:
    """Says what browsers may do."""

    def __init__(self, origins: frozenset[str]) -> None:
        """Allow these origins; ``*`` is any."""
        self._origins = origins

    def headers(self, origin: str | None) -> Mapping[str, str]:
        """Return what an answer says to a browser whose script came from ``origin``; None is no browser."""
        if not self._origins:
            return {}
        vary = {"Vary": "Origin"}
        if not self.allows(origin):
            return vary
        return {
            **vary,
            "Access-Control-Allow-Origin": ANY if ANY in self._origins else str(origin),
            "Access-Control-Expose-Headers": "Retry-After",
        }

    def preflight(self, origin: str | None, method: str | None) -> Mapping[str, str] | None:
        """Return what else the answer to a browser's question says, ``method`` being what it wants to send; None if the answer is no."""
        if method is None or not self.allows(origin):
            return None
        return {"Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": _HEADERS, "Access-Control-Max-Age": _SECONDS}

    def allows(self, origin: str | None) -> bool:
        """Tell whether scripts of this origin may send."""
        return origin is not None and (ANY in self._origins or origin in self._origins)
