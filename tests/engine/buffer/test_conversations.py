"""Runs that are spread over several traces are counted and their conversation is named; nothing is joined."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.buffer import conversations
from otel_toolcall_eval.engine.buffer.compression import CompressorPool
from otel_toolcall_eval.engine.buffer.packing import PackedSpans
from otel_toolcall_eval.exporters.events.attributes import event_attributes, span_attributes
from tests.engine.buffer.judged import count, pipeline
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Attributes, Span


def judge(pipe: Pipeline, *spans: Span, at: int = 0) -> TraceReport:
    pipe.add(spans, now_ns=at * SECOND_NS, transport="grpc")
    (report,) = pipe.pop_due(now_ns=(at + 10) * SECOND_NS)
    return report


@pytest.mark.parametrize(
    ("root", "tool", "expected"),
    [
        pytest.param({}, {}, None, id="none"),
        pytest.param({"gen_ai.conversation.id": "c1"}, {"gen_ai.conversation.id": "c2"}, "c1", id="the-roots-first"),
        pytest.param({}, {"session.id": "s1"}, "s1", id="of-any-span"),
        pytest.param({"session.id": "s1", "gen_ai.conversation.id": "c1"}, {}, "c1", id="the-convention-first"),
        pytest.param({"gen_ai.conversation.id": ""}, {"session.id": 7}, None, id="empty-and-no-text"),
        pytest.param({"session.id": "x" * 1_000}, {}, "x" * 255, id="bounded"),
    ],
)
def test_conversation_goes_with_the_report_and_its_events(root: Attributes, tool: Attributes, expected: str | None) -> None:
    report = judge(pipeline(count(a=1)), span(1, attributes=root), span(2, parent=1, tool="a", attributes=tool))
    assert report.conversation_id == expected
    for attributes in (event_attributes(report, report.verdicts[0]), span_attributes(report)):
        assert attributes.get("gen_ai.conversation.id") == expected


def test_traces_that_have_to_do_with_another_one_are_counted_once_each() -> None:
    pipe = pipeline(count(a=1))
    talk: Attributes = {"gen_ai.conversation.id": "c"}
    judge(pipe, span(1, attributes=talk))
    assert pipe.linked_traces == 0
    judge(pipe, span(1, trace=2, attributes=talk), span(2, trace=2, parent=1, attributes=talk), at=20)
    judge(pipe, replace(span(1, trace=3), linked=True), at=40)
    judge(pipe, span(1, trace=4), at=60)
    assert pipe.linked_traces == 2


def test_conversations_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_REMEMBERED", 2)
    pipe = pipeline(count(a=1))
    for trace, talk in enumerate(("c1", "c2", "c3", "c1"), 1):
        judge(pipe, span(1, trace=trace, attributes={"session.id": talk}), at=20 * trace)
    assert pipe.linked_traces == 0


def test_link_outlasts_packing() -> None:
    linked = replace(span(1), linked=True)
    assert list(PackedSpans(linked.trace_id, {linked.span_id: linked}, CompressorPool()).unpack().values()) == [linked]
