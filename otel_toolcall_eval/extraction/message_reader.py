"""Turns the messages of model spans, and the events and batches that hold whole calls, into candidates."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.candidate import Candidate, Recorded
from otel_toolcall_eval.extraction.decoding import TooDeepError, decode_arguments, decode_output, plain, read_as
from otel_toolcall_eval.extraction.dialect import Decode, Dialect, MessageSource, Origin, Step
from otel_toolcall_eval.extraction.matching import at_path
from otel_toolcall_eval.extraction.messages import MAX_CALLS, MESSAGE_SHAPES, MessageAnswer, MessageCall
from otel_toolcall_eval.extraction.reading import Found, find_in
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, Content, ContentState, Evidence, Json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span, Value


def calls_in(span: Span, tree: SpanTree, dialects: Sequence[Dialect], field: str) -> list[Candidate]:
    """Return the calls that stand in a span's messages, of the first dialect and source that have any."""
    for dialect in dialects:
        for source, entries in _entries(span, tree, dialect, field):
            calls = [entry for entry in entries if isinstance(entry, MessageCall)]
            if calls:
                return [candidate_of(call, index, span, source, dialect) for index, call in enumerate(calls)]
    return []


def answers_in(span: Span, tree: SpanTree, dialects: Sequence[Dialect]) -> Sequence[tuple[MessageAnswer, Dialect, MessageSource]]:
    """Return the answers that stand in a span's messages: the latest first, and those with a text before those without."""
    answers = [
        (entry, dialect, source)
        for dialect in dialects
        for source, entries in _entries(span, tree, dialect, "responses_from")
        for entry in reversed(entries)
        if isinstance(entry, MessageAnswer)
    ]
    return sorted(answers, key=lambda answer: not answer[0].recorded)


def mentions(span: Span, call_ids: set[str], dialects: Sequence[Dialect]) -> bool:
    """Tell whether a span's answers can be to any of these calls, by looking for the IDs in what is not decoded yet.

    Histories are re-sent with every request and are long; most need not be decoded.
    """
    keys = {message.source.key for dialect in dialects for message in dialect.responses_from}
    prefixes = tuple(keys)
    for key, value in span.attributes.items():
        if key.startswith(prefixes) and (not isinstance(value, str) or any(call_id in value for call_id in call_ids)):
            return True
    return any(event.name in keys for event in span.events)


def answer_output(answer: MessageAnswer, dialect: Dialect, source: MessageSource) -> Recorded:
    """Return the output that an answer is."""
    return _recorded(answer.output, source, dialect, is_arguments=False)


def _entries(span: Span, tree: SpanTree, dialect: Dialect, field: str) -> Iterator[tuple[MessageSource, list[MessageCall | MessageAnswer]]]:
    """Yield what each message source of a dialect holds."""
    for message in getattr(dialect, field):
        source = message.source
        if source.origin is Origin.ATTR and source.step is Step.SELF and not _may_tell(span.attributes.get(source.key)):
            continue  # nearly every message: it asks for nothing
        entries: list[MessageCall | MessageAnswer] = []
        for value in find_in(span, tree, message.source):
            read = decoded(value, message)
            if read is None:
                continue
            entries.extend(islice(MESSAGE_SHAPES[message.shape](read), MAX_CALLS - len(entries)))
        if entries:
            yield message, entries


def _may_tell(value: Value) -> bool:
    """Tell whether a message may hold a call or an answer. In text one of two words occurs, then."""
    return value is not None and (not isinstance(value, str) or "tool" in value or "function" in value)


def decoded(value: Value, message: MessageSource) -> Json:
    """Decode the text of messages."""
    if isinstance(value, str):
        if not _may_tell(value):
            return None
        return _narrowed(at_path(read_as(value, Decode.AUTO), message.source.path))
    try:
        return plain(value)
    except TooDeepError:
        return None


def _narrowed(value: object) -> Json:
    """Narrow what a path reached; it came out of a Json value."""
    return value  # type: ignore[return-value]


def _recorded(value: Json, source: MessageSource, dialect: Dialect, *, is_arguments: bool) -> Recorded:
    """Wrap a value that stood in a message, so that it is decoded like one that stood on a span."""
    if isinstance(value, str):
        found = Found(value=value, source=source.inner(), dialect=dialect)
        return Recorded(found, is_arguments=is_arguments)
    if value is None and not is_arguments:
        return Recorded.known(Content(state=ContentState.FULL), is_arguments=False)
    found = Found(value=_as_value(value), source=source.inner(), dialect=dialect)
    content = (decode_arguments(found) if is_arguments else decode_output(found)).content
    return Recorded.known(content, is_arguments=is_arguments)


def _as_value(value: Json) -> Value:
    """Turn a decoded value back into one as spans have it: lists as tuples."""
    if isinstance(value, (list, tuple)):
        return tuple(_as_value(item) for item in value)
    if isinstance(value, dict):
        return {str(key): _as_value(member) for key, member in value.items()}
    return value  # type: ignore[return-value]  # a scalar


def candidate_of(entry: MessageCall, index: int, span: Span, source: MessageSource, dialect: Dialect) -> Candidate:
    """Build the candidate for a call that stands in a message."""
    executed = entry.phase is CallPhase.EXECUTED
    nothing = Recorded(None, is_arguments=False)
    call = Candidate(
        span=span,
        name=entry.name,
        index=index,
        arguments=(
            Recorded(None, is_arguments=True) if entry.arguments is None else _recorded(entry.arguments, source, dialect, is_arguments=True)
        ),
        output=_recorded(entry.output, source, dialect, is_arguments=False) if entry.answered else nothing,
        kind=entry.kind,
        phase=entry.phase,
        call_id=entry.call_id if entry.call_id not in dialect.placeholders.get("call_id", ()) else None,
        start_unix_ns=span.start_unix_ns,
        end_unix_ns=span.end_unix_ns,
        dialects=[dialect.family],
        from_message=True,
        evidence=Evidence.MESSAGE_HISTORY,
        rank=(span.start_unix_ns, index),
    )
    if executed:
        call.status = CallStatus.ERROR if entry.failed else CallStatus.OK
        call.status_from = "output" if entry.answered else "event"
        if entry.failed and entry.answered:
            value = call.output.content.value
            call.error_message = value if isinstance(value, str) else None
    return call
