"""What waits in the worker's queue: whole requests, and questions that only the worker's thread can answer."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot
    from otel_toolcall_eval.engine.buffer.span_counts import AddResult
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.criteria import BoundCriteria
    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingResponse:
    """What has to come to pass before a sender is answered: ``done``, if there is such, and that so many ``seconds`` are over."""

    done: Future[None] | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRequest:
    """The spans of one request.

    ``rejected`` counts, by reason, others that could not be used. In process, ``open_spans`` counts by trace ID. ``done`` is for a sender
    that waits until they are in the journal.
    """

    spans: Sequence[Span]
    transport: str
    rejected: Mapping[str, int]
    open_spans: Mapping[bytes, int] | None
    size_bytes: int
    done: Future[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequest:
    """The log records of one request, which held ``received``; ``done`` as for spans."""

    records: Sequence[LogRecord]
    transport: str
    received: int
    size_bytes: int
    done: Future[None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """Asks what waits, at most ``limit`` traces of each kind. The buffer is the worker's, so its thread answers."""

    limit: int
    answer: Future[OpenTracesSnapshot] = field(default_factory=Future)


@dataclass(frozen=True, slots=True, kw_only=True)
class BindRequest:
    """Asks that a trace be evaluated by these criteria, too, whether it is to come, is open, or was evaluated a moment ago."""

    trace_id: bytes
    bound: BoundCriteria


@dataclass(frozen=True, slots=True)
class WakeUp:
    """Asks for nothing but a turn: to look at what the feed has, and at what is due."""


WorkItem: TypeAlias = "SpanRequest | LogRequest | SnapshotRequest | BindRequest | SkippedRequest | WakeUp"


def dispatch(pipeline: Pipeline, item: WorkItem, *, now_ns: int) -> AddResult | None:
    """Hand one item to the pipeline; returns what became of its spans, None unless it is a ``SpanRequest``."""
    if isinstance(item, SnapshotRequest):
        if item.answer.set_running_or_notify_cancel():
            item.answer.set_result(pipeline.waiting(now_ns=now_ns, limit=item.limit))
    elif isinstance(item, BindRequest):
        pipeline.bind(item.trace_id, item.bound, now_ns=now_ns)
    elif isinstance(item, LogRequest):
        pipeline.add_logs(item.records, received=item.received, now_ns=now_ns, transport=item.transport)
    elif isinstance(item, SkippedRequest):
        pipeline.shed(item, now_ns=now_ns)
    elif not isinstance(item, WakeUp):
        return pipeline.add(item.spans, now_ns=now_ns, transport=item.transport, rejected=item.rejected, open_spans=item.open_spans)
    return None
