"""Scores as events: a log record for each verdict, and a span of ours in the evaluated trace that carries them as span events.

An ended span takes no events, so the span events go on a child of it. That child starts and ends when the evaluated span ended, so
that it never makes a trace longer; when the verdict was given stands in an attribute.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.trace import SpanKind

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.deadline import Flusher
from otel_toolcall_eval.exporters.events.attributes import (
    EXPLAIN,
    ExplanationPolicy,
    event_attributes,
    span_attributes,
    span_events,
    time_of,
)
from otel_toolcall_eval.exporters.events.evaluated_span import context_of, evaluated_span_context
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation
from otel_toolcall_eval.model.trace import SpanEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry._logs import Logger, LoggerProvider
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer, TracerProvider

    from otel_toolcall_eval.exporters.events.attributes import EventAttributes
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Attributes


class RootAnnotator(Protocol):
    """Keeps root spans back until their verdicts."""

    def settle(self, report: TraceReport, *, attributes: Attributes, events: tuple[SpanEvent, ...]) -> bool:
        """Release the roots of the report's trace; True if attributes and events go out on the evaluated span, as far as there is room.

        Called for every report, after its log events; without events for one without verdicts. It decides and takes the roots in one
        step: between the two a flush could release them without their verdicts.
        """
        ...


class EventsEmitter:
    """Emits a report's verdicts as events. ``emit`` belongs to one thread, the worker's.

    Cost: for each verdict 60 us of CPU as a log record and 45 us as a span event, most of it the SDK's (1.45, two busy cores).
    """

    def __init__(
        self,
        logger_provider: LoggerProvider | None,
        tracer_provider: TracerProvider | None,
        *,
        explain: ExplanationPolicy = EXPLAIN,
        evaluated_span_is_remote: bool = True,
        roots: RootAnnotator | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Choose where events go; both providers stay the caller's, are flushed and never shut down.

        Args:
            logger_provider: for log records; None for none.
            tracer_provider: for the span; None for none.
            explain: what explanations show.
            evaluated_span_is_remote: False inside the agent's own process.
            roots: is offered the span events first; what it does not take goes on a span of ours.
            clock: Unix time in nanoseconds, for the time of the verdicts.
        """
        self._logger: Logger | None = logger_provider.get_logger(names.SCOPE_NAME) if logger_provider else None
        self._tracer: Tracer | None = tracer_provider.get_tracer(names.SCOPE_NAME) if tracer_provider else None
        self._explain = explain
        self._is_remote = evaluated_span_is_remote
        self._roots = roots
        self._clock = clock
        # In the agent's process it is the tracer provider that flushes us, and it comes to its exporters next: flushing it from here
        # would go round in a circle.
        flushed = (logger_provider, tracer_provider) if evaluated_span_is_remote else (logger_provider,)
        flushes = (getattr(provider, "force_flush", None) for provider in flushed)
        self._flusher = Flusher([flush for flush in flushes if flush])  # the API's own providers have none

    def emit(self, report: TraceReport) -> None:
        """Emit the report's verdicts; nothing for a trace that no criteria apply to."""
        if report.unbound or (self._logger is None and self._tracer is None and self._roots is None):
            if self._roots is not None:
                self._roots.settle(report, attributes={}, events=())
            return
        now_unix_ns = self._clock()
        attributes = [event_attributes(report, verdict, explain=self._explain) for verdict in report.verdicts]
        evaluated = evaluated_span_context(report, is_remote=self._is_remote)
        context = context_of(evaluated)
        with suppressed_instrumentation():
            try:
                if self._logger is not None:
                    _emit_logs(self._logger, attributes, context, now_unix_ns)
            finally:  # the trace has its verdicts also where the application's log processor raised
                # Without a evaluated span, as in executions that were put together by hand, our span would be a new trace of its own.
                is_on_root = self._roots is not None and _settle(self._roots, report, attributes, now_unix_ns)
                if self._tracer is not None and evaluated.is_valid and not is_on_root:
                    _emit_span(self._tracer, report, attributes, context, now_unix_ns)

    def move_to(self, tracer_provider: TracerProvider) -> None:
        """Make spans there from now on, if any are made. Any thread."""
        if self._tracer is not None:
            self._tracer = tracer_provider.get_tracer(names.SCOPE_NAME)

    def flush(self, timeout_seconds: float) -> bool:
        """Export what was emitted; False if that took longer."""
        return self._flusher.flush(timeout_seconds)

    def shutdown(self, timeout_seconds: float) -> None:
        """Do nothing: the providers are the caller's, and export what is left when they are shut down.

        A flush here would take all the time that there is if the collector is dead, and leave none for the others.
        """


def _settle(roots: RootAnnotator, report: TraceReport, attributes: Sequence[EventAttributes], now_unix_ns: int) -> bool:
    time_unix_ns = time_of(report)
    events = (
        SpanEvent(name=event.name, time_unix_ns=time_unix_ns, attributes=_values(event.attributes))
        for event in span_events(report.verdicts, attributes)
    )
    return roots.settle(report, attributes=_values({**span_attributes(report), names.VERDICT_TIME.name: now_unix_ns}), events=tuple(events))


def _values(attributes: EventAttributes) -> Attributes:
    return {key: value if isinstance(value, str | bool | int | float) else tuple(value) for key, value in attributes.items()}


def _emit_logs(logger: Logger, attributes: Sequence[EventAttributes], context: Context, now_unix_ns: int) -> None:
    for chosen in attributes:
        logger.emit(
            LogRecord(
                timestamp=now_unix_ns,
                observed_timestamp=now_unix_ns,
                context=context,
                severity_number=SeverityNumber.INFO,
                severity_text="INFO",
                event_name=names.RESULT_EVENT,
                attributes=chosen,
            )
        )


def _emit_span(tracer: Tracer, report: TraceReport, attributes: Sequence[EventAttributes], context: Context, now_unix_ns: int) -> None:
    time_unix_ns = time_of(report)
    span = tracer.start_span(
        names.SPAN_NAME,
        context=context,
        kind=SpanKind.INTERNAL,
        attributes={**span_attributes(report), names.VERDICT_TIME.name: now_unix_ns},
        start_time=time_unix_ns,
    )
    for event in span_events(report.verdicts, attributes):
        span.add_event(event.name, event.attributes, timestamp=time_unix_ns)
    span.end(end_time=time_unix_ns)
