"""``healthcheck``: asks a running sidecar whether it is ready. Made for a container's HEALTHCHECK, where no curl is at hand."""

from __future__ import annotations

import os
import sys
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.settings.service import Address, Profile, load_settings

if TYPE_CHECKING:
    import argparse

OK = 200
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - what was listened on, never bound here


def run(arguments: argparse.Namespace) -> int:
    """Ask once; 0 if the answer is 200, else 1 with the reason on standard error."""
    url = arguments.url or _configured_url(arguments.config)
    status, reason = ask(url, timeout_seconds=arguments.timeout)
    if status == OK:
        return 0
    sys.stderr.write(f"{url}: {reason}\n")
    return 1


def ask(url: str, *, timeout_seconds: float) -> tuple[int, str]:
    """Return the status and what to say of it; status 0 if there was no answer."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https"):
        raise SettingsError(where="--url", what=f"{url!r} is no HTTP address", fix="write it as http://127.0.0.1:4318/readyz")
    if timeout_seconds <= 0:
        raise SettingsError(where="--timeout", what="it is not above 0", fix="give seconds, as in 2.5")
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(host, port, timeout=timeout_seconds)  # direct: a proxy is not on the way to one's own container
    try:
        connection.request("GET", parts.path or "/readyz")
        answer = connection.getresponse()
        said = answer.read(200).decode(errors="replace").strip()
    except (OSError, HTTPException) as error:
        return 0, f"no answer ({str(error) or type(error).__name__}); is the sidecar running?"
    finally:
        connection.close()
    return answer.status, f"{answer.status} {said}"


def _configured_url(config: str | None) -> str:
    http = load_settings(Path(config) if config else None, os.environ, Profile.SIDECAR).listen.http
    return f"http://{Address(host=ANYWHERE.get(http.host, http.host), port=http.port)}/readyz"
