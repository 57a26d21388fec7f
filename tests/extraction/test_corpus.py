"""Holds what is read out of recordings of real frameworks against what the tools themselves wrote down."""

from __future__ import annotations

import json
from collections import Counter
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus, ContentState
from tests.extraction.recordings import calls_of, plain, recordings, requests_of, truth_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Content, Json, ToolCall

# What a recording can't carry, and why. Nothing that is not listed here may be missing.
NOT_CARRIED: tuple[tuple[str, str, str], ...] = (
    ("crewai/openllmetry-*", "calls", "OpenLLMetry's CrewAI instrumentation writes no tool spans, and no messages"),
    ("mcp/openinference-mcp1-*", "calls", "OpenInference's MCP package only propagates context, and MCP SDK 1 writes no spans"),
    ("mcp/native-badargs", "calls", "the server's error.type is tool_error whether the tool failed or never ran"),
    ("mcp/openinference-badargs", "calls", "the server's error.type is tool_error whether the tool failed or never ran"),
    ("openai_agents/logfire-badargs", "calls", "the error's details are redacted, so a call that never ran looks like one that failed"),
    ("agent-framework/native-[!s]*", "arguments", "content is off by default"),
    ("agent-framework/native-[!s]*", "output", "content is off by default"),
    ("agent-framework/native-seq", "arguments", "content is off by default"),
    ("agent-framework/native-seq", "output", "content is off by default"),
    ("autogen/native-*", "arguments", "AutoGen never writes arguments"),
    ("autogen/native-*", "output", "AutoGen never writes results"),
    ("google_adk/native-[!ls]*", "arguments", "content is off by default"),
    ("google_adk/native-[!ls]*", "output", "content is off by default"),
    ("haystack/openinference-*", "output", "there are no tool spans; messages show that calls were answered, not what with"),
    ("haystack/openinference-*", "failure", "there are no tool spans; messages show that calls were answered, not what with"),
    ("langchain/openinference-hidden-*", "arguments", "hidden by setting"),
    ("langchain/openinference-hidden-*", "output", "hidden by setting"),
    ("langchain/otel-genai-[!c]*", "arguments", "content is off by default"),
    ("langchain/otel-genai-[!c]*", "output", "content is off by default"),
    ("*/traceloop-nocontent-*", "arguments", "content was switched off"),
    ("*/traceloop-nocontent-*", "output", "content was switched off"),
    ("mcp/native-*", "arguments", "the MCP Python SDK never writes arguments"),
    ("mcp/native-*", "output", "the MCP Python SDK never writes results"),
    ("mcp/openinference-*", "arguments", "the MCP Python SDK never writes arguments"),
    ("mcp/openinference-*", "output", "the MCP Python SDK never writes results"),
    ("mcp/traceloop-mcp1-parallel", "list output", "of several content items OpenLLMetry writes only the first"),
    ("openai_agents/*-mcp", "null output", "MCP answers with an empty list where a tool returns nothing"),
    ("openai_agents/openinference-many", "null output", "OpenInference writes no output for None"),
    ("openai_agents/openinference-truncated-*", "arguments", "cut off by an attribute limit"),
    ("openai_agents/openinference-truncated-*", "output", "cut off by an attribute limit"),
    ("openai_agents/otel-genai-content-*", "null output", "the official instrumentation writes no output for None"),
    ("openai_agents/otel-genai-[!c]*", "arguments", "content is off by default"),
    ("openai_agents/otel-genai-[!c]*", "output", "content is off by default"),
    ("mcp/traceloop-mcp1-*", "null output", "OpenLLMetry writes no output for None"),
    ("pydantic_ai/v5-nocontent-*", "arguments", "content was switched off"),
    ("pydantic_ai/v5-nocontent-*", "output", "content was switched off"),
    ("pydantic_ai/v5-testmodel", "defaults", "the model leaves out parameters with a default, and its requests are not in the truth file"),
)


def _carries(recording: str, field: str) -> bool:
    return not any(fnmatch(recording, pattern) and named == field for pattern, named, _ in NOT_CARRIED)


def _same(one: object, other: object) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other and isinstance(one, bool) is isinstance(other, bool)


