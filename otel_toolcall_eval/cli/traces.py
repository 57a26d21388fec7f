"""``traces``: what a running sidecar holds, why each trace waits, and until when. It answers clients on its own machine alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.cli.output import console, print_json
from otel_toolcall_eval.cli.sidecar_client import MISDIRECTED, OK, UNAUTHORIZED, ask, target_of
from otel_toolcall_eval.model.errors import SettingsError

if TYPE_CHECKING:
    import argparse

    from otel_toolcall_eval.cli.sidecar_client import SidecarTarget

PATH = "/debug/traces"
MAX_BYTES = 16 * 1024 * 1024
NOT_FOUND = 404

_Trace = Mapping[str, object]


def run(arguments: argparse.Namespace) -> int:
    """Ask once, and show the answer."""
    document = fetch(target_of(arguments), timeout_seconds=arguments.timeout)
    if arguments.format == "json":
        print_json(document)
    else:
        _print(document)
    return 0


def fetch(target: SidecarTarget, *, timeout_seconds: float) -> Mapping[str, object]:
    """Return what the sidecar says.

    Raises:
        SettingsError: there was no answer, or none that can be used.
    """
    where = target.url
    reply = ask(target, path=PATH, timeout_seconds=timeout_seconds, max_bytes=MAX_BYTES)
    if not reply.status:
        raise SettingsError(where=where, what=reply.body.decode(), fix="is the sidecar running? name its HTTP address with --url")
    if reply.status == UNAUTHORIZED:
        raise SettingsError(where=where, what="it asks for a valid token", fix="name a file that holds one with --token-file")
    if reply.status == NOT_FOUND:
        raise SettingsError(where=where, what="it does not show its traces", fix="ask from the machine that the sidecar runs on")
    if reply.status == MISDIRECTED:
        fix = "ask for 127.0.0.1 or localhost, or list the name in listen.allowed_hosts"
        raise SettingsError(where=where, what="it does not answer under this name", fix=fix)
    if reply.status != OK:
        raise SettingsError(where=where, what=f"it answered {reply.status}", fix="ask again after a moment")
    try:
        document = json.loads(reply.body)
    except ValueError as error:
        raise SettingsError(where=where, what="the answer is not JSON", fix="name the sidecar's HTTP address with --url") from error
    if not isinstance(document, dict) or not isinstance(document.get("traces"), list):
        raise SettingsError(where=where, what="the answer is not a sidecar's", fix="name the sidecar's HTTP address with --url")
    return document


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
