"""Builds what a process evaluates its own spans with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.binding import CRITERIA_ATTRIBUTE, BoundTraces
from otel_toolcall_eval.engine.counters import CombinedCounters
from otel_toolcall_eval.engine.pipeline import OWN_SCOPE
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.exporters.events.attributes import explain_of
from otel_toolcall_eval.exporters.events.events import EventsEmitter
from otel_toolcall_eval.exporters.events.root_span_annotation import with_verdicts, write_verdicts
from otel_toolcall_eval.exporters.metrics.count_sources import CriteriaInfo
from otel_toolcall_eval.exporters.metrics.emitter import MetricsEmitter
from otel_toolcall_eval.exporters.metrics.observable_metrics import observe
from otel_toolcall_eval.exporters.metrics.recording import SdkRecorder
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation
from otel_toolcall_eval.inprocess.log_processor import LogSource
from otel_toolcall_eval.inprocess.pending_roots import PendingRoots
from otel_toolcall_eval.inprocess.span_processor import SpanSource
from otel_toolcall_eval.inprocess.verdict_listeners import WatchedTraces
from otel_toolcall_eval.inprocess.wrapping_hooks import GuardedProcessor, WrappingHooks
from otel_toolcall_eval.settings.build_pipeline import SECOND_NS, build_pipeline

if TYPE_CHECKING:
    from opentelemetry._logs import LoggerProvider
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
    from opentelemetry.trace import TracerProvider

    from otel_toolcall_eval.engine.ports import Emitter
    from otel_toolcall_eval.inprocess.pending_roots import Said
    from otel_toolcall_eval.settings.criteria_file import LoadedCriteria
    from otel_toolcall_eval.settings.service import Settings

HELD_TOO_LONG_SECONDS = 5.0
"""How long after the longest wait for a verdict a root is held that the worker thread has not come to: it hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InProcess:
    """Everything that evaluates the spans of a process.

    Attributes:
        wrapped: the hooks of the wrapping form; None beside other processors.
        keeper: holds roots in the wrapping form.
    """

    source: SpanSource
    logs: LogSource
    worker: Worker
    events: EventsEmitter
    wrapped: WrappingHooks | None
    keeper: PendingRoots | None


def build_in_process(
    settings: Settings,
    criteria: LoadedCriteria,
    *,
    meter_provider: MeterProvider,
    logger_provider: LoggerProvider,
    tracer_provider: TracerProvider,
    following: SpanProcessor | None,
) -> InProcess:
    """Build it, and start its thread; ``following`` is the processor that is wrapped, if one is."""

    def is_open(trace_id: bytes) -> bool:
        return worker.pipeline.traces.is_open(trace_id)

    emit = settings.emit
    explain = explain_of(settings)
    safe_next = None if following is None else GuardedProcessor(following)
    keeper = None
    if safe_next is not None:  # whatever ``emit.spans`` says: that is about spans of ours, and wrapping asks for verdicts on the root
        keeper = PendingRoots(
            safe_next.on_end,
            _copy,
            is_open=is_open,
            quiet=suppressed_instrumentation,
            budget_seconds=settings.root_export_timeout_ns / SECOND_NS,
            max_seconds=settings.completion.wait_after_root_max_ns / SECOND_NS + HELD_TOO_LONG_SECONDS,
        )
    flush = getattr(meter_provider, "force_flush", None)  # the API's own providers have none
    metrics = MetricsEmitter(SdkRecorder(meter_provider), evaluated_span_is_remote=False, flush=flush) if emit.metrics else None
    events = EventsEmitter(
        logger_provider if emit.events else None,
        tracer_provider if emit.spans else None,
        explain=explain,
        evaluated_span_is_remote=False,
        roots=keeper,
    )
    watched = WatchedTraces(lambda: worker.pipeline.criteria)
    # The root leaves after its log events, and who waits for a verdict hears of it when all is out.
    emitters: list[Emitter] = [emitter for emitter in (metrics, events, watched) if emitter is not None]
    worker = Worker(
        build_pipeline(settings, criteria, bindings=BoundTraces()),
        emitters,
        queue_bytes=settings.intake.queue_bytes,
        on_late_span=metrics.late_span if metrics else None,
    )
    if metrics is not None:
        observe(meter_provider, CombinedCounters(worker, metrics, CriteriaInfo(lambda: worker.pipeline.criteria)))
    source = SpanSource(
        worker,
        projection=lambda: worker.pipeline.projection,
        shutdown_seconds=settings.shutdown_timeout_ns / SECOND_NS,
        own_scope=OWN_SCOPE,
        baggage_key=CRITERIA_ATTRIBUTE,
        watched=watched,
        roots=keeper,
    )
    logs = LogSource(worker, projection=lambda: worker.pipeline.projection, refused=worker.refuse, own_scope=OWN_SCOPE)
    worker.attach(source)
    worker.start()
    wrapped = None if safe_next is None else WrappingHooks(source, keeper, safe_next, write=_write)
    return InProcess(source=source, logs=logs, worker=worker, events=events, wrapped=wrapped, keeper=keeper)


def _copy(span: ReadableSpan, said: Said) -> ReadableSpan:
    return with_verdicts(span, said.report.verdicts, attributes=said.attributes, events=said.events)


def _write(span: Span, said: Said) -> bool:
    return write_verdicts(span, said.report.verdicts, attributes=said.attributes, events=said.events)
