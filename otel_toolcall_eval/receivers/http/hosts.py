"""Under which names an HTTP listener answers. Source: RFC 9110, sections 7.2 and 15.5.20.

A web page can let its own name resolve to 127.0.0.1 (DNS rebinding): to the browser our answers then belong to that page, whatever CORS
says, and the browser's own loopback address is all that a listener without tokens asks for. What gives the page away is the name that it
was fetched by, in ``Host``.

- A listener on loopback answers to loopback addresses, ``localhost`` and names below it, the host that it was told to listen on, and
  those in ``listen.allowed_hosts``: for a reverse proxy that hands the name on, or a name in ``/etc/hosts``. All else is 421. A port is not
  looked at, since forwarded ports differ.
- Where other machines reach a listener, it has names that nobody told it: those of Kubernetes services, of containers, of load balancers.
  There a token, or a certificate that is not made out to the page's name, keeps pages out. Only if ``allowed_hosts`` is set, it answers to
  these names alone, and to the address that the connection was made to, by which probes come. ``LOCAL_PATHS`` are held in any case: they
  go by the address of the client alone, and that is the browser's.
- OTLP is another matter: a sender in a container reaches this machine's loopback by a name of the container engine's, and would lose its
  spans. Senders that are no browsers can't be led by a page, and browsers say ``Origin`` with each POST (Fetch Standard, "append a request
  Origin header"); so a request without it may use any name, and one from a listed origin, too.
- ``/livez`` and ``/readyz`` answer to any name, as they do without a token.

A request without ``Host`` is none of a browser's: HTTP/1.0, or a tool that leaves it empty. gRPC needs nothing of this: browsers do not
speak HTTP/2 without TLS, nor gRPC's framing from a page, so ``:authority`` is not looked at.
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import IntakeError
from otel_toolcall_eval.receivers.http.pages import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator

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
