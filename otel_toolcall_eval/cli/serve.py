"""``serve``: runs the sidecar."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters.console import build_console
from otel_toolcall_eval.model.errors import Problem, SettingsError
from otel_toolcall_eval.settings.build_pipeline import own_version, with_criteria
from otel_toolcall_eval.settings.endpoint import without_credentials
from otel_toolcall_eval.settings.service import Deployment, LogFormat
from otel_toolcall_eval.settings.service_file import PREFIX, load_settings
from otel_toolcall_eval.sidecar.process_limits import (
    collect_garbage_seldom,
    keep_what_is_loaded,
    loading_more,
    raise_file_limit,
    return_large_blocks,
    without_collector,
)
from otel_toolcall_eval.sidecar.sidecar import Sidecar, load_parts

if TYPE_CHECKING:
    import argparse

    from otel_toolcall_eval.settings.service import Settings

# An option is the same setting as a variable, and goes before it. Of LISTEN_GRPC and LISTEN_GRPC_ADDRESS, the second wins.
VARIABLES = {
    **{f"--{name}": f"{PREFIX}LISTEN_{name.upper()}_ADDRESS" for name in ("grpc", "http", "control")},
    "--insecure": f"{PREFIX}LISTEN_INSECURE",
}
SHOWN_SETS = 6


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal; 0, and a log line if something could not be evaluated or sent in time."""
    with without_collector():
        settings = _settings(arguments)
        _configure_logging(settings)
        raise_file_limit()
        return_large_blocks()
        load_parts()
        keep_what_is_loaded()
        sidecar = Sidecar(settings, console=build_console(arguments.verdicts, settings), loading=loading_more)
        collect_garbage_seldom()
    with sidecar.signals():
        sidecar.start()
        try:
            _tell(sidecar, arguments.verdicts)
        except BaseException:  # standard output is closed, say
            sidecar.stop(timeout_seconds=1.0)
            raise
        done = sidecar.run()
    if not done:
        logging.getLogger(__name__).error("ended before everything was evaluated and sent%s", _left(sidecar))
    return 0  # supervisors take another code for a crash, and start us again


def _left(sidecar: Sidecar) -> str:
    """Return what was left when the time for ending was over, and what would help."""
    if not sidecar.unevaluated:
        return "; see the lines above, check the endpoints, or raise completion.shutdown_timeout"
    left = f": {sidecar.unevaluated} traces were left open"
    if sidecar.settings.journal.path is not None:
        return f"{left}, which the next start evaluates"
    return f"{left}; raise completion.shutdown_timeout, or set journal.path, so that the next start evaluates them"


def _tell(sidecar: Sidecar, verdicts: str) -> None:
    """Say that it's ready, to people and to programs."""
    settings, parts = sidecar.settings, sidecar.parts
    credentials = () if parts.forwarder is None else parts.forwarder.warnings
    for warning in (*settings.warnings, *parts.receivers.protection.warnings, *credentials, *parts.criteria.warnings):
        logging.getLogger(__name__).warning("%s", warning)
    if verdicts == "json":
        sys.stdout.write(json.dumps({"event": "ready", **_addresses(sidecar)}) + "\n")
        sys.stdout.flush()
    if settings.log.format is LogFormat.TEXT:
        sys.stderr.write(greeting(sidecar, verdicts=verdicts != "off"))
    else:
        logging.getLogger(__name__).info("ready", extra=_addresses(sidecar))


def _addresses(sidecar: Sidecar) -> dict[str, str]:
    return {name: str(address) for name, address in sidecar.addresses.items()}


