"""A copy of an ended root span that carries its verdicts: what the wrapping form exports in place of the span.

The SDK closes a span for writing before any processor sees its end (opentelemetry-python 5614), so there is no other way to write on it.
The copy shares everything with the span but events and attributes. Its limits hold for ours, never at the cost of the user's own.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.trace import Event
from opentelemetry.sdk.util import BoundedList

from otel_toolcall_eval.emission import names
from otel_toolcall_eval.emission.attributes import EXPLAIN, Explain, event_attributes, span_attributes, span_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_toolcall_eval.emission.attributes import EventAttributes
    from otel_toolcall_eval.model.score import TraceReport

DEFAULT_EVENT_LIMIT: Final = 128
"""The SDK's, for a span that doesn't tell its own."""

# They say whose verdict it is on a span of ours; on the user's own they would be claims about that.
_SAID_BY_THE_SPAN: Final = frozenset({names.AGENT_NAME.name, names.CONVERSATION_ID.name})


def with_verdicts(span: ReadableSpan, report: TraceReport, *, explain: Explain = EXPLAIN) -> ReadableSpan:
    """Return a copy of an ended span with a report's verdicts.

    Args:
        span: the judged span.
        report: has verdicts.
        explain: what explanations show.

    Returns:
        The span with up to 16 ``gen_ai.evaluation.result`` events, behind the user's own and at the span's end, a summary of those that
        had no room, and the summary attributes of ``span_attributes``. Where the span's limits leave no room, ours are left out. What the
        span says of dropped attributes, events and links stays as it is.
    """
    recorded = cast("Any", span)  # limits and counts of what was dropped are on private attributes; see tests, which hold them for each SDK
    annotated: Any = copy.copy(recorded)
    annotated._events = _events(span, recorded._events, report, explain)  # noqa: SLF001 - see above
    annotated._attributes = _attributes(recorded._attributes, report)  # noqa: SLF001
    return cast("ReadableSpan", annotated)


def write_verdicts(span: Span, report: TraceReport, *, explain: Explain = EXPLAIN) -> bool:
    """Write the same on a span that can still be written to; False, and nothing is written, if its limits leave no room for all of it."""
    annotated = with_verdicts(span, report, explain=explain)
    events, attributes = annotated.events[len(span.events) :], dict(annotated.attributes or {})
    shown = min(len(report.verdicts), names.MAX_SPAN_EVENTS)
    if len(events) < shown or not span_attributes(report).keys() - _SAID_BY_THE_SPAN <= attributes.keys():
        return False
    for event in events:
        span.add_event(event.name, event.attributes, timestamp=event.timestamp)
    span.set_attributes({key: value for key, value in attributes.items() if key not in (span.attributes or {})})
    return True


def _events(span: ReadableSpan, recorded: object, report: TraceReport, explain: Explain) -> BoundedList[Event]:
    limit = getattr(getattr(recorded, "_dq", None), "maxlen", DEFAULT_EVENT_LIMIT)  # None: none
    attributes: Sequence[EventAttributes] = [event_attributes(report, verdict, explain=explain) for verdict in report.verdicts]
    room = None if limit is None else max(0, limit - len(span.events))
    value_length = getattr(span._attributes, "max_value_len", None)  # noqa: SLF001 - the span's limit on the length of values
    ours = [
        Event(
            name=event.name,
            attributes=BoundedAttributes(attributes=dict(event.attributes), immutable=True, max_value_len=value_length),
            timestamp=span.end_time,
        )
        for event in span_events(report.verdicts, attributes, room=room)
    ]
    events = BoundedList.from_seq(limit, (*span.events, *ours))
    events.dropped = span.dropped_events
    return events


def _attributes(recorded: object, report: TraceReport) -> BoundedAttributes:
    own = dict(recorded) if isinstance(recorded, BoundedAttributes | dict) else {}
    limit = getattr(recorded, "maxlen", None)
    merged = dict(own)
    for key, value in span_attributes(report).items():
        if key not in own and key not in _SAID_BY_THE_SPAN and (limit is None or len(merged) < limit):
            merged[key] = value
    value_length = getattr(recorded, "max_value_len", None)
    annotated = BoundedAttributes(maxlen=limit, attributes=merged, immutable=True, max_value_len=value_length)
    annotated.dropped = getattr(recorded, "dropped", 0)
    return annotated
