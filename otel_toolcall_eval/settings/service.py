"""Loads the settings of the sidecar and of the span processor: defaults, then the service file, then the environment.

``OTEL_*`` variables without our prefix keep their meaning and are read by those who use them, the exporters above all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_toolcall_eval.errors import Problem, SettingsError
from otel_toolcall_eval.settings.criteria_file import CriteriaSource
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.environment import CONFIG_VARIABLE, read_environment
from otel_toolcall_eval.settings.forward_shape import check_forward, forward_oddities
from otel_toolcall_eval.settings.listeners import Listen, Listener, TlsFiles, TokenFile, exposures, listen_of
from otel_toolcall_eval.settings.profile import (
    DEFAULTS,
    Compression,
    Deployment,
    Emit,
    Export,
    Forward,
    Intake,
    Journal,
    JournalSync,
    Log,
    LogFormat,
    LogLevel,
    Redact,
    Settings,
    ShownValues,
    Status,
)
from otel_toolcall_eval.settings.service_layer import read_layer
from otel_toolcall_eval.settings.types import Address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "Address",
    "Compression",
    "CriteriaSource",
    "Deployment",
    "Emit",
    "Export",
    "Forward",
    "Intake",
    "Journal",
    "JournalSync",
    "Listen",
    "Listener",
    "Log",
    "LogFormat",
    "LogLevel",
    "Redact",
    "Settings",
    "ShownValues",
    "Status",
    "TlsFiles",
    "TokenFile",
    "load_settings",
]

# For each section of the settings: the names that the service file uses, and ours. Durations and sizes have their unit in the name inside.
_COMPLETION = {
    "completion.decision_wait_after_root_received": "wait_after_root_ns",
    "completion.decision_wait_after_root_max": "wait_after_root_max_ns",
    "completion.idle_timeout": "idle_timeout_ns",
    "completion.trace_timeout": "trace_timeout_ns",
    "completion.late_span_window": "late_span_window_ns",
    "completion.max_revisions": "max_revisions",
    "completion.unit": "unit",
    "completion.root": "root",
}
_BUFFER = {
    "limits.num_traces": "num_traces",
    "limits.limit_mib": "limit_bytes",
    "limits.maximum_trace_size_bytes": "maximum_trace_size_bytes",
    "limits.span_limit": "span_limit",
    "limits.decision_cache_size": "decisions",
    "limits.decision_cache_ttl": "decisions_ns",
}
_INTAKE = {"limits.max_request_bytes": "max_request_bytes", "limits.queue_bytes": "queue_bytes"}
_JOURNAL = {"journal.path": "path", "journal.sync": "sync"}
_EXPORT = {"export.enabled": "enabled", "export.endpoint": "endpoint", "export.protocol": "protocol"}
_FORWARD = {
    "forward.endpoint": "endpoint",
    "forward.protocol": "protocol",
    "forward.headers": "headers",
    "forward.token_file": "token_file",
    "forward.compression": "compression",
    "forward.tls.ca_file": "ca_file",
    "forward.tls.cert_file": "cert_file",
    "forward.tls.key_file": "key_file",
    "forward.timeout": "timeout_ns",
    "forward.queue_bytes": "queue_bytes",
    "forward.max_elapsed": "max_elapsed_ns",
    "forward.attach_to_root": "attach_to_root",
}
_STATUS = {
    "status.enabled": "enabled",
    "status.traces": "traces",
    "status.limit_mib": "limit_bytes",
    "status.path": "path",
    "status.max_age": "max_age_ns",
}
_EMIT = {"emit.metrics": "metrics", "emit.events": "events", "emit.spans": "spans"}
_REDACT = {"explain.redact.keys": "keys", "explain.redact.patterns": "patterns", "explain.redact.defaults": "defaults"}
_LOG = {"log.level": "level", "log.format": "format"}
_TOP = {
    "criteria": "criteria",
    "dialects": "dialects",
    "workers": "workers",
    "completion.shutdown_timeout": "shutdown_timeout_ns",
    "completion.root_budget": "root_budget_ns",
    "explain.values": "show_values",
}


def load_settings(path: Path | None, environ: Mapping[str, str], deployment: Deployment) -> Settings:
    """Load the settings.

    Args:
        path: the service file (YAML or JSON); None takes the one that ``OTEL_TOOLCALL_EVAL_CONFIG`` names, if any.
        environ: the environment variables.
        deployment: whose defaults hold.

    Raises:
        SettingsError: with all that is wrong with the file and the variables.
    """
    diagnostics = Diagnostics()
    named = environ.get(CONFIG_VARIABLE, "").strip()
    file = Path(named) if path is None and named else path
    values = {**_read_file(file, diagnostics), **read_environment(environ, diagnostics)}
    diagnostics.raise_any(SettingsError)
    problems: list[Problem] = []
    settings = _assemble(DEFAULTS[deployment], values, problems)
    if problems:
        raise SettingsError.of(problems)
    check_forward(settings.forward, settings.listen, workers=settings.workers)
    return replace(settings, warnings=(*diagnostics.warnings, *_oddities(settings), *forward_oddities(settings.forward)))


def _read_file(file: Path | None, diagnostics: Diagnostics) -> Mapping[str, object]:
    document = None if file is None else read_document(file, diagnostics)
    if file is None or document is None:
        return {}
    return read_layer(document.value, document.place, diagnostics, folder=file.parent)


def _assemble(defaults: Settings, values: Mapping[str, object], problems: list[Problem]) -> Settings:
    # The values were validated one by one, and by name; their types are the models' affair, and out of mypy's sight here.
    def given(names: Mapping[str, str]) -> Mapping[str, Any]:
        return {ours: values[name] for name, ours in names.items() if name in values}

    changed = replace(
        defaults,
        listen=listen_of(defaults.listen, values, problems),
        completion=replace(defaults.completion, **given(_COMPLETION)),
        buffer=replace(defaults.buffer, **given(_BUFFER)),
        intake=replace(defaults.intake, **given(_INTAKE)),
        journal=replace(defaults.journal, **given(_JOURNAL)),
        export=replace(defaults.export, **given(_EXPORT)),
        forward=replace(defaults.forward, **given(_FORWARD)),
        status=replace(defaults.status, **given(_STATUS)),
        emit=replace(defaults.emit, **given(_EMIT)),
        redact=replace(defaults.redact, **given(_REDACT)),
        log=replace(defaults.log, **given(_LOG)),
    )
    return replace(changed, **given(_TOP))


def _oddities(settings: Settings) -> Iterator[Problem]:
    yield from exposures(settings.listen)
    if settings.completion.wait_after_root_ns > settings.completion.wait_after_root_max_ns:
        where = "completion.decision_wait_after_root_received"
        yield Problem(where=where, what="it is longer than decision_wait_after_root_max, which holds", fix="raise that, too")
