"""What stands in the journal, as rows of bytes, each with checksums and readable by itself.

A row is a number, a trace ID, a kind and a body. Two checksums, since they say different things: if the head is whole and the body is
not, we know whose spans are lost; if the head is not, we know of nobody that none are.
Choice: ``marshal`` for bodies, as in memory (see ``engine.buffer.packing``); it may crash on damaged bytes, so nothing is unmarshalled
whose checksum fails. Rejected: JSON and protobuf (five times the time), pickle (runs what a damaged body tells it to).
"""

from __future__ import annotations

import marshal
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, cast
from zlib import crc32

from otel_toolcall_eval.engine.buffer.packing import FORMAT, StoredSpanReader, StoredSpanWriter
from otel_toolcall_eval.engine.buffer.restore import Flags, TraceSnapshot
from otel_toolcall_eval.model.criteria import BoundCriteria
from otel_toolcall_eval.model.decision import Decision, PriorVerdict
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import Resource, Scope, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
    from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, SpanRequest
    from otel_toolcall_eval.model.trace import Span

IN_NO_TRACE = b""
"""In place of a trace ID: log records that are in no trace."""


class RowKind(IntEnum):
    """What a body holds."""

    SPANS = 1  # those of one trace in one request
    LOGS = 2  # the log records of one trace in one request
    BIND = 3  # names of criteria that were bound to a trace
    DECISION = 4
    OPEN = 5  # an open trace as it stood: its spans and flags, in place of all that came before
    SHED = 7  # spans of a trace were passed on and not taken in, so that it is in doubt
    SETTLED = 6  # a decided trace, or unit, as it stood; its decision follows


WAITING = frozenset({RowKind.LOGS, RowKind.BIND, RowKind.SHED})
"""What may wait for a trace that is not here yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row."""

    number: int
    trace_id: bytes
    kind: int
    head: int
    check: int
    body: bytes


def row_of(number: int, trace_id: bytes, kind: RowKind, body: bytes) -> Row:
    """Return a row with its checksums."""
    check = crc32(body)
    return Row(number=number, trace_id=trace_id, kind=kind, head=_head(number, trace_id, kind, check), check=check, body=body)


def head_is_whole(row: Row) -> bool:
    """Tell whether number, trace ID and kind are what was written."""
    try:
        return row.head == _head(row.number, row.trace_id, row.kind, row.check)
    except (struct.error, TypeError):  # SQLite gives a damaged column back as whatever it looks like
        return False


def body_is_whole(row: Row) -> bool:
    """Tell whether the body is what was written."""
    try:
        return row.check == crc32(row.body)
    except TypeError:
        return False


