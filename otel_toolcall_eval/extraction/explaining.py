"""Explains each span: whether it became a tool call and why, and where each field of the call was found.

Computed when somebody asks, from the finished extraction: reading calls pays nothing for it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_reader import MAX_NAME_LENGTH, text_at
from otel_toolcall_eval.extraction.decoding import decode_arguments, decode_output
from otel_toolcall_eval.extraction.dialect import ReadStep, Role, ValueOrigin
from otel_toolcall_eval.extraction.lookup_plan import places
from otel_toolcall_eval.extraction.reading import EVERY_FIELD, find_all, find_content
from otel_toolcall_eval.model.log_record import LoggedEvent
from otel_toolcall_eval.model.tool_call import ContentState, Evidence

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.extractor import Extractor
    from otel_toolcall_eval.extraction.reading import Found
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.tool_call import Extraction, ToolCall
    from otel_toolcall_eval.model.trace import Span

_STEPS = {ReadStep.SELF: "", ReadStep.PARENT: "the parent's ", ReadStep.CHILD: "a child's "}
_EVIDENCE = {Evidence.SPAN_EVENT: "span event", Evidence.LOG_RECORD: "log record", Evidence.MESSAGE_HISTORY: "message"}


class SpanOutcome(StrEnum):
    """The outcome of a span."""

    KEPT = "kept"  # it shows a call
    MERGED = "merged"  # it says something of a call that another span shows
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldOrigin:
    """Where a field of a call was found.

    Attributes:
        field: ``name``, ``call_id``, ``arguments``, ``output`` or ``agent``.
        place: for people, such as ``attribute gen_ai.tool.call.arguments`` or ``event gen_ai.choice, field message``.
        span_id: the span that it was found on.
        dialect: name of the dialect that looked there; None for what stood in a message.
    """

    field: str
    place: str
    span_id: bytes
    dialect: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanExplanation:
    """The explanation of one span.

    Attributes:
        dialects: names of all dialects that match the span, in the order in which they are asked.
        read_by: names of those that decided.
        calls: positions of its calls in ``Extraction.calls``.
        fields: for a span that shows a single call, where the call's fields come from; what is not here was not recorded.
    """

    span_id: bytes
    name: str
    outcome: SpanOutcome
    reason: str
    dialects: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    fields: tuple[FieldOrigin, ...] = ()


def explain(extractor: Extractor, spans: Sequence[Span], extraction: Extraction) -> tuple[SpanExplanation, ...]:
    """Explain each span of a trace, by time.

    Args:
        extractor: made the extraction.
        spans: the trace's, as they were given to it.
        extraction: what came out.
    Cost: linear in the spans and what they recorded; decodes the payloads of all calls.
    """
    survey = extractor.survey(spans)
    tree, classifications = survey.tree, survey.classifications
    own: defaultdict[bytes, list[int]] = defaultdict(list)
    joined: defaultdict[bytes, list[int]] = defaultdict(list)
    for position, call in enumerate(extraction.calls):
        own[call.span_id].append(position)
        for span_id in call.merged_span_ids:
            joined[span_id].append(position)
    ignored = {span.span_id: span.reason for span in extraction.ignored}
    explained = []
    for span in tree.spans:
        kept, merged = own.get(span.span_id, []), joined.get(span.span_id, [])
        if kept:
            outcome, reason = SpanOutcome.KEPT, _kept([extraction.calls[position] for position in kept], classifications.role(span))
        elif merged:
            outcome, reason = SpanOutcome.MERGED, ignored.get(span.span_id) or _merged(classifications.role(span))
        else:
            outcome, reason = SpanOutcome.IGNORED, ignored.get(span.span_id, "it says nothing of a call")
        explained.append(
            SpanExplanation(
                span_id=span.span_id,
                name=span.name,
                outcome=outcome,
                reason=reason,
                dialects=tuple(dialect.name for dialect in classifications.all_dialects(span.span_id)),
                read_by=tuple(dialect.name for dialect in classifications.dialects(span)),
                calls=tuple(kept or merged),
                fields=_fields(extraction.calls[kept[0]], tree, classifications) if len(kept) == 1 else (),
            )
        )
    return tuple(explained)


def _kept(calls: Sequence[ToolCall], role: Role | None) -> str:
    if len(calls) > 1:
        return f"it shows {len(calls)} calls"
    call = calls[0]
    if role is Role.MODEL:
        return (
            "a model asked for the call, and no span shows that it ran"
            if call.phase.value == "requested"
            else "only messages show the call"
        )
    if call.event_unix_ns is not None:
        return f"its {_EVIDENCE[call.evidence]} shows the call"
    if call.nested_in is not None:
        return f"a call of its own inside the call of span {call.nested_in.hex()}"
    return "it shows a call" if call.phase.value == "executed" else f"it shows a call that was {call.phase.value}"


def _merged(role: Role | None) -> str:
    """Say why a span shows no call of its own although it says something of one."""
    if role is Role.MODEL:
        return "its messages say something of calls that other spans show"
    return "a part of the call above it" if role is Role.PART else "another record of a call that is shown already"


def _fields(call: ToolCall, tree: SpanTree, classifications: SpanClassifications) -> tuple[FieldOrigin, ...]:
    """Return where the fields of a call were found: on its own span, else on those that were merged into it."""
    spans = [tree.by_id[span_id] for span_id in (call.span_id, *call.merged_span_ids)]
    tools = [
        span for span in spans if classifications.role(span) in {Role.TOOL, Role.PART} and not classifications.dialects(span)[0].calls_from
    ]
    told = _EVIDENCE.get(call.evidence, "message")
    found: list[FieldOrigin] = []
    for field, value in (("name", call.name), ("call_id", call.call_id), ("agent", call.agent)):
        source = next((one for span in tools if (one := _text_source(span, tree, classifications, field, value)) is not None), None)
        if source is None and value is not None:
            place = "the agent span above" if field == "agent" else told
            source = FieldOrigin(field=field, place=place, span_id=call.span_id if field == "agent" or not tools else spans[-1].span_id)
        if source is not None:
            found.append(source)
    for field, payload in (("arguments", call.arguments), ("output", call.output)):
        if payload.state is ContentState.ABSENT or (payload.content.nothing and payload.recorded is None):
            continue
        offers = [offer for span in tools for offer in _offers(span, tree, classifications, field)]
        best = next((offer for state, offer in offers if state is payload.state), None)
        found.append(best or FieldOrigin(field=field, place=told if not tools else "message", span_id=_told_by(spans, classifications)))
    return tuple(found)


def _told_by(spans: Sequence[Span], classifications: SpanClassifications) -> bytes:
    """Return the span that holds messages about a call, else the call's own."""
    return next((span.span_id for span in reversed(spans) if classifications.role(span) is Role.MODEL), spans[0].span_id)


