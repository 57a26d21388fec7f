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

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.events.attributes import shown_on_span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan, Span

    from otel_toolcall_eval.model.score import Verdict
    from otel_toolcall_eval.model.trace import Attributes, SpanEvent

DEFAULT_EVENT_LIMIT: Final = 128
"""The SDK's, for a span that doesn't tell its own."""

# They say whose verdict it is on a span of ours; on the user's own they would be claims about that.
_SAID_BY_THE_SPAN: Final = frozenset({names.AGENT_NAME.name, names.CONVERSATION_ID.name})


def with_verdicts(span: ReadableSpan, verdicts: Sequence[Verdict], *, attributes: Attributes, events: Sequence[SpanEvent]) -> ReadableSpan:
    """Return a copy of an ended span with what is said on it.

    Args:
        span: the evaluated span.
        verdicts: of one report; not empty.
        attributes: the summary, see ``span_attributes``.
        events: of the verdicts, as ``span_events`` has them.

    Returns:
        The span with the events behind the user's own and at the span's end, and the summary attributes. Where the span's limits leave no
        room, ours are left out, and a summary of events stands for them. What the span says of dropped attributes, events and links stays
        as it is.
    """
    recorded = cast("Any", span)  # limits and counts of what was dropped are on private attributes; see tests, which hold them for each SDK
    annotated: Any = copy.copy(recorded)
    annotated._events = _events(span, recorded._events, verdicts, events)  # noqa: SLF001 - see above
    annotated._attributes = _attributes(recorded._attributes, attributes)  # noqa: SLF001
    return cast("ReadableSpan", annotated)


def write_verdicts(span: Span, verdicts: Sequence[Verdict], *, attributes: Attributes, events: Sequence[SpanEvent]) -> bool:
    """Write the same on a span that can still be written to; False, and nothing is written, if its limits leave no room for all of it."""
    annotated = with_verdicts(span, verdicts, attributes=attributes, events=events)
    ours, merged = annotated.events[len(span.events) :], dict(annotated.attributes or {})
    if len(ours) < len(events) or not attributes.keys() - _SAID_BY_THE_SPAN <= merged.keys():
        return False
    for event in ours:
        span.add_event(event.name, event.attributes, timestamp=event.timestamp)
    span.set_attributes({key: value for key, value in merged.items() if key not in (span.attributes or {})})
    return True


def _events(span: ReadableSpan, recorded: object, verdicts: Sequence[Verdict], events: Sequence[SpanEvent]) -> BoundedList[Event]:
    limit = getattr(getattr(recorded, "_dq", None), "maxlen", DEFAULT_EVENT_LIMIT)  # None: none
    users = span.events
    room = None if limit is None else max(0, limit - len(users))
    value_length = getattr(span._attributes, "max_value_len", None)  # noqa: SLF001 - the span's limit on the length of values
    ours = [
        Event(
            name=name,
            attributes=BoundedAttributes(attributes=dict(said), immutable=True, max_value_len=value_length),
            timestamp=span.end_time,
        )
        for name, said in _that_fit(verdicts, events, room)
    ]
    kept = BoundedList.from_seq(limit, (*users, *ours))
    kept.dropped = span.dropped_events
    return kept


def _that_fit(verdicts: Sequence[Verdict], events: Sequence[SpanEvent], room: int | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and attributes of what there is room for: the first events, since they stand in order of weight, and a summary."""
    if room is None or len(events) <= room:
        yield from ((event.name, event.attributes) for event in events)
        return
    shown, omitted = shown_on_span(verdicts, room=room)
    yield from ((event.name, event.attributes) for event in events[: len(shown)])
    if omitted is not None:
        yield names.SUMMARY_EVENT, omitted


def _attributes(recorded: object, said: Attributes) -> BoundedAttributes:
    own = dict(recorded) if isinstance(recorded, BoundedAttributes | dict) else {}
    limit = getattr(recorded, "maxlen", None)
    merged: dict[str, Any] = dict(own)
    for key, value in said.items():
        if key not in own and key not in _SAID_BY_THE_SPAN and (limit is None or len(merged) < limit):
            merged[key] = value
    value_length = getattr(recorded, "max_value_len", None)
    annotated = BoundedAttributes(maxlen=limit, attributes=merged, immutable=True, max_value_len=value_length)
    annotated.dropped = getattr(recorded, "dropped", 0)
    return annotated
