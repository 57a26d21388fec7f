"""Reads one call out of one tool span, by all dialects that match it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from otel_toolcall_eval.extraction.candidate import Candidate, Recorded
from otel_toolcall_eval.extraction.decoding import read_as
from otel_toolcall_eval.extraction.dialect import Decode, Match, Source
from otel_toolcall_eval.extraction.matching import MAX_DIGITS, at_path, holds, spelled, value_of
from otel_toolcall_eval.extraction.reading import Found, find_content, find_direct, find_in
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, ContentState
from otel_toolcall_eval.model.trace import Span, SpanEvent, StatusCode, Value

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.lookup_plan import FieldSource, LookupPlan, Places
    from otel_toolcall_eval.extraction.span_tree import SpanTree

_Fact = TypeVar("_Fact")

MAX_NAME_LENGTH: Final = 1000
"""Longest name, ID or error type that is kept, in characters; anything longer is something else."""

_Words: TypeAlias = "tuple[tuple[str, tuple[str, ...]], ...]"

_TELLING: Final[_Words] = (
    ("E", ("isError", "FunctionExecutionResult")),
    ("_", ("is_error", "tool_call_id")),
    ("=", ("status=",)),
    ('"', ('"status"',)),
)
"""Texts of which at least one occurs in an output that says something about its call; each with a character that it has and that few
outputs have, or few that are no JSON: a character is found ten times as fast as a word."""

_TELLING_REQUEST: Final[_Words] = (("_", ("tool_name",)),)
"""The same for a request's wrapper."""


def read_call(span: Span, tree: SpanTree, plan: LookupPlan) -> Candidate | None:
    """Read the call that a tool span stands for; None if it does not name the tool. ``plan`` says where to look."""
    name = text_of(span, tree, plan.name)
    if name is None:
        return None
    arguments = _recorded(span, tree, plan.arguments, is_arguments=True, nothing_means_empty=plan.nothing_means_empty)
    output = _recorded(span, tree, plan.output, is_arguments=False, nothing_means_empty=plan.nothing_means_empty)
    if arguments.found is not None and output.found is not None and _both_hidden(arguments.found, output.found):
        arguments = Recorded(_hidden(arguments.found), is_arguments=True, nothing_means_empty=plan.nothing_means_empty)
        output = Recorded(_hidden(output.found), is_arguments=False, nothing_means_empty=plan.nothing_means_empty)
    call = Candidate(
        span=span,
        name=name,
        aliases=dict.fromkeys(_aliases(name, plan)),
        arguments=arguments,
        output=output,
        call_id=text_of(span, tree, plan.call_id),
        phase=_told(plan.phases, span, tree) or CallPhase.EXECUTED,
        kind=_told(plan.kinds, span, tree),
        own_agent=text_of(span, tree, plan.agent),
        start_unix_ns=span.start_unix_ns,
        end_unix_ns=span.end_unix_ns,
        duration_known=span.start_unix_ns != span.end_unix_ns,
        from_cache=plan.from_cache,
        dialects=list(plan.families),
        is_part=plan.is_part,
    )
    attempts = text_of(span, tree, plan.attempts) if plan.attempts else None
    if attempts is not None and attempts.isdecimal() and len(attempts) <= MAX_DIGITS:
        call.attempts = max(1, int(attempts))
    _set_status(call, span, tree, plan)
    _listen_to_wrappers(call)
    if call.status is CallStatus.ERROR and call.error_message is None and call.status_from != "span_status":
        call.error_message = _message_in_output(call)
    return call


def text_of(span: Span, tree: SpanTree, places: Places) -> str | None:
    """Return the first text that is no placeholder and of bearable length."""
    for place in places:
        if place.attribute is not None:  # nearly all: spared the generator
            text = spelled(value_of(span.attributes, place.attribute))
            if _is_one(text, place):
                return text
            continue
        for value in find_in(span, tree, place.source):
            text = text_at(value, place.source)
            if _is_one(text, place):
                return text
    return None


def _is_one(text: str | None, place: FieldSource) -> bool:
    """Tell whether a text is there, no placeholder, and of bearable length."""
    return text is not None and 0 < len(text) <= MAX_NAME_LENGTH and text not in place.placeholders


def text_at(value: Value, source: Source) -> str | None:
    """Read a value as text, along its path if it has one."""
    if not source.path and source.decode is Decode.AUTO:
        return spelled(value)
    read = read_as(value, source.decode) if isinstance(value, str) else value
    return spelled(at_path(read, source.path))


