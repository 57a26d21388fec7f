from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.call_identity import bare_name, same_tool
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus, ContentState
from otel_toolcall_eval.model.trace import StatusCode
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.spans import agent, chat, executed, make, number_of, read, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Span

ARGS = '{"a": 1}'


def _calls(*spans: Span) -> Sequence[ToolCall]:
    return read(default_extractor(), *spans)


def _mcp(number: int, name: str = "f", **keywords: object) -> Span:
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": name}
    return make(number, attributes=attributes, **{"scope": "mcp", **keywords})  # type: ignore[arg-type] # make's own


@pytest.mark.parametrize(
    ("outer", "inner", "merged"),
    [
        pytest.param(executed(1, "f", end=9, scope="a"), executed(2, "f", parent=1, start=1, scope="b"), True, id="two instrumentations"),
        pytest.param(executed(1, "s__f", end=9), _mcp(2, parent=1, start=1), True, id="prefix"),
        pytest.param(executed(1, "f", end=9), _mcp(2, "g", parent=1, start=1), False, id="another name"),
        pytest.param(executed(1, "s_f", end=9, arguments=ARGS), _mcp(2, parent=1, start=1), False, id="underscore without arguments"),
        pytest.param(
            executed(1, "s_f", end=9, arguments=ARGS, scope="a"),
            executed(2, "f", parent=1, start=1, arguments=ARGS, scope="b"),
            True,
            id="underscore with equal arguments",
        ),
        pytest.param(
            executed(1, "f", end=9, arguments=ARGS, scope="a"),
            executed(2, "f", parent=1, start=1, arguments='{"a": 2}', scope="b"),
            False,
            id="other arguments",
        ),
        pytest.param(executed(1, "f", end=9, call_id="1"), executed(2, "f", parent=1, start=1, call_id="2"), False, id="other id"),
        pytest.param(executed(1, "f", end=9, call_id="1"), executed(2, "f", parent=1, start=1, call_id="1"), True, id="equal id"),
        pytest.param(executed(1, "f", end=9), executed(2, "f", parent=1, start=1), False, id="recursion without arguments"),
        pytest.param(
            executed(1, "f", end=9, arguments=ARGS),
            executed(2, "f", parent=1, start=1, arguments=ARGS),
            True,
            id="one scope, equal arguments",
        ),
        pytest.param(
            executed(1, "f", end=9, kind=3), executed(2, "f", parent=1, start=1, kind=2), True, id="client and server of one scope"
        ),
    ],
)
def test_a_call_further_in_is_the_same_call_or_another_one(outer: Span, inner: Span, *, merged: bool) -> None:
    calls = _calls(inner, outer)
    assert (len(calls) == 1) is merged
    if not merged:
        assert calls[1].nested_in == outer.span_id


@pytest.mark.parametrize("between", [agent(5, "x", parent=1, start=1, end=8), chat(5, parent=1, start=1, end=8)], ids=["agent", "model"])
def test_what_an_agent_or_model_decided_further_in_is_another_call(between: Span) -> None:
    calls = _calls(executed(1, "f", end=9, scope="a"), between, executed(2, "f", parent=5, start=2, scope="b"))
    assert [call.name for call in calls] == ["f", "f"]
    assert calls[1].nested_in == calls[0].span_id


def test_spans_in_between_that_are_no_calls_do_not_matter() -> None:
    http = make(5, parent=1, start=1, end=8, name="POST")
    (call,) = _calls(executed(1, "f", end=9, call_id="1"), http, _mcp(2, parent=5, start=2, end=7), _mcp(3, parent=2, start=3, kind=2))
    assert shown([call]) == [(1, "f", [2, 3])]
    assert call.kind is CallKind.MCP


def test_a_call_takes_from_further_in_what_it_lacks() -> None:
    inner = executed(2, "f", parent=1, start=1, scope="b", arguments=ARGS, result="[1]", call_id="1", attributes={"gen_ai.agent.name": "x"})
    (call,) = _calls(executed(1, "f", end=9, scope="a"), inner)
    assert (call.call_id, call.agent, call.arguments.content.value, call.output.content.value) == ("1", "x", {"a": 1}, [1])
    assert (call.start_unix_ns, call.end_unix_ns) == (0, 9)


