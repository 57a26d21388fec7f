from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.extraction.dialect import Dialect, Match, Role, Source, Subject, Test, ValueOrigin
from otel_toolcall_eval.extraction.extractor import Extractor
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus, ContentState
from otel_toolcall_eval.model.trace import StatusCode
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.spans import agent, chat, executed, make, number_of, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
    from otel_toolcall_eval.model.trace import Attributes, Span, Value


def _calls(*spans: Span) -> Sequence[ToolCall]:
    return read(default_extractor(), *spans)


def _seed(number: int = 1, tool: str = "f", attributes: Attributes | None = None, **keywords: object) -> Span:
    return make(number, attributes={"tool.name": tool, **(attributes or {})}, **keywords)  # type: ignore[arg-type] # make's own


def test_the_guides_convention_asks_for_a_name_and_nothing_else() -> None:
    (call,) = _calls(_seed(kind=0, status=StatusCode.ERROR))
    assert (call.name, call.dialects, call.kind, call.phase) == ("f", ("seed",), CallKind.FUNCTION, CallPhase.EXECUTED)
    assert call.arguments.content.nothing
    assert (call.output.state, call.output.content.nothing) == (ContentState.FULL, True)


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"tool.name": ""}, id="empty name"),
        pytest.param({"tool.name": None}, id="null name"),
        pytest.param({"tool.synthesized": True}, id="made up"),
        pytest.param({"gen_ai.operation.name": "chat"}, id="model"),
        pytest.param({"gen_ai.operation.name": "invoke_agent"}, id="agent"),
        pytest.param({"openinference.span.kind": "LLM"}, id="model of OpenInference"),
        pytest.param({"openinference.span.kind": "AGENT"}, id="agent of OpenInference"),
    ],
)
def test_a_tool_name_on_these_is_no_call(attributes: Attributes) -> None:
    assert _calls(_seed(attributes=attributes)) == ()


def test_the_guides_convention_reads_no_other_key() -> None:
    (call,) = _calls(_seed(attributes={"tool.parameters": '{"x": 1}', "tool.id": "i"}))
    assert (call.arguments.content.value, call.call_id) == ({}, "i")


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        pytest.param("5", 5, id="json scalar"),
        pytest.param("None", None, id="python scalar"),
        pytest.param("sunny", "sunny", id="text"),
        pytest.param('{"content": 1}', {"content": 1}, id="content wrapper stays"),
        pytest.param("", "", id="empty text"),
        pytest.param(0, 0, id="zero"),
    ],
)
def test_the_guides_output_keeps_its_text_and_its_value(value: str | int, decoded: object) -> None:
    (call,) = _calls(_seed(attributes={"output.value": value}))
    content = call.output.content
    assert (content.state, content.value, content.nothing) == (ContentState.FULL, decoded, False)
    assert content.text == (value if isinstance(value, str) else None)


def test_openinference_reads_a_span_that_is_both() -> None:
    (call,) = _calls(_seed(attributes={"openinference.span.kind": "TOOL"}))
    assert call.dialects == ("openinference",)
    assert (call.arguments.state, call.output.state) == (ContentState.ABSENT, ContentState.ABSENT)


def test_a_span_of_two_conventions_is_read_by_both_and_does_not_mean_empty() -> None:
    (call,) = _calls(_seed(attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "g", "input.value": '{"a": 1}'}))
    assert (call.name, call.dialects, call.arguments.content.value) == ("g", ("otel_genai", "seed"), {"a": 1})
    assert call.output.state is ContentState.ABSENT


def test_a_child_process_whose_clock_is_behind_stands_after_its_parent() -> None:
    calls = _calls(executed(1, "outer", start=100, end=200), executed(2, "inner", parent=1, start=10, end=20))
    assert [call.name for call in calls] == ["outer", "inner"]
    assert calls[1].start_unix_ns == 10


def test_calls_that_start_with_the_span_above_them_are_ordered_by_their_ends() -> None:
    later, sooner = _seed(2, "later", parent=1, start=0, end=8), _seed(3, "sooner", parent=1, start=0, end=7)
    assert [call.name for call in _calls(make(1, start=0, end=90), later, sooner)] == ["sooner", "later"]


def test_equal_times_are_ordered_by_end_then_id() -> None:
    calls = _calls(
        executed(1, "late", end=9, call_id="call_1"),
        executed(2, "ten", end=5, call_id="call_10"),
        executed(3, "two", end=5, call_id="call_2"),
        executed(4, "nameless", end=5),
    )
    assert [call.name for call in calls] == ["nameless", "two", "ten", "late"]