def _head(number: int, trace_id: bytes, kind: int, check: int) -> int:
    return crc32(trace_id, crc32(struct.pack("<qBI", number, kind, check)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A row that has no number yet."""

    trace_id: bytes
    kind: RowKind
    body: bytes


def spans_of(request: SpanRequest, is_expired: Callable[[bytes], bool]) -> Iterator[Draft]:
    """Write the spans of a request, trace by trace, but for traces that are over."""
    by_trace: dict[bytes, list[Span]] = {}
    for span in request.spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    writer = StoredSpanWriter()
    for trace_id, spans in by_trace.items():
        if not is_expired(trace_id):
            yield Draft(trace_id=trace_id, kind=RowKind.SPANS, body=writer.write(spans))


def logs_of(request: LogRequest) -> Iterator[Draft]:
    """Write the log records of a request, trace by trace."""
    by_trace: dict[bytes, list[LogRecord]] = {}
    for record in request.records:
        by_trace.setdefault(record.trace_id or IN_NO_TRACE, []).append(record)
    writer = StoredSpanWriter()
    for trace_id, records in by_trace.items():
        yield Draft(trace_id=trace_id, kind=RowKind.LOGS, body=marshal.dumps([_record(record, writer) for record in records], FORMAT))


def bind_of(request: BindRequest) -> Draft:
    """Write a binding by name; criteria that were made in code are in the process that made them, which has no journal."""
    return Draft(trace_id=request.trace_id, kind=RowKind.BIND, body=marshal.dumps(request.bound.names, FORMAT))


def shed_of(shed: SkippedRequest) -> Iterator[Draft]:
    """Write which traces are in doubt."""
    for trace_id in shed.trace_ids:
        yield Draft(trace_id=trace_id, kind=RowKind.SHED, body=b"")


def decision_of(decision: Decision, *, unix_ns: int) -> Draft:
    """Write a decision, and when it was taken."""
    given = decision.given
    said = None if given is None else tuple((criteria, evaluator, label.value, score) for criteria, evaluator, label, score in given.said)
    plain = (
        unix_ns,
        decision.unit_span_id,
        decision.trigger.value,
        decision.look,
        decision.batch,
        decision.reported,
        decision.decided_after_ns,
        None if given is None else (given.revision, said, given.bound.names),
    )
    return Draft(trace_id=decision.trace_id, kind=RowKind.DECISION, body=marshal.dumps(plain, FORMAT))


def kept_of(kept: TraceSnapshot) -> Draft:
    """Write a trace, or unit, as it stands."""
    flags = kept.flags
    plain = (
        kept.unit_span_id,
        (flags.truncated, flags.lost, flags.damaged, flags.outside, flags.provisional, flags.above),
        kept.looks,
        kept.reevaluation_due,
        StoredSpanWriter().write(kept.spans),
    )
    kind = RowKind.SETTLED if kept.decided else RowKind.OPEN
    return Draft(trace_id=kept.trace_id, kind=kind, body=marshal.dumps(plain, FORMAT))


class EntryReader:
    """Reads bodies whose checksum is right."""

    def __init__(self) -> None:
        """Start with nothing read."""
        self._spans = StoredSpanReader()

    def spans(self, row: Row) -> list[Span]:
        """Read the spans of one trace."""
        return self._spans.read(row.trace_id, row.body)

    def logs(self, row: Row) -> list[LogRecord]:
        """Read the log records of one trace, or of none."""
        trace_id = row.trace_id or None
        return [
            LogRecord(
                trace_id=trace_id,
                span_id=span_id,
                event_name=event_name,
                time_unix_ns=time_unix_ns,
                body=body,
                attributes=attributes,
                resource=cast("Resource", self._spans.origin(resource)),
                scope=cast("Scope", self._spans.origin(scope)),
                size_bytes=size_bytes,
            )
            for span_id, event_name, time_unix_ns, body, attributes, resource, scope, size_bytes in _loads(row)
        ]

    def bind(self, row: Row) -> BoundCriteria:
        """Read a binding."""
        return BoundCriteria(names=_loads(row))

    def decision(self, row: Row) -> tuple[Decision, int]:
        """Read a decision, and when it was taken, as Unix time in nanoseconds."""
        unix_ns, unit_span_id, trigger, look, batch, reported, after_ns, plain = _loads(row)
        given = None
        if plain is not None:
            revision, said, bound_names = plain
            said = tuple((criteria, evaluator, Label(label), score) for criteria, evaluator, label, score in said)
            given = PriorVerdict(revision=revision, said=said, bound=BoundCriteria(names=bound_names))
        decision = Decision(
            trace_id=row.trace_id,
            unit_span_id=unit_span_id,
            trigger=Trigger(trigger),
            look=look,
            batch=batch,
            given=given,
            reported=reported,
            decided_after_ns=after_ns,
        )
        return decision, unix_ns

    def kept(self, row: Row) -> TraceSnapshot:
        """Read a trace, or unit, as it stood."""
        unit_span_id, (truncated, lost, damaged, outside, provisional, above), looks, reevaluation_due, spans = _loads(row)
        return TraceSnapshot(
            trace_id=row.trace_id,
            unit_span_id=unit_span_id,
            spans=tuple(self._spans.read(row.trace_id, spans)),
            flags=Flags(truncated=truncated, lost=lost, damaged=damaged, outside=outside, provisional=provisional, above=above),
            decided=row.kind == RowKind.SETTLED,
            looks=looks,
            reevaluation_due=reevaluation_due,
        )


def standing(decision: PriorVerdict | None, kept: TraceSnapshot) -> Decision:
    """Return the decision that holds of a decided trace, whatever was said of it and when."""
    return Decision(
        trace_id=kept.trace_id,
        unit_span_id=kept.unit_span_id,
        trigger=Trigger.LATE_SPAN if kept.looks else Trigger.ROOT_SPAN,
        look=kept.looks,
        batch=0,
        given=decision,
        reported=False,
    )


def numbered(drafts: Iterable[Draft], first: int) -> Sequence[Row]:
    """Give rows their numbers."""
    return [row_of(first + place, draft.trace_id, draft.kind, draft.body) for place, draft in enumerate(drafts)]


def _record(record: LogRecord, writer: StoredSpanWriter) -> tuple[object, ...]:
    return (
        record.span_id,
        record.event_name,
        record.time_unix_ns,
        record.body,
        dict(record.attributes),
        writer.origin(record.resource),
        writer.origin(record.scope),
        record.size_bytes,
    )


def _loads(row: Row) -> Any:  # noqa: ANN401 - whatever was written; the callers know what
    return marshal.loads(row.body)  # noqa: S302 - its checksum was held
