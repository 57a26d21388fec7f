"""What a span processor could not take in: counted, and a fault of ours told once. Any thread's."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from otel_toolcall_eval.inprocess.hook_events import TRANSPORT

if TYPE_CHECKING:
    from otel_toolcall_eval.receivers.ports import LocalSink

_logger = logging.getLogger(__name__)


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
