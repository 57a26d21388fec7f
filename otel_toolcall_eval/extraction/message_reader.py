"""Turns the messages of model spans, and the events and batches that hold whole calls, into candidates."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.extraction.candidate import Candidate, Recorded
from otel_toolcall_eval.extraction.decoding import TooDeepError, decode_arguments, decode_output, plain, read_as
from otel_toolcall_eval.extraction.dialect import Decode, Dialect, MessageSource, ReadStep, Source, ValueOrigin
from otel_toolcall_eval.extraction.matching import at_path, value_of
from otel_toolcall_eval.extraction.messages import MAX_CALLS, MESSAGE_SHAPES, MessageAnswer, MessageCall
from otel_toolcall_eval.extraction.reading import Found, find_in
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, Content, ContentState, Evidence, Json

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span, Value

MAX_SOUGHT: Final = 100
"""How many IDs are looked for in messages before they are decoded. To look for more takes longer than to decode."""


def batch_in(span: Span, tree: SpanTree, dialects: tuple[Dialect, ...]) -> list[Candidate]:
    """Return the calls that a span itself stands for, of the first dialect and source that have any."""
    batch = _first_calls(span, tree, [(dialect, message) for dialect in dialects for message in dialect.calls_from])
    for one in batch:
        one.evidence = Evidence.SPAN
    return batch


def requests_in(span: Span, tree: SpanTree, dialects: tuple[Dialect, ...]) -> list[Candidate]:
    """Return the calls that a model asks for in a span's messages, of the first dialect and source that have any."""
    for dialect in dialects:
        for message in dialect.requests_from:
            if _may_hold(span, message.source):
                return _first_calls(span, tree, [(one, source) for one in dialects for source in one.requests_from])
    return []  # as nearly always: messages seldom ask for anything


def answers_in(span: Span, tree: SpanTree, dialects: Sequence[Dialect]) -> Sequence[tuple[MessageAnswer, Dialect, MessageSource]]:
    """Return the answers that stand in a span's messages: the latest first, and those with a text before those without."""
    answers = [
        (entry, dialect, message)
        for dialect in dialects
        for message in dialect.responses_from
        for entry in reversed(_entries(span, tree, message))
        if isinstance(entry, MessageAnswer)
    ]
    return sorted(answers, key=lambda answer: not answer[0].recorded)


def mentions(span: Span, call_ids: Collection[str], dialects: Sequence[Dialect]) -> bool:
    """Tell whether a span's answers can be to any of these calls, by looking for the IDs in what is not decoded yet.

    Histories are re-sent with every request and are long; most need not be decoded.
    """
    keys = {message.source.key for dialect in dialects for message in dialect.responses_from}
    prefixes = tuple(keys)
    many = len(call_ids) > MAX_SOUGHT
    for key, value in span.attributes.items():
        if key.startswith(prefixes) and (not isinstance(value, str) or many or any(call_id in value for call_id in call_ids)):
            return True
    return any(event.name in keys for event in span.events)


def answer_output(answer: MessageAnswer, dialect: Dialect, source: MessageSource) -> Recorded:
    """Return the output that an answer is."""
    return _recorded(answer.output, source, dialect, is_arguments=False)


def _first_calls(span: Span, tree: SpanTree, told: list[tuple[Dialect, MessageSource]]) -> list[Candidate]:
    """Return the calls that stand at the first message source that holds any."""
    for dialect, message in told:
        if not _may_hold(span, message.source):
            continue
        calls = [entry for entry in _entries(span, tree, message) if isinstance(entry, MessageCall)]
        if calls:
            return [candidate_of(call, index, span, message, dialect) for index, call in enumerate(calls)]
    return []


def _entries(span: Span, tree: SpanTree, message: MessageSource) -> list[MessageCall | MessageAnswer]:
    entries: list[MessageCall | MessageAnswer] = []
    for value in find_in(span, tree, message.source):
        read = decoded(value, message)
        if read is not None:
            entries.extend(islice(MESSAGE_SHAPES[message.shape](read), MAX_CALLS - len(entries)))
    return entries


def _may_hold(span: Span, source: Source) -> bool:
    """Tell whether a call or an answer may stand at a source, by what can be told at once."""
    own = source.step is ReadStep.SELF
    if own and source.origin is ValueOrigin.EVENT:
        return bool(span.events)
    return not own or source.origin is not ValueOrigin.ATTR or _may_tell(value_of(span.attributes, source.key))


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
