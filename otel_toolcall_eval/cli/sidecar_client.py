"""Asks a running sidecar over HTTP: where it is, and how to be let in, from options, settings and environment.

Without an URL the sidecar is the one that these settings are of. Its name is not looked at then: we ask for 127.0.0.1, and no certificate
is made out to that. It gets our token only if it shows the certificate in its ``cert_file``, or one signed by one in it. Without a token
any certificate will do: a health check that fails while certificates are renewed would have the sidecar killed.
Connections are direct: a proxy is not on the way to one's own container.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.reloading_file import content_of, tokens_in
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings

if TYPE_CHECKING:
    import argparse

OK = 200
UNAUTHORIZED = 401
MISDIRECTED = 421
_TOKEN_FILE = "--token-file"  # noqa: S105 - no password: the name of an option


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarTarget:
    """Where to ask, and what to show.

    Attributes:
        url: of the sidecar.
        trusted: PEM file of authorities, or of the sidecar's own certificate; None takes the system's authorities.
        own: the sidecar is known by its certificate, and not by its name.
        cert: PEM files of a client certificate and its key.
        tokens: file of tokens, of which the first is sent.
    """

    url: str
    trusted: Path | None = None
    own: bool = False
    cert: tuple[Path, Path] | None = None
    tokens: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer; status 0 is none, and ``body`` says why."""

    status: int
    body: bytes


def target_of(arguments: argparse.Namespace) -> SidecarTarget:
    """Return what the options say, and the settings where they are silent.

    Raises:
        SettingsError: the settings can't be used, or a client certificate lacks its key.
    """
    if (arguments.cert_file is None) != (arguments.key_file is None):
        raise SettingsError(where="--cert-file", what="a certificate and its key go together", fix="give --cert-file and --key-file")
    target = SidecarTarget(url=arguments.url or "")
    if not target.url:
        http = load_settings(Path(arguments.config) if arguments.config else None, os.environ, Deployment.SIDECAR).listen.http
        target = SidecarTarget(
            url=f"{http.scheme}://{http.address.from_here}",
            trusted=None if http.tls is None else http.tls.cert_file,
            own=True,
            tokens=None if http.tokens is None else http.tokens.path,
        )
    if arguments.ca_file is not None:
        target = replace(target, trusted=Path(arguments.ca_file), own=False)
    if arguments.cert_file is not None:
        target = replace(target, cert=(Path(arguments.cert_file), Path(arguments.key_file)))
    return target if arguments.token_file is None else replace(target, tokens=Path(arguments.token_file))


def ask(target: SidecarTarget, *, path: str, timeout_seconds: float, max_bytes: int, with_token: bool = True) -> Reply:
    """Send one GET.

    Args:
        target: whom to ask.
        path: what to ask for, unless the URL has a path.
        timeout_seconds: for each step.
        max_bytes: of the answer.
        with_token: False shows no token, where none is needed.

    Raises:
        SettingsError: URL, time-out or files can't be used.
    """
    try:
        parts = urlsplit(target.url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise SettingsError(where="--url", what=f"{target.url!r} is no HTTP address", fix=f"write it as http://127.0.0.1:4318{path}")
    if timeout_seconds <= 0:
        raise SettingsError(where="--timeout", what="it is not above 0", fix="give seconds, as in 2.5")
    headers = {"Authorization": f"Bearer {_token(target.tokens)}"} if with_token and target.tokens is not None else {}
    connection = (
        HTTPSConnection(host, port, timeout=timeout_seconds, context=_context(target, with_token=with_token))
        if parts.scheme == "https"
        else HTTPConnection(host, port, timeout=timeout_seconds)
    )
    try:
        connection.request("GET", parts.path if parts.path.strip("/") else path, headers=headers)
        answer = connection.getresponse()
        return Reply(status=answer.status, body=answer.read(max_bytes))
    except (OSError, HTTPException) as error:
        return Reply(status=0, body=_why(error, encrypted=parts.scheme == "https").encode())
    finally:
        connection.close()


def _why(error: Exception, *, encrypted: bool) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}; name its authority with --ca-file"
    reason = (error.reason if isinstance(error, ssl.SSLError) else None) or str(error) or type(error).__name__
    if encrypted and isinstance(error, ssl.SSLError | ConnectionError) and not isinstance(error, ConnectionRefusedError):
        return f"no answer ({reason}); if it asks clients for a certificate, show one with --cert-file"
    return f"no answer ({reason})"


def _context(target: SidecarTarget, *, with_token: bool) -> ssl.SSLContext:
    anyone = target.own and not with_token
    try:
        context = ssl.create_default_context(cafile=None if anyone else target.trusted)
    except OSError as error:
        where = f"--ca-file: {target.trusted}"
        raise SettingsError(where=where, what=f"no certificates can be read from it ({error.strerror})", fix="name a PEM file") from error
    if target.own:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if anyone:
        context.verify_mode = ssl.CERT_NONE
    if target.cert is not None:
        cert_file, key_file = target.cert
        try:
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as error:
            what = f"certificate and key can't be used ({error.strerror})"
            raise SettingsError(where=f"--cert-file: {cert_file}", what=what, fix="name PEM files that belong together") from error
    return context


def _token(path: Path) -> str:
    return tokens_in(content_of(_TOKEN_FILE, path), where=f"{_TOKEN_FILE}: {path}")[0].decode("ascii")
