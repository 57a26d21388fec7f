"""Joins log records, as events, with the spans that they describe."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_reader import text_of
from otel_toolcall_eval.extraction.dialect import Role
from otel_toolcall_eval.extraction.lookup_plan import places
from otel_toolcall_eval.extraction.projection import events_read
from otel_toolcall_eval.extraction.span_tree import SpanTree
from otel_toolcall_eval.model.log_record import JoinedLogs
from otel_toolcall_eval.model.trace import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect
    from otel_toolcall_eval.model.log_record import LoggedEvent, LogRecord

MAX_COMPARED = 50
"""How many spans of one call ID a record is compared with. A call has a few attempts."""

NO_SPAN_ID = bytes(8)
"""ID of the span that is made for records without one."""


class LogJoiner:
    """Joins log records with spans: by span ID, else by the ID of the call.

    A record goes only where a dialect reads it. One that fits no span becomes a span of its own if by itself it shows a call (role
    ``event``, as Codex's tool results do); any other is left out.
    """

    def __init__(self, asked: Callable[[Span], Sequence[Dialect]]) -> None:
        """Ask ``asked`` for the dialects that read a span."""
        self._asked = asked
        self._events: dict[str, frozenset[str]] = {}

    def call_ids(self, spans: Sequence[Span]) -> Mapping[str, Sequence[Span]]:
        """Return the spans of each call ID, by time. Cost: linear in the spans."""
        tree = SpanTree(spans)
        found: defaultdict[str, list[Span]] = defaultdict(list)
        for span in tree.spans:
            tools = [dialect for dialect in self._asked(span) if dialect.role in {Role.TOOL, Role.PART}]
            call_id = text_of(span, tree, places(tools, "call_id"))
            if call_id is not None:
                found[call_id].append(span)
        return found

    def join(self, spans: Sequence[Span], records: Sequence[LogRecord], *, is_whole: bool = True) -> JoinedLogs:
        """Put records on spans.

        Args:
            spans: of one trace; of several with one ID, each gets the records.
            records: of that trace, or about its calls. Their order does not matter.
            is_whole: False if ``spans`` are only a part of the trace, so that the span which a record names may be in another part.

        Cost: linear in both, apart from sorting the records of each span.
        """
        known = {span.span_id: span for span in spans}
        by_call = self.call_ids(spans) if any(record.call_id is not None for record in records) else {}
        read: dict[tuple[bytes, str], bool] = {}
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        homeless: defaultdict[bytes, list[int]] = defaultdict(list)
        for position, record in enumerate(records):
            place = self._place(record, known, by_call, read)
            if place is not None:
                places[place.span_id].append(position)
            elif is_whole and record.span_id not in known:
                homeless[record.span_id or NO_SPAN_ID].append(position)
        joined = [_with(span, [records[position] for position in places.get(span.span_id, ())]) for span in spans]
        used = {position for positions in places.values() for position in positions}
        for span_id, positions in sorted(homeless.items()):
            made = _made_up(span_id, [records[position] for position in positions])
            if any(dialect.role is Role.EVENT for dialect in self._asked(made)):
                joined.append(made)
                used.update(positions)
        return JoinedLogs(spans=tuple(joined), used=frozenset(used))

    def _place(
        self,
        record: LogRecord,
        known: Mapping[bytes, Span],
        by_call: Mapping[str, Sequence[Span]],
        read: dict[tuple[bytes, str], bool],
    ) -> Span | None:
        """Return the span that a record describes; ``read`` caches the answers."""
        named = None if record.span_id is None else known.get(record.span_id)
        if named is not None and self._reads(named, record, read):
            return named
        about = () if record.call_id is None else by_call.get(record.call_id, ())[:MAX_COMPARED]
        readers = [span for span in about if self._reads(span, record, read)]
        during = (span for span in readers if span.start_unix_ns <= record.time_unix_ns <= span.end_unix_ns)
        return next(during, readers[0] if readers else None)

    def _reads(self, span: Span, record: LogRecord, read: dict[tuple[bytes, str], bool]) -> bool:
        """Tell whether a dialect would read the record on this span; only the record's name decides that."""
        key = span.span_id, record.event_name
        if key not in read:
            read[key] = any(record.event_name in self._read_by(dialect) for dialect in self._asked(_with(span, [record])))
        return read[key]

    def _read_by(self, dialect: Dialect) -> frozenset[str]:
        if dialect.name not in self._events:
            self._events[dialect.name] = events_read(dialect)
        return self._events[dialect.name]


def _with(span: Span, records: Sequence[LogRecord]) -> Span:
    return replace(span, events=(*span.events, *_events(records))) if records else span


def _events(records: Sequence[LogRecord]) -> list[LoggedEvent]:
    """Return records as events, by time; equal ones, which were sent twice, once. The order of arrival does not show."""
    keyed = [((event.time_unix_ns, event.name, repr(sorted(event.attributes.items()))), event) for event in (r.event() for r in records)]
    return list(dict(sorted(keyed, key=itemgetter(0))).values())


def _made_up(span_id: bytes, records: Sequence[LogRecord]) -> Span:
    """Return a span for records of which nothing else is known; it lasts from the first to the last of them."""
    events = tuple(_events(records))
    first = min(records, key=lambda record: (record.time_unix_ns, record.scope.name))
    return Span(
        trace_id=first.trace_id or bytes(16),
        span_id=span_id,
        name=events[0].name,
        start_unix_ns=events[0].time_unix_ns,
        end_unix_ns=events[-1].time_unix_ns,
        events=events,
        resource=first.resource,
        scope=first.scope,
    )
