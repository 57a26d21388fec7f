"""The closed list of shapes that stand around arguments and outputs.

A shape is recognised by its exact keys and taken off only where a dialect names it: a tool may well return
``{"result": 1}`` of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from otel_toolcall_eval.model.payload.message_repr import read_message_repr
from otel_toolcall_eval.model.tool_call import CallKind, Json

_MESSAGE_TYPES = frozenset({"tool", "ToolMessage", "ToolMessageChunk"})
_MESSAGE_KEYS = frozenset(
    {"content", "type", "name", "id", "tool_call_id", "status", "artifact", "additional_kwargs", "response_metadata", "role", "example"}
)
_RUN_KEYS = frozenset({"input_str", "inputs", "tags", "metadata", "kwargs"})
_MCP_KEYS = frozenset(
    {"content", "isError", "is_error", "structuredContent", "structured_content", "meta", "_meta", "result_type", "resultType"}
)
_TEXT_ITEM_KEYS = frozenset({"type", "text", "annotations", "meta", "_meta", "content", "id", "index", "block_type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrapped:
    """The content of a wrapper, and what the wrapper records about the call.

    Attributes:
        positional: names of the arguments that only have a number.
        named: True if positional arguments got the parameters' names.
    """

    value: Json
    call_id: str | None = None
    failed: bool = False
    error_type: str | None = None
    kind: CallKind | None = None
    name: str | None = None
    positional: tuple[str, ...] = ()
    named: bool = False


Shape: TypeAlias = Callable[[Json, Sequence[str]], Unwrapped | None]
"""Takes a value and the names of the parameters; answers None if the value does not have the shape."""


def _args_kwargs(value: Json, names: Sequence[str]) -> Unwrapped | None:
    """``{args: [...], kwargs: {...}}``; positional arguments get the parameters' names, else numbers."""
    if not isinstance(value, Mapping) or not {"args", "kwargs"} <= value.keys() <= {"args", "kwargs", "sanitize_inputs_outputs"}:
        return None
    positional, named = value["args"], value["kwargs"]
    if not isinstance(positional, (list, tuple)) or not isinstance(named, Mapping):
        return None
    free = [name for name in names if name not in named]
    numbered: dict[object, Json] = {(free[index] if index < len(free) else str(index)): item for index, item in enumerate(positional)}
    arguments: dict[object, Json] = {**numbered, **{str(name): item for name, item in named.items()}}
    numbers = tuple(str(index) for index in range(len(free), len(positional)))
    return Unwrapped(value=arguments, positional=numbers, named=bool(free) and bool(positional))


def _only(key: str) -> Shape:
    """Make the shape of an object with a single, known key."""

    def shape(value: Json, _names: Sequence[str]) -> Unwrapped | None:
        if not isinstance(value, Mapping) or value.keys() != {key}:
            return None
        return Unwrapped(value=value[key])

    return shape


