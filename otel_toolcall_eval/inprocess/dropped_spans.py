"""What a span processor could not take in: counted, and a fault of ours told once. Any thread's."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Protocol

from otel_toolcall_eval.inprocess.hook_events import TRANSPORT

_logger = logging.getLogger(__name__)


class LocalSink(Protocol):
    """The worker, as a span processor sees it: it evaluates on a thread of its own and drains the processor's queue."""

    def look(self) -> None:
        """Wake the worker."""
        ...

    def refuse(self, transport: str, reason: str) -> None:
        """Count spans that were dropped."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything that is due is evaluated and exported."""
        ...

    def shutdown(self, timeout_seconds: float) -> bool:
        """Evaluate and export everything, and end."""
        ...


class DroppedSpanLog:
    """Counts."""

    def __init__(self, sink: LocalSink) -> None:
        """Start with none; the sink is told of each."""
        self._sink = sink
        self._complained = False
        self.count = 0

    def drop(self, reason: str) -> None:
        """Count one that there was no room for."""
        self.count += 1
        self._sink.refuse(TRANSPORT, reason)

    def log_once(self) -> None:
        """Count a fault of ours, and log the first. Called from except clauses only, so the traceback is at hand; never raises."""
        self.count += 1
        with suppress(Exception):
            self._sink.refuse(TRANSPORT, "internal")
        if not self._complained:
            self._complained = True
            _logger.error("a span could not be taken in; the application is not affected, please report this", exc_info=True)  # noqa: LOG014 - see above
