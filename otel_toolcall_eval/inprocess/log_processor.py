"""Takes log records from the SDK of the same process: those that say something of a tool call.

The hook runs in the application's threads: it never raises, never blocks, and leaves the record as it is. Register it like any other
processor; where it stands among them does not matter. Our own events are never asked for, so they do not come back.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from opentelemetry.sdk._logs import LogRecordProcessor

from otel_toolcall_eval.inprocess.sdk_spans import plain
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.model.trace import Resource, Scope
from otel_toolcall_eval.otlp.decoded_logs import EVENT_NAME_KEY, DecodedLogs, make_record, wanted_name
from otel_toolcall_eval.otlp.span_factory import SpanOrigin

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk._logs import ReadWriteLogRecord

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Projection
    from otel_toolcall_eval.receivers.intake import LogSink, RejectionCounter

_logger = logging.getLogger(__name__)

TRANSPORT = "in_process"


class LogSource(LogRecordProcessor):
    """A log record processor that feeds a sink."""

    def __init__(self, sink: LogSink, *, projection: Callable[[], Projection], refused: RejectionCounter, own_scope: str) -> None:
        """Prepare.

        Args:
            sink: takes the records.
            projection: names of the events that are asked for.
            refused: counts the records that the sink could not take.
            own_scope: scope of our own records, which are passed over.
        """
        self._sink = sink
        self._projection = projection
        self._refused = refused
        self._own_scope = own_scope
        self._complained = False
        self.dropped = 0

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Hand a record on, if a dialect asks for its event."""
        try:
            ours = self._convert(log_record)
            if ours is not None:
                decoded = DecodedLogs.of((ours,), received=1)
                self._sink.offer_logs(decoded, transport=TRANSPORT)
        except OverloadedError:
            self.dropped += 1
            self._refused(TRANSPORT, "overloaded")
        except Exception:  # noqa: BLE001 - an exception here would reach the application
            self._complain()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:  # noqa: ARG002 - the SDK's signature
        """Return True: what came is in the sink's queue already, and the span processor waits for that.

        Waiting here too would never end: our own emitters flush the provider that this processor is part of.
        """
        return True

    def shutdown(self) -> None:
        """Do nothing: the span processor ends the evaluation, which may still need what came here."""

    def _convert(self, record: ReadWriteLogRecord) -> LogRecord | None:
        """Return our copy of a record; None if nobody asks for it."""
        said, scope = record.log_record, record.instrumentation_scope
        scope_name = "" if scope is None else scope.name
        if scope_name == self._own_scope:
            return None
        attributes = said.attributes or {}
        body = said.body if isinstance(said.body, str) else None
        name = wanted_name(
            self._projection(),
            event_name=said.event_name or "",
            named=plain(attributes.get(EVENT_NAME_KEY)),
            body=body,
            scope=scope_name,
        )
        if name is None:
            return None
        resource = Resource(attributes={key: plain(value) for key, value in record.resource.attributes.items()} if record.resource else {})
        scope_copy = Scope(name=scope_name, version="" if scope is None else scope.version or "")
        return make_record(
            trace_id=(said.trace_id or 0).to_bytes(16, "big"),
            span_id=(said.span_id or 0).to_bytes(8, "big"),
            event_name=name,
            time_unix_ns=said.timestamp or said.observed_timestamp or 0,
            body=plain(said.body),
            attributes={key: plain(value) for key, value in attributes.items()},
            origin=SpanOrigin(resource=resource, scope=scope_copy, share_bytes=0),
        )

    def _complain(self) -> None:
        self.dropped += 1
        if not self._complained:
            self._complained = True
            # The error's text may hold what was logged, so only that there was one is said.
            _logger.error("a log record could not be taken in; the application is not affected, please report this")