def _says(content: Content, truth: Json) -> bool:
    """Tell whether a recorded value is the true one, or its spelling: many producers write str(value)."""
    value = plain(content.value)
    if _same(value, truth):
        return True
    if not isinstance(value, str) or isinstance(truth, str):
        return False
    return value in {str(truth), json.dumps(truth)}


def _judged(recording: str) -> tuple[list[ToolCall], list[dict[str, Any]]]:
    """Return the calls that count by default, and the truth, which does not tell of agents that are used as tools."""
    truth = truth_of(recording)["calls"]
    told = {call["name"] for call in truth}
    spans = [span for request in requests_of(recording) for span in request]
    calls = [call for call in calls_of(spans) if call.phase is CallPhase.EXECUTED and call.kind is not CallKind.CONTROL]
    return [call for call in calls if call.kind is not CallKind.AGENT or call.name in told], truth


def _asked_for(recording: str) -> Sequence[Mapping[str, Any]]:
    truth = truth_of(recording)
    asked: Sequence[Mapping[str, Any]] = truth.get("requested") or truth.get("model_requests") or []
    return asked


@pytest.mark.parametrize("recording", recordings())
def test_names_multiplicity_and_order_are_those_that_the_tools_saw(recording: str) -> None:
    calls, truth = _judged(recording)
    equal = [call.name for call in calls] == [call["name"] for call in truth]
    assert equal is _carries(recording, "calls")


@pytest.mark.parametrize("recording", [recording for recording in recordings() if _carries(recording, "calls")])
def test_arguments_are_those_that_the_tools_got(recording: str) -> None:
    """Parameters that the model left out because they have a default are in the truth file and not in the request."""
    for call, true in zip(*_judged(recording), strict=True):
        content = call.arguments.content
        if content.state is not ContentState.FULL:
            assert not _carries(recording, "arguments"), call.name
            continue
        arguments = plain(content.value)
        asked = any(request["name"] == call.name and _same(request["args"], arguments) for request in _asked_for(recording))
        left_out = isinstance(arguments, dict) and all(_same(value, true["args"].get(key)) for key, value in arguments.items())
        assert _same(arguments, true["args"]) or (left_out and (asked or not _carries(recording, "defaults"))), (call.name, arguments)


@pytest.mark.parametrize("recording", [recording for recording in recordings() if _carries(recording, "calls")])
def test_results_and_failures_are_those_that_the_tools_gave(recording: str) -> None:
    for call, true in zip(*_judged(recording), strict=True):
        if "error" in true:
            assert (call.status is CallStatus.ERROR) is _carries(recording, "failure"), call.name
            continue
        assert call.status is not CallStatus.ERROR, call.name
        content, result = call.output.content, true["result"]
        if result is None and not _carries(recording, "null output"):
            assert content.state is ContentState.ABSENT or content.value == []
        elif isinstance(result, list) and not _carries(recording, "list output"):
            assert _same(plain(content.value), result[0])
        elif content.state is ContentState.FULL:
            assert _says(content, result), (call.name, content.value)
        else:
            assert not _carries(recording, "output"), call.name


@pytest.mark.parametrize(("pattern", "field", "why"), NOT_CARRIED)
def test_the_table_names_no_recording_that_is_not_there(pattern: str, field: str, why: str) -> None:
    assert why
    assert field
    assert any(fnmatch(recording, pattern) for recording in recordings())


def test_totals_per_framework() -> None:
    """The totals that the change note quotes; run with -s to see them."""
    totals: dict[str, Counter[str]] = {}
    for recording in recordings():
        calls, truth = _judged(recording)
        total = totals.setdefault(recording.partition("/")[0], Counter())
        total.update({"recordings": 1, "true calls": len(truth), "calls read": len(calls)})
        for call in calls:
            total[f"arguments {call.arguments.state.value}"] += 1
            total[f"output {call.output.state.value}"] += 1
    for framework, total in totals.items():
        print(framework, dict(total))  # noqa: T201 - the report is the point
    assert sum(total["recordings"] for total in totals.values()) == 184
    assert sum(total["true calls"] for total in totals.values()) == sum(len(truth_of(recording)["calls"]) for recording in recordings())