@pytest.mark.parametrize(
    ("second", "groups"),
    [
        pytest.param({"start": 5}, [0, 0], id="overlap"),
        pytest.param({"start": 9}, [None, None], id="one ends when the next starts"),
        pytest.param({"start": 5, "end": 5}, [None, None], id="no duration"),
        pytest.param({"start": 5, "parent": 1}, [None, None], id="inside the other"),
        pytest.param({"start": 5, "attributes": {"gen_ai.agent.name": "x"}}, [None, None], id="another agent"),
        pytest.param(
            {"start": 5, "attributes": {"pydantic_ai.tool.deferral.name": "ApprovalRequired"}}, [None, None], id="one that did not run"
        ),
    ],
)
def test_parallel_groups(second: dict[str, object], groups: list[int | None]) -> None:
    calls = _calls(executed(1, "f", start=1, end=9), executed(2, "g", **second))
    assert [call.parallel_group for call in calls] == groups


def test_groups_are_numbered_in_order_and_chains_of_overlaps_are_one() -> None:
    times = [(0, 10), (5, 15), (12, 20), (30, 40), (35, 37), (50, 60)]
    calls = _calls(*(executed(number + 1, f"f{number}", start=start, end=end) for number, (start, end) in enumerate(times)))
    assert [call.parallel_group for call in calls] == [0, 0, 0, 1, 1, None]


def test_the_agents_above_a_call_are_named_outermost_first_and_once() -> None:
    calls = _calls(
        agent(1, "outer", end=99),
        agent(2, "outer", parent=1, start=1, end=98),
        make(3, parent=2, start=2, attributes={"gen_ai.operation.name": "invoke_agent"}),
        agent(4, "inner", parent=3, start=3, end=90),
        executed(5, parent=4, start=4),
    )
    assert (calls[0].agent, calls[0].agent_path) == ("inner", ("outer", "inner"))


def test_the_top_agent_is_the_outermost_or_earliest() -> None:
    extractor = default_extractor()
    assert extractor.survey([agent(3, "late", start=9), agent(2, "inner", parent=1, start=1), agent(1, "top")]).top_agent == "top"
    alone = extractor.survey([executed()])
    assert alone.top_agent is alone.top_agent is None
    assert extractor.survey([]).top_agent is None


def test_an_agent_used_as_a_tool_and_a_handoff_are_told_by_the_agents_of_the_trace() -> None:
    calls = _calls(
        executed(1, "Stock Agent", end=50),
        agent(2, "stock_agent", start=5, end=40),
        executed(3, "transfer_to_refunds", start=60),
        agent(4, "Refunds", start=70),
        executed(5, "transfer_to_savings", start=80),
        executed(6, "stock_agent", start=90),
    )
    kinds = {number_of(call.span_id): call.kind for call in calls}
    assert kinds == {1: CallKind.AGENT, 3: CallKind.CONTROL, 5: CallKind.FUNCTION, 6: CallKind.FUNCTION}


@pytest.mark.parametrize(
    ("message", "phase"),
    [
        pytest.param("1 validation error for get_weather\ncity", CallPhase.REJECTED, id="arguments that do not validate"),
        pytest.param("1 validation error for Reply\nbody", CallPhase.EXECUTED, id="something else that does not validate"),
        pytest.param("timeout", CallPhase.EXECUTED, id="failure"),
    ],
)
def test_a_failure_that_says_that_the_tool_never_ran_is_a_rejection(message: str, phase: CallPhase) -> None:
    (call,) = _calls(executed(status=StatusCode.ERROR, message=message))
    assert (call.phase, call.status) == (phase, CallStatus.ERROR)


def test_a_result_that_only_quotes_a_rejection_is_a_result() -> None:
    (call,) = _calls(executed(result="Unknown tool: get_weather"))
    assert call.phase is CallPhase.EXECUTED


def test_a_call_that_failed_by_an_attribute_says_why_from_its_output() -> None:
    attributes = {"gen_ai.system": "strands-agents", "gen_ai.tool.status": "error"}
    assert _calls(executed(result='{"error": "late"}', attributes=attributes))[0].error_message == "late"
    assert _calls(executed(result='{"error": "' + "x" * 40, attributes=attributes))[0].error_message is None
    assert _calls(executed(attributes=attributes))[0].error_message is None


def test_wrappers_are_only_opened_for_what_they_say_where_they_can_say_something() -> None:
    keys = {"openinference.span.kind": "TOOL", "tool.name": "f"}
    message: Value = {"type": "tool", "data": {"content": "late", "tool_call_id": "i", "status": "error"}}
    (call,) = _calls(make(attributes={**keys, "output.value": message}))
    assert (call.call_id, call.status, call.status_from, call.error_message) == ("i", CallStatus.ERROR, "output", "late")


@pytest.mark.parametrize("attempts", ["0", "many", "9999999"])
def test_a_count_of_attempts_that_is_none_is_one(attempts: str) -> None:
    (call,) = _calls(make(attributes={"openinference.span.kind": "TOOL", "tool.name": "f", "tool.run_attempts": attempts}))
    assert call.attempts == 1