def test_a_cut_or_hidden_value_gives_way_to_a_whole_one() -> None:
    inner = executed(2, "f", parent=1, start=1, scope="b", arguments=ARGS, result="[1, 2]")
    (call,) = _calls(executed(1, "f", end=9, scope="a", arguments="__REDACTED__", result="[1, " + "2, " * 20), inner)
    assert (call.arguments.content.value, call.output.content.value) == ({"a": 1}, [1, 2])


def test_of_two_values_that_are_not_whole_the_outer_one_stands() -> None:
    inner = executed(2, "f", parent=1, start=1, scope="b", arguments="__REDACTED__")
    (call,) = _calls(executed(1, "f", end=9, scope="a", arguments='{"a": 1, "b": "' + "x" * 40), inner)
    assert call.arguments.state is ContentState.TRUNCATED


def test_an_error_on_both_levels_is_told_with_what_either_knows() -> None:
    inner = executed(2, "f", parent=1, start=1, scope="b", attributes={"error.type": "Timeout"})
    (call,) = _calls(executed(1, "f", end=9, scope="a", status=StatusCode.ERROR, message="late"), inner)
    assert (call.status, call.error_type, call.error_message) == (CallStatus.ERROR, "Timeout", "late")


def _siblings(first: dict[str, object], second: dict[str, object]) -> Sequence[ToolCall]:
    one = {"parent": 9, "start": 100, "end": 200, "scope": "one", **first}
    other = {"parent": 9, "start": 101, "end": 201, "scope": "two", **second}
    return _calls(make(9, end=999), executed(1, "f", **one), executed(2, "f", **other))


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        pytest.param({}, {}, True, id="nothing recorded"),
        pytest.param({"arguments": ARGS}, {}, True, id="arguments on one side"),
        pytest.param({"arguments": ARGS}, {"arguments": "{'a': 1}"}, True, id="equal arguments"),
        pytest.param({"arguments": ARGS}, {"arguments": "{}"}, False, id="other arguments"),
        pytest.param({"call_id": "1"}, {}, True, id="id on one side"),
        pytest.param({"call_id": "1"}, {"call_id": "2"}, False, id="other ids"),
        pytest.param({"call_id": "1"}, {"call_id": "1", "start": 190, "end": 300}, True, id="equal ids with a small overlap"),
        pytest.param({}, {"scope": "one"}, False, id="one scope"),
        pytest.param({}, {"start": 150, "end": 250}, False, id="half an overlap"),
        pytest.param({}, {"start": 200, "end": 300}, False, id="no overlap"),
        pytest.param({}, {"parent": 8}, False, id="another parent, nothing recorded"),
        pytest.param({"arguments": ARGS}, {"arguments": ARGS, "parent": 8}, True, id="another parent, equal arguments"),
    ],
)
def test_siblings_are_observers_of_one_call_or_parallel_calls(first: dict[str, object], second: dict[str, object], *, merged: bool) -> None:
    assert (len(_siblings(first, second)) == 1) is merged


def test_two_parallel_calls_seen_by_two_instrumentations_are_two() -> None:
    spans = [executed(number, "f", parent=9, start=100 + number, end=300, scope=f"s{number % 2}", arguments=ARGS) for number in range(1, 5)]
    assert len(_calls(make(9, end=999), *spans)) == 2


