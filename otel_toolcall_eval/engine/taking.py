"""Hands what waited for the worker to the pipeline, each kind to the method that it is for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.skipped_request import SkippedRequest
from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, SnapshotRequest, WakeUp

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.buffer.limits import AddResult
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.work_items import WorkItem


def take(pipeline: Pipeline, item: WorkItem, *, now_ns: int) -> AddResult | None:
    """Take one item in; returns what became of its spans, None if it is no request of spans."""
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