def _kwargs(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    if not isinstance(value, Mapping) or value.keys() != {"kwargs"} or not isinstance(value["kwargs"], Mapping):
        return None
    return Unwrapped(value=value["kwargs"])


def _run_inputs(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """LangChain's callback envelope ``{input_str, inputs, tags, metadata, kwargs}``."""
    if not isinstance(value, Mapping) or not {"input_str"} <= value.keys() <= _RUN_KEYS:
        return None
    inputs = value.get("inputs")
    return Unwrapped(value=inputs if isinstance(inputs, Mapping) else value["input_str"])


def _tool_request(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """``{tool_name, arguments}``, as OpenLLMetry writes it for MCP."""
    if not isinstance(value, Mapping) or value.keys() != {"tool_name", "arguments"}:
        return None
    name = value["tool_name"]
    return Unwrapped(value=value["arguments"], kind=CallKind.MCP, name=name if isinstance(name, str) else None)


def _text_input(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """``{input: text}``, where the text is an object: of ``{input: "check SKU-1"}`` nobody says that it is a wrapper."""
    if not isinstance(value, Mapping) or value.keys() != {"input"}:
        return None
    text = value["input"]
    return Unwrapped(value=text) if isinstance(text, str) and text.lstrip().startswith("{") else None


def _error_result(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Take ``{result, is_error}``, as OpenLLMetry writes it for MCP."""
    if not isinstance(value, Mapping) or not {"result"} <= value.keys() <= {"result", "is_error"}:
        return None
    failed = value.get("is_error") is True
    return Unwrapped(value=value["result"], failed=failed, error_type="tool_error" if failed else None)


def _typed_value(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """``{type, value}``, as LangWatch writes it."""
    if not isinstance(value, Mapping) or value.keys() != {"type", "value"}:
        return None
    return Unwrapped(value=value["value"])


def _output_kwargs(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """``{output, kwargs}``, as OpenLLMetry writes it for LangChain."""
    if not isinstance(value, Mapping) or not {"output"} <= value.keys() <= {"output", "kwargs", "tags", "metadata"}:
        return None
    return Unwrapped(value=value["output"])


def _langchain_message(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Read a LangChain tool message: as an object, as ``{type, data}``, as a dump with ``lc``, or as its repr."""
    if isinstance(value, str):
        read = read_message_repr(value)
        return None if read is None or "tool_call_id" not in read else _message(read)
    if not isinstance(value, Mapping):
        return None
    if value.get("type") == "tool" and value.keys() == {"type", "data"} and isinstance(value["data"], Mapping):
        return _message(value["data"])
    if value.get("type") == "constructor" and "lc" in value and isinstance(value.get("kwargs"), Mapping):
        inner = value["kwargs"]
        return _message(inner) if isinstance(inner, Mapping) and "tool_call_id" in inner else None
    is_message = "content" in value and ("tool_call_id" in value or value.get("type") in _MESSAGE_TYPES) and value.keys() <= _MESSAGE_KEYS
    return _message(value) if is_message else None


def _message(message: Mapping[object, Json] | Mapping[str, Json]) -> Unwrapped:
    fields = {str(key): value for key, value in message.items()}
    call_id = fields.get("tool_call_id")
    return Unwrapped(
        value=fields.get("content"),
        call_id=call_id if isinstance(call_id, str) else None,
        failed=fields.get("status") == "error",
    )


def _function_response(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Take a Gemini function response ``{id, name, response}``."""
    if not isinstance(value, Mapping) or not {"name", "response"} <= value.keys() <= {
        *("id", "name", "response", "will_continue", "scheduling", "parts"),
    }:
        return None
    call_id = value.get("id")
    response = value["response"]
    if isinstance(response, Mapping) and response.keys() == {"result"}:
        response = response["result"]  # ADK's wrapper around what is no object
    return Unwrapped(value=response, call_id=call_id if isinstance(call_id, str) else None)


def _tool_output(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """LlamaIndex's dumped ToolOutput: the raw output, else the text of its blocks."""
    if not isinstance(value, Mapping) or not {"raw_output", "tool_name"} <= value.keys():
        return None
    return Unwrapped(value=value["raw_output"], failed=value.get("is_error") is True)


def _mcp_result(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Take an MCP result ``{content: [...], isError}``: its only text, else structured content, else the items."""
    if not isinstance(value, Mapping) or not value.keys() <= _MCP_KEYS:
        return None
    content = value.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    failed = value.get("isError") is True or value.get("is_error") is True
    if not all(isinstance(item, Mapping) and "type" in item for item in content):
        return None
    only = _typed_item(content, ())
    structured = value.get("structuredContent", value.get("structured_content"))
    inner: Json = content
    if only is not None:
        inner = only.value
    elif isinstance(structured, Mapping):
        inner = structured["result"] if structured.keys() == {"result"} else structured  # FastMCP's wrapper around what is no object
    return Unwrapped(value=inner, failed=failed, error_type="tool_error" if failed else None)


def _typed_item(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Take a text item ``{type: text, text}``, or a list with one such item; several items stay a list."""
    item = _only_item(value)
    if not isinstance(item, Mapping) or item.get("type") not in {"text", "output_text"} or not item.keys() <= _TEXT_ITEM_KEYS:
        return None
    text = item.get("text", item.get("content"))
    return Unwrapped(value=text) if isinstance(text, str) else None


def _strands_blocks(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """Strands' ``[{text}]`` or ``[{json}]``; several blocks stay a list."""
    item = _only_item(value) if isinstance(value, (list, tuple)) else None
    if not isinstance(item, Mapping):
        return None
    for key in ("text", "json"):
        if item.keys() == {key}:
            return Unwrapped(value=item[key])
    return None


def _only_item(value: Json) -> Json:
    """Return the only item of a list, None of a longer or an empty one, and anything else as it is."""
    if isinstance(value, (list, tuple)):
        return value[0] if len(value) == 1 else None
    return value


def _class_repr(value: Json, _names: Sequence[str]) -> Unwrapped | None:
    """``FunctionExecutionResult(status='success', result=..., error=None)``, as Agno's result prints itself."""
    if not isinstance(value, str) or not value.startswith("FunctionExecutionResult("):
        return None
    read = read_message_repr(value)
    if read is None or "result" not in read:
        return None
    error = read.get("error")
    return Unwrapped(value=read["result"] if error is None else error, failed=read.get("status") in {"failure", "error"})


SHAPES: Mapping[str, Shape] = {
    "args_kwargs": _args_kwargs,
    "class_repr": _class_repr,
    "error_result": _error_result,
    "function_response": _function_response,
    "kwargs": _kwargs,
    "langchain_message": _langchain_message,
    "mcp_result": _mcp_result,
    "output": _only("output"),
    "output_kwargs": _output_kwargs,
    "result": _only("result"),
    "run_inputs": _run_inputs,
    "strands_blocks": _strands_blocks,
    "text_input": _text_input,
    "tool_output": _tool_output,
    "tool_request": _tool_request,
    "typed_item": _typed_item,
    "typed_value": _typed_value,
}
"""Every shape under the name that dialects use."""

MEMBERS: Mapping[str, frozenset[str]] = {
    "args_kwargs": frozenset({"args"}),
    "class_repr": frozenset(),
    "error_result": frozenset({"result"}),
    "function_response": frozenset({"response"}),
    "kwargs": frozenset({"kwargs"}),
    "langchain_message": frozenset({"content", "type"}),
    "mcp_result": frozenset({"content"}),
    "output": frozenset({"output"}),
    "output_kwargs": frozenset({"output"}),
    "result": frozenset({"result"}),
    "run_inputs": frozenset({"input_str"}),
    "strands_blocks": frozenset(),
    "text_input": frozenset({"input"}),
    "tool_output": frozenset({"raw_output"}),
    "tool_request": frozenset({"tool_name"}),
    "typed_item": frozenset({"type"}),
    "typed_value": frozenset({"type"}),
}
"""For each shape, keys of which an object that has the shape has at least one; none for what no object has."""


@lru_cache(maxsize=256)
def members_of(shapes: tuple[str, ...]) -> frozenset[str]:
    """Return keys of which an object has at least one if it has any of these shapes: so most objects are told apart in one step."""
    return frozenset[str]().union(*(MEMBERS[shape] for shape in shapes))