def test_a_piece_of_a_call_without_the_call_is_no_call_and_says_so() -> None:
    extraction = default_extractor().extract([make(attributes={"span.type": "tool.execution", "success": True})])
    assert extraction.calls == ()
    assert extraction.ignored[0].reason == "execution of a call whose span is not in the trace"


def test_a_failed_execution_is_its_calls_failure() -> None:
    (call,) = _calls(
        make(1, end=9, attributes={"span.type": "tool", "tool_name": "Bash", "tool_use_id": "t"}),
        make(2, parent=1, start=1, attributes={"span.type": "tool.execution", "success": False, "error": "exit 1"}),
    )
    assert (call.status, call.error_message, call.dialects) == (CallStatus.ERROR, "exit 1", ("claude_code",))


def test_ignored_spans_are_a_sequence_like_any_other() -> None:
    spans = [make(1, attributes={}), make(2, start=1), make(3, start=2)]
    ignored, again = (default_extractor().extract(spans).ignored for _ in range(2))
    assert [span.span_id for span in ignored[1:]] == [spans[1].span_id, spans[2].span_id]
    assert ignored == again == tuple(again)
    assert ignored != again[1:]
    assert (hash(ignored), repr(ignored), len(ignored)) == (hash(again), repr(tuple(again)), 3)


def test_reasons_quote_what_the_span_says_within_bounds() -> None:
    extraction = default_extractor().extract([make(1, attributes={"gen_ai.operation.name": "x" * 500}), make(2, start=1)])
    assert [span.reason for span in extraction.ignored] == [f"operation {'x' * 80}", "no tool marker"]


def test_irrelevant_spans_are_told_without_reading_them() -> None:
    extractor = default_extractor()
    assert not extractor.is_relevant(make(attributes={"http.method": "POST", "gen_ai.request.model": "m"}))
    assert not extractor.is_relevant(make(attributes={"mcp.method.name": "ping"}))
    assert all(extractor.is_relevant(span) for span in (executed(), agent(1, "a"), chat(1), _seed()))


def test_two_extractors_may_read_differently() -> None:
    by_key = Match(every=(Test(subject=Subject.ATTR, key="my.tool"),))
    name = (Source(origin=ValueOrigin.ATTR, key="my.tool"),)
    own = Extractor([Dialect(name="own", family="own", match=by_key, name_from=name)])
    assert [call.name for call in own.extract([make(attributes={"my.tool": "f"}), executed(2)]).calls] == ["f"]
    assert own.projection.keys == {"my.tool", "error.type", "gen_ai.conversation.id", "session.id"}


def test_a_dialect_supersedes_others_by_name_and_family_but_never_itself() -> None:
    match = Match(every=(Test(subject=Subject.ATTR, key="k"),))
    name = (Source(origin=ValueOrigin.ATTR, key="k"),)
    dialects = [
        Dialect(name="a", family="one", priority=90, match=match, name_from=name, supersedes=frozenset({"a", "b", "two"})),
        Dialect(name="b", family="other", match=match, name_from=name),
        Dialect(name="c", family="two", match=match, name_from=name),
        Dialect(name="d", family="three", match=match, name_from=name),
    ]
    (call,) = Extractor(dialects).extract([make(attributes={"k": "f"})]).calls
    assert call.dialects == ("one", "three")


def test_a_part_whose_whole_is_not_above_leaves_the_span_to_the_next_dialect() -> None:
    match = Match(every=(Test(subject=Subject.ATTR, key="k"),))
    name = (Source(origin=ValueOrigin.ATTR, key="k"),)
    dialects = [
        Dialect(name="piece", family="piece", priority=90, role=Role.PART, part_of=frozenset({"whole"}), match=match, name_from=name),
        Dialect(name="alone", family="alone", match=match, name_from=name),
    ]
    (call,) = Extractor(dialects).extract([make(attributes={"k": "f"})]).calls
    assert call.dialects == ("alone",)


def test_a_plugins_prefix_is_dropped_only_where_something_follows_it() -> None:
    keywords = {"scope": "semantic_kernel.functions", "call_id": "1"}
    assert [call.aliases for call in _calls(executed(1, "plugin-f", **keywords))] == [("f",)]
    assert [call.aliases for call in _calls(executed(1, "f-", **keywords))] == [()]


@pytest.mark.parametrize(
    ("span", "is_agent"),
    [
        pytest.param(agent(1, "travel"), True, id="agent"),
        pytest.param(executed(1), False, id="tool"),
        pytest.param(make(1, name="plain"), False, id="no dialect"),
        pytest.param(
            make(1, attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.tool.name": "(merged tools)"}), False, id="ignored"
        ),
    ],
)
def test_an_agents_span_is_told_by_itself(span: Span, is_agent: bool) -> None:  # noqa: FBT001 - a column of the table
    assert default_extractor().is_agent(span) is is_agent
