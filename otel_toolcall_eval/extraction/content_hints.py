"""Tells what a user should know about a trace: the first question is "why is it empty". Source: DIALECTS, section 2e."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus
from otel_toolcall_eval.model.trace import IncompletenessReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications

_ONLY_REQUESTS = "models asked for calls, and no span shows that any of them ran: instrument the agent framework, not only its model client"
_DROPPED = "the producer dropped attributes of tool spans, so arguments or results may be lost: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"


def told(calls: Sequence[Candidate], readings: SpanClassifications) -> tuple[tuple[str, ...], tuple[IncompletenessReason, ...]]:
    """Return hints, each once, and why calls may be missing although no span is."""
    hints: dict[str, None] = {}
    doubts: tuple[IncompletenessReason, ...] = ()
    executed = [call for call in calls if call.phase is CallPhase.EXECUTED]
    if all(call.from_message for call in executed):
        silent = [dialect.hint for _, dialect in sorted(readings.seen.items()) if dialect.hint]
        if not executed and any(call.phase is CallPhase.REQUESTED for call in calls):
            silent.append(_ONLY_REQUESTS)
        hints.update(dict.fromkeys(silent))
        doubts = (IncompletenessReason.NO_TOOL_SPANS,) if silent and not executed else ()
    for hint in _content_hints(executed, readings):
        hints[hint] = None
    if any(call.span.dropped_attributes and not (call.arguments.is_there and call.output.is_there) for call in executed):
        hints[_DROPPED] = None
    return tuple(hints), doubts


def _content_hints(calls: Sequence[Candidate], readings: SpanClassifications) -> list[str]:
    """Return the hints on how to switch content on whose calls, all of them, recorded no arguments or no output.

    Calls that failed have no output to record, so they say nothing about it.
    """
    if all(call.arguments.is_there and (call.output.is_there or call.status is CallStatus.ERROR) for call in calls):
        return []
    arguments: dict[str, bool] = {}
    output: dict[str, bool] = {}
    for call in calls:
        hint = readings.content_hint(call.span.span_id)
        if hint:
            arguments[hint] = arguments.get(hint, False) or call.arguments.is_there
            output[hint] = output.get(hint, False) or call.output.is_there or call.status is CallStatus.ERROR
    return [hint for hint, there in arguments.items() if not (there and output[hint])]
