"""Reads calls and their answers out of messages.

Every reader takes what a source found, decoded, and skips what does not have its shape: messages are the model's and the
user's text, so anything may stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, Json

MAX_CALLS = 10_000
"""How many calls are read out of one message list; the same as the bound on tool spans of a trace."""

MAX_MILLISECONDS = 86_400_000
"""Longest duration that an event is believed to tell: a day."""

MAX_DURATION_DIGITS = 9
"""How many digits a duration in text may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCall:
    """A call that stands in a message.

    Attributes:
        arguments: as recorded: an object, or text that is decoded like any other arguments; None if there are none.
        answered: True if ``output`` is the recorded answer.
        duration_ns: how long the call took, if the message says so.
    """

    name: str
    call_id: str | None = None
    arguments: Json = None
    kind: CallKind | None = None
    phase: CallPhase = CallPhase.REQUESTED
    output: Json = None
    answered: bool = False
    failed: bool = False
    duration_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageAnswer:
    """The answer to a call, under the call's ID.

    Attributes:
        call_id: empty if the message does not tell it.
        recorded: False if there was an answer but its text is hidden.
    """

    call_id: str
    output: Json
    recorded: bool = True
    failed: bool = False


ReadMessages: TypeAlias = Callable[[Json], Iterator[MessageCall | MessageAnswer]]


def _listed(value: Json) -> Iterator[Mapping[object, Json]]:
    """Yield the objects of a list, or the object itself."""
    items = value if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        if isinstance(item, Mapping):
            yield item


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