def _aliases(name: str, plan: LookupPlan) -> list[str]:
    """Return the name without its plugin's prefix, where a dialect puts one before it."""
    for separators in plan.alias_separators:
        for separator in separators:
            _, found, rest = name.rpartition(separator)
            if found and rest:
                return [rest]
    return []


def _told(facts: tuple[tuple[_Fact, Match | None], ...], span: Span, tree: SpanTree) -> _Fact | None:
    """Return the first fact without a condition, or whose condition holds on one of the span's children."""
    for fact, match in facts:
        if match is None or any(holds(match, child) for child in tree.children(span)):
            return fact
    return None


def _recorded(span: Span, tree: SpanTree, places: Places, *, is_arguments: bool, nothing_means_empty: bool) -> Recorded:
    if len(places) == 1 and places[0].direct is not None:  # nearly every payload: spared the lists
        found = find_direct(span, places[0], places[0].direct)
        return Recorded(found, is_arguments=is_arguments, nothing_means_empty=nothing_means_empty)
    return Recorded.among(find_content(span, tree, places), is_arguments=is_arguments, nothing_means_empty=nothing_means_empty)


def _both_hidden(arguments: Found, output: Found) -> bool:
    """Tell whether arguments and output both are the text that a producer writes in place of hidden ones."""
    hidden = arguments.dialect.hidden_pair
    return bool(hidden) and arguments.value == output.value == hidden


def _hidden(found: Found) -> Found:
    """Return the same place with a mask in it."""
    return Found(value="__REDACTED__", source=found.source, dialect=found.dialect)


def _set_status(call: Candidate, span: Span, tree: SpanTree, plan: LookupPlan) -> None:
    """Find out how the call ended. An error recorded anywhere on the span counts, even over the status OK.

    The span's own status is asked first, since its message is meant for people.
    """
    exception = _exception(span) if span.events else None
    named = text_of(span, tree, plan.error_type) if plan.error_type else None
    error_type = named or spelled(value_of(span.attributes, "error.type")) or None
    if span.status is StatusCode.ERROR:
        call.status, call.status_from = CallStatus.ERROR, "span_status"
    elif error_type or plan.fails:
        call.status, call.status_from = CallStatus.ERROR, "attribute"
    elif exception is not None:
        call.status, call.status_from = CallStatus.ERROR, "event"
    elif call.phase is CallPhase.EXECUTED:
        call.status, call.status_from = CallStatus.OK, "span_status"
    if call.status is not CallStatus.ERROR:
        return
    told = text_of(span, tree, plan.error_message) or span.status_message
    call.error_type, call.error_message = error_type, told or None
    if exception is not None:
        call.error_type = call.error_type or spelled(exception.attributes.get("exception.type")) or None
        call.error_message = call.error_message or spelled(exception.attributes.get("exception.message")) or None


def _exception(span: Span) -> SpanEvent | None:
    for event in reversed(span.events):
        if event.name == "exception":
            return event
    return None


def _listen_to_wrappers(call: Candidate) -> None:
    """Copy what the output's wrappers record about the call: its ID, a failure, that it went over MCP.

    Decodes only if the recorded text holds one of the words that such wrappers have.
    """
    for recorded in (call.arguments, call.output):
        found = recorded.found
        if found is None or not found.source.unwrap:
            continue
        telling = _TELLING_REQUEST if "tool_request" in found.source.unwrap else _TELLING
        if isinstance(found.value, str) and not _holds_any(found.value, telling):
            continue
        for said in recorded.decoded.said:
            call.call_id = call.call_id or said.call_id
            call.kind = call.kind or said.kind
            if said.failed and call.status is not CallStatus.ERROR:
                call.status, call.status_from = CallStatus.ERROR, "output"
                call.error_type = said.error_type


def _holds_any(text: str, telling: _Words) -> bool:
    """Tell whether any of the words occurs; a character of each is searched first."""
    for character, words in telling:
        if character in text:
            for word in words:
                if word in text:
                    return True
    return False


def _message_in_output(call: Candidate) -> str | None:
    """Return the error's text from the output: the text itself, or its ``error`` member."""
    content = call.output.content
    if content.state is not ContentState.FULL:
        return None
    value = content.value
    if isinstance(value, Mapping):
        value = value.get("error")
    return value if isinstance(value, str) and value else None