def test_equal_ids_under_two_agents_are_two_calls() -> None:
    calls = _calls(
        agent(1, "one", end=90),
        agent(2, "two", end=90),
        executed(3, "f", parent=1, start=5, end=9, call_id="1", scope="a"),
        executed(4, "f", parent=2, start=5, end=9, call_id="1", scope="b"),
    )
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("second", "attempts"),
    [
        pytest.param({"start": 10}, 2, id="after the first"),
        pytest.param({"start": 3}, 1, id="overlapping"),
        pytest.param({"start": 10, "call_id": "2"}, 1, id="other id"),
        pytest.param({"start": 10, "arguments": "{}"}, 1, id="other arguments"),
        pytest.param({"start": 10, "tool": "g"}, 1, id="other name"),
    ],
)
def test_calls_with_one_id_that_follow_each_other_are_attempts(second: dict[str, object], attempts: int) -> None:
    first = executed(1, "f", end=5, call_id="1", arguments=ARGS, status=StatusCode.ERROR)
    keywords = {"call_id": "1", "arguments": ARGS, **second}
    calls = _calls(first, executed(2, str(keywords.pop("tool", "f")), **keywords))
    assert calls[-1].attempts == attempts
    assert calls[-1].failed_attempts == attempts - 1
    assert calls[-1].status is CallStatus.OK
    assert number_of(calls[-1].span_id) == 2


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        pytest.param([ARGS], ContentState.FULL, id="known"),
        pytest.param([None], ContentState.ABSENT, id="not recorded"),
        pytest.param(["{}"], ContentState.FULL, id="none"),
        pytest.param([""], ContentState.FULL, id="blank"),
        pytest.param(["__REDACTED__"], ContentState.REDACTED, id="hidden"),
        pytest.param(['{"a": 1, "b": "' + "x" * 40], ContentState.TRUNCATED, id="cut"),
        pytest.param([ARGS, None], ContentState.FULL, id="known at times"),
    ],
)
def test_attempts_without_number_are_one_call(arguments: list[str | None], content: ContentState) -> None:
    number = 3_000  # far more than Python lets functions call each other
    spans = [
        executed(
            place + 1,
            f"server{place}__f" if place % 2 else "f",
            start=10 * place,
            call_id="1",
            status=StatusCode.ERROR,
            **({} if (text := arguments[place % len(arguments)]) is None else {"arguments": text}),
        )
        for place in range(number)
    ]
    (call,) = _calls(*spans)
    assert (call.name, call.attempts, call.failed_attempts) == (f"server{number - 1}__f", number, number - 1)
    assert call.aliases == ("f", *(f"server{place}__f" for place in range(number - 3, 0, -2)))
    assert call.merged_span_ids == tuple(span.span_id for span in spans[:-1])
    assert call.arguments.state is content
    assert call.output.state is ContentState.ABSENT


@pytest.mark.parametrize("keywords", [{}, {"arguments": ARGS}, {"status": StatusCode.ERROR}], ids=["bare", "arguments", "failed"])
def test_observers_inside_each_other_without_number_are_one_call(keywords: dict[str, object]) -> None:
    number = 3_000
    spans = [
        executed(place + 1, "f", parent=place or None, start=place, end=9 * number - place, call_id="1", scope=f"s{place % 5}", **keywords)
        for place in range(number)
    ]
    (call,) = _calls(*reversed(spans))
    assert (call.span_id, call.attempts, call.aliases) == (spans[0].span_id, 1, ())
    assert call.merged_span_ids == tuple(span.span_id for span in spans[1:])
    assert call.arguments.state is (ContentState.FULL if "arguments" in keywords else ContentState.ABSENT)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f", "f", True),
        ("mcp__s__f", "f", True),
        ("f", "s.f", True),
        ("s-f", "f", True),
        ("s_f", "f", True),
        ("sf", "f", False),
        ("f", "F", False),
        ("s.f", "t.f", False),
    ],
)
def test_names_are_the_same_if_one_is_the_other_behind_a_prefix(one: str, other: str, *, same: bool) -> None:
    assert same_tool(one, other) is same


@pytest.mark.parametrize(("name", "bare"), [("f", "f"), ("mcp__s__f", "f"), ("a.b/c:d-e", "e"), ("f.", "f."), ("a_b", "a_b")])
def test_a_bare_name_is_what_follows_the_last_prefix(name: str, bare: str) -> None:
    assert bare_name(name) == bare


def test_huge_and_odd_numbers_are_compared_by_value() -> None:
    huge = "1" + "0" * 5000
    calls = _siblings({"arguments": f'{{"n": {huge}, "x": 1.0, "y": [true]}}'}, {"arguments": f'{{"n": {huge}, "x": 1, "y": [true]}}'})
    assert len(calls) == 1
    assert len(_siblings({"arguments": '{"x": 1.5}'}, {"arguments": '{"x": true}'})) == 2


def test_a_call_that_waits_for_approval_is_no_observer_of_one_that_ran() -> None:
    ran = executed(1, "f", start=0, end=10, scope="a")
    waits = executed(2, "f", start=0, end=10, scope="b", attributes={"pydantic_ai.tool.deferral.name": "approval"})
    assert [(call.name, call.phase) for call in _calls(ran, waits)] == [("f", CallPhase.EXECUTED), ("f", CallPhase.DEFERRED)]
