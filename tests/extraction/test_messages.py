from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.dialect import MessageSource, Source, ValueOrigin
from otel_toolcall_eval.extraction.message_reader import decoded
from otel_toolcall_eval.extraction.messages import MESSAGE_SHAPES, MessageAnswer, MessageCall
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

RESULT = {"result": "r", "origin": {"tool_name": "f", "arguments": {"a": 1}, "id": "1"}, "error": True}


@pytest.mark.parametrize(
    ("shape", "value", "entries"),
    [
        pytest.param(
            "genai_parts",
            [{"parts": [{"type": "tool_call", "name": "f", "id": "1", "arguments": {}}, {"type": "text"}, {"type": "tool_call"}, 5]}, "x"],
            [MessageCall(name="f", call_id="1", arguments={})],
            id="parts",
        ),
        pytest.param(
            "genai_parts",
            [{"parts": [{"type": "server_tool_call", "name": "search", "id": "1", "server_tool_call": {"q": 1}}]}],
            [MessageCall(name="search", call_id="1", arguments={"q": 1}, kind=CallKind.PROVIDER, phase=CallPhase.EXECUTED)],
            id="call that the vendor ran",
        ),
        pytest.param(
            "genai_parts",
            [
                {
                    "parts": [
                        {"type": "tool_call_response", "id": "1", "response": None},
                        {"type": "tool_call_response", "id": "2", "result": 5},
                        {"type": "tool_call_response", "id": "3"},
                        {"type": "tool_call_response"},
                        {"type": "server_tool_call_response", "id": "4", "server_tool_call_response": [1]},
                    ],
                },
            ],
            [
                MessageAnswer(call_id="1", output=None),
                MessageAnswer(call_id="2", output=5),
                MessageAnswer(call_id="3", output=None, recorded=False),
                MessageAnswer(call_id="4", output=[1]),
            ],
            id="answers",
        ),
        pytest.param(
            "openai_message",
            {"tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}, {"name": "g"}, {"function": {}}, 5]},
            [MessageCall(name="f", call_id="1", arguments="{}"), MessageCall(name="g")],
            id="openai",
        ),
        pytest.param(
            "openai_message",
            [{"role": "tool", "tool_call_id": "1", "content": "c"}, {"role": "user"}],
            [MessageAnswer(call_id="1", output="c")],
            id="openai answer",
        ),
        pytest.param(
            "openinference",
            [{"message": {"tool_calls": [{"tool_call": {"id": "1", "function": {"name": "f"}}}, {"tool_call": {"function": 5}}, {}]}}],
            [MessageCall(name="f", call_id="1")],
            id="openinference",
        ),
        pytest.param(
            "openinference",
            [{"message": {"role": "tool", "content": "c"}}, {"message": {"tool_call_id": "1"}}, {"message": {"role": "user"}}, {}],
            [MessageAnswer(call_id="", output="c"), MessageAnswer(call_id="1", output=None, recorded=False)],
            id="openinference answers",
        ),
        pytest.param(
            "vercel_calls",
            [{"toolName": "f", "toolCallId": "1", "input": "{}"}, {"toolName": "g", "args": {}}, {"toolName": ""}],
            [MessageCall(name="f", call_id="1", arguments="{}"), MessageCall(name="g", arguments={})],
            id="ai sdk",
        ),
        pytest.param(
            "event_answer",
            [{"id": "1", "content": "c"}, {"id": "2"}, {"content": "c"}],
            [MessageAnswer(call_id="1", output="c")],
            id="event",
        ),
        pytest.param(
            "haystack_batch",
            {"tool_messages": [{"content": [{"tool_call_result": RESULT}, {"tool_call_result": {"origin": {}}}]}]},
            [MessageCall(name="f", call_id="1", arguments={"a": 1}, phase=CallPhase.EXECUTED, output="r", answered=True, failed=True)],
            id="haystack output",
        ),
        pytest.param(
            "haystack_batch",
            {"messages": [{"content": [{"tool_call": {"tool_name": "f", "arguments": {}, "id": None}}, {"tool_call": {}}, {"text": "t"}]}]},
            [MessageCall(name="f", arguments={}, phase=CallPhase.EXECUTED)],
            id="haystack input",
        ),
        pytest.param(
            "codex_event",
            [{"tool_name": "f", "call_id": "1", "success": "false", "output": "o", "mcp_server": "s"}, {"success": "true"}],
            [MessageCall(name="f", call_id="1", kind=CallKind.MCP, phase=CallPhase.EXECUTED, output="o", answered=True, failed=True)],
            id="codex",
        ),
    ],
)
def test_messages_are_read(shape: str, value: Json, entries: list[MessageCall | MessageAnswer]) -> None:
    assert list(MESSAGE_SHAPES[shape](value)) == entries


@pytest.mark.parametrize("shape", MESSAGE_SHAPES)
@pytest.mark.parametrize("value", [None, True, 5, "text", [], {}, [[]], [None], {"parts": 5, "message": 5, "tool_calls": {}}], ids=repr)
def test_no_layout_stumbles_over_other_values(shape: str, value: Json) -> None:
    assert list(MESSAGE_SHAPES[shape](value)) == []


def test_text_that_holds_neither_word_of_a_call_is_not_read() -> None:
    message = MessageSource(source=Source(origin=ValueOrigin.EVENT, key="e", field="body"), shape="genai_parts")
    assert decoded('[{"role": "user", "parts": []}]', message) is None
    assert decoded('[{"role": "tool"}]', message) == [{"role": "tool"}]
