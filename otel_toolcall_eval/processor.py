"""``ToolCallEvalSpanProcessor``: three lines in an agent, and its tool calls are judged in its own process."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk.trace import SpanProcessor

from otel_toolcall_eval.errors import SettingsError
from otel_toolcall_eval.settings.criteria_code import read_criteria
from otel_toolcall_eval.settings.criteria_file import load_criteria
from otel_toolcall_eval.settings.service import Profile, load_settings
from otel_toolcall_eval.wiring import build_pipeline, build_span_source, with_criteria

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.trace import TracerProvider

    from otel_toolcall_eval.settings.criteria_code import GivenCriteria, JsonObject

TRACE_ID_BYTES = 16


class ToolCallEvalSpanProcessor(SpanProcessor):
    """Judges the tool calls of each trace that ends in this process.

    Register it before the processor that exports; make the MeterProvider before the TracerProvider, or what is recorded while
    everything shuts down is lost. Nothing global is set, and logging is left as it is.
    """

    def __init__(
        self,
        criteria: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        *,
        settings_file: str | os.PathLike[str] | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        """Load criteria and start the judging thread.

        Args:
            criteria: files and folders; without them those of the settings and of ``OTEL_TOOLCALL_EVAL_CRITERIA``.
            settings_file: see ``config/sidecar.yaml``; listeners and export are not used in process.
            meter_provider: gets the scores as metrics; the global one by default.
            logger_provider: gets the verdicts as log events; the global one by default.
            tracer_provider: gets a span with the verdicts as its events; the global one by default.

        Raises:
            SettingsError: settings or criteria can't be used; names all that is wrong.
        """
        paths = [criteria] if isinstance(criteria, str | os.PathLike) else list(criteria)
        settings = load_settings(Path(settings_file) if settings_file else None, os.environ, Profile.IN_PROCESS)
        if paths:
            settings = with_criteria(settings, [Path(path) for path in paths])
        loaded = load_criteria(settings.criteria)
        self.warnings = tuple(str(warning) for warning in (*settings.warnings, *loaded.warnings))
        self._source, self._logs, self._worker = build_span_source(
            settings,
            loaded,
            meter_provider=meter_provider or metrics.get_meter_provider(),
            logger_provider=logger_provider or _logs.get_logger_provider(),
            tracer_provider=tracer_provider or trace.get_tracer_provider(),
        )
        self._restart: Callable[[], None] = lambda: self._worker.restart_in_child(build_pipeline(settings, loaded, keep_unbound=True))
        _restart_in_children(self)

    def restart_in_child(self) -> None:
        """Begin anew after a fork; called by itself, in the child."""
        self._source.restart_in_child()
        self._restart()

    @property
    def log_record_processor(self) -> LogRecordProcessor:
        """Return what takes the texts that instrumentations write to log records.

        Add it to the LoggerProvider if yours does so; where records come with a span, they are put together.
        """
        return self._logs

    def bind(self, trace_id: int | str | bytes, criteria: GivenCriteria, *, config: Mapping[str, JsonObject] | None = None) -> None:
        """Judge a trace by these criteria, in addition to what applies anyway.

        Args:
            trace_id: as the SDK has it (a number), as 32 hex digits, or as 16 bytes.
            criteria: names of criteria that are loaded, the guides' mapping, or criteria objects; see ``expect_tool_calls``. The trace may
                still come, be open, or have been judged within the late window.
            config: for the guides' mapping, each evaluator's configuration.

        Raises:
            SettingsError: the ID is none, or the criteria can't be used.
        """
        self._worker.bind(_trace_id(trace_id), read_criteria(criteria, config, name="bind", where="bind").bound)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that the span is open."""
        self._source.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Hand the span to the judging thread."""
        self._source.on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until every ended span is taken in and every verdict that is due is sent; False if not in time."""
        return self._source.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Judge what is open, send it and end."""
        self._source.shutdown()


def _restart_in_children(processor: ToolCallEvalSpanProcessor) -> None:
    watch = weakref.ref(processor)  # fork hooks can't be taken back; one of a processor that is gone does nothing

    def after_fork() -> None:
        found = watch()
        if found is not None:
            found.restart_in_child()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=after_fork)


def _trace_id(given: int | str | bytes) -> bytes:
    try:
        if isinstance(given, int):
            given = given.to_bytes(TRACE_ID_BYTES, "big")
        elif isinstance(given, str):
            given = bytes.fromhex(given)
    except (ValueError, OverflowError):
        given = b""
    if len(given) != TRACE_ID_BYTES:
        raise SettingsError(where="bind", what="this is no trace ID", fix="give the SDK's number, 32 hex digits, or 16 bytes")
    return given
