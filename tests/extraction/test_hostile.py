"""Nothing that a peer sends may crash, hang or bloat the reading. Times are not asserted: a hang fails by pytest never coming back."""

from __future__ import annotations

import json
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.spans import agent, chat, executed, make

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Span, Value

DEPTH = 100_000
MEBIBYTE = 1024 * 1024


def _nested(depth: int) -> Value:
    value: Value = 1
    for _ in range(depth):
        value = {"a": value}
    return value


def _call(span: Span) -> ToolCall:
    (call,) = default_extractor().extract([span]).calls
    return call


HOSTILE_TEXTS = [
    pytest.param("[" * DEPTH, id="deep list"),
    pytest.param('{"a":' * DEPTH + "1" + "}" * DEPTH, id="deep object"),
    pytest.param('{"a":' * DEPTH, id="deep cut object"),
    pytest.param("(" * DEPTH, id="deep tuple"),
    pytest.param("{'a': " * DEPTH, id="deep cut literal"),
    pytest.param('"' * DEPTH, id="quotes"),
    pytest.param("\\" * DEPTH, id="backslashes"),
    pytest.param('{"a": "' + "\\" * DEPTH, id="cut in backslashes"),
    pytest.param("content='" + "\\'" * DEPTH, id="repr of backslashes and quotes"),
    pytest.param("content=" + "[" * DEPTH, id="repr that goes deep"),
    pytest.param("content='' " + "a='' " * DEPTH, id="repr of many fields"),
    pytest.param("9" * DEPTH, id="huge integer"),
    pytest.param('{"n": ' + "9" * DEPTH + "}", id="huge integer in an object"),
    pytest.param("{" + ", ".join(f"{i * (2**61 - 1)}: 1" for i in range(2000)) + "}", id="colliding keys"),
    pytest.param('{"a": "\ud800"}', id="lone surrogate"),
    pytest.param('{"a": "\\ud800"}', id="escaped lone surrogate"),
    pytest.param(json.dumps(json.dumps(json.dumps(json.dumps(json.dumps(json.dumps('{"a": 1}')))))), id="encoded seven times"),
    pytest.param("...[TRUNCATED: original length " + "9" * DEPTH, id="mark without an end"),
    pytest.param("{" * 50 + '"a": [' * 30 + "\x00", id="control characters"),
    pytest.param("\x00", id="nothing but a control character"),
]
HUGE_TEXTS = [
    pytest.param("x" * (50 * MEBIBYTE), id="50 MiB of text"),
    pytest.param('{"a": "' + "x" * (50 * MEBIBYTE), id="50 MiB cut object"),
    pytest.param('{"a": "' + "x" * (50 * MEBIBYTE) + '"}', id="50 MiB object"),
]
CONVENTIONS = {
    "gen_ai": ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}, "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
    "openinference": ({"openinference.span.kind": "TOOL", "tool.name": "f"}, "input.value", "output.value"),
    "traceloop": (
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "f"},
        "traceloop.entity.input",
        "traceloop.entity.output",
    ),
    "seed": ({"tool.name": "f"}, "input.value", "output.value"),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_text_becomes_some_content(convention: str, text: str) -> None:
    marks, arguments, output = CONVENTIONS[convention]
    call = _call(make(attributes={**marks, arguments: text, output: text}))
    assert call.arguments.content.state in set(ContentState)
    assert call.output.content.state in set(ContentState)
    assert call.output.content.state is ContentState.TRUNCATED or call.output.content.value is not None


@pytest.mark.parametrize("text", HUGE_TEXTS)
def test_huge_text_becomes_some_content(text: str) -> None:
    call = _call(executed(arguments=text, result=text))
    assert call.arguments.state in {ContentState.FULL, ContentState.TRUNCATED, ContentState.UNPARSED}
    assert call.output.state in {ContentState.FULL, ContentState.TRUNCATED}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_structured_value_that_is_nested_too_deep_is_not_parsed(convention: str) -> None:
    marks, arguments, output = CONVENTIONS[convention]
    call = _call(make(attributes={**marks, arguments: _nested(DEPTH), output: _nested(DEPTH)}))
    assert call.arguments.state is ContentState.UNPARSED
    assert call.output.state is ContentState.UNPARSED


