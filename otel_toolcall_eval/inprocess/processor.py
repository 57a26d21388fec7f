"""``ToolCallEvalSpanProcessor``: three lines in an agent, and its tool calls are evaluated in its own process."""

from __future__ import annotations

import os
import time
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry import _logs, metrics, trace
from opentelemetry.sdk.trace import SpanProcessor

from otel_toolcall_eval.engine.binding import BoundTraces
from otel_toolcall_eval.exporters.deadline import Attempt, Flusher
from otel_toolcall_eval.inprocess.build import build_in_process
from otel_toolcall_eval.inprocess.registration import Registration
from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.build_pipeline import SECOND_NS, build_pipeline, with_criteria
from otel_toolcall_eval.settings.criteria_check import read_criteria
from otel_toolcall_eval.settings.criteria_file import load_criteria
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry._logs import LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk._logs import LogRecordProcessor
    from opentelemetry.sdk.trace import ReadableSpan, Span
    from opentelemetry.trace import TracerProvider

    from otel_toolcall_eval.settings.criteria_check import GivenCriteria, JsonObject

TRACE_ID_BYTES = 16

LEAST_SHUTDOWN_SECONDS = 1.0
"""What is left for the next processor when evaluation took all the time that there was."""


class ToolCallEvalSpanProcessor(SpanProcessor):
    """Evaluates the tool calls of each trace that ends in this process.

    It has two forms. Beside other processors, verdicts leave as metrics, as log events, and as events of a span of ours in the evaluated
    trace; register it before the processor that exports. Or around the one that exports (``next=BatchSpanProcessor(exporter)``; register
    only this one): then the exported root span itself carries the verdicts, as events and summary attributes, and there is no span of ours.
    All other spans are passed on at once, as they are, those that are not sampled too (exporting processors leave them out).

    In the wrapping form a root is exported with its verdicts once nothing of its trace is open in this process. Its own thread waits for
    that, usually a millisecond, ``completion.root_export_timeout`` at most; never if it runs an event loop: then the worker thread passes
    the root on, which takes a next processor that may be called from any thread, as the SDK's may. While spans of its trace are open, a
    root is held, for ``completion.decision_wait_after_root_max`` at most. ``force_flush`` and ``shutdown`` let go of what is held, and a
    thousand roots are, at most: one that goes without its verdict goes as it is, and the verdict goes on a span of ours.

    Make the MeterProvider before the TracerProvider, or what is recorded while everything shuts down is lost. Nothing global is set, and
    logging is left as it is.
    """

    def __init__(
        self,
        criteria: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
        *,
        next: SpanProcessor | None = None,  # noqa: A002 - the word for it
        settings_file: str | os.PathLike[str] | None = None,
        meter_provider: MeterProvider | None = None,
        logger_provider: LoggerProvider | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        """Load criteria and start the worker thread.

        Args:
            criteria: files and folders; without them those of the settings and of ``OTEL_TOOLCALL_EVAL_CRITERIA``.
            next: the processor to wrap; it is flushed and shut down with this one.
            settings_file: see ``config/in_process.yaml``; listeners and export are not used in process.
            meter_provider: gets the scores as metrics; the global one by default.
            logger_provider: gets the verdicts as log events; the global one by default.
            tracer_provider: gets a span with the verdicts as its events, where the root can't carry them; by default the one that the
                evaluated spans come from, or one like it, with its processors and its resource.

        Raises:
            SettingsError: settings or criteria can't be used, or ``next`` is no span processor; names all that is wrong.
        """
        if next is not None and not all(hasattr(next, hook) for hook in ("on_start", "on_end", "force_flush", "shutdown")):
            what, fix = "this is no span processor", "wrap the exporter in one: next=BatchSpanProcessor(exporter)"
            raise SettingsError(where="next", what=what, fix=fix)
        paths = [criteria] if isinstance(criteria, str | os.PathLike) else list(criteria)
        settings = load_settings(Path(settings_file) if settings_file else None, os.environ, Deployment.IN_PROCESS)
        if paths:
            settings = with_criteria(settings, [Path(path) for path in paths])
        loaded = load_criteria(settings.criteria)
        self.warnings = tuple(str(warning) for warning in (*settings.warnings, *loaded.warnings))
        parts = build_in_process(
            settings,
            loaded,
            meter_provider=meter_provider or metrics.get_meter_provider(),
            logger_provider=logger_provider or _logs.get_logger_provider(),
            tracer_provider=tracer_provider or trace.get_tracer_provider(),
            following=next,
        )
        self._source, self._logs, self._worker = parts.source, parts.logs, parts.worker
        self._wrapped, self._keeper, self._next = parts.wrapped, parts.keeper, next
        self._shutdown_seconds = settings.shutdown_timeout_ns / SECOND_NS
        self._flusher = None if next is None else Flusher([next.force_flush])
        versions = frozenset(f"{found.name} {found.version}" for found in loaded.sets)
        self._registration = Registration(
            self,
            criteria=versions,
            wrapped=next,
            meter_provider=meter_provider,
            on_provider=parts.events.move_to if tracer_provider is None else None,
        )
        self._source.on_root_start = self._registration.look
        self._restart: Callable[[], None] = lambda: self._worker.restart_in_child(build_pipeline(settings, loaded, bindings=BoundTraces()))
        _restart_in_children(self)
        if type(self) is ToolCallEvalSpanProcessor:  # saves a call or two for each span
            hooks, on_end = (self._source, self._source.keep) if self._wrapped is None else (self._wrapped, self._wrapped.on_end)
            vars(self).update(on_start=hooks.on_start, on_end=on_end)

    def restart_in_child(self) -> None:
        """Begin anew after a fork; called by itself, in the child."""
        self._source.restart_in_child()
        if self._wrapped is not None:
            self._wrapped.reset()
        self._restart()

    @property
    def log_record_processor(self) -> LogRecordProcessor:
        """Return what takes the texts that instrumentations write to log records.

        Add it to the LoggerProvider if yours does so; where records come with a span, they are put together.
        """
        return self._logs

    def bind(self, trace_id: int | str | bytes, criteria: GivenCriteria, *, config: Mapping[str, JsonObject] | None = None) -> None:
        """Evaluate a trace by these criteria, in addition to what applies anyway.

        Args:
            trace_id: as the SDK has it (a number), as 32 hex digits, or as 16 bytes.
            criteria: names of criteria that are loaded, the guides' mapping, or criteria objects; see ``expect_tool_calls``. The trace may
                still come, be open, or have been evaluated within the late window.
            config: for the guides' mapping, each evaluator's configuration.

        Raises:
            SettingsError: the ID is none, or the criteria can't be used.
        """
        self._source.bind(_trace_id(trace_id), read_criteria(criteria, config, name="bind", where="bind").bound)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that the span is open."""
        (self._wrapped or self._source).on_start(span, parent_context)

    def _on_ending(self, span: Span) -> None:
        if self._wrapped is not None:
            self._wrapped.on_ending(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Hand the span to the worker thread, and to the next processor."""
        (self._wrapped or self._source).on_end(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until every ended span is taken in, every verdict that is due is sent, and the next processor has sent its spans.

        False if that was not in time; the next processor is asked in any case.
        """
        deadline = time.monotonic() + timeout_millis / 1000
        flushed = self._source.force_flush(timeout_millis)
        if self._keeper is not None:
            self._keeper.flush()
        if self._flusher is not None:
            flushed = self._flusher.flush(max(0.0, deadline - time.monotonic())) and flushed
        return flushed

    def shutdown(self) -> None:
        """Evaluate what is open, export it, and end; the next processor ends too.

        Takes ``completion.shutdown_timeout`` and a second at most.
        """
        deadline = time.monotonic() + self._shutdown_seconds
        self._registration.ended = True
        self._source.shutdown()
        following, self._next = self._next, None
        if self._keeper is not None:
            self._keeper.flush()
        if following is not None:
            attempt = Attempt(following.shutdown, name="shutdown")
            if not attempt.started:  # the interpreter is going down, and starts no thread any more
                following.shutdown()
            attempt.wait(max(LEAST_SHUTDOWN_SECONDS, deadline - time.monotonic()))


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
