"""Builds spans for tests of this room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Dialect, Match
from otel_toolcall_eval.extraction.span_tree import SpanTree
from otel_toolcall_eval.model.trace import Resource, Scope, Span, SpanEvent, StatusCode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.extractor import Extractor
    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Attributes

ANY = Dialect(name="any", family="any", match=Match())


def make(
    number: int = 1,
    *,
    parent: int | None = None,
    start: int = 0,
    end: int | None = None,
    name: str = "span",
    scope: str = "",
    kind: int = 1,
    status: StatusCode = StatusCode.UNSET,
    message: str = "",
    events: Sequence[tuple[str, Attributes]] = (),
    resource: Mapping[str, str] | None = None,
    attributes: Attributes | None = None,
) -> Span:
    """Build a span: number ``n`` is span ID ``n``; it lasts 5 unless told otherwise."""
    return Span(
        trace_id=bytes(15) + b"\1",
        span_id=number.to_bytes(8, "big"),
        parent_span_id=None if parent is None else parent.to_bytes(8, "big"),
        name=name,
        start_unix_ns=start,
        end_unix_ns=start + 5 if end is None else end,
        kind=kind,
        status=status,
        status_message=message,
        events=tuple(SpanEvent(name=event, time_unix_ns=0, attributes=fields) for event, fields in events),
        scope=Scope(name=scope),
        resource=Resource(attributes=dict(resource or {})),
        attributes=dict(attributes or {}),
    )


def executed(number: int = 1, tool: str = "get_weather", **keywords: object) -> Span:
    """Build a span of the GenAI conventions; ``arguments``, ``result`` and ``call_id`` become attributes."""
    keys = {"arguments": "gen_ai.tool.call.arguments", "result": "gen_ai.tool.call.result", "call_id": "gen_ai.tool.call.id"}
    attributes: dict[str, object] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    attributes |= {keys[key]: keywords.pop(key) for key in keys if key in keywords}
    more = keywords.pop("attributes", {})
    attributes |= more if isinstance(more, dict) else {}
    return make(number, attributes=attributes, **keywords)  # type: ignore[arg-type] # the rest is make's


def agent(number: int, name: str, **keywords: object) -> Span:
    """Build an agent's span."""
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return make(number, attributes=attributes, name=f"invoke_agent {name}", **keywords)  # type: ignore[arg-type] # make's


def chat(number: int, **keywords: object) -> Span:
    """Build a model's span; ``asked`` and ``heard`` become its messages."""
    keys = {"asked": "gen_ai.output.messages", "heard": "gen_ai.input.messages"}
    attributes: dict[str, object] = {"gen_ai.operation.name": "chat"}
    attributes |= {keys[key]: keywords.pop(key) for key in keys if key in keywords}
    return make(number, attributes=attributes, **keywords)  # type: ignore[arg-type] # the rest is make's


def tree_of(*spans: Span) -> SpanTree:
    """Return the tree of some spans."""
    return SpanTree(spans)


def number_of(span_id: bytes) -> int:
    """Return the number of a span ID."""
    return int.from_bytes(span_id, "big")


def shown(calls: Sequence[ToolCall]) -> list[tuple[int, str, list[int]]]:
    """Return span, name and merged spans of each call."""
    return [(number_of(call.span_id), call.name, [number_of(span_id) for span_id in call.merged_span_ids]) for call in calls]


def read(extractor: Extractor, *spans: Span) -> Sequence[ToolCall]:
    """Return the calls among some spans."""
    return extractor.extract(spans).calls
