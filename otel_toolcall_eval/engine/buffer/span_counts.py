"""What became of received spans: the result of one request, the totals by transport, and requests that were skipped under load."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Span


@dataclass(slots=True, kw_only=True)
class AddResult:
    """What became of the spans of one call: ``received = relevant + ignored + duplicate + conflict + skipped``.

    ``late`` and ``dropped`` spans are counted as relevant or ignored, too.
    """

    received: int = 0
    relevant: int = 0
    ignored: int = 0
    duplicate: int = 0
    conflict: int = 0
    skipped: int = 0  # never looked at, because evaluation was behind
    late: int = 0
    late_ages_ns: list[int] = field(default_factory=list)  # how long after the verdict, one for each late span
    dropped: int = 0

    def count(self, *, relevant: bool) -> None:
        """Count a span that is new."""
        if relevant:
            self.relevant += 1
        else:
            self.ignored += 1

    def count_late(self, age_ns: int) -> None:
        """Count a span that came after its verdict."""
        self.late += 1
        self.late_ages_ns.append(age_ns)


CountKey: TypeAlias = "tuple[str, tuple[tuple[str, str], ...]]"

COUNTED = ("relevant", "ignored", "duplicate", "conflict", "skipped", "late", "dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """Counts of spans since the start, never changed but replaced, so that any thread reads those of one moment.

    ``received = relevant + ignored + duplicate + conflict + rejected + skipped`` holds at every moment, for each transport.

    Attributes:
        by: what became of spans, and the attributes of the count, to their number. Attributes are the transport that they came
            by and, for ``rejected``, the reason.
    """

    by: Mapping[CountKey, int] = field(default_factory=dict)

    def total(self, what: str) -> int:
        """Return a number over all transports and reasons."""
        return sum(number for (counted, _), number in self.by.items() if counted == what)

    def plus(self, transport: str, result: AddResult, *, rejected: Mapping[str, int]) -> SpanCounts:
        """Return the counts after one more request, of which some spans were ``rejected``: reason to their number."""
        by_transport = (("transport", transport),)
        found: dict[CountKey, int] = {
            ("received", by_transport): result.received + sum(rejected.values()),
            **{(what, by_transport): getattr(result, what) for what in COUNTED},
            **{("rejected", (*by_transport, ("reason", reason))): number for reason, number in rejected.items()},
        }
        return SpanCounts(by={**self.by, **{key: self.by.get(key, 0) + number for key, number in found.items()}})


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
