from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus, ContentState
from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.spans import agent, chat, executed, make, number_of, read, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Span


def _calls(*spans: Span) -> Sequence[ToolCall]:
    return read(default_extractor(), *spans)


def _parts(kind: str, *parts: Mapping[str, object]) -> str:
    return json.dumps([{"role": "x", "parts": [{"type": kind, **part} for part in parts]}])


def _asked(*parts: Mapping[str, object]) -> str:
    return _parts("tool_call", *parts)


def _heard(*parts: Mapping[str, object]) -> str:
    return _parts("tool_call_response", *parts)


F1 = {"id": "1", "name": "f", "arguments": {"a": 1}}
NAMELESS = {"name": "f", "arguments": {"a": 1}}


def test_a_request_joins_the_call_with_its_id() -> None:
    (call,) = _calls(chat(1, asked=_asked(F1)), executed(2, "f", start=9, call_id="1"))
    assert shown([call]) == [(2, "f", [1])]
    assert call.arguments.content.value == {"a": 1}


def test_a_request_never_joins_a_call_of_another_name_under_its_id() -> None:
    calls = _calls(chat(1, asked=_asked(F1)), executed(2, "g", start=9, call_id="1"))
    assert [(call.name, call.phase) for call in calls] == [("f", CallPhase.REQUESTED), ("g", CallPhase.EXECUTED)]


def test_a_request_never_joins_a_call_that_ran_before_it() -> None:
    calls = _calls(executed(1, "f", start=0, call_id="1"), chat(2, start=9, asked=_asked(F1)))
    assert [call.phase for call in calls] == [CallPhase.EXECUTED, CallPhase.REQUESTED]


@pytest.mark.parametrize(
    ("request_part", "call_id", "arguments", "joined"),
    [
        pytest.param(NAMELESS, None, '{"a": 1}', True, id="equal arguments"),
        pytest.param(F1, None, '{"a": 1.0}', True, id="id on one side"),
        pytest.param(NAMELESS, "1", '{"a": 1}', True, id="id on the other side"),
        pytest.param(NAMELESS, None, None, True, id="arguments on one side"),
        pytest.param(NAMELESS, None, '{"a": 2}', False, id="other arguments"),
        pytest.param({**F1, "id": "2"}, "1", '{"a": 1}', False, id="two ids"),
        pytest.param({**F1, "id": "f_0"}, "1", '{"a": 1}', True, id="an id made up of the name"),
        pytest.param({**F1, "id": "f_0"}, "1", '{"a": 2}', False, id="an id made up of the name and other arguments"),
        pytest.param({**F1, "id": "f_a"}, "1", '{"a": 1}', False, id="an id that begins like the name"),
    ],
)
def test_without_ids_names_and_arguments_decide(
    request_part: Mapping[str, object], call_id: str | None, arguments: str | None, *, joined: bool
) -> None:
    keywords = {key: value for key, value in {"call_id": call_id, "arguments": arguments}.items() if value is not None}
    calls = _calls(chat(1, asked=_asked(request_part)), executed(2, "f", start=9, **keywords))
    assert (len(calls) == 1) is joined


def test_ids_that_a_producer_makes_up_for_its_messages_count_no_call_twice() -> None:
    # google-adk 2.13 with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY and a model that gives no IDs
    calls = _calls(
        chat(1, asked=_asked({**F1, "id": "f_0"})),
        executed(2, "f", start=9, call_id="adk-1", arguments='{"a": 1}'),
        chat(3, start=19, heard=_heard({"id": "f_0", "response": "one"}), asked=_asked({**F1, "id": "f_0"})),
        executed(4, "f", start=29, call_id="adk-2", arguments='{"a": 1}'),
        chat(5, start=39, heard=_heard({"id": "f_0", "response": "one"}, {"id": "f_0", "response": "two"})),
    )
    assert shown(calls) == [(2, "f", [1]), (4, "f", [3])]


def test_equal_requests_without_ids_join_equal_calls_one_to_one() -> None:
    calls = _calls(
        chat(1, asked=_asked(NAMELESS, NAMELESS, NAMELESS)),
        executed(2, "f", start=9, arguments='{"a": 1}'),
        executed(3, "f", start=19, arguments='{"a": 1}'),
    )
    assert sorted(call.phase for call in calls) == [CallPhase.EXECUTED, CallPhase.EXECUTED, CallPhase.REQUESTED]


