"""Marks calls of agents used as tools, handoffs, and calls that never ran."""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, ContentState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.agents import Agents
    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.span_tree import SpanTree

HANDOFF_PREFIX: Final = "transfer_to_"
"""How OpenAI Agents, AutoGen and LangGraph name the tool that hands over to an agent; the agent's name follows."""

REJECTIONS = (
    "Unknown tool: {name}",  # MCP Python SDK
    "Unknown tool name: '{name}'",  # Pydantic AI
    "Tool '{name}' not found",  # Google ADK
    "{name} is not a valid tool",  # LangGraph
    "Tool {name} not found",  # OpenAI Agents
    "tool named {name} not found",
    "No tool named '{name}'",
    "1 validation error for {name}",  # pydantic, where the model of the arguments is named after the tool
    "validation errors for {name}",
    "Invoking `{name}()` failed as the following mandatory input parameters are not present",  # Google ADK
)
"""What frameworks answer if a tool does not exist or its arguments do not validate: a call that failed so never ran."""

MAX_ANSWER_LENGTH = 2000
"""How much of an answer is searched for a rejection; frameworks begin with it."""

MAX_REMEMBERED_NAME: Final = 64
"""Names up to this length, in characters, are remembered in their plain form; there are 1,000 of them at most."""

_NO_WORD = re.compile(r"[\W_]+")


def mark_kinds(calls: Sequence[Candidate], tree: SpanTree, agents: Agents) -> None:
    """Mark calls during which an agent of the same name started, and handoffs to an agent of the trace.

    The agent's span is looked for by time and not below the call's span, since not every instrumentation nests it there.
    Cost: one search in the starts of the agents of that name for each call.
    """
    starts: dict[str, list[int]] = {}
    for span_id, name in agents.names.items():
        if name is not None:
            starts.setdefault(_plain(name), []).append(tree.by_id[span_id].start_unix_ns)
    if not starts:
        return
    for begun in starts.values():
        begun.sort()
    for call in calls:
        if call.name.startswith(HANDOFF_PREFIX) and _plain(call.name.removeprefix(HANDOFF_PREFIX)) in starts:
            call.kind = CallKind.CONTROL
        elif call.phase is CallPhase.EXECUTED and (call.kind is None or call.kind is CallKind.FUNCTION):
            started = starts.get(_plain(call.name))
            if started is None:
                continue
            first = bisect_left(started, call.start_unix_ns)
            if first < len(started) and started[first] < call.end_unix_ns:
                call.kind = CallKind.AGENT


def _plain(name: str) -> str:
    """Return a name without what differs between a tool's name and an agent's."""
    return _short_plain(name) if len(name) <= MAX_REMEMBERED_NAME else _made_plain(name)


def _made_plain(name: str) -> str:
    return _NO_WORD.sub("_", name.casefold()).strip("_")


_short_plain = lru_cache(maxsize=1000)(_made_plain)


def mark_rejected(call: Candidate) -> None:
    """Mark a call as rejected if what it failed with, or was answered with, says that the tool never ran.

    Meant for calls that failed, or stand in messages: any other tool may well return such a text.
    """
    if call.phase is not CallPhase.EXECUTED:
        return
    texts = [call.error_message or ""]
    content = call.output.content
    if content.state is ContentState.FULL:
        texts.append(content.text or "")
    for text in texts:
        head = text[:MAX_ANSWER_LENGTH]
        if any(rejection.format(name=call.name) in head for rejection in REJECTIONS):
            call.phase = CallPhase.REJECTED
            return
