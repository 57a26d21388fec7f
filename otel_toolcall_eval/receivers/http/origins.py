"""Who may speak to an HTTP listener: by which host names, and from which web origins.

Sources: RFC 9110, sections 7.2 and 15.5.20; Fetch Standard, "CORS protocol".

Host names. A web page can let its own name resolve to 127.0.0.1 (DNS rebinding). The browser then takes our answers for the page's own,
whatever CORS says, and a listener without tokens accepts the browser's loopback address. Only the ``Host`` header gives the page away.

- A listener on loopback answers to loopback addresses, ``localhost`` and names below it, the host that it listens on, and those in
  ``listen.allowed_hosts`` (for a reverse proxy that keeps the name, or a name in ``/etc/hosts``). Any other name is answered with 421.
  Ports are not compared, since forwarded ports differ.
- A listener that other machines reach has names that it cannot know: of Kubernetes services, containers, load balancers. There a token, or
  a certificate that does not match the page's name, keeps pages out. Only if ``allowed_hosts`` is set does such a listener answer to these
  names alone, and to the address that the connection was made to, which probes use. ``LOCAL_PATHS`` are checked in any case: they admit
  clients by their address alone, and that is the browser's.
- A sender in a container reaches this machine's loopback by a name of the container engine's, and must not lose its spans. A page cannot
  lead a sender that is no browser, and browsers send ``Origin`` with each POST (Fetch Standard, "append a request Origin header"). So an
  OTLP request without ``Origin``, or from an allowed origin, may use any name.
- ``/livez`` and ``/readyz`` answer to any name, as they do without a token.

A request without ``Host`` does not come from a browser. gRPC needs none of this: browsers do not speak HTTP/2 without TLS, nor gRPC's
framing from a page.

Web origins. Scripts of listed origins may send OTLP from a browser, at the paths of OTLP only; pages are for programs.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import IntakeError
from otel_toolcall_eval.receivers.http.pages import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from aiohttp import web


ANY = "*"

# Host and port, IPv6 in brackets; whoever writes it otherwise is refused.
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^\[\]:/?#@]*)(?::[0-9]*)?")


class UnknownHostError(IntakeError):
    """The request was made to a name that is not ours: 421, do not resend."""

    http_status = 421
    grpc_code = "PERMISSION_DENIED"


class Hosts:
    """The names of one listener."""

    def __init__(self, listened: str = "127.0.0.1", allowed: frozenset[str] = frozenset()) -> None:
        """Take the host that is listened on, and further names and addresses without ports; ``*`` is any."""
        self._any = ANY in allowed
        self._own = frozenset(map(_canonical, (listened, *allowed)))
        self.guards_all = bool(allowed) or is_loopback(_canonical(listened))
        """Whether every request has to use one of the names, and not only those for local pages."""

    def check(self, request: web.BaseRequest) -> None:
        """Let a request pass that uses our names alone.

        Raises:
            UnknownHostError: it does not. The message does not repeat what was sent.
        """
        if self._any or all(self._is_ours(name, request) for name in _named(request)):
            return
        what = "the request was made to a name that is not this listener's"
        raise UnknownHostError(where="Host", what=what, fix="use 127.0.0.1 or localhost, or list the name in listen.allowed_hosts")

    def _is_ours(self, authority: str, request: web.BaseRequest) -> bool:
        found = _AUTHORITY.fullmatch(authority.strip())
        if found is None:
            return False
        name = _canonical(found[1].strip("[]"))
        if not name or name in self._own or is_loopback(name):
            return True
        # An address can't be made to resolve to another, so whoever names the one that the connection came to means us.
        reached = None if request.transport is None else request.transport.get_extra_info("sockname")
        return reached is not None and name == _canonical(str(reached[0]))


def is_loopback(name: str) -> bool:
    """Tell whether a canonical name means this machine to everyone who uses it. Source: RFC 6761, section 6.3, for ``localhost``."""
    return name == "localhost" or name.endswith(".localhost") or is_local(name)


def _named(request: web.BaseRequest) -> Iterator[str]:
    """Yield every authority that a request names: in its headers, and in a target that is a whole URL."""
    yield from request.headers.getall("Host", ())
    target = request.raw_path
    if not target.startswith("/") and "://" in target:
        yield target.partition("://")[2].partition("/")[0]


def _canonical(name: str) -> str:
    """Return a name or an address in the one form in which it is compared."""
    name = name.lower().removesuffix(".").partition("%")[0]
    try:
        address = ip_address(name)
    except ValueError:
        return name
    return str(getattr(address, "ipv4_mapped", None) or address)


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