def test_of_two_calls_under_one_id_a_request_joins_the_one_of_its_agent() -> None:
    calls = _calls(
        agent(1, "one", end=90),
        agent(2, "two", end=90),
        executed(3, "f", parent=1, start=20, call_id="1"),
        chat(4, parent=2, start=10, asked=_asked(F1)),
        executed(5, "f", parent=2, start=30, call_id="1"),
    )
    assert shown(calls) == [(3, "f", []), (5, "f", [4])]


def test_a_request_joins_a_call_of_another_agent_if_its_own_has_none() -> None:
    calls = _calls(agent(1, "one", end=90), chat(2, start=1, asked=_asked(F1)), executed(3, "f", parent=1, start=20, call_id="1"))
    assert shown(calls) == [(3, "f", [2])]


def test_calls_that_start_together_stand_as_the_model_asked_for_them() -> None:
    calls = _calls(
        chat(1, asked=_asked({"id": "a", "name": "slow"}, {"id": "b", "name": "fast"})),
        executed(2, "fast", start=10, end=11, call_id="b"),
        executed(3, "slow", start=10, end=20, call_id="a"),
    )
    assert [call.name for call in calls] == ["slow", "fast"]


def test_a_request_that_two_instrumentations_saw_counts_once() -> None:
    calls = _calls(chat(1, end=9, asked=_asked(F1), scope="one"), chat(2, parent=1, start=1, end=8, asked=_asked(F1), scope="two"))
    assert shown(calls) == [(1, "f", [2])]


def test_a_request_that_is_made_twice_in_one_message_counts_twice() -> None:
    calls = _calls(chat(1, end=9, asked=_asked(NAMELESS, NAMELESS)), chat(2, parent=1, start=1, end=8, asked=_asked(NAMELESS, NAMELESS)))
    assert len(calls) == 2


def test_equal_requests_one_after_the_other_count_each() -> None:
    calls = _calls(chat(1, start=0, end=5, asked=_asked(F1)), chat(2, start=9, end=12, asked=_asked(F1)))
    assert len(calls) == 2


def test_an_answer_makes_a_request_a_call_that_ran() -> None:
    (call,) = _calls(chat(1, asked=_asked(F1)), chat(2, start=9, heard=_heard({"id": "1", "response": "sunny"})))
    assert (call.phase, call.status, call.status_from) == (CallPhase.EXECUTED, CallStatus.OK, "output")
    assert call.output.content.value == "sunny"
    assert shown([call]) == [(1, "f", [2])]


def test_an_answer_without_its_text_shows_that_a_call_ran_and_no_more() -> None:
    (call,) = _calls(chat(1, asked=_asked(F1)), chat(2, start=9, heard=_heard({"id": "1"})))
    assert (call.phase, call.status, call.output.state) == (CallPhase.EXECUTED, CallStatus.UNKNOWN, ContentState.ABSENT)


@pytest.mark.parametrize("answer", ["Unknown tool: f", "Error: f is not a valid tool, try one of [g].", "Tool 'f' not found."])
def test_an_answer_that_says_that_there_is_no_such_tool_is_a_rejection(answer: str) -> None:
    (call,) = _calls(chat(1, asked=_asked(F1)), chat(2, start=9, heard=_heard({"id": "1", "response": answer})))
    assert call.phase is CallPhase.REJECTED


def test_a_null_answer_is_an_answer() -> None:
    (call,) = _calls(chat(1, asked=_asked(F1)), chat(2, start=9, heard=_heard({"id": "1", "response": None})))
    assert (call.output.state, call.output.content.value) == (ContentState.FULL, None)


def test_answers_go_to_the_latest_call_under_their_id() -> None:
    calls = _calls(
        chat(1, start=0, asked=_asked(F1)),
        chat(2, start=10, heard=_heard({"id": "1", "response": "first"}), asked=_asked(F1)),
        chat(3, start=20, heard=_heard({"id": "1", "response": "first"}, {"id": "1", "response": "second"})),
    )
    assert [call.output.content.value for call in calls] == ["first", "second"]


def test_an_answer_never_goes_to_a_call_that_starts_after_it() -> None:
    answered = chat(2, start=10, heard=_heard({"id": "1", "response": "first"}))
    calls = _calls(chat(1, start=0, asked=_asked(F1)), answered, chat(3, start=20, asked=_asked(F1)))
    assert [(call.phase, call.output.content.value) for call in calls] == [(CallPhase.EXECUTED, "first"), (CallPhase.REQUESTED, None)]


