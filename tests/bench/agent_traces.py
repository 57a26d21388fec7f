"""The load that figures are given for: traces of ten spans, about 1.2 KB each: an agent, five model calls, four tool calls.

They differ by their trace IDs alone. Those that are lifelike differ, too, in what is said, in the IDs of spans and calls, in times and in
tokens, and are as long; their tools are called with the same arguments, and answer the same, so that the same criteria pass.
"""

from __future__ import annotations

import json
import random
from itertools import islice
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SPANS_OF_TRACE: Final = 10
_MILLISECOND_NS: Final = 1_000_000
_BEGIN_UNIX_NS: Final = 1_790_000_000_000_000_000
_TOOLS: Final = ("get_current_weather", "get_forecast", "convert_units", "send_message")
_WORDS: Final = (
    "the of a to in is it and that we you for with on as are not be will at by from or this have an more than there what which can "
    "if was has rain sun wind cloud storm snow frost fog heat cold mild warm light heavy north south east west coast hill river "
    "city town road train flight ticket hotel morning noon evening night today tomorrow week month degree percent speed hour "
    "minute travel leave arrive wait call ask answer send read write open close book cancel change plan choose prefer need want "
    "think know expect likely seldom often early late Paris Tokyo Nairobi Lima Oslo Cairo Quito Perth Delhi Turin Lagos Hanoi "
    "umbrella jacket boots map guide price budget cheap dear large small quick slow north-west south-east forecast temperature "
    "humidity pressure visibility advisory weekend holiday season visitor"
)
_TEXT: Final = "The weather in Paris is mild for the season, with a light wind from the west. " * 4


def _messages(role: str, turn: int) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": f"{turn}: {_TEXT}"}]}])


def _agent() -> Mapping[str, str | int]:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather", "gen_ai.system_instructions": _TEXT * 3}


def _model(turn: int) -> Mapping[str, str | int]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.input.messages": _messages("user", turn),
        "gen_ai.output.messages": _messages("assistant", turn),
        "gen_ai.usage.input_tokens": 812,
        "gen_ai.usage.output_tokens": 64,
    }


def _tool(number: int) -> Mapping[str, str | int]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": _TOOLS[number],
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"call_{number}",
        "gen_ai.tool.call.arguments": json.dumps({"city": "Paris", "unit": "c", "days": number}),
        "gen_ai.tool.call.result": json.dumps({"temp_c": 18, "sky": "clear", "text": _TEXT * 2}),
        "server.address": "tools.internal",
        "thread.name": "worker-1",
    }


def _spans() -> Iterator[tuple[str, int, int, int, Mapping[str, str | int]]]:
    """Yield name, kind, and start and end in milliseconds of the spans in the order in which they end; the agent's is last."""
    for turn in range(5):
        yield "chat gpt-5", 3, 20 * turn + 1, 20 * turn + 10, _model(turn)
        if turn < len(_TOOLS):
            yield f"execute_tool {_TOOLS[turn]}", 1, 20 * turn + 11, 20 * turn + 19, _tool(turn)
    yield "invoke_agent weather", 1, 0, 100, _agent()


def _templates() -> list[SpanMessage]:
    messages = []
    for number, (name, kind, start, end, attributes) in enumerate(_spans()):
        message = SpanMessage(
            name=name,
            kind=SpanMessage.SpanKind.ValueType(kind),
            flags=0x101,
            start_time_unix_nano=_BEGIN_UNIX_NS + start * _MILLISECOND_NS,
            end_time_unix_nano=_BEGIN_UNIX_NS + end * _MILLISECOND_NS,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"" if number == SPANS_OF_TRACE - 1 else SPANS_OF_TRACE.to_bytes(8, "big"),
        )
        for key, value in attributes.items():
            kept = message.attributes.add(key=key).value
            if isinstance(value, int):
                kept.int_value = value
            else:
                kept.string_value = value
        messages.append(message)
    return messages


def _vary(spans: list[SpanMessage], chance: random.Random) -> None:
    """Let a trace differ from all others, as often as it is made in the same way."""
    root_id, later_ns = chance.randbytes(8), chance.randrange(3_600 * 1000) * _MILLISECOND_NS
    for span in spans:
        span.span_id = chance.randbytes(8) if span.parent_span_id else root_id
        span.parent_span_id = root_id if span.parent_span_id else b""
        span.start_time_unix_nano += later_ns + chance.randrange(_MILLISECOND_NS)
        span.end_time_unix_nano += later_ns + chance.randrange(_MILLISECOND_NS)
        for attribute in span.attributes:
            value = attribute.value
            if attribute.key == "gen_ai.tool.call.id":
                value.string_value = f"call_{chance.randbytes(12).hex()}"
            elif attribute.key.startswith("gen_ai.usage."):
                value.int_value = chance.randrange(50, 4_000)
            elif attribute.key.endswith(".messages"):
                value.string_value = value.string_value.replace(_TEXT, _said(chance))


def _said(chance: random.Random) -> str:
    """Return a text that nobody said before, as long as the usual one."""
    return " ".join(chance.choices(_WORDS.split(), k=len(_TEXT)))[: len(_TEXT)]


def request_of(first: int, traces: int, *, spans: int | None = None, lifelike: bool = False) -> bytes:
    """Return an encoded request with the traces number ``first`` to ``first + traces``; ``spans`` keeps no more than so many of them."""
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    for key, value in {"service.name": "weather-agent", "service.version": "1.4.2", "host.name": "node-1"}.items():
        block.resource.attributes.add(key=key).value.string_value = value
    group = block.scope_spans.add()
    group.scope.name = "opentelemetry.instrumentation.openai_agents"
    templates = _templates()
    for number in range(first, first + traces):
        for template in templates:
            message = group.spans.add()
            message.CopyFrom(template)
            message.trace_id = number.to_bytes(16, "big")
        if lifelike:
            _vary(list(islice(reversed(group.spans), SPANS_OF_TRACE)), random.Random(number))  # noqa: S311 - the same ones each time
    del group.spans[SPANS_OF_TRACE * traces if spans is None else spans :]
    return request.SerializeToString()