def _text_source(span: Span, tree: SpanTree, classifications: SpanClassifications, field: str, value: str | None) -> FieldOrigin | None:
    """Return where a span has a text that became a field of the call; None if it does not have it."""
    for _, found in find_all(span, tree, places(classifications.dialects(span), field)):
        text = text_at(found.value, found.source)
        if text and text == value and len(text) <= MAX_NAME_LENGTH:
            return _source(field, found, span)
    return None


def _offers(span: Span, tree: SpanTree, classifications: SpanClassifications, field: str) -> list[tuple[ContentState, FieldOrigin]]:
    """Return what a span recorded of arguments or output, the best first."""
    decode = decode_arguments if field == "arguments" else decode_output
    founds = find_content(span, tree, places(classifications.dialects(span), field))
    return [(decode(found).content.state, _source(field, found, span)) for found in founds]


def _source(field: str, found: Found, span: Span) -> FieldOrigin:
    source = found.source
    place = {
        ValueOrigin.ATTR: f"attribute {source.key}",
        ValueOrigin.ATTR_PREFIX: f"attributes {source.key}*",
        ValueOrigin.SPAN_NAME: "span name",
        ValueOrigin.VALUE: "a constant of the dialect",
        ValueOrigin.EVENT: f"{'log record' if _is_logged(found, span) else 'event'} {source.key}",
    }[source.origin]
    if source.origin is ValueOrigin.EVENT and source.field != EVERY_FIELD:
        place += f", field {source.field}"
    if source.path:
        place += f" at {'.'.join(source.path)}"
    return FieldOrigin(field=field, place=_STEPS[source.step] + place, span_id=span.span_id, dialect=found.dialect.name)


def _is_logged(found: Found, span: Span) -> bool:
    """Tell whether a value of an event came as a log record."""
    for event in span.events:
        if event.name == found.source.key and event.attributes.get(found.source.field) is found.value:
            return isinstance(event, LoggedEvent)
    return False
