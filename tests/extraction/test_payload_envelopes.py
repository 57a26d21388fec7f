from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.payload_envelopes import MEMBERS, SHAPES
from otel_toolcall_eval.model.tool_call import CallKind

if TYPE_CHECKING:
    from otel_toolcall_eval.model.tool_call import Json

MESSAGE: dict[object, Json] = {"content": "c", "tool_call_id": "i", "status": "error"}


@pytest.mark.parametrize(
    ("shape", "value", "inner"),
    [
        pytest.param(
            "args_kwargs", {"args": ["a", "b"], "kwargs": {"x": 1}}, {"x": 1, "y": "a", "1": "b"}, id="names that are free, then numbers"
        ),
        pytest.param("args_kwargs", {"args": (), "kwargs": {}, "sanitize_inputs_outputs": True}, {}, id="smolagents"),
        pytest.param("kwargs", {"kwargs": {"a": 1}}, {"a": 1}, id="kwargs"),
        pytest.param("run_inputs", {"input_str": "{}", "inputs": {"a": 1}}, {"a": 1}, id="inputs before input_str"),
        pytest.param("run_inputs", {"input_str": "x", "inputs": None}, "x", id="input_str alone"),
        pytest.param("text_input", {"input": " {'a': 1}"}, " {'a': 1}", id="text input"),
        pytest.param("typed_value", {"type": "json", "value": 1}, 1, id="typed value"),
        pytest.param("output", {"output": None}, None, id="output"),
        pytest.param("result", {"result": 0}, 0, id="result"),
        pytest.param("output_kwargs", {"output": 1, "kwargs": {}}, 1, id="output and kwargs"),
        pytest.param("error_result", {"result": "x", "is_error": False}, "x", id="result with a flag"),
        pytest.param("langchain_message", {"type": "tool", "data": {"content": "c"}}, "c", id="message under data"),
        pytest.param("langchain_message", {"lc": 1, "type": "constructor", "id": [], "kwargs": MESSAGE}, "c", id="dumped message"),
        pytest.param("langchain_message", {"content": "c", "type": "tool"}, "c", id="message by type"),
        pytest.param("langchain_message", "content='c' tool_call_id='i'", "c", id="printed message"),
        pytest.param("function_response", {"name": "f", "response": {"result": 1}}, 1, id="wrapped function response"),
        pytest.param("function_response", {"id": 5, "name": "f", "response": {"a": 1}}, {"a": 1}, id="function response"),
        pytest.param("tool_output", {"raw_output": 1, "tool_name": "f", "blocks": []}, 1, id="tool output"),
        pytest.param("mcp_result", {"content": [{"type": "text", "text": "t"}]}, "t", id="one text"),
        pytest.param("mcp_result", {"content": [], "structuredContent": {"result": [1]}}, [1], id="wrapped structured content"),
        pytest.param("mcp_result", {"content": [], "structuredContent": {"a": 1}}, {"a": 1}, id="structured content"),
        pytest.param("mcp_result", {"content": [{"type": "a"}, {"type": "b"}]}, [{"type": "a"}, {"type": "b"}], id="several items"),
        pytest.param("typed_item", [{"type": "text", "text": "t"}], "t", id="list with one text"),
        pytest.param("typed_item", {"type": "output_text", "content": "t"}, "t", id="text under content"),
        pytest.param("strands_blocks", [{"json": {"a": 1}}], {"a": 1}, id="json block"),
        pytest.param("strands_blocks", [{"text": "t"}], "t", id="text block"),
        pytest.param("tool_request", {"tool_name": "f", "arguments": {"a": 1}}, {"a": 1}, id="tool request"),
        pytest.param("class_repr", "FunctionExecutionResult(status='success', result='r', error=None)", "r", id="printed result"),
        pytest.param("class_repr", "FunctionExecutionResult(status='failure', result=None, error='e')", "e", id="printed failure"),
    ],
)
def test_a_shape_is_taken_off(shape: str, value: Json, inner: Json) -> None:
    unwrapped = SHAPES[shape](value, ["x", "y"])
    assert not isinstance(value, dict) or not MEMBERS[shape].isdisjoint(value)
    assert unwrapped is not None
    assert unwrapped.value == inner


