"""The downstream: where it is, how we prove who we are, what it is sent, and what it answers.

Credentials are read from files and never shown.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias
from urllib.parse import urlsplit

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.endpoint import without_credentials
from otel_toolcall_eval.settings.reloading_file import ReloadingValue, readable_by_others, tokens_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from otel_toolcall_eval.model.errors import Problem
    from otel_toolcall_eval.otlp.replies import Encoding, Signal

_TOKEN_FILE = "forward.token_file"  # noqa: S105 - no password: the name of a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Downstream:
    """A downstream endpoint.

    Attributes:
        endpoint: a URL with scheme and host; for HTTP without the signals' paths, unless it ``is_whole``.
        headers: sent with each request; names in lower case.
        token_file: the first token in it is sent; read again when the file changes.
        ca_file: certificates that the downstream's is checked against; None takes the system's.
        cert_file: our own certificate, with ``key_file``.
        timeout_seconds: for one try, from the connection to the answer.
        is_whole: the endpoint is one signal's own URL, taken as it is.
        by_proxy: the variables ``HTTP_PROXY``, ``HTTPS_PROXY`` and ``NO_PROXY`` hold over HTTP, as they do for the SDK's exporters.
        named: what the three files are called where they are set, for messages.
    """

    endpoint: str = field(repr=False)  # it may hold credentials
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token_file: Path | None = None
    gzip: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    timeout_seconds: float = 10.0
    user_agent: str = "otel-toolcall-eval"
    is_whole: bool = False
    by_proxy: bool = False
    named: tuple[str, str, str] = ("forward.tls.ca_file", "forward.tls.cert_file", "forward.tls.key_file")

    def url(self, path: str) -> str:
        """Return the URL of a signal with this path."""
        return self.endpoint if self.is_whole else self.endpoint.rstrip("/") + path

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
        bracketed = f"[{host}]" if ":" in host else host
        if split.port is None and self.is_whole:
            return bracketed  # gRPC's own default, as for the exporter of metrics, which gets the same endpoint
        return f"{bracketed}:{split.port or 4317}"


class Token:
    """The first bearer token in a file."""

    def __init__(self, path: Path) -> None:
        """Read it; raises SettingsError if it can't be used."""
        self._where = f"{_TOKEN_FILE}: {path}"
        self._file: ReloadingValue[str] = ReloadingValue({_TOKEN_FILE: path}, self._read)
        self.warnings = readable_by_others(_TOKEN_FILE, path)

    @property
    def header(self) -> str:
        """Return what to send."""
        return f"Bearer {self._file.value}"

    def refresh(self) -> None:
        """Read the file again if it has changed."""
        self._file.refresh()

    def _read(self, contents: Sequence[bytes]) -> str:
        return tokens_in(contents[0], where=self._where)[0].decode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What connections are encrypted with; the files' contents are for gRPC, which has an implementation of its own."""

    context: ssl.SSLContext
    ca: bytes | None
    cert: bytes | None
    key: bytes | None = field(repr=False)


def tls_of(downstream: Downstream) -> ReloadingValue[Tls]:
    """Return what connections to the downstream are encrypted with, TLS 1.2 or later; raises SettingsError if a file can't be used.

    The context is built for gRPC, too, which has no words for what is wrong with a file.
    """
    paths = (downstream.ca_file, downstream.cert_file, downstream.key_file)
    files = {name: path for name, path in zip(downstream.named, paths, strict=True) if path is not None}
    named_ca, named_cert, _ = downstream.named

    def make(contents: Sequence[bytes]) -> Tls:
        found = dict(zip(files, contents, strict=True))
        ca, cert, key = (found.get(name) for name in downstream.named)
        try:
            context = ssl.create_default_context(cadata=None if ca is None else ca.decode("latin-1"))
        except (ssl.SSLError, ValueError) as error:
            raise SettingsError(where=named_ca, what="it does not hold certificates", fix="give it in PEM form") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if downstream.cert_file is not None:
            try:
                context.load_cert_chain(downstream.cert_file, downstream.key_file, password=lambda: b"")
            except (ssl.SSLError, ValueError) as error:
                what = "certificate and key do not belong together, or are not in PEM form"
                fix = "give a certificate, and its key without a password"
                raise SettingsError(where=named_cert, what=what, fix=fix) from error
        return Tls(context=context, ca=ca, cert=cert, key=key)

    return ReloadingValue(files, make)


class Credentials:
    """Token and TLS files of one downstream, for the clients of both protocols."""

    def __init__(self, downstream: Downstream) -> None:
        """Read the files; raises SettingsError if one can't be used."""
        self._token = None if downstream.token_file is None else Token(downstream.token_file)
        self._tls = tls_of(downstream) if downstream.is_tls else None
        self.warnings: Sequence[Problem] = () if self._token is None else self._token.warnings

    @property
    def authorization(self) -> str | None:
        """Return the value of the authorization header; None without a token."""
        return None if self._token is None else self._token.header

    @property
    def tls(self) -> Tls | None:
        """Return what connections are encrypted with; None without TLS."""
        return None if self._tls is None else self._tls.value

    def refresh(self) -> bool:
        """Read files again that have changed; True if connections have to be encrypted otherwise."""
        if self._token is not None:
            self._token.refresh()
        return self._tls is not None and self._tls.refresh()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """The body of one request, as it came, unpacked.

    Attributes:
        items: how many spans or records are in it, where somebody counts them.
    """

    signal: Signal
    encoding: Encoding
    body: bytes = field(repr=False)
    items: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The downstream took it, but for ``rejected`` spans, records or data points."""

    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The downstream will not take it, however often it is sent. ``code`` is a status, never text of the answer."""

    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryLater:
    """It may be taken later.

    Attributes:
        code: a status, or the kind of error that kept it from arriving.
        after_seconds: when the downstream wants to be asked again; None if it doesn't say.
    """

    code: str
    after_seconds: float | None = None


Outcome: TypeAlias = "Delivered | Refused | RetryLater"


class Client(Protocol):
    """Speaks to the downstream. ``send`` is called from several threads at a time."""

    @property
    def shown(self) -> str:
        """Return the downstream's address as it may be shown."""
        ...

    @property
    def takes_json(self) -> bool:
        """Tell whether a parcel may be in JSON."""
        ...

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about its files."""
        ...

    def refresh(self) -> None:
        """Read files again that have changed. Called by one thread."""
        ...

    def start(self) -> None:
        """Get ready."""
        ...

    def send(self, parcel: QueuedRequest) -> Outcome:
        """Send one parcel and wait for the answer, within the time-out; never raises."""
        ...

    def close(self) -> None:
        """Cut what is under way, and let go of everything; may be called again."""
        ...
