"""Reads calls from span events, and from log records that were joined as events."""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_identity import same_tool
from otel_toolcall_eval.extraction.conversations import EVENT_KEYS, conversation_in
from otel_toolcall_eval.extraction.dialect import ValueOrigin
from otel_toolcall_eval.extraction.merging import absorb
from otel_toolcall_eval.extraction.message_reader import candidate_of, decoded
from otel_toolcall_eval.extraction.messages import MAX_CALLS, MESSAGE_SHAPES, MessageCall
from otel_toolcall_eval.extraction.reading import event_value
from otel_toolcall_eval.model.log_record import LoggedEvent
from otel_toolcall_eval.model.tool_call import CallPhase, Evidence

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.dialect import Dialect, MessageSource
    from otel_toolcall_eval.model.trace import Span, SpanEvent

MAX_COMPARED = 50
"""How many calls of one ID an event is compared with."""


def calls_by_event(span: Span, dialects: Sequence[Dialect]) -> list[Candidate]:
    """Return the calls that a span's events show, in the order in which the events were recorded."""
    return list(islice(_calls(span, dialects), MAX_CALLS))


def _calls(span: Span, dialects: Sequence[Dialect]) -> Iterator[Candidate]:
    """Yield a candidate for each call of each event; equal times keep the order of the span, in which log records stand last."""
    index = 0
    for event in sorted(span.events, key=lambda event: event.time_unix_ns):
        for dialect in dialects:
            for message in dialect.calls_from:
                for entry in _entries(event, message):
                    call = candidate_of(entry, index, span, message, dialect)
                    call.evidence = Evidence.LOG_RECORD if isinstance(event, LoggedEvent) else Evidence.SPAN_EVENT
                    call.event_unix_ns, call.event_duration_ns = event.time_unix_ns, entry.duration_ns
                    call.conversation_id = conversation_in(event.attributes, EVENT_KEYS)
                    index += 1
                    yield call


def _entries(event: SpanEvent, message: MessageSource) -> Iterator[MessageCall]:
    if message.source.origin is not ValueOrigin.EVENT:
        return
    found, value = event_value(event, message.source)
    if found:
        for entry in MESSAGE_SHAPES[message.shape](decoded(value, message)):
            if isinstance(entry, MessageCall):
                yield entry


def with_events(calls: Sequence[Candidate], shown: Sequence[Candidate]) -> list[Candidate]:
    """Return the calls of spans, and the calls that events show, each once.

    What several events say of one call is put together: its decision and its result, the span's event and its log record. Those
    of one name and ID are one call, whichever spans they stand on, and if a span shows that call it is the span's. Else the first
    event that says that it ran counts, and takes what it lacks from the others. Cost: linear in the calls.
    """
    by_id: defaultdict[str, list[Candidate]] = defaultdict(list)
    for call in calls:
        if call.call_id is not None:
            by_id[call.call_id].append(call)
    first: dict[tuple[str, str, str], Candidate] = {}
    kept: list[Candidate] = []
    for call in sorted(shown, key=lambda call: call.phase is not CallPhase.EXECUTED):
        known = None
        if call.call_id is not None:
            of_span = next((one for one in by_id[call.call_id][:MAX_COMPARED] if same_tool(one.name, call.name)), None)
            known = of_span or first.setdefault((call.dialects[0], call.name, call.call_id), call)
        if known is None or known is call:
            kept.append(call)
            continue
        if known.event_duration_ns is None and call.phase is CallPhase.EXECUTED and known.event_unix_ns is not None:
            known.event_duration_ns = call.event_duration_ns
        known.conversation_id = known.conversation_id or call.conversation_id
        absorb(known, call)
    return [*calls, *kept]
