"""What was passed on to a downstream although there was no room for it here: the traces whose verdicts it leaves in doubt, and numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Span


@dataclass(slots=True, kw_only=True)
class SkippedRequest:
    """What was shed of the requests of one transport.

    Attributes:
        trace_ids: of spans, and of the log records that somebody asks for; a record without a trace ID leaves no trace in doubt.
        spans: how many were shed.
        rejected: how many spans of the same requests could not be used, by reason.
        records: how many log records were shed.
        records_asked: how many of them somebody asks for.
    """

    transport: str
    trace_ids: set[bytes]
    spans: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    records: int = 0
    records_asked: int = 0

    @classmethod
    def of_spans(cls, spans: Iterable[Span], rejected: Mapping[str, int], *, transport: str, but_scope: str) -> SkippedRequest:
        """Return what is noted of spans; those of the scope ``but_scope`` would not have been taken in."""
        ids = [span.trace_id for span in spans if span.scope.name != but_scope]
        return cls(transport=transport, trace_ids=set(ids), spans=len(ids), rejected=Counter(rejected))

    @classmethod
    def of_records(cls, asked: Iterable[LogRecord], *, received: int, transport: str) -> SkippedRequest:
        """Return what is noted of log records."""
        records = tuple(asked)
        ids = {record.trace_id for record in records if record.trace_id is not None}
        return cls(transport=transport, trace_ids=ids, records=received, records_asked=len(records))

    def add(self, other: SkippedRequest) -> None:
        """Add what was shed since."""
        self.trace_ids |= other.trace_ids
        self.spans += other.spans
        self.rejected += other.rejected
        self.records += other.records
        self.records_asked += other.records_asked
