"""What explanations show, and where verdicts are printed, as the settings say."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otel_toolcall_eval.exporters.console import ConsoleEmitter
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy
from otel_toolcall_eval.model.payload.redaction import Redactor

if TYPE_CHECKING:
    from otel_toolcall_eval.settings.service import Settings


def explain_of(settings: Settings) -> ExplanationPolicy:
    """Return what explanations show."""
    redact = settings.redact
    redactor = Redactor(keys=redact.keys, patterns=redact.patterns, defaults=redact.defaults)
    return ExplanationPolicy(values=ExplainValues(settings.show_values.value), redactor=redactor)


def build_console(form: str, settings: Settings) -> ConsoleEmitter | None:
    """Return an emitter that writes to standard output as ``text`` or ``json``; None for ``off``."""
    if form == "off":
        return None
    return ConsoleEmitter(_write_line, as_json=form == "json", explain=explain_of(settings))


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()
