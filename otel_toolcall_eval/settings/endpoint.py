"""OTLP endpoints as people write them: one set of rules for exporting and for forwarding.

A scheme is demanded, port 4318 means HTTP, and whoever shows an endpoint leaves the credentials in it out.
"""

from __future__ import annotations

from enum import StrEnum
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

_HTTP_PORT: Final = 4318


class OtlpProtocol(StrEnum):
    """How OTLP travels."""

    GRPC = "grpc"
    HTTP = "http/protobuf"


def protocol_of(where: str, endpoint: str, wanted: OtlpProtocol | None = None) -> OtlpProtocol:
    """Return how to speak to an endpoint: as wanted, else HTTP on port 4318, else gRPC.

    Raises:
        SettingsError: the endpoint is none; ``where`` is the variable or setting that named it.
    """
    try:
        split = urlsplit(endpoint)
        # Without a scheme the gRPC exporter would speak TLS, and fail in words that help nobody.
        valid = split.scheme in ("http", "https") and bool(split.hostname)
        port = split.port
    except ValueError:  # a port that is no number, brackets that do not close
        valid, port = False, None
    if not valid:
        what = f"{without_credentials(endpoint)!r} is no endpoint"
        raise SettingsError(where=where, what=what, fix="write it like http://collector:4317, or https:// with TLS")
    return wanted or (OtlpProtocol.HTTP if port == _HTTP_PORT else OtlpProtocol.GRPC)


def without_credentials(endpoint: str) -> str:
    """Return an endpoint that can be shown: without the user and password that may stand before its host."""
    scheme, separator, rest = endpoint.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def is_own_address(endpoint: str, protocol: OtlpProtocol, listening: Iterable[tuple[str, int]]) -> bool:
    """Tell whether an endpoint is one of the addresses that we listen on, as far as can be told without asking the network."""
    split = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    port = split.port or _default_port(protocol, split.scheme)
    host = split.hostname or ""
    return any(port == our_port and (host == our_host or (_is_local(host) and _is_local(our_host))) for our_host, our_port in listening)


def _default_port(protocol: OtlpProtocol, scheme: str) -> int:
    if protocol is OtlpProtocol.HTTP:
        return 443 if scheme == "https" else 80
    return 4317


def _is_local(host: str) -> bool:
    """Tell whether a host is this machine: a loopback name or address, or (for a listener) every address of it."""
    if host in ("", "localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
