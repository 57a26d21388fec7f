"""Where a listener listens and whom it admits; binds its socket, or explains in plain words why that is impossible."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    from otel_toolcall_eval.receivers.tls import ServerTls
    from otel_toolcall_eval.receivers.tokens import Tokens

_BACKLOG = 256
_PROBLEMS = {
    errno.EADDRINUSE: ("the port is in use", "stop the other process or choose another port with {option}"),
    errno.EACCES: ("no permission to listen on this port", "choose a port above 1023 with {option}"),
    errno.EADDRNOTAVAIL: ("this machine has no such address", "listen on 127.0.0.1, or on an address of this machine"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where a listener listens, and whom it admits.

    Attributes:
        port: 0 takes any free one.
        port_option: the option that an error about the port names.
        tls: without it, nothing is encrypted.
        tokens: requests need one of them, except those for health; without it, none does.
        allowed_hosts: of an HTTP listener: further host names under which requests are answered; ``*`` is any.
        allowed_origins: of an HTTP listener: web origins whose scripts may send OTLP; ``*`` is any.
    """

    host: str = "127.0.0.1"
    port: int = 0
    port_option: str
    tls: ServerTls | None = None
    tokens: Tokens | None = None
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()


def display_address(host: str, port: int) -> str:
    """Return an address as people write it: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen(host: str, port: int, *, port_option: str) -> socket.socket:
    """Return a listening, non-blocking socket; port 0 takes any free one.

    SO_REUSEPORT stays off, or a second process would silently share the port and each would see half of the spans.

    Raises:
        SettingsError: it can't be bound; the message names ``port_option``.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            where=display_address(host, port), what="the host name is not known", fix="use an address such as 127.0.0.1"
        ) from error
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else a restart would wait for old connections to time out
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)
        bound.setblocking(False)  # noqa: FBT003 - the standard library's signature
    except OSError as error:
        bound.close()
        what, fix = _PROBLEMS.get(error.errno or 0, (f"can't listen here ({error.strerror})", "choose another address"))
        raise SettingsError(where=display_address(host, port), what=what, fix=fix.format(option=port_option)) from error
    return bound


def check_free(host: str, port: int, *, port_option: str) -> None:
    """Raise SettingsError if nobody could listen here; for servers that bind their sockets themselves."""
    listen(host, port, port_option=port_option).close()
