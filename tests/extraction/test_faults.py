"""What went wrong for users of neighbouring readers of tool calls, kind by kind (FAULTS, section B, by row)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, ContentState
from otel_toolcall_eval.model.trace import IncompletenessReason, StatusCode
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.recordings import cases
from tests.extraction.spans import agent, chat, executed, make, read, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Span

# Rows whose smallest span is one of the golden cases, which test_cases.py holds field by field.
GOLDEN = {
    2: "mcp-prefixed-name",
    3: "mcp-two-calls-in-one-tool",
    4: "oi-langchain-repr",
    5: "mcp-client",
    6: "otel-double-encoded",
    9: "split-trace",
    10: "split-trace",
    11: "strands-events",
    12: "agentcore-adot-stripped",
    13: "strands-error-ok-status",
    14: "official-openai-agents",
    15: "mcp-iserror-in-result",
    16: "error-exception-event-only",
    17: "openlit-chat-joined",
    19: "neg-tool-definitions",
    20: "neg-agent-spans",
    21: "otel-truncated-args",
    25: "opencode-nested",
    28: "oi-openaiagents-handoff",
    29: "otel-exported-twice",
    30: "otel-history-relisted",
    31: "late-parent",
    32: "ebpf-reconstructed",
}


def _calls(*spans: Span) -> Sequence[ToolCall]:
    return read(default_extractor(), *spans)


def _asked(*calls: tuple[str, str, object]) -> str:
    parts = [{"type": "tool_call", "id": call_id, "name": name, "arguments": arguments} for call_id, name, arguments in calls]
    return json.dumps([{"role": "assistant", "parts": parts}])


def _answered(call_id: str, response: object) -> str:
    return json.dumps([{"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}])


@pytest.mark.parametrize("row", GOLDEN)
def test_the_row_is_held_by_a_golden_case(row: int) -> None:
    assert GOLDEN[row] in {case["id"] for case in cases()}


def test_1_texts_that_stand_only_in_neighbouring_model_spans_are_filled_in_by_id() -> None:
    (call,) = _calls(
        agent(1, "k8s", end=90),
        chat(2, parent=1, start=1, asked=_asked(("c1", "get_pods", {"ns": "a"}))),
        executed(3, "get_pods", parent=1, start=10, call_id="c1"),
        chat(4, parent=1, start=20, heard=_answered("c1", {"pods": 2})),
    )
    assert call.arguments.content.value == {"ns": "a"}
    assert call.output.content.value == {"pods": 2}
    assert shown([call]) == [(3, "get_pods", [2, 4])]


def test_2_a_prefixed_and_a_bare_name_are_one_call_and_both_names_match() -> None:
    (call,) = _calls(
        executed(1, "meteo_get_weather", end=9, arguments='{"a": 1}'),
        make(2, parent=1, start=1, attributes={"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_weather"}),
    )[:1]
    assert call.name == "meteo_get_weather"


def test_5_text_inside_text_is_unwrapped() -> None:
    item = json.dumps({"type": "text", "text": '{"ok": true}'})
    attributes = {"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": item}
    (call,) = _calls(make(attributes=attributes))
    assert call.output.content.value == {"ok": True}


def test_7_apostrophes_survive() -> None:
    (call,) = _calls(executed(arguments="""{'note': "it's"}"""))
    assert call.arguments.content.value == {"note": "it's"}


def test_8_what_was_asked_for_and_did_not_run_is_reported_apart() -> None:
    calls = _calls(
        chat(1, asked=_asked(("c1", "f", {}), ("c2", "f", {}), ("c3", "g", {}))),
        executed(2, "f", start=10, call_id="c1"),
        executed(3, "g", start=11, call_id="c3"),
    )
    assert {call.call_id: call.phase for call in calls} == {
        "c1": CallPhase.EXECUTED,
        "c2": CallPhase.REQUESTED,
        "c3": CallPhase.EXECUTED,
    }


def test_18_equal_ids_on_overlapping_spans_of_one_scope_are_different_calls() -> None:
    calls = _calls(*(executed(number, "f", start=number, end=50, call_id="task", scope="hermes") for number in range(1, 10)))
    assert len(calls) == 9


def test_18_parallel_calls_are_never_paired_by_name_alone() -> None:
    calls = _calls(*(executed(number, "f", start=number, end=50, arguments=f'{{"n": {number}}}') for number in range(1, 10)))
    assert len(calls) == 9


@pytest.mark.parametrize("length", [32, 100, 1028])
def test_22_a_cut_value_is_no_exception_and_says_so(length: int) -> None:
    (call,) = _calls(executed(arguments=json.dumps({"k": 1, "text": "x" * 2000})[:length]))
    assert call.arguments.state is ContentState.TRUNCATED
    assert call.arguments.content.partial == {"k": 1}


def test_23_dropped_attributes_are_a_warning_where_something_is_missing() -> None:
    span = executed()
    assert default_extractor().extract([span]).hints == ()
    lossy = type(span)(
        trace_id=span.trace_id, span_id=span.span_id, start_unix_ns=0, end_unix_ns=5, attributes=span.attributes, dropped_attributes=3
    )
    (hint,) = default_extractor().extract([lossy]).hints
    assert "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" in hint


def test_24_a_producer_without_tool_spans_is_named_with_the_cure() -> None:
    extraction = default_extractor().extract(
        [make(scope="opentelemetry.instrumentation.crewai", attributes={"traceloop.span.kind": "agent"})]
    )
    assert extraction.calls == ()
    assert extraction.doubts == (IncompletenessReason.NO_TOOL_SPANS,)
    assert "CrewAI" in extraction.hints[0]


def test_26_content_that_only_log_records_have_is_absent_and_the_hint_says_so() -> None:
    event = {"tool_name": "shell", "call_id": "c1", "success": "true"}
    extraction = default_extractor().extract([make(events=[("codex.tool_result", event)])])
    assert extraction.calls[0].arguments.state is ContentState.ABSENT
    assert "logs" in extraction.hints[0]


def test_27_secrets_are_masked_where_the_producer_masked_them() -> None:
    (call,) = _calls(make(attributes={"span.type": "tool", "tool_name": "Bash", "full_command": "<REDACTED>"}))
    assert call.arguments.state is ContentState.REDACTED


def test_30_history_of_an_earlier_trace_is_no_call() -> None:
    history = json.dumps(json.loads(_asked(("old", "f", {}))) + json.loads(_answered("old", "done")))
    assert _calls(chat(1, heard=history)) == ()


def test_31_the_agent_comes_from_the_span_itself_before_the_tree() -> None:
    (call,) = _calls(agent(1, "outer", end=90), executed(2, parent=1, start=5, attributes={"gen_ai.agent.name": "inner"}))
    assert (call.agent, call.agent_path) == ("inner", ("outer", "inner"))


def test_32_a_request_without_a_result_is_no_execution() -> None:
    (call,) = _calls(chat(1, asked=_asked(("c1", "f", {}))))
    assert call.phase is CallPhase.REQUESTED
    assert call.status is CallStatus.UNKNOWN


def test_an_error_status_further_in_is_forgiven_by_an_explicit_ok_with_a_result() -> None:
    inner = executed(2, "f", parent=1, start=1, end=3, scope="inner", arguments="{}", status=StatusCode.ERROR, message="reset")
    forgiven = executed(1, "f", end=9, scope="outer", arguments="{}", result="1", status=StatusCode.OK)
    silent = executed(1, "f", end=9, scope="outer", arguments="{}", result="1")
    assert [call.status for call in _calls(forgiven, inner)] == [CallStatus.OK]
    assert [(call.status, call.error_message) for call in _calls(silent, inner)] == [(CallStatus.ERROR, "reset")]
