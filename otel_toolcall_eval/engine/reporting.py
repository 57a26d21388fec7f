"""Hands reports to all emitters, whatever one of them does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.engine.emitter import Emitter
    from otel_toolcall_eval.engine.operator_log import OperatorLog
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.score import TraceReport


class ReportDispatcher:
    """Has the emitters. ``emit`` belongs to the worker's thread, all else to any."""

    def __init__(self, emitters: Iterable[Emitter], notices: OperatorLog) -> None:
        """Take the emitters, in the order in which each report goes to them."""
        self._emitters = tuple(emitters)
        self._notices = notices

    def emit(self, reports: Iterable[TraceReport], pipeline: Pipeline) -> None:
        """Emit reports, and tell of what kept the pipeline from making more."""
        for report in reports:
            for emitter in self._emitters:
                with self._notices.catching(emitter):
                    emitter.emit(report)
            self._notices.decided(report, criteria=len(pipeline.criteria))
        for fault in pipeline.take_faults():
            self._notices.failed(pipeline, fault)

    def flush(self, deadline_seconds: float) -> bool:
        """Have all send what was emitted, until this monotonic time; False if one could not."""
        sent = [emitter.flush(max(0.0, deadline_seconds - time.monotonic())) for emitter in self._emitters]
        return all(sent)

    def shutdown(self, deadline_seconds: float) -> None:
        """Have all send what was emitted, and end, until then."""
        for emitter in self._emitters:
            try:
                emitter.shutdown(max(0.0, deadline_seconds - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - one emitter's fault must not keep the others from sending
                self._notices.failed(emitter, error)
