"""What holds whatever the spans are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.model.tool_call import CallPhase
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.extraction.recordings import plain, recordings, requests_of, traces_of
from tests.extraction.spans import executed, make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Span


def _account(spans: Sequence[Span]) -> object:
    """Return everything that was read, payloads included."""
    extraction = default_extractor().extract(spans)
    calls = [
        (
            *(call.name, call.aliases, call.kind, call.phase, call.call_id, call.status, call.error_type, call.error_message),
            *(call.start_unix_ns, call.agent_path, call.parallel_group, call.attempts, call.nested_in, call.span_id),
            *(call.merged_span_ids, call.dialects),
            *(repr(plain(call.arguments.content.value)), call.arguments.state, repr(plain(call.output.content.value)), call.output.state),
        )
        for call in extraction.calls
    ]
    return calls, extraction.ignored, extraction.hints, extraction.doubts


@given(data=st.data())
@settings(max_examples=60)
def test_shuffling_splitting_and_repeating_the_spans_of_a_recording_changes_nothing(data: st.DataObject) -> None:
    recording = data.draw(st.sampled_from(recordings()))
    spans = [span for request in requests_of(recording) for span in request]
    for trace in traces_of(spans):
        repeated = data.draw(st.lists(st.sampled_from(list(trace)), max_size=5))
        shuffled = data.draw(st.permutations([*trace, *repeated]))
        assert _account(shuffled) == _account(trace)


NAMES = st.sampled_from(["f", "g", "mcp__s__f", "s.f"])
SCOPES = st.sampled_from(["one", "two", "mcp-python-sdk"])
ARGUMENTS = st.sampled_from([None, "{}", '{"a": 1}', '{"a": 1.0}', "{'a': 2}", "text", "__REDACTED__", '{"a": 1, "b": "cut'])


@st.composite
def _tool_spans(draw: st.DrawFn) -> Span:
    number, parent = draw(st.integers(1, 8)), draw(st.none() | st.integers(1, 9))
    start = draw(st.integers(0, 20))
    keywords: dict[str, object] = {"start": start, "end": start + draw(st.integers(0, 10)), "scope": draw(SCOPES), "parent": parent}
    keywords |= {"arguments": arguments} if (arguments := draw(ARGUMENTS)) is not None else {}
    keywords |= {"call_id": call_id} if (call_id := draw(st.sampled_from([None, "1", "2"]))) is not None else {}
    if draw(st.integers(0, 4)) == 0:
        return make(
            number, attributes={"gen_ai.operation.name": draw(st.sampled_from(["chat", "invoke_agent"]))}, parent=parent, start=start
        )
    return executed(number, draw(NAMES), **keywords)


@given(spans=st.lists(_tool_spans(), max_size=10), data=st.data())
def test_the_order_of_arrival_of_any_spans_changes_nothing(spans: list[Span], data: st.DataObject) -> None:
    assert _account(data.draw(st.permutations(spans))) == _account(spans)


@given(spans=st.lists(_tool_spans(), max_size=10))
def test_every_span_is_a_call_merged_into_one_or_ignored_with_a_reason(spans: list[Span]) -> None:
    extraction = default_extractor().extract(spans)
    accounted = {span.span_id for span in extraction.ignored}
    for call in extraction.calls:
        assert call.name
        accounted |= {call.span_id, *call.merged_span_ids}
        assert call.span_id not in call.merged_span_ids
    assert accounted == {span.span_id for span in spans}


@given(spans=st.lists(_tool_spans(), max_size=10))
def test_a_parent_never_stands_after_its_child(spans: list[Span]) -> None:
    calls = default_extractor().extract(spans).calls
    places = {call.span_id: place for place, call in enumerate(calls)}
    for call in calls:
        if call.nested_in in places:
            assert places[call.nested_in] < places[call.span_id]


@given(spans=st.lists(_tool_spans(), max_size=10))
def test_parallel_groups_have_at_least_two_calls_that_ran(spans: list[Span]) -> None:
    groups: dict[int, int] = {}
    for call in default_extractor().extract(spans).calls:
        if call.parallel_group is not None:
            assert call.phase is CallPhase.EXECUTED
            groups[call.parallel_group] = groups.get(call.parallel_group, 0) + 1
    assert sorted(groups) == list(range(len(groups)))
    assert all(size > 1 for size in groups.values())
