"""Every span is accounted for, and every field of a call has a place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from otel_toolcall_eval.extraction.explaining import SpanOutcome, explain
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.recordings import cases, spans_of
from tests.extraction.spans import agent, chat, executed, make
from tests.extraction.test_log_joining import CODEX_RESULT, STRANDS, decoded, record, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.explaining import SpanExplanation
    from otel_toolcall_eval.model.trace import Span

ASKED = json.dumps(
    [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "get_weather", "arguments": {"city": "Paris"}}]}]
)
HEARD = json.dumps([{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "18"}]}])


def explained(spans: Sequence[Span]) -> tuple[SpanExplanation, ...]:
    return explain(default_extractor(), spans, default_extractor().extract(spans))


def places(one: SpanExplanation) -> dict[str, str]:
    return {source.field: source.place for source in one.fields}


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in cases() if "user_dialect" not in case])
def test_each_span_is_kept_merged_or_ignored_and_what_is_recorded_has_a_place(case: dict[str, Any]) -> None:
    spans = spans_of(case["otlp"])
    extraction = default_extractor().extract(spans)
    found = explain(default_extractor(), spans, extraction)
    assert {one.span_id for one in found} == {span.span_id for span in spans}
    ignored = {s["span_id"] for s in case["expected_ignored_spans"]}  # where a model's requests were merged, it counts as ignored there
    assert {one.span_id.hex() for one in found if one.outcome is SpanOutcome.IGNORED} <= ignored
    assert all(one.outcome is not SpanOutcome.KEPT for one in found if one.span_id.hex() in ignored)
    for one in found:
        assert one.reason
        if one.outcome is not SpanOutcome.KEPT or len(one.calls) != 1:
            assert one.fields == ()
            continue
        call = extraction.calls[one.calls[0]]
        told = places(one)
        assert "name" in told
        assert ("call_id" in told) is (call.call_id is not None)
        assert ("agent" in told) is (call.agent is not None)
        assert ("output" in told) is (call.output.state is not ContentState.ABSENT and not call.output.content.nothing)


def test_a_field_may_come_from_an_attribute_a_message_or_the_agent_above() -> None:
    spans = [
        agent(1, "travel", end=100),
        chat(2, parent=1, start=1, asked=ASKED),
        executed(3, parent=1, start=10, call_id="c"),
        chat(4, parent=1, start=20, heard=HEARD),
    ]
    root, asked, kept, heard = explained(spans)
    assert (root.outcome, root.reason) == (SpanOutcome.IGNORED, "operation invoke_agent")
    assert (asked.outcome, heard.outcome) == (SpanOutcome.MERGED, SpanOutcome.MERGED)
    assert asked.reason == "its requests were merged into the calls that ran"
    assert asked.calls == heard.calls == (0,)
    assert kept.outcome is SpanOutcome.KEPT
    assert places(kept) == {
        "name": "attribute gen_ai.tool.name",
        "call_id": "attribute gen_ai.tool.call.id",
        "agent": "the agent span above",
        "arguments": "message",
        "output": "message",
    }
    assert [source.span_id for source in kept.fields if source.place == "message"] == [spans[3].span_id] * 2


def test_what_only_messages_show_says_so() -> None:
    assert [one.reason for one in explained([chat(1, asked=ASKED)])] == ["a model asked for the call, and no span shows that it ran"]
    shown = explained([chat(1, asked=ASKED), chat(2, start=20, heard=HEARD)])
    assert [one.reason for one in shown] == ["only messages show the call", "its messages say something of calls that other spans show"]
    assert places(shown[0])["output"] == "message"


def test_log_records_and_events_are_told_apart() -> None:
    spans, records = decoded(
        "strands.telemetry.tracer",
        [span(1, "execute_tool get_weather", events=[(1, "gen_ai.tool.message", {"content": "{}"})], **STRANDS)],
        [record(90, on=1, event="gen_ai.choice", message='[{"text": "18"}]')],
    )
    (one,) = explained(LogJoiner(default_extractor().asked).join(spans, records).spans)
    assert places(one)["arguments"] == "event gen_ai.tool.message, field content"
    assert places(one)["output"] == "log record gen_ai.choice, field message"


def test_several_calls_of_one_span_are_counted() -> None:
    spans, records = decoded(
        "codex_otel", [span(1, "turn")], [record(at, on=1, **{**CODEX_RESULT, "call_id": f"call_{at}"}) for at in (5, 6)]
    )
    (one,) = explained(LogJoiner(default_extractor().asked).join(spans, records).spans)
    assert (one.reason, one.calls, one.fields) == ("it shows 2 calls", (0, 1), ())
    (alone,) = explained(LogJoiner(default_extractor().asked).join(spans, records[:1]).spans)
    assert alone.reason == "its log record shows the call"
    assert places(alone) == {"name": "log record", "call_id": "log record", "arguments": "log record", "output": "log record"}


def test_a_call_inside_another_one_and_one_that_never_ran_say_so() -> None:
    outer, inner = explained([executed(1, "plan", end=100), executed(2, "search", parent=1, start=10)])
    assert (outer.reason, inner.reason) == ("it shows a call", f"a call of its own inside the call of span {1:016x}")
    (deferred,) = explained([executed(1, attributes={"pydantic_ai.tool.deferral.name": "CallDeferred"})])
    assert deferred.reason == "it shows a call that was deferred"


def test_places_name_paths_parents_and_flattened_keys() -> None:
    shinzo = {"mcp.method.name": "tools/call", "mcp.tool.name": "f", "mcp.request.argument.a": "1"}
    logfire = {"rpc.system": "jsonrpc", "rpc.method": "tools/call", "request": '{"params": {"name": "f", "arguments": {}}}'}
    first, second = explained([make(1, attributes=shinzo), make(2, start=9, attributes=logfire)])
    assert places(first)["arguments"] == "attributes mcp.request.argument.*"
    assert places(second) == {"name": "attribute request at params.name", "arguments": "attribute request at params.arguments"}