@pytest.mark.parametrize(
    ("shape", "value"),
    [
        pytest.param("args_kwargs", {"args": [], "kwargs": {}, "other": 1}, id="another key"),
        pytest.param("args_kwargs", {"args": 1, "kwargs": {}}, id="args that are no list"),
        pytest.param("kwargs", {"kwargs": 1}, id="kwargs that are no object"),
        pytest.param("run_inputs", {"input_str": "", "query": 1}, id="a tool's own input_str"),
        pytest.param("text_input", {"input": "check SKU-1"}, id="a tool's own input"),
        pytest.param("text_input", {"input": 1}, id="input that is no text"),
        pytest.param("text_input", {"input": "{", "x": 1}, id="input beside others"),
        pytest.param("typed_value", {"type": "json"}, id="no value"),
        pytest.param("output", {"output": 1, "x": 2}, id="output beside others"),
        pytest.param("output_kwargs", {"output": 1, "x": 2}, id="output beside others, with kwargs allowed"),
        pytest.param("error_result", {"result": 1, "rows": 2}, id="a tool's own result"),
        pytest.param("langchain_message", {"content": "c"}, id="a tool's own content"),
        pytest.param("langchain_message", {"content": "c", "type": "tool", "other": 1}, id="an object that only looks like a message"),
        pytest.param("langchain_message", {"lc": 1, "type": "constructor", "kwargs": {"content": "c"}}, id="another dumped object"),
        pytest.param("langchain_message", "content='c'", id="another printed object"),
        pytest.param("langchain_message", "sunny", id="text"),
        pytest.param("langchain_message", 5, id="number"),
        pytest.param("function_response", {"name": "f", "response": 1, "x": 2}, id="a tool's own response"),
        pytest.param("tool_output", {"raw_output": 1}, id="a tool's own raw_output"),
        pytest.param("mcp_result", {"content": "c"}, id="content that is no list"),
        pytest.param("mcp_result", {"content": [1]}, id="content without types"),
        pytest.param("mcp_result", {"content": [], "x": 1}, id="content beside others"),
        pytest.param("mcp_result", [], id="list"),
        pytest.param("typed_item", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], id="two texts"),
        pytest.param("typed_item", {"type": "image", "data": "x"}, id="image"),
        pytest.param("typed_item", {"text": "a"}, id="text without a type"),
        pytest.param("typed_item", {"type": "text", "text": 1}, id="text that is none"),
        pytest.param("strands_blocks", {"text": "t"}, id="a block outside of a list"),
        pytest.param("strands_blocks", [{"image": {}}], id="image block"),
        pytest.param("tool_request", {"tool_name": "f"}, id="no arguments"),
        pytest.param("class_repr", "FunctionExecutionResult(", id="printed object that is cut"),
        pytest.param("class_repr", "FunctionExecutionResult(status='x')", id="printed object without a result"),
        pytest.param("class_repr", {"result": 1}, id="object"),
    ],
)
def test_what_only_resembles_a_shape_is_left_alone(shape: str, value: Json) -> None:
    assert SHAPES[shape](value, ()) is None


def test_the_members_of_every_shape_are_known() -> None:
    assert MEMBERS.keys() == SHAPES.keys()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("value", [None, True, 0, 1.5, "", "text", [], {}, {"a": 1}, [[]]], ids=repr)
def test_no_shape_stumbles_over_other_values(shape: str, value: Json) -> None:
    assert SHAPES[shape](value, ()) is None or shape == "mcp_result"


def test_wrappers_tell_about_the_call() -> None:
    message = SHAPES["langchain_message"](MESSAGE, ())
    assert message is not None
    assert (message.call_id, message.failed) == ("i", True)
    numbered = SHAPES["langchain_message"]({"content": "c", "tool_call_id": 5}, ())
    assert numbered is not None
    assert numbered.call_id is None
    failed = SHAPES["mcp_result"]({"content": [], "isError": True}, ())
    assert failed is not None
    assert (failed.failed, failed.error_type) == (True, "tool_error")
    flagged = SHAPES["error_result"]({"result": "x", "is_error": True}, ())
    assert flagged is not None
    assert flagged.failed
    request = SHAPES["tool_request"]({"tool_name": 5, "arguments": {}}, ())
    assert request is not None
    assert (request.kind, request.name) == (CallKind.MCP, None)
    response = SHAPES["function_response"]({"id": "i", "name": "f", "response": 1}, ())
    assert response is not None
    assert response.call_id == "i"