@pytest.mark.parametrize("text", HOSTILE_TEXTS)
def test_hostile_messages_show_no_call(text: str) -> None:
    extraction = default_extractor().extract([chat(1, asked=text + "tool", heard=text + "tool", start=0), executed(2, start=9)])
    assert [call.name for call in extraction.calls] == ["get_weather"]


def test_flattened_keys_that_go_deep_are_cut_at_a_bound() -> None:
    key = "mcp.request.argument." + ".".join("a" * DEPTH)
    call = _call(make(attributes={"mcp.method.name": "tools/call", "mcp.tool.name": "f", key: 1}))
    assert call.arguments.state is ContentState.FULL


def test_flattened_keys_that_collide_keep_one_of_them() -> None:
    marks = {"mcp.method.name": "tools/call", "mcp.tool.name": "f"}
    prefix = "mcp.request.argument."
    call = _call(make(attributes={**marks, f"{prefix}a": 1, f"{prefix}a.b": 2, f"{prefix}c.0": 3, f"{prefix}c.1": 4, f"{prefix}c.x": 5}))
    assert call.arguments.content.value == {"a": {"b": 2}, "c": {"0": 3, "1": 4, "x": 5}}


def test_rings_and_self_parents_end() -> None:
    ring = [executed(number, parent=number % 1000 + 1, start=number, call_id=str(number)) for number in range(1, 1001)]
    selves = [executed(2000, parent=2000, start=5000)]
    assert len(default_extractor().extract([*ring, *selves]).calls) == 1001


def test_a_chain_of_twenty_thousand_spans_is_read_without_recursion() -> None:
    chain = [make(number, parent=number - 1, start=number, end=10**6) for number in range(2, 20_000)]
    extraction = default_extractor().extract([agent(1, "top", end=10**6), *chain, executed(20_001, parent=19_999, start=20_000)])
    assert [call.agent for call in extraction.calls] == ["top"]


def test_many_parallel_calls_of_one_tool_stay_linear() -> None:
    """Calls that all overlap, from two instrumentations that know no IDs: nine million pairs, if all were compared."""
    count = 3_000
    spans = [
        executed(number, start=number % 7, end=10**6, scope=f"s{number % 2}", arguments=f'{{"n": {number}}}') for number in range(1, count)
    ]
    assert len(default_extractor().extract(spans).calls) == count - 1


def test_many_requests_of_one_tool_stay_linear() -> None:
    parts = [{"type": "tool_call", "name": "f", "arguments": {"n": number}} for number in range(1000)]
    asked = json.dumps([{"role": "assistant", "parts": parts}])
    spans = [chat(number, start=number, end=10**6, asked=asked) for number in range(1, 4)]
    runs = [executed(10 + number, "f", start=100 + number, arguments=f'{{"n": {number}}}') for number in range(1000)]
    extraction = default_extractor().extract([*spans, *runs])
    assert sum(call.phase == "executed" for call in extraction.calls) == 1000


def test_payloads_that_nobody_asks_for_are_not_decoded() -> None:
    text = '{"a": "' + "x" * (20 * MEBIBYTE) + '"}'
    span = executed(arguments=text, result=text)
    default_extractor()
    tracemalloc.start()
    try:
        call = _call(span)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEBIBYTE
    assert call.arguments.state is ContentState.FULL


@pytest.mark.parametrize("value", [None, True, 5, 1.5, b"\xff", (), ("a",), {}, {"b": b"\xff"}, float("nan")], ids=repr)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_every_kind_of_value_may_stand_everywhere(convention: str, value: Value) -> None:
    marks, arguments, output = CONVENTIONS[convention]
    keys = default_extractor().projection.keys
    attributes = {**dict.fromkeys(keys - marks.keys(), value), **marks, arguments: value, output: value}
    for given in (attributes, {**marks, arguments: value, output: value}):
        for call in default_extractor().extract([make(attributes=given)]).calls:
            assert call.arguments.content.state in set(ContentState)
            assert call.output.content.state in set(ContentState)
