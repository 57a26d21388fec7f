"""``traces``: what a running sidecar holds, why each trace waits, and until when. It answers clients on its own machine alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from otel_toolcall_eval.cli.healthcheck import ANYWHERE, OK
from otel_toolcall_eval.cli.output import console, print_json
from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.settings.service import Address, Profile, load_settings

if TYPE_CHECKING:
    import argparse

PATH = "/debug/traces"
MAX_BYTES = 16 * 1024 * 1024
NOT_FOUND = 404

_Trace = Mapping[str, object]


def run(arguments: argparse.Namespace) -> int:
    """Ask once, and show the answer."""
    document = fetch(arguments.url or _configured_url(), timeout_seconds=arguments.timeout)
    if arguments.format == "json":
        print_json(document)
    else:
        _print(document)
    return 0


def fetch(url: str, *, timeout_seconds: float) -> Mapping[str, object]:
    """Return what the sidecar says.

    Raises:
        SettingsError: there was no answer, or none that can be used.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(where="--url", what=f"{url!r} is no HTTP address", fix="write it as http://127.0.0.1:4318")
    connect = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = connect(parts.hostname, parts.port, timeout=timeout_seconds)
    try:
        connection.request("GET", parts.path if parts.path.strip("/") else PATH)
        answer = connection.getresponse()
        body = answer.read(MAX_BYTES)
    except (OSError, HTTPException) as error:
        raise SettingsError(
            where=url,
            what=f"no answer ({str(error) or type(error).__name__})",
            fix="is the sidecar running? name its HTTP address with --url",
        ) from error
    finally:
        connection.close()
    if answer.status == NOT_FOUND:
        raise SettingsError(where=url, what="it does not show its traces", fix="ask from the machine that the sidecar runs on")
    if answer.status != OK:
        raise SettingsError(where=url, what=f"it answered {answer.status}", fix="ask again after a moment")
    try:
        document = json.loads(body)
    except ValueError as error:
        raise SettingsError(where=url, what="the answer is not JSON", fix="name the sidecar's HTTP address with --url") from error
    if not isinstance(document, dict) or not isinstance(document.get("traces"), list):
        raise SettingsError(where=url, what="the answer is not a sidecar's", fix="name the sidecar's HTTP address with --url")
    return document


def _configured_url() -> str:
    http = load_settings(None, os.environ, Profile.SIDECAR).listen.http
    return f"http://{Address(host=ANYWHERE.get(http.host, http.host), port=http.port)}"


def _print(document: Mapping[str, object]) -> None:
    from rich.table import Table  # noqa: PLC0415 - an extra

    out = console()
    kinds = [(title, cast("Sequence[_Trace]", document.get(key) or ())) for title, key in (("open", "traces"), ("decided", "decided"))]
    for title, traces in kinds:
        if not traces:
            continue
        table = Table(title=title, title_justify="left", header_style="bold")
        for name in ("trace", "unit", "waits for", "until", "spans", "KiB", "age", "notes"):
            table.add_column(name, justify="right" if name in {"until", "spans", "KiB", "age"} else "left", overflow="fold")
        for trace in traces:
            table.add_row(*_cells(trace))
        out.print(table)
    shown = sum(len(traces) for _, traces in kinds)
    held = f"{document['open']} open, {document['revisable']} decided and open to late spans, {_kib(document['bytes'])} KiB"
    out.print(held if shown else f"{held}; nothing waits", highlight=False)


def _cells(trace: _Trace) -> list[str]:
    until = cast("float", trace["seconds"])
    notes = [
        *(["root seen"] if trace["root_seen"] else ["no root"]),
        *(["missing parents"] if trace["orphans"] else []),
        *(["cut at a limit"] if trace["truncated"] else []),
        *([f"{trace['open_spans']} open spans"] if trace["open_spans"] else []),
        *([f"{trace['agents']} agents"] if trace["agents"] else []),
        *([f"revision {trace['revisions']}"] if trace["revisions"] else []),
    ]
    return [
        str(trace["trace_id"]),
        str(trace["unit_span_id"] or ""),
        str(trace["waits_for"]),
        f"in {until:.1f} s" if until >= 0 else "now",
        str(trace["spans"]),
        _kib(trace["bytes"]),
        f"{cast('float', trace['age_seconds']):.0f} s",
        ", ".join(notes),
    ]


def _kib(size_bytes: object) -> str:
    return f"{cast('int', size_bytes) / 1024:.1f}"
