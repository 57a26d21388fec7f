"""Where requests are passed on to, and what they carry beside their bodies: credentials, which are read from files and never shown."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from otel_toolcall_eval.endpoint import without_credentials
from otel_toolcall_eval.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_TOKEN = re.compile(r"[\x21-\x7e]+")
_TOKEN_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """A downstream endpoint.

    Attributes:
        endpoint: a URL with scheme and host; for HTTP without the signals' paths.
        headers: sent with each request; names in lower case.
        token_file: its content is sent as a bearer token; read again when the file changes.
        ca_file: certificates that the downstream's is checked against; None takes the system's.
        cert_file: our own certificate, with ``key_file``.
        timeout_seconds: for one try, from the connection to the answer.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_file: Path | None = None
    gzip: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_seconds: float = 10.0
    user_agent: str = "otel-toolcall-eval"

    @property
    def shown(self) -> str:
        """Return the endpoint as it may be shown."""
        return without_credentials(self.endpoint)

    @property
    def is_tls(self) -> bool:
        """Tell whether the connection is encrypted."""
        return self.endpoint.startswith("https://")

    @property
    def authority(self) -> str:
        """Return host and port for gRPC, IPv6 in brackets."""
        split = urlsplit(self.endpoint)
        host = split.hostname or ""
        return f"{f'[{host}]' if ':' in host else host}:{split.port or 4317}"


class Token:
    """A bearer token in a file. Any thread."""

    def __init__(self, path: Path) -> None:
        """Read it; raises SettingsError if it can't be used."""
        self._path = path
        self._state: tuple[tuple[int, int, int], str] | None = None
        self._state = self._read()

    def value(self) -> str:
        """Return the token; while the file is missing or unusable, the last one that was read."""
        try:
            self._state = self._read()
        except SettingsError:
            if self._state is None:
                raise
        return self._state[1]

    def _read(self) -> tuple[tuple[int, int, int], str]:
        where = "forward.token_file"
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if self._state is not None and self._state[0] == seen:
                return self._state
            with self._path.open("rb") as file:
                text = file.read(_TOKEN_BYTES).decode("latin-1").strip()
        except OSError as error:
            raise _unreadable(where, self._path, error) from error
        if not _TOKEN.fullmatch(text):
            raise SettingsError(where=where, what=f"{self._path} does not hold a token", fix="write the token alone into it, in ASCII")
        return seen, text


def read_pem(setting: str, path: Path | None) -> bytes | None:
    """Return the content of a file with certificates or a key; raises SettingsError if it can't be read."""
    if path is None:
        return None
    where = f"forward.tls.{setting}"
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(where, path, error) from error


def tls_context(downstream: Downstream) -> ssl.SSLContext:
    """Return what connections are encrypted with, TLS 1.2 or later; raises SettingsError if a file can't be used.

    gRPC has an implementation of its own, and no words for what is wrong with a file; so this is built for it, too, and thrown away.
    """
    ca = read_pem("ca_file", downstream.ca_file)
    read_pem("cert_file", downstream.cert_file)
    read_pem("key_file", downstream.key_file)
    try:
        context = ssl.create_default_context(cadata=None if ca is None else ca.decode("latin-1"))
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(where="forward.tls.ca_file", what="it does not hold certificates", fix="give it in PEM form") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if downstream.cert_file is not None:
        try:
            context.load_cert_chain(downstream.cert_file, downstream.key_file, password=lambda: b"")
        except (ssl.SSLError, ValueError) as error:
            what = "certificate and key do not belong together, or are not in PEM form"
            raise SettingsError(
                where="forward.tls.cert_file", what=what, fix="give a certificate, and its key without a password"
            ) from error
    return context


def _unreadable(where: str, path: Path, error: OSError) -> SettingsError:
    return SettingsError(where=where, what=f"{path} can't be read: {error.strerror}", fix="check the path and its permissions")
