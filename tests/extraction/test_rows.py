"""Rows of DIALECTS that neither a golden case nor a recording covers, each in the row's own shape."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.model.trace import StatusCode
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.recordings import plain
from tests.extraction.spans import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import Content, ToolCall
    from otel_toolcall_eval.model.trace import Span

PARIS = {"city": "Paris", "unit": "c"}
PARIS_JSON = json.dumps(PARIS)
WEATHER = {"temp_c": 18, "sky": "clear"}
WEATHER_JSON = json.dumps(WEATHER)


def tool(number: int = 2, name: str = "get_weather", *, parent: int | None = 1, scope: str = "", **more: Any) -> Span:  # noqa: ANN401 - make's
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more.pop("attributes", {})}
    return make(number, parent=parent, start=10 * number, name=f"execute_tool {name}", scope=scope, attributes=attributes, **more)


def model(number: int, operation: str = "chat", **attributes: Any) -> Span:  # noqa: ANN401 - attributes
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return make(number, start=10 * number, end=10 * number + 9, attributes={"gen_ai.operation.name": operation, **named})


def other(attributes: dict[str, Any], *, name: str = "span", number: int = 2, **more: Any) -> Span:  # noqa: ANN401 - make's
    return make(number, start=10 * number, name=name, attributes=attributes, **more)


def messages(*parts: dict[str, object], role: str = "assistant") -> str:
    return json.dumps([{"role": role, "parts": list(parts)}])


CALL: dict[str, object] = {"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": PARIS}
ANSWER: dict[str, object] = {"type": "tool_call_response", "id": "call_1", "response": WEATHER}
SERVER: list[dict[str, object]] = [
    {"type": "server_tool_call", "id": "srv_1", "name": "web_search", "server_tool_call": {"type": "web_search", "query": "x"}},
    {"type": "server_tool_call_response", "id": "srv_1", "server_tool_call_response": {"results": []}},
]


def shown(call: ToolCall) -> dict[str, object]:
    def of(content: Content) -> object:
        return plain(content.value) if content.state is ContentState.FULL else content.state.value

    return {
        "name": call.name,
        "kind": call.kind.value,
        "phase": call.phase.value,
        "call_id": call.call_id,
        "arguments": of(call.arguments.content),
        "output": of(call.output.content),
        "status": call.status.value,
        "error": call.error_type or call.error_message,
        "dialects": list(call.dialects),
    }


FULL = {"name": "get_weather", "phase": "executed", "arguments": PARIS, "output": WEATHER, "status": "ok"}

ROWS = [
    pytest.param(
        [model(1, gen_ai__output__messages=messages(CALL)), model(2, gen_ai__input__messages=messages(ANSWER, role="user"))],
        [{**FULL, "call_id": "call_1"}],
        id="genai chat: answered in a message of the role user (Pydantic AI 2 to 5)",
    ),
    pytest.param(
        [model(1, gen_ai__output__messages=messages(*SERVER))],
        [
            {
                "name": "web_search",
                "kind": "provider",
                "phase": "executed",
                "arguments": {"type": "web_search", "query": "x"},
                "output": {"results": []},
            }
        ],
        id="genai server tools: call and response in one message",
    ),
    pytest.param(
        [model(1, gen_ai__output__messages=messages(SERVER[0])), model(2, gen_ai__input__messages=messages(SERVER[1], role="tool"))],
        [{"name": "web_search", "kind": "provider", "phase": "executed", "output": {"results": []}}],
        id="genai server tools: response in the next request",
    ),
    pytest.param(
        [
            tool(
                scope="opentelemetry.instrumentation.genai.agno",
                status=StatusCode.ERROR,
                message="no such city",
                attributes={"error.type": "ValueError"},
            )
        ],
        [{"name": "get_weather", "status": "error", "error": "ValueError", "output": "absent", "arguments": "absent"}],
        id="official agno: no result of a failure",
    ),
    pytest.param(
        [
            tool(
                scope="opentelemetry.instrumentation.genai.llama_index",
                attributes={
                    "gen_ai.tool.call.arguments": PARIS_JSON,
                    "gen_ai.tool.call.result": "18 and clear",
                    "gen_ai.tool.type": "function",
                },
            )
        ],
        [{**FULL, "output": "18 and clear"}],
        id="official llama-index: plain text as result",
    ),
    pytest.param(
        [
            other(
                {
                    "openinference.span.kind": "TOOL",
                    "tool.name": "get_weather",
                    "tool.call_id": "tooluse_1",
                    "tool.parameters": PARIS_JSON,
                    "output.value": "18 clear",
                },
                scope="openinference.instrumentation.strands",
            )
        ],
        [{**FULL, "call_id": "tooluse_1", "output": "18 clear"}],
        id="openinference strands: parameters are the arguments, ID under tool.call_id",
    ),
    pytest.param(
        [
            other(
                {"openinference.span.kind": "TOOL", "tool.name": "get_weather", "input.value": PARIS_JSON, "output.value": WEATHER_JSON}
                | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather", "gen_ai.tool.call.arguments": PARIS_JSON}
                | {"gen_ai.tool.call.id": "call_1", "gen_ai.tool.call.result": WEATHER_JSON}
            )
        ],
        [{**FULL, "call_id": "call_1"}],
        id="openinference: dual emission on one span",
    ),
    pytest.param(
        [
            other(
                {
                    "traceloop.span.kind": "tool",
                    "traceloop.entity.name": "get_weather",
                    "traceloop.entity.input": json.dumps({"args": [], "kwargs": PARIS}),
                }
            )
        ],
        [{**FULL, "output": "absent"}],
        id="traceloop decorator: a generator tool never writes output",
    ),
    pytest.param(
        [
            other(
                {
                    "traceloop.span.kind": "tool",
                    "traceloop.entity.name": "get_weather",
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "get_weather",
                    "gen_ai.tool.call.arguments": PARIS_JSON,
                    "gen_ai.tool.call.result": WEATHER_JSON,
                },
                name="get_weather.tool",
            )
        ],
        [FULL],
        id="traceloop openai-agents: semantic conventions, raw",
    ),
    pytest.param(
        [
            other(
                {
                    "gen_ai.completion.0.role": "assistant",
                    "gen_ai.completion.0.tool_calls.0.id": "call_1",
                    "gen_ai.completion.0.tool_calls.0.name": "get_weather",
                    "gen_ai.completion.0.tool_calls.0.arguments": PARIS_JSON,
                },
                name="openai.chat",
                number=1,
            ),
            other(
                {
                    "gen_ai.prompt.0.role": "tool",
                    "gen_ai.prompt.0.tool_call_id": "call_1",
                    "gen_ai.prompt.0.content": WEATHER_JSON,
                    "gen_ai.completion.0.role": "assistant",
                },
                name="openai.chat",
            ),
        ],
        [{**FULL, "call_id": "call_1"}],
        id="traceloop models: flattened completion and prompt",
    ),
    pytest.param(
        [
            tool(
                scope="logfire.claude_agent_sdk",
                attributes={
                    "gen_ai.tool.call.id": "toolu_1",
                    "gen_ai.tool.call.arguments": PARIS_JSON,
                    "error.type": "city not found: Pariss",
                },
            )
        ],
        [{"name": "get_weather", "call_id": "toolu_1", "arguments": PARIS, "status": "error", "error": "city not found: Pariss"}],
        id="logfire claude sdk: whole text in error.type",
    ),
    pytest.param(
        [
            model(1, "generate_content", gen_ai__output__messages=messages(CALL)),
            tool(scope="gcp.vertex.agent", attributes={"gen_ai.tool.call.id": "call_1"}),
            model(3, "generate_content", gen_ai__input__messages=messages(CALL, ANSWER)),
        ],
        [{**FULL, "call_id": "call_1", "dialects": ["google_adk", "otel_genai"]}],
        id="kagent: texts only in the neighbouring model spans",
    ),
    pytest.param(
        [
            tool(
                attributes={
                    "ag2.span.type": "tool",
                    "gen_ai.tool.call.id": "call_1",
                    "gen_ai.tool.call.arguments": PARIS_JSON,
                    "gen_ai.tool.call.result": "18 and cl",
                    "ag2.tool.call.result.truncated": True,
                }
            )
        ],
        [{**FULL, "call_id": "call_1", "output": "truncated"}],
        id="ag2: flags a result that it cut",
    ),
    pytest.param(
        [
            other(
                {
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "get_weather",
                    "lk.function_tool.id": "call_1",
                    "lk.function_tool.name": "get_weather",
                    "lk.pii.function_tool.arguments": PARIS_JSON,
                    "lk.pii.function_tool.output": "no such city",
                    "lk.function_tool.is_error": True,
                },
                name="function_tool",
            )
        ],
        [
            {
                "name": "get_weather",
                "call_id": "call_1",
                "arguments": PARIS,
                "output": "no such city",
                "status": "error",
                "error": "no such city",
            }
        ],
        id="livekit: the flag tells the failure",
    ),
    pytest.param(
        [
            other(
                {"lk.function_tool.name": "get_weather", "lk.function_tool.arguments": PARIS_JSON, "lk.function_tool.output": WEATHER_JSON},
                name="function_tool",
            )
        ],
        [FULL],
        id="livekit: older keys",
    ),
    pytest.param(
        [
            other(
                {
                    "langfuse.observation.type": "tool",
                    "langfuse.observation.input": json.dumps({"args": [], "kwargs": PARIS}),
                    "langfuse.observation.level": "ERROR",
                    "langfuse.observation.status_message": "no such city",
                },
                name="get_weather",
            )
        ],
        [{"name": "get_weather", "arguments": PARIS, "status": "error", "error": "no such city"}],
        id="langfuse: level and message",
    ),
    pytest.param(
        [
            tool(
                scope="openlit.otel.langchain",
                attributes={
                    "gen_ai.tool.call.arguments": str(PARIS),
                    "gen_ai.tool.call.result": str(WEATHER),
                    "gen_ai.tool.call.id": "0193-run",
                },
            )
        ],
        [FULL],
        id="openlit: Python reprs",
    ),
    pytest.param(
        [
            other(
                {
                    "gen_ai.operation.name": "tool_call",
                    "gen_ai.tool.name": "get_weather",
                    "gen_ai.tool.call_id": "c-1",
                    "gen_ai.input.messages": json.dumps(
                        {"callId": "c-1", "name": "get_weather", "args": PARIS, "isClientInitiated": False}
                    ),
                    "gen_ai.output.messages": json.dumps(
                        {"status": "success", "response": {"callId": "c-1", "resultDisplay": "18 and clear"}}
                    ),
                }
            )
        ],
        [{**FULL, "call_id": "c-1", "output": "18 and clear"}],
        id="gemini cli: whole request and call",
    ),
    pytest.param(
        [
            other(
                {"genkit:metadata:subtype": "tool", "genkit:name": "get_weather", "genkit:input": PARIS_JSON, "genkit:state": "error"},
            )
        ],
        [{"name": "get_weather", "arguments": PARIS, "status": "error", "output": "absent"}],
        id="genkit: state error",
    ),
    pytest.param(
        [
            tool(attributes={"gen_ai.system": "az.ai.agents", "gen_ai.tool.call.id": "call_1"}, parent=None),
            other(
                {"code.function.parameter.city": "Paris", "code.function.parameter.unit": "c", "code.function.return.value": WEATHER_JSON},
                number=3,
                parent=2,
            ),
        ],
        [{**FULL, "call_id": "call_1"}],
        id="azure: arguments and result on the child",
    ),
    pytest.param(
        [
            tool(2, "search", attributes={"mastra.span.type": "mcp_tool_call", "gen_ai.tool.call.arguments": PARIS_JSON}),
            tool(3, "web", attributes={"mastra.span.type": "provider_tool_call", "gen_ai.tool.call.arguments": PARIS_JSON}),
        ],
        [{"name": "search", "kind": "mcp"}, {"name": "web", "kind": "provider"}],
        id="mastra: kinds",
    ),
    pytest.param(
        [
            other(
                {
                    "traceloop.span.kind": "tool",
                    "traceloop.entity.name": "get_weather",
                    "traceloop.entity.input": json.dumps({"tool_name": "get_weather", "arguments": PARIS}),
                    "traceloop.entity.output": json.dumps({"result": [{"content": WEATHER_JSON, "type": "text"}]}),
                },
                name="get_weather.tool",
                scope="opentelemetry.instrumentation.mcp",
            )
        ],
        [{**FULL, "kind": "mcp"}],
        id="traceloop mcp: items with the key content",
    ),
    pytest.param(
        [
            other(
                {"gen_ai.span.kind": "TOOL", "gen_ai.tool.name": "Weather node", "gen_ai.tool.call.arguments": PARIS_JSON},
                scope="loongsuite",
            )
        ],
        [{"name": "Weather node", "arguments": PARIS, "dialects": ["dify"]}],
        id="loongsuite: the extension's own span kind",
    ),
    pytest.param(
        [
            other(
                {"ai.operationId": "ai.toolCall", "operation.name": "ai.toolCall my-function", "ai.toolCall.name": "get_weather"}
                | {"ai.toolCall.id": "call_1", "ai.toolCall.args": PARIS_JSON},
                status=StatusCode.ERROR,
                events=[("exception", {"exception.type": "Error", "exception.message": "no such city"})],
            )
        ],
        [{"name": "get_weather", "call_id": "call_1", "status": "error", "error": "Error"}],
        id="ai sdk 6: a function's ID in the operation name, failure as exception",
    ),
    pytest.param(
        [
            other(
                {
                    "openinference.span.kind": "TOOL",
                    "tool.name": "get_weather",
                    "tool.parameters": json.dumps({"city": {"title": "City", "type": "string"}}),
                    "input.value": PARIS_JSON,
                    "output.value": WEATHER_JSON,
                },
                name="get_weather.run",
                scope="openinference.instrumentation.crewai",
            )
        ],
        [FULL],
        id="openinference crewai: parameters are the schema",
    ),
    pytest.param(
        [
            other(
                {"openinference.span.kind": "TOOL", "tool.name": "get_weather", "output.value": WEATHER_JSON}
                | {"tool.parameters": json.dumps({"type": "object", "properties": {"city": {"type": "string"}}})}
            )
        ],
        [{**FULL, "arguments": "absent"}],
        id="openinference: a schema is no arguments",
    ),
    pytest.param(
        [
            other(
                {"lmnr.span.type": "TOOL", "lmnr.span.input": PARIS_JSON, "lmnr.span.output": WEATHER_JSON},
                name="get_weather",
                status=StatusCode.ERROR,
                message="late",
            )
        ],
        [{**FULL, "status": "error", "error": "late"}],
        id="laminar: failure by status",
    ),
    pytest.param(
        [
            tool(
                attributes={
                    "gen_ai.tool.call.arguments": PARIS_JSON,
                    "gen_ai.tool.call.result": json.dumps({"content": [{"type": "text", "text": "no"}], "isError": True}),
                    "mcp.method.name": "tools/call",
                    "rpc.response.status_code": "0",
                },
                kind=3,
            )
        ],
        [{"name": "get_weather", "kind": "mcp", "arguments": PARIS, "output": "no", "status": "error", "error": "tool_error"}],
        id="mcp conventions: client span with a failed result",
    ),
    pytest.param(
        [
            other(
                {"braintrust.span_attributes": json.dumps({"name": "get_weather", "type": "tool"}), "braintrust.input_json": PARIS_JSON}
                | {"braintrust.output_json": WEATHER_JSON}
            )
        ],
        [FULL],
        id="braintrust: name among its own attributes",
    ),
    pytest.param(
        [
            other(
                {"span.type": "claude_code.tool", "tool_name": "Read", "tool_use_id": "toolu_1", "file_path": "/a.txt"},
                name="claude_code.tool",
            )
        ],
        [{"name": "Read", "call_id": "toolu_1", "arguments": {"file_path": "/a.txt"}}],
        id="claude code: only the path of a file",
    ),
]


@pytest.mark.parametrize(("spans", "expected"), ROWS)
def test_the_row_is_read(spans: Sequence[Span], expected: Sequence[dict[str, object]]) -> None:
    calls = [shown(call) for call in default_extractor().extract(spans).calls]
    assert [{key: call[key] for key in wanted} for call, wanted in zip(calls, expected, strict=True)] == list(expected)


@pytest.mark.parametrize(
    ("spans", "reason"),
    [
        pytest.param([other({"mcp.method.name": "tools/list"}, kind=3)], "MCP method tools/list", id="mcp: another method"),
        pytest.param([other({"traceloop.span.kind": "workflow"})], "Traceloop kind workflow", id="traceloop: a workflow"),
        pytest.param([other({"genkit:metadata:subtype": "flow"})], "Genkit flow action", id="genkit: a flow"),
        pytest.param([other({"mastra.span.type": "agent_step"})], "no tool marker", id="mastra: a step"),
        pytest.param([model(1, gen_ai__tool__name="a, b")], "operation chat", id="openlit: joined names on a chat span"),
    ],
)
def test_the_row_says_what_is_no_call(spans: Sequence[Span], reason: str) -> None:
    found = default_extractor().extract(spans)
    assert found.calls == ()
    assert [span.reason for span in found.ignored] == [reason]


@pytest.mark.parametrize(
    "scope",
    [
        pytest.param("opentelemetry.instrumentation.genai.smolagents", id="official smolagents"),
        pytest.param("opentelemetry.instrumentation.crewai", id="traceloop crewai"),
        pytest.param("opentelemetry.instrumentation.haystack", id="traceloop haystack"),
    ],
)
def test_a_producer_that_writes_no_tool_spans_is_named(scope: str) -> None:
    found = default_extractor().extract([make(1, scope=scope, attributes={"gen_ai.operation.name": "invoke_agent"})])
    assert len(found.hints) == 1
    assert found.doubts