def greeting(sidecar: Sidecar, *, verdicts: bool) -> str:
    """Return what somebody who has just started a sidecar wants to know, next steps included."""
    settings, sets = sidecar.settings, sidecar.parts.criteria.sets
    targets = sidecar.parts.telemetry.targets.values()
    forward = settings.forward.endpoint
    shown = sorted({without_credentials(target.endpoint) for target in targets})
    names = ", ".join(found.name for found in sets[:SHOWN_SETS]) + (", ..." if len(sets) > SHOWN_SETS else "")
    where = ", ".join(str(source.path) for source in settings.criteria)
    wait = settings.completion.wait_after_root_ns / 1e9
    grpc, http = settings.listen.grpc, settings.listen.http
    # 0.0.0.0 is no address to connect to, so print one that works from here, and that there are others.
    here = {name: address.from_here for name, address in sidecar.addresses.items()}
    everywhere = [name for name, address in sidecar.addresses.items() if address.is_every]
    url = f"{http.scheme}://{here['http']}"
    bound = settings.listen.control
    control = [] if bound is None else [f"PUT {bound.scheme}://{here['control']}/v1/traces/TRACE_ID/criteria"]
    lines = [
        f"otel-toolcall-eval {own_version()} is ready; Ctrl-C stops it",
        f"  receives  OTLP/gRPC on {here['grpc']}, OTLP/HTTP on {url} (protobuf and JSON)",
        *(f"  control   {request} binds criteria to a trace" for request in control),
        *([f"  reached   by every name and address of this machine: {', '.join(everywhere)}"] if everywhere else []),
        f"  criteria  {len(sets)} from {where}: {names}" if sets else "  criteria  none: every trace will be counted as unbound",
        f"  evaluates a trace {wait:g} s after its root span and its last span",
        f"  scores    {url}/metrics" + (f"; OTLP to {', '.join(shown)}" if shown else "; not sent by OTLP"),
    ]
    if forward is not None:
        lines.append(f"  passes on all that it receives to {without_credentials(forward)}")
    steps = []
    if not sets:
        steps.append("give criteria: --criteria PATH (to copy from: `otel-toolcall-eval demo` shows where its own lie)")
    steps.append(f"point your agent here: OTEL_EXPORTER_OTLP_ENDPOINT={grpc.scheme}://{here['grpc']}")
    if "grpc" in everywhere:
        steps.append("point agents elsewhere to this machine's name, in place of the address above")
    if grpc.tokens is not None:
        steps.append("let it show a token: OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN")
    if not targets:
        steps.append("send the scores on: set OTEL_EXPORTER_OTLP_ENDPOINT for this process, or export.otlp.endpoint in its settings")
    if not verdicts:
        steps.append("see verdicts here as they fall: --verdicts text")
    return "\n".join([*lines, *(f"  next      {step}" for step in steps)]) + "\n"


def _settings(arguments: argparse.Namespace) -> Settings:
    given = {
        "--grpc": arguments.grpc,
        "--http": arguments.http,
        "--control": arguments.control,
        "--insecure": "true" if arguments.insecure else None,
    }
    environ = {**os.environ, **{VARIABLES[option]: value for option, value in given.items() if value is not None}}
    try:
        settings = load_settings(Path(arguments.config) if arguments.config else None, environ, Deployment.SIDECAR)
    except SettingsError as error:  # in the reader's words: they wrote an option, not a variable
        options = {VARIABLES[option]: option for option, value in given.items() if value is not None}
        problems = [Problem(where=options.get(p.where.split(":")[0], p.where), what=p.what, fix=p.fix) for p in error.problems]
        raise SettingsError.of(problems) from error
    return with_criteria(settings, [Path(path) for path in arguments.criteria]) if arguments.criteria else settings


class _JsonFormatter(logging.Formatter):
    """One JSON object a line, with the fields of ``extra``."""

    converter = time.gmtime  # type: ignore[assignment]  # declared narrower than it is
    _KNOWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in vars(record).items() if key not in self._KNOWN}
        line = {"time": self.formatTime(record, "%Y-%m-%dT%H:%M:%SZ"), "level": record.levelname.lower(), "message": record.getMessage()}
        return json.dumps({**line, **fields}, default=str)


class _TextFormatter(logging.Formatter):
    """Level, text, and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {key: value for key, value in vars(record).items() if key not in _JsonFormatter._KNOWN}  # noqa: SLF001 - its twin
        shown = "".join(f" {key}={value}" for key, value in fields.items())
        return f"{self.formatTime(record, '%H:%M:%S')} {record.levelname.lower()}: {record.getMessage()}{shown}"


def _configure_logging(settings: Settings) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter() if settings.log.format is LogFormat.JSON else _TextFormatter())
    logging.basicConfig(level=settings.log.level.value.upper(), handlers=[handler], force=True)
    # gRPC's core writes a line of its own, in its own form, for each handshake that fails: a port scan would fill the log.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