def _genai_parts(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """``[{role, parts: [{type: tool_call, id, name, arguments}, {type: tool_call_response, id, response}]}]``."""
    server_answers = _server_answers(value)
    for message in _listed(value):
        for part in _listed(message.get("parts")):
            kind, call_id, name = part.get("type"), _text(part.get("id")), _text(part.get("name"))
            if kind == "tool_call" and name:
                yield MessageCall(name=name, call_id=call_id, arguments=part.get("arguments"))
            elif kind == "server_tool_call" and name:
                yield MessageCall(
                    name=name,
                    call_id=call_id,
                    arguments=part.get("server_tool_call"),
                    kind=CallKind.PROVIDER,
                    phase=CallPhase.EXECUTED,
                    output=server_answers.get(call_id),
                    answered=call_id in server_answers,
                )
            elif kind in {"tool_call_response", "server_tool_call_response"} and call_id:
                keys = [key for key in ("response", "result", "server_tool_call_response") if key in part]
                yield MessageAnswer(call_id=call_id, output=part[keys[0]] if keys else None, recorded=bool(keys))


def _server_answers(value: Json) -> Mapping[str | None, Json]:
    """Return what a vendor's own tools answered, by ID: it stands beside the call, since both are the model's message."""
    parts = (part for message in _listed(value) for part in _listed(message.get("parts")))
    answers = (part for part in parts if part.get("type") == "server_tool_call_response" and "server_tool_call_response" in part)
    return {call_id: part["server_tool_call_response"] for part in answers if (call_id := _text(part.get("id")))}


def _openai_message(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """``{tool_calls: [{id, function: {name, arguments}}]}``; a message of the role ``tool`` answers."""
    for message in _listed(value):
        for call in _listed(message.get("tool_calls")):
            function = call.get("function")
            where = function if isinstance(function, Mapping) else call
            name = _text(where.get("name"))
            if name:
                yield MessageCall(name=name, call_id=_text(call.get("id")), arguments=where.get("arguments"))
        answered = _text(message.get("tool_call_id"))
        if answered:
            yield MessageAnswer(call_id=answered, output=message.get("content"))


def _openinference(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """``[{message: {tool_calls: [{tool_call: {id, function: {name, arguments}}}], tool_call_id, content}}]``, rebuilt."""
    for entry in _listed(value):
        for message in _listed(entry.get("message")):
            for call in _listed(message.get("tool_calls")):
                for inner in _listed(call.get("tool_call")):
                    function = inner.get("function")
                    name = _text(function.get("name")) if isinstance(function, Mapping) else None
                    if name and isinstance(function, Mapping):
                        yield MessageCall(name=name, call_id=_text(inner.get("id")), arguments=function.get("arguments"))
            if message.get("role") == "tool" or _text(message.get("tool_call_id")):
                answered = _text(message.get("tool_call_id")) or ""
                yield MessageAnswer(call_id=answered, output=message.get("content"), recorded="content" in message)


def _vercel_calls(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """``[{toolCallId, toolName, input | args}]``."""
    for call in _listed(value):
        name = _text(call.get("toolName"))
        if name:
            yield MessageCall(name=name, call_id=_text(call.get("toolCallId")), arguments=call.get("input", call.get("args")))


def _event_answer(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """Read the attributes of a ``gen_ai.tool.message`` event: ``{id, content}``."""
    for event in _listed(value):
        call_id = _text(event.get("id"))
        if call_id and "content" in event:
            yield MessageAnswer(call_id=call_id, output=event["content"])


def _haystack_batch(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """Messages of Haystack's ToolInvoker: ``tool_call_result`` with its origin in the output, ``tool_call`` in the input."""
    for batch in _listed(value):
        for message in (*_listed(batch.get("tool_messages")), *_listed(batch.get("messages"))):
            for item in _listed(message.get("content")):
                for result in _listed(item.get("tool_call_result")):
                    for origin in _listed(result.get("origin")):
                        name = _text(origin.get("tool_name"))
                        if name:
                            yield MessageCall(
                                name=name,
                                call_id=_text(origin.get("id")),
                                arguments=origin.get("arguments"),
                                phase=CallPhase.EXECUTED,
                                output=result.get("result"),
                                answered=True,
                                failed=result.get("error") is True,
                            )
                for call in _listed(item.get("tool_call")):
                    name = _text(call.get("tool_name"))
                    if name:
                        yield MessageCall(
                            name=name,
                            call_id=_text(call.get("id")),
                            arguments=call.get("arguments"),
                            phase=CallPhase.EXECUTED,
                        )


def _codex_event(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """Read the attributes of a ``codex.tool_result`` event; only its log record has the texts.

    MCP servers stand in ``mcp_server``, which is empty for other tools.
    """
    for event in _listed(value):
        name = _text(event.get("tool_name"))
        if name:
            output = event.get("output")
            yield MessageCall(
                name=name,
                call_id=_text(event.get("call_id")),
                arguments=event.get("arguments"),
                kind=CallKind.MCP if event.get("tool_origin") == "mcp" or event.get("mcp_server") else None,
                phase=CallPhase.EXECUTED,
                output=output,
                answered=output is not None,
                failed=event.get("success") in {"false", False},
                duration_ns=_milliseconds(event.get("duration_ms")),
            )


def _codex_decision(value: Json) -> Iterator[MessageCall | MessageAnswer]:
    """Read a ``codex.tool_decision`` event that stopped a call; the other ones are followed by the call's result."""
    for event in _listed(value):
        name, decision = _text(event.get("tool_name")), event.get("decision")
        if name and isinstance(decision, str) and decision.startswith(("denied", "abort", "timed_out")):
            yield MessageCall(name=name, call_id=_text(event.get("call_id")), phase=CallPhase.REJECTED)


def _milliseconds(value: Json) -> int | None:
    """Read a number of milliseconds, which Codex writes as text; None for what is none, or longer than a day."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= MAX_DURATION_DIGITS:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_MILLISECONDS:
        return None
    return int(value * 1_000_000)


MESSAGE_SHAPES: Mapping[str, ReadMessages] = {
    "codex_decision": _codex_decision,
    "codex_event": _codex_event,
    "event_answer": _event_answer,
    "genai_parts": _genai_parts,
    "haystack_batch": _haystack_batch,
    "openai_message": _openai_message,
    "openinference": _openinference,
    "vercel_calls": _vercel_calls,
}
"""Every layout under the name that dialects use."""