def test_the_answer_in_a_models_own_request_is_not_to_what_it_asks_for_now() -> None:
    (call,) = _calls(chat(1, heard=_heard({"id": "1", "response": "old"}), asked=_asked(F1)))
    assert call.phase is CallPhase.REQUESTED


def _llm(number: int, *, start: int, asked: int = 0, heard: int = 0) -> Span:
    attributes: dict[str, object] = {"openinference.span.kind": "LLM"}
    for index in range(asked):
        attributes[f"llm.output_messages.0.message.tool_calls.{index}.tool_call.function.name"] = f"f{index}"
    for index in range(heard):
        attributes[f"llm.input_messages.{index}.message.role"] = "tool"
    return make(number, parent=99, start=start, attributes=attributes)  # type: ignore[arg-type] # attributes


def test_answers_without_ids_show_by_their_number_how_many_requests_without_ids_ran() -> None:
    calls = _calls(_llm(1, start=0, asked=3), _llm(2, start=10, heard=2))
    assert [call.phase for call in calls] == [CallPhase.EXECUTED, CallPhase.EXECUTED, CallPhase.REQUESTED]
    assert [call.status for call in calls] == [CallStatus.UNKNOWN] * 3


def test_a_request_without_an_id_and_without_later_answers_is_only_asked_for() -> None:
    assert [call.phase for call in _calls(_llm(1, start=0, asked=1), _llm(2, start=10))] == [CallPhase.REQUESTED]


def test_a_vendors_call_is_executed_though_no_span_shows_it() -> None:
    part = {"name": "web_search", "id": "s1", "server_tool_call": {"q": "x"}}
    (call,) = _calls(chat(1, asked=_parts("server_tool_call", part)))
    assert (call.phase, call.kind) == (CallPhase.EXECUTED, "provider")


def test_structured_messages_are_read_like_text() -> None:
    parts = ({"type": "tool_call", "id": "1", "name": "f", "arguments": '{"a": 1}'},)
    (call,) = _calls(chat(1, asked=({"role": "assistant", "parts": parts},)))
    assert call.arguments.content.value == {"a": 1}


def test_requests_alone_are_a_doubt_and_a_hint() -> None:
    extraction = default_extractor().extract([chat(1, asked=_asked(F1))])
    assert extraction.doubts == (IncompletenessReason.NO_TOOL_SPANS,)
    assert "instrument the agent framework" in extraction.hints[0]


def test_a_model_span_whose_requests_were_joined_is_ignored_with_that_reason() -> None:
    extraction = default_extractor().extract([chat(1, asked=_asked(F1)), executed(2, "f", start=9, call_id="1")])
    assert [(number_of(span.span_id), span.reason) for span in extraction.ignored] == [
        (1, "its requests were merged into the calls that ran"),
    ]


def test_a_later_dialect_or_source_is_read_where_an_earlier_one_has_no_calls() -> None:
    attributes = {"gen_ai.operation.name": "chat", "ai.response.toolCalls": '[{"toolName": "f"}]', "gen_ai.output.messages": "tool"}
    assert [call.name for call in _calls(make(attributes=attributes))] == ["f"]


def test_a_request_without_arguments_joins_the_next_call_of_its_name() -> None:
    calls = _calls(
        chat(1, asked=_asked({"name": "f"}, {"name": "f"})), executed(2, "f", start=9, arguments="{}"), executed(3, "f", start=19)
    )
    assert shown(calls) == [(2, "f", [1]), (3, "f", [1])]


def test_what_messages_filled_in_names_the_convention_that_they_were_read_by() -> None:
    attributes = {"traceloop.span.kind": "tool", "traceloop.entity.name": "f", "gen_ai.tool.call.id": "1"}
    (call,) = _calls(chat(1, asked=_asked(F1)), make(2, start=9, attributes=attributes))
    assert call.dialects == ("traceloop", "otel_genai")


def test_a_model_span_of_two_conventions_without_calls_shows_none() -> None:
    answers = _heard({"id": "9", "response": 1})
    assert _calls(chat(1, asked=answers, heard=answers)) == ()


def test_messages_nested_too_deep_are_no_messages() -> None:
    value: dict[str, object] = {}
    for _ in range(200):
        value = {"parts": value}
    assert _calls(chat(1, asked=value)) == ()
