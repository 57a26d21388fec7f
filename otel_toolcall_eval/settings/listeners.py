"""What listens where, behind what protection; and what is refused before anything listens.

A listener takes its own ``tls`` and ``token_file``, else those of ``listen``. Its own ``tls`` replaces the other whole: of two
certificates, the key of one would be no use to the other.
An address that other machines reach needs encryption, and someone who is asked who they are: by a token, or by a client certificate, which
tells no less. Source: DESIGN, section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.errors import Problem
from otel_toolcall_eval.settings.types import OFF, Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files of a listener's TLS.

    Attributes:
        setting: where they were named, ``listen.tls`` or ``listen.grpc.tls``.
        cert_file: the certificate, followed by those between it and the authority that clients know.
        key_file: its private key, not encrypted.
        client_ca_file: authorities whose certificates clients have to show; None asks for none.
    """

    setting: str
    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A file of tokens; ``setting`` says where it was named."""

    setting: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An address and its protection."""

    address: Address
    tls: TlsFiles | None = None
    tokens: TokenFile | None = None

    @property
    def scheme(self) -> str:
        """Return ``http`` or ``https``."""
        return "http" if self.tls is None else "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Everything that listens.

    Attributes:
        control: None listens to nobody. It is off by default: most agents are never bound from outside, and several sidecars on
            one machine would need a third port each.
        allowed_origins: web origins whose scripts may send OTLP over HTTP; ``*`` is any, none is none.
        allowed_hosts: further names and addresses under which requests over HTTP are answered; ``*`` is any.
        insecure: an address that other machines can reach is wanted, though what protects it is missing.
    """

    grpc: Listener = field(default=Listener(address=Address(host="127.0.0.1", port=4317)))
    http: Listener = field(default=Listener(address=Address(host="127.0.0.1", port=4318)))
    control: Listener | None = None
    allowed_origins: frozenset[str] = frozenset()
    allowed_hosts: frozenset[str] = frozenset()
    insecure: bool = False

    @property
    def listeners(self) -> Mapping[str, Listener]:
        """Return what listens, by name."""
        named = {"grpc": self.grpc, "http": self.http, "control": self.control}
        return {name: listener for name, listener in named.items() if listener is not None}


def listen_of(defaults: Listen, values: Mapping[str, object], problems: list[Problem]) -> Listen:
    """Put the settings of all listeners together.

    Args:
        defaults: what holds where nothing is set.
        values: what is set, by dotted name; validated one by one.
        problems: takes what does not go together.
    """

    def listener(name: str, default: Listener | None) -> Listener | None:
        address = values.get(f"listen.{name}.address", OFF if default is None else default.address)
        if not isinstance(address, Address):
            return None
        token_setting = next((setting for setting in (f"listen.{name}.token_file", "listen.token_file") if setting in values), None)
        return Listener(
            address=address,
            tls=tls.get(f"listen.{name}.tls", tls.get("listen.tls")),
            tokens=None if token_setting is None else TokenFile(setting=token_setting, path=cast("Path", values[token_setting])),
        )

    settings = ("listen.tls", *(f"listen.{name}.tls" for name in ("grpc", "http", "control")))
    tls = {setting: files for setting in settings if (files := _tls_of(setting, values, problems)) is not None}
    found = Listen(
        grpc=listener("grpc", defaults.grpc) or defaults.grpc,
        http=listener("http", defaults.http) or defaults.http,
        control=listener("control", defaults.control),
        allowed_origins=cast("frozenset[str]", values.get("listen.http.cors.allowed_origins", defaults.allowed_origins)),
        allowed_hosts=cast("frozenset[str]", values.get("listen.allowed_hosts", defaults.allowed_hosts)),
        insecure=bool(values.get("listen.insecure", defaults.insecure)),
    )
    problems.extend(_shared_ports(found))
    if not found.insecure:
        problems.extend(_exposed(found, fix=_EXPOSED_FIX))
    return found


def exposures(listen: Listen) -> Iterator[Problem]:
    """Yield what other machines can reach without protection because ``listen.insecure`` says so; to be said loudly."""
    if listen.insecure:
        yield from _exposed(listen, fix="this is so because listen.insecure is set; keep the network closed")


def _tls_of(setting: str, values: Mapping[str, object], problems: list[Problem]) -> TlsFiles | None:
    cert, key, ca = (cast("Path | None", values.get(f"{setting}.{name}")) for name in ("cert_file", "key_file", "client_ca_file"))
    if cert is None and key is None and ca is None:
        return None
    if cert is None or key is None:
        missing, fix = ("cert_file", "its certificate") if cert is None else ("key_file", "the private key of cert_file")
        problems.append(Problem(where=setting, what=f"{missing} is missing", fix=f"name {fix}"))
        return None
    return TlsFiles(setting=setting, cert_file=cert, key_file=key, client_ca_file=ca)


_EXPOSED_FIX = (
    "give it tls and a token_file (or a client_ca_file), listen on 127.0.0.1, "
    "or set listen.insecure to true (--insecure) where the network is closed"
)


def _exposed(listen: Listen, *, fix: str) -> Iterator[Problem]:
    for name, listener in listen.listeners.items():
        asked = listener.tokens is not None or (listener.tls is not None and listener.tls.client_ca_file is not None)
        lacks = [
            *(["without encryption"] if listener.tls is None else []),
            *(["and nobody is asked who they are"] if not asked else []),
        ]
        if lacks and not listener.address.is_loopback:
            what = f"{listener.address} can be reached from other machines, {', '.join(lacks)}"
            yield Problem(where=f"listen.{name}", what=what, fix=fix)


_TITLES = {"grpc": "gRPC", "http": "HTTP", "control": "the control listener"}


def _shared_ports(listen: Listen) -> Iterator[Problem]:
    taken: dict[Address, str] = {}
    for name, listener in listen.listeners.items():
        address = listener.address
        if address.port and address in taken:
            what = f"{_TITLES[taken[address]]} and {_TITLES[name]} can't both listen on {address}"
            yield Problem(where=f"listen.{name}", what=what, fix="give them different ports")
        taken.setdefault(address, name)
