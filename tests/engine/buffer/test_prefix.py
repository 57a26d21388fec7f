"""What is said for good of a part of a trace is never taken back once all of it is known: real reader, real evaluators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.settings.criteria_check import build_check
from tests.engine.buffer.judged import count, pipeline, said
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from otel_toolcall_eval.model.criteria import Check
    from otel_toolcall_eval.model.trace import Span

TOOLS = st.sampled_from("ab")
OPERATORS = st.sampled_from(["=", "!=", ">", "<", ">=", "<="])
SECOND = 1_790_000_000 * SECOND_NS
numbers = st.integers(0, 2)


@st.composite
def checks(draw: st.DrawFn) -> Check:
    """Draw one check of any kind."""
    kind = draw(st.sampled_from(["count", "order", "args", "output"]))
    strict = draw(st.booleans())
    if kind == "count":
        expected = {tool: [draw(OPERATORS), draw(st.integers(0, 3))] for tool in draw(st.sets(st.sampled_from("ab*"), min_size=1))}
        return build_check("tool-call-count", {"strict": strict}, {"tool_calls_count": expected})
    if kind == "order":
        config = {"strict": strict, "parallel": draw(st.sampled_from(["start_time", "any"]))}
        return build_check("tool-call-order", config, {"tool_calls_order": draw(st.lists(TOOLS, min_size=1, max_size=4))})
    tools = draw(st.lists(TOOLS, min_size=1, max_size=3))
    matching = draw(st.sampled_from(["maximum", "positional"]))
    if kind == "args":
        config = {"strict": strict, "subset": draw(st.booleans()), "matching": matching}
        calls = [{"name": tool, "args": {"n": draw(numbers)} if draw(st.booleans()) else {}} for tool in tools]
        return build_check("tool-call-args", config, {"tool_calls": calls})
    outputs = [{"name": tool, "output": str(draw(numbers))} for tool in tools]
    return build_check("tool-call-output", {"strict": strict, "matching": matching}, {"tool_outputs": outputs})


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    """Draw a whole trace: a root, and spans below it, some of them calls, of one host or two whose clocks may disagree."""
    spans = [span(1, start=SECOND, end=SECOND + 10 * SECOND_NS, resource={"host.name": "a"})]
    skew = draw(st.sampled_from([0, 0, -90, 90])) * SECOND_NS
    for number in range(2, draw(st.integers(2, 8))):
        host = draw(st.sampled_from("aab"))
        start = SECOND + draw(st.integers(0, 9)) * SECOND_NS // 2 + (skew if host == "b" else 0)
        values = {"input.value": f'{{"n": {draw(numbers)}}}', "output.value": str(draw(numbers))}
        spans.append(
            span(
                number,
                parent=draw(st.integers(1, number - 1)),
                tool=draw(st.none() | TOOLS),
                start=start,
                end=start + draw(st.integers(0, 3)) * SECOND_NS,
                attributes={key: value for key, value in values.items() if draw(st.booleans())},
                resource={"host.name": host},
            )
        )
    return spans


@settings(max_examples=300, deadline=None)
@given(spans=traces(), judged_by=st.lists(checks(), min_size=1, max_size=4), data=st.data())
def test_final_answer_on_any_part_of_a_trace_stands_when_all_of_it_is_known(
    spans: list[Span], judged_by: list[Check], data: st.DataObject
) -> None:
    part = data.draw(st.permutations(spans))[: data.draw(st.integers(1, len(spans)))]
    early, late = pipeline(*judged_by), pipeline(*judged_by)
    early.add(part, now_ns=0, transport="grpc")
    late.add(spans, now_ns=0, transport="grpc")
    (partial,) = early.drain(now_ns=1)
    (whole,) = late.pop_due(now_ns=10 * SECOND_NS)
    for first, last in zip(said(partial), said(whole), strict=True):
        assert ("inconclusive", None) in (first, last) or first == last
    for early_verdict, late_verdict in zip(partial.verdicts, whole.verdicts, strict=True):
        then, now = early_verdict.score, late_verdict.score
        if then and now and then.certain:
            assert now.lowest <= then.value <= now.highest


@pytest.mark.parametrize("part", [(1, 2, 3), (1, 3, 4), (0, 1, 3), (0, 2, 3)], ids=str)
def test_calls_of_equal_times_have_no_order_while_a_span_above_one_is_missing(part: tuple[int, ...]) -> None:
    nested = [span(1), span(2, parent=1, tool="a"), span(3, parent=1, tool="b"), span(4, parent=3, tool="b"), span(5, parent=1, tool="b")]
    checked = build_check("tool-call-order", {"strict": True}, {"tool_calls_order": ["a", "b", "b", "b"]})
    early, late = pipeline(checked), pipeline(checked)
    early.add([nested[number] for number in part], now_ns=0, transport="grpc")
    late.add(nested, now_ns=0, transport="grpc")
    (partial,) = early.drain(now_ns=1)
    (whole,) = late.pop_due(now_ns=10 * SECOND_NS)
    assert (said(partial), said(whole)) == ([("inconclusive", None)], [("pass", 1.0)])


def test_what_can_not_change_is_said_of_a_part_and_the_rest_is_not() -> None:
    pipe = pipeline(count(a=[">=", 1]), count(a=["<=", 1]), count(b=0), count(a=2))
    pipe.add([span(n, parent=1, tool="a") for n in (2, 3)], now_ns=0, transport="grpc")
    (report,) = pipe.drain(now_ns=1)
    assert said(report) == [("pass", 1.0), ("fail", 0.0), ("inconclusive", None), ("inconclusive", None)]
