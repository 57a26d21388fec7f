"""What producers write to log records stands on the calls, whatever came first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.extraction.dialect import Dialect, Match, MessageSource, Role, Source, Subject, Test, ValueOrigin
from otel_toolcall_eval.extraction.extractor import Extractor
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.model.log_record import BODY, LogRecord
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, Content, ContentState, Evidence, Payload
from otel_toolcall_eval.otlp.json_logs import decode_document
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.recordings import plain, spans_of
from tests.extraction.spans import make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Span

START = 1_790_000_000_000_000_000
TRACE = "7b2fb2c6cb91496d27a91f4a68948841"
PARIS = {"city": "Paris", "unit": "c"}
WEATHER = {"temp_c": 18, "sky": "clear"}
DETAILS = "gen_ai.client.inference.operation.details"


def value(of: object) -> dict[str, object]:
    """Write an AnyValue in OTLP/JSON."""
    if isinstance(of, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": value(member)} for key, member in of.items()]}}
    if isinstance(of, list):
        return {"arrayValue": {"values": [value(item) for item in of]}}
    if isinstance(of, bool):
        return {"boolValue": of}
    return {"intValue": str(of)} if isinstance(of, int) else {"stringValue": str(of)}


def attributes(of: dict[str, object]) -> list[dict[str, object]]:
    return [{"key": key, "value": value(member)} for key, member in of.items()]


def span(
    number: int, name: str, *, parent: int | None = None, events: Sequence[tuple[int, str, dict[str, object]]] = (), **of: object
) -> Any:  # noqa: ANN401 - JSON
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        **({} if parent is None else {"parentSpanId": f"{parent:016x}"}),
        "name": name,
        "startTimeUnixNano": str(START + 1000 * number),
        "endTimeUnixNano": str(START + 1000 * number + 500),
        "attributes": attributes({key.replace("__", "."): member for key, member in of.items()}),
        "events": [{"name": event, "timeUnixNano": str(START + at), "attributes": attributes(fields)} for at, event, fields in events],
    }


def record(
    at: int, *, on: int | None = None, event: str | None = None, body: object = None, traced: bool = True, **of: object
) -> dict[str, object]:
    """Write a log record; ``on`` is the number of its span."""
    return {
        "timeUnixNano": str(START + at),
        **({"traceId": TRACE} if traced else {}),
        **({} if on is None else {"spanId": f"{on:016x}"}),
        **({} if event is None else {"eventName": event}),
        **({} if body is None else {"body": value(body)}),
        "attributes": attributes({key.replace("__", "."): member for key, member in of.items()}),
    }


def decoded(scope: str, spans: Sequence[object], records: Sequence[object]) -> tuple[list[Span], list[LogRecord]]:
    named = {"scope": {"name": scope}}
    projection = default_extractor().projection
    found = decode_document({"resourceLogs": [{"scopeLogs": [{**named, "logRecords": list(records)}]}]}, projection)
    return spans_of({"resourceSpans": [{"scopeSpans": [{**named, "spans": list(spans)}]}]}), list(found.records)


def calls(spans: Sequence[Span], records: Sequence[LogRecord]) -> tuple[ToolCall, ...]:
    joined = LogJoiner(default_extractor().asked).join(spans, records)
    return default_extractor().extract(joined.spans).calls


CODEX_TURN = span(
    1,
    "session_task.turn",
    events=[
        (
            50,
            "codex.tool_decision",
            {"event.name": "codex.tool_decision", "tool_name": "shell", "call_id": "call_1", "decision": "approved"},
        ),
        (
            200,
            "codex.tool_result",
            {"tool_name": "shell", "call_id": "call_1", "duration_ms": "120", "success": "true", "output_length": 5},
        ),
    ],
)
CODEX_RESULT: dict[str, Any] = {
    "event__name": "codex.tool_result",
    "conversation__id": "c1",
    "tool_name": "shell",
    "call_id": "call_1",
    "duration_ms": "120",
    "success": "true",
    "arguments": '{"command": ["ls"]}',
    "output": "a.txt",
    "mcp_server": "",
}
STRANDS: dict[str, Any] = {
    "gen_ai__operation__name": "execute_tool",
    "gen_ai__system": "strands-agents",
    "gen_ai__tool__name": "get_weather",
    "gen_ai__tool__call__id": "tooluse_1",
}
CHAT: dict[str, Any] = {"gen_ai__operation__name": "chat"}
TOOL: dict[str, Any] = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "get_weather", "gen_ai__tool__call__id": "call_1"}
ASKED: dict[str, Any] = {"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": PARIS}]}
HEARD: dict[str, Any] = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": WEATHER}]}
CHOICE: dict[str, Any] = {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant"}}
CHOICE["message"]["tool_calls"] = [
    {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": json.dumps(PARIS)}}
]
CLAUDE: dict[str, Any] = {"span__type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_01"}
CLAUDE_RESULT: dict[str, Any] = {"event__name": "tool_result", "tool_name": "Bash", "tool_use_id": "toolu_01", "success": "true"}


@pytest.mark.parametrize(
    ("scope", "spans", "records", "arguments", "output", "evidence"),
    [
        pytest.param(
            "codex_otel",
            [CODEX_TURN],
            [record(200, on=1, event="event otel/src/events.rs:712", **CODEX_RESULT)],
            {"command": ["ls"]},
            "a.txt",
            Evidence.SPAN_EVENT,
            id="codex: the event has lengths, its log record the texts",
        ),
        pytest.param(
            "codex_otel",
            [span(1, "session_task.turn")],
            [record(200, on=1, **CODEX_RESULT)],
            {"command": ["ls"]},
            "a.txt",
            Evidence.LOG_RECORD,
            id="codex: only the log record shows the call",
        ),
        pytest.param(
            "codex_otel",
            [span(7, "other")],
            [record(200, on=1, **CODEX_RESULT)],
            {"command": ["ls"]},
            "a.txt",
            Evidence.LOG_RECORD,
            id="codex: the span of the record is not there",
        ),
        pytest.param(
            "strands.telemetry.tracer",
            [span(1, "execute_tool get_weather", **STRANDS)],
            [
                record(10, on=1, event="gen_ai.tool.message", body={"role": "tool", "content": json.dumps(PARIS), "id": "tooluse_1"}),
                record(90, on=1, event="gen_ai.choice", body={"message": json.dumps([{"text": json.dumps(WEATHER)}]), "id": "tooluse_1"}),
            ],
            PARIS,
            WEATHER,
            Evidence.SPAN,
            id="agentcore: events moved to log records one by one",
        ),
        pytest.param(
            "strands.telemetry.tracer",
            [span(1, "execute_tool get_weather", **STRANDS)],
            [
                record(
                    90,
                    on=1,
                    event__name="strands.telemetry.tracer",
                    body={
                        "input": {
                            "messages": [{"role": "tool", "content": {"role": "tool", "content": json.dumps(PARIS), "id": "tooluse_1"}}]
                        },
                        "output": {
                            "messages": [{"role": "assistant", "content": {"message": json.dumps([{"json": WEATHER}]), "id": "tooluse_1"}}]
                        },
                    },
                )
            ],
            PARIS,
            WEATHER,
            Evidence.SPAN,
            id="agentcore: one log record named after the scope",
        ),
        pytest.param(
            "openinference.instrumentation.langchain",
            [span(1, "get_weather", openinference__span__kind="TOOL", tool__name="get_weather")],
            [
                record(
                    90,
                    on=1,
                    event="openinference.instrumentation.langchain",
                    body={
                        "input": {"messages": [{"role": "user", "content": str(PARIS)}]},
                        "output": {"messages": [{"role": "assistant", "content": json.dumps(WEATHER)}]},
                    },
                )
            ],
            PARIS,
            WEATHER,
            Evidence.SPAN,
            id="adot: input and output of OpenInference",
        ),
        pytest.param(
            "opentelemetry.instrumentation.openai_v2",
            [span(1, "chat", **CHAT), span(2, "execute_tool get_weather", **TOOL), span(3, "chat", **CHAT)],
            [
                record(1400, on=1, event=DETAILS, gen_ai__output__messages=[ASKED]),
                record(3400, on=3, event=DETAILS, gen_ai__input__messages=json.dumps([ASKED, HEARD])),
            ],
            PARIS,
            WEATHER,
            Evidence.SPAN,
            id="semantic conventions: details of model calls fill the tool span",
        ),
        pytest.param(
            "opentelemetry.instrumentation.openai_v2",
            [span(1, "chat", **CHAT), span(3, "chat", **CHAT)],
            [
                record(1400, on=1, event__name="gen_ai.choice", body=CHOICE),
                record(3100, on=3, event__name="gen_ai.tool.message", body={"id": "call_1", "content": json.dumps(WEATHER)}),
            ],
            PARIS,
            WEATHER,
            Evidence.MESSAGE_HISTORY,
            id="semantic conventions up to 1.36: request and answer as log events",
        ),
        pytest.param(
            "com.anthropic.claude_code.events",
            [span(1, "claude_code.tool", **CLAUDE)],
            [
                record(
                    1400,
                    traced=False,
                    body="claude_code.tool_result",
                    tool_input='{"command": "ls"}',
                    **CLAUDE_RESULT,
                ),
                record(1401, traced=False, event__name="tool.output", tool_use_id="toolu_01", output="a.txt"),
            ],
            {"command": "ls"},
            "a.txt",
            Evidence.SPAN,
            id="claude code: records without trace IDs",
        ),
    ],
)
def test_texts_in_log_records_are_read(  # noqa: PLR0917 - the columns of the table
    scope: str, spans: list[object], records: list[object], arguments: object, output: object, evidence: Evidence
) -> None:
    (call,) = calls(*decoded(scope, spans, records))
    assert call.arguments.content.state is call.output.content.state is ContentState.FULL
    assert (plain(call.arguments.content.value), plain(call.output.content.value)) == (arguments, output)
    assert (call.phase, call.status, call.attempts) == (CallPhase.EXECUTED, CallStatus.OK, 1)
    assert call.evidence is evidence


def test_when_and_how_long_a_codex_call_ran_is_told_by_its_event() -> None:
    first = record(200, on=1, **CODEX_RESULT)
    second = record(900_000_000, on=1, **{**CODEX_RESULT, "call_id": "call_2", "tool_name": "apply_patch", "duration_ms": 100})
    found = calls(*decoded("codex_otel", [CODEX_TURN], [second, first]))
    assert [(call.name, call.event_unix_ns, call.event_duration_ns) for call in found] == [
        ("shell", START + 200, 120_000_000),
        ("apply_patch", START + 900_000_000, 100_000_000),
    ]
    assert {call.conversation_id for call in found} == {"c1"}
    assert {call.parallel_group for call in found} == {None}  # one span, but they ran one after the other


def test_codex_calls_that_ran_side_by_side_are_a_group() -> None:
    others = [record(210 + n, on=1, **{**CODEX_RESULT, "call_id": f"call_{n}"}) for n in (2, 3)]
    assert [call.parallel_group for call in calls(*decoded("codex_otel", [CODEX_TURN], others))] == [0, 0, 0]


def test_a_codex_call_that_was_denied_did_not_run() -> None:
    denied = record(50, on=1, event__name="codex.tool_decision", tool_name="shell", call_id="call_9", decision="denied", source="user")
    (call,) = calls(*decoded("codex_otel", [span(1, "session_task.turn")], [denied]))
    assert (call.name, call.phase, call.status) == ("shell", CallPhase.REJECTED, CallStatus.UNKNOWN)


@pytest.mark.parametrize(
    "told", [pytest.param("-1", id="negative"), pytest.param("9" * 40, id="endless"), pytest.param(True, id="boolean")]
)
def test_a_duration_that_is_none_is_not_told(told: object) -> None:
    (call,) = calls(*decoded("codex_otel", [span(1, "t")], [record(5, on=1, **{**CODEX_RESULT, "duration_ms": told})]))
    assert call.event_duration_ns is None


@pytest.mark.parametrize(
    ("spans", "records"),
    [
        pytest.param([span(7, "x")], [record(5, on=1, event="gen_ai.choice", body=CHOICE)], id="a model's event whose span is not there"),
        pytest.param(
            [span(1, "t", **TOOL)], [record(5, on=1, event="gen_ai.tool.message", body={"id": "call_1"})], id="nobody reads it there"
        ),
        pytest.param(
            [span(1, "t", **CLAUDE)], [record(5, traced=False, event="claude_code.tool_result", tool_use_id="toolu_2")], id="other"
        ),
        pytest.param([span(1, "t", **CLAUDE)], [record(5, traced=False, event="claude_code.tool_result", tool_use_id=7)], id="no ID"),
    ],
)
def test_what_fits_no_span_is_left_out(spans: list[object], records: list[object]) -> None:
    known, logs = decoded("s", spans, records)
    joined = LogJoiner(default_extractor().asked).join(known, logs)
    assert len(logs) == 1
    assert (list(joined.spans), joined.used) == (known, frozenset())


def test_a_record_of_another_part_of_the_trace_shows_no_call_here() -> None:
    known, logs = decoded("codex_otel", [span(7, "other")], [record(200, on=1, **CODEX_RESULT)])
    assert LogJoiner(default_extractor().asked).join(known, logs, is_whole=False).spans == tuple(known)


def test_a_duration_is_taken_from_whichever_record_tells_it() -> None:
    known, logs = decoded("codex_otel", [CODEX_TURN], [record(150, on=1, **{**CODEX_RESULT, "duration_ms": "x"})])
    (call,) = calls(known, logs)
    assert (call.event_unix_ns, call.event_duration_ns, call.evidence) == (START + 150, 120_000_000, Evidence.LOG_RECORD)


def test_an_event_dialect_takes_calls_from_events_alone() -> None:
    message = MessageSource(source=Source(origin=ValueOrigin.EVENT, key="e", field="m"), shape="genai_parts")
    attribute = MessageSource(source=Source(origin=ValueOrigin.ATTR, key="m"), shape="genai_parts")
    match = Match(some=(Test(subject=Subject.EVENT, key="e"),))
    dialect = Dialect(name="d", family="d", role=Role.EVENT, match=match, calls_from=(attribute, message))
    one = make(1, events=[("e", {"m": json.dumps([ASKED, HEARD])}), ("e", {}), ("f", {})])
    assert [call.name for call in Extractor([dialect]).extract([one]).calls] == ["get_weather"]


def test_what_an_event_shows_does_not_change_what_its_span_is() -> None:
    found = calls(*decoded("codex_otel", [span(1, "t", **STRANDS)], [record(1200, on=1, **CODEX_RESULT)]))
    assert [(call.name, call.evidence) for call in found] == [("get_weather", Evidence.SPAN), ("shell", Evidence.LOG_RECORD)]


def test_a_call_that_a_span_shows_too_is_the_spans_and_takes_what_it_lacks() -> None:
    shell = {**TOOL, "gen_ai__tool__name": "mcp__local__shell"}
    known, logs = decoded("codex_otel", [span(1, "turn"), span(2, "t", parent=1, **shell)], [record(1200, on=1, **CODEX_RESULT)])
    (call,) = calls(known, logs)
    assert (call.name, call.evidence, call.event_unix_ns, call.conversation_id) == ("mcp__local__shell", Evidence.SPAN, None, "c1")
    assert call.output.content.value == "a.txt"
    assert call.merged_span_ids == (known[0].span_id,)


def test_events_and_spans_without_ids_stay_calls_of_their_own() -> None:
    nameless = {key: member for key, member in STRANDS.items() if key != "gen_ai__tool__call__id"}
    result = {key: member for key, member in CODEX_RESULT.items() if key != "call_id"}
    found = calls(*decoded("codex_otel", [span(1, "turn"), span(2, "t", **nameless)], [record(at, on=1, **result) for at in (5, 6)]))
    assert [call.name for call in found] == ["shell", "shell", "get_weather"]


def test_of_several_attempts_the_one_that_ran_when_the_record_was_written_gets_it() -> None:
    known, logs = decoded(
        "s",
        [span(number, "t", **CLAUDE) for number in (1, 2)],
        [record(2100, traced=False, event="tool.output", output="x", **CLAUDE_RESULT)],
    )
    joined = LogJoiner(default_extractor().asked).join(known, logs)
    assert [len(one.events) for one in joined.spans] == [0, 1]


def test_a_body_that_is_no_object_has_a_name_of_its_own() -> None:
    assert LogRecord(trace_id=None, span_id=None, event_name="e", body="text").fields() == {BODY: "text"}
    assert LogRecord(trace_id=None, span_id=None, event_name="e", attributes={"a": 1}).fields() == {"a": 1}
    assert LogRecord(trace_id=None, span_id=None, event_name="e", attributes={"a": 1}, body={"a": 2}).fields() == {"a": 2}


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_order_of_spans_and_records_changes_nothing(data: st.DataObject) -> None:
    others = [record(210 + n, on=1 + n % 3, **{**CODEX_RESULT, "call_id": f"call_{n}"}) for n in range(5)]
    spans, records = decoded("codex_otel", [CODEX_TURN, span(2, "b")], others)
    spans2, records2 = decoded("c", [span(4, "t", **CLAUDE)], [record(4100, traced=False, body="claude_code.tool_result", **CLAUDE_RESULT)])
    spans, records = [*spans, *spans2], [*records, *records2]
    drawn = data.draw(st.permutations([*records, *records]))
    shuffled = calls(data.draw(st.permutations(spans)), drawn)

    def shown(found: Sequence[ToolCall]) -> list[object]:
        return [(replace_payloads(call), call.arguments.content, call.output.content) for call in found]

    assert shown(shuffled) == shown(calls(spans, records))


NOTHING = Payload.of(Content(state=ContentState.ABSENT))


def replace_payloads(call: ToolCall) -> ToolCall:
    return replace(call, arguments=NOTHING, output=NOTHING)  # compared by their contents
