"""What an earlier process decided is decided here, and what it kept is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.packing import StoredSpanReader, StoredSpanWriter
from otel_toolcall_eval.engine.buffer.restore import Flags
from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.trace import IncompletenessReason, Resource, Scope, SpanEvent, Trigger
from tests.engine.buffer.judged import count, pipeline
from tests.fakes import SECOND_NS, PlainReader, span

if TYPE_CHECKING:
    from otel_toolcall_eval.model.decision import Decision

READER = PlainReader()
KINDS = SpanKinds(is_relevant=READER.is_relevant, is_agent=READER.is_agent)
TRACE, OTHER = span(1).trace_id, span(1, trace=2).trace_id
AGENT = {"agent": "a"}


def whole() -> TraceBuffer:
    return TraceBuffer(kinds=KINDS)


def by_unit() -> TraceBuffer:
    return TraceBuffer(kinds=KINDS, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION))


def test_decision_is_taken_again_whatever_the_time_and_late_spans_know_its_age() -> None:
    buf = whole()
    buf.add([span(1), span(2, parent=1, tool="t")], now_ns=5)
    (trace,) = buf.restorer.decide(TRACE, (), Trigger.IDLE_TIMEOUT, age_ns=30, now_ns=6)
    assert (trace.trigger, len(trace.spans), trace.revision) == (Trigger.IDLE_TIMEOUT, 2, 0)
    assert buf.restorer.holds(TRACE)
    assert not buf.restorer.is_expired(TRACE, now_ns=7)
    assert buf.add([span(3, parent=1, tool="t")], now_ns=7).late_ages_ns == [31]
    (again,) = buf.pop_due(now_ns=20 * SECOND_NS)
    assert (again.revision, again.trigger) == (1, Trigger.LATE_SPAN)
    assert buf.restorer.decide(TRACE, (), Trigger.ROOT_SPAN, age_ns=0, now_ns=8) == []
    buf.pop_due(now_ns=100 * SECOND_NS)
    assert not buf.restorer.holds(TRACE)
    assert buf.restorer.is_expired(TRACE, now_ns=100 * SECOND_NS)
    assert not buf.restorer.is_expired(OTHER, now_ns=100 * SECOND_NS)


def test_evicted_trace_is_not_kept_when_it_is_decided_again() -> None:
    buf = whole()
    buf.add([span(1)], now_ns=5)
    (trace,) = buf.restorer.decide(TRACE, (), Trigger.EVICTION, age_ns=0, now_ns=6)
    assert trace.doubts == (IncompletenessReason.EVICTED,)
    assert not buf.restorer.holds(TRACE)


def test_look_is_taken_again_once() -> None:
    buf = whole()
    buf.add([span(1)], now_ns=0)
    assert buf.restorer.reevaluate(TRACE, Trigger.LATE_SPAN, number=1, now_ns=1) is None
    buf.restorer.decide(TRACE, (), Trigger.ROOT_SPAN, age_ns=0, now_ns=1)
    buf.add([span(2, parent=1, tool="t")], now_ns=2)
    looked = buf.restorer.reevaluate(TRACE, Trigger.LATE_SPAN, number=2, now_ns=3)
    assert looked is not None
    assert looked.revision == 2
    assert buf.restorer.reevaluate(TRACE, Trigger.LATE_SPAN, number=2, now_ns=4) is None
    assert buf.pop_due(now_ns=20 * SECOND_NS) == []


def test_units_are_taken_out_as_they_were_and_the_rest_waits() -> None:
    buf = by_unit()
    spans = [span(n, parent=1, attributes=AGENT) for n in (10, 20)] + [span(n + 1, parent=n, tool="t") for n in (10, 20)]
    buf.add([span(1), *spans], now_ns=0)
    (first,) = buf.restorer.decide(TRACE, {span(10).span_id}, Trigger.ROOT_SPAN, age_ns=0, now_ns=1)
    assert (first.unit_span_id, {each.span_id[-1] for each in first.spans}) == (span(10).span_id, {10, 11})
    assert [kept.unit_span_id for kept in buf.restorer.kept(TRACE)] == [span(10).span_id, None]
    assert not buf.restorer.is_expired(TRACE, now_ns=1)
    (second,) = buf.pop_due(now_ns=20 * SECOND_NS)
    assert second.unit_span_id == span(20).span_id


def test_container_that_holds_nothing_more_is_gone() -> None:
    buf = by_unit()
    buf.add([span(10, parent=1, flags=0x300, attributes=AGENT)], now_ns=0)
    assert len(buf.restorer.decide(TRACE, {span(10).span_id}, Trigger.IDLE_TIMEOUT, age_ns=0, now_ns=1)) == 1
    assert (len(buf), buf.restorer.held()) == (0, {TRACE})
    assert buf.restorer.holds(TRACE)
    assert buf.pop_due(now_ns=20 * SECOND_NS) == []


def test_unit_whose_agent_span_was_lost_leaves_the_rest_open() -> None:
    buf = by_unit()
    buf.add([span(11, parent=10, tool="t")], now_ns=0)
    assert buf.restorer.decide(TRACE, {span(10).span_id}, Trigger.ROOT_SPAN, age_ns=0, now_ns=1) == []
    assert len(buf) == 1


def test_unit_is_not_taken_out_where_whole_traces_are_judged() -> None:
    buf = whole()
    buf.add([span(10, attributes=AGENT)], now_ns=0)
    assert buf.restorer.decide(TRACE, {span(10).span_id}, Trigger.ROOT_SPAN, age_ns=0, now_ns=1) == []
    assert len(buf) == 1


def test_remembered_decision_makes_every_span_late_by_its_age() -> None:
    buf = whole()
    buf.restorer.remember(TRACE, age_ns=100, now_ns=5)
    assert buf.add([span(1)], now_ns=7).late_ages_ns == [102]
    units = by_unit()
    units.restorer.remember(TRACE + span(10).span_id, age_ns=100, now_ns=5)
    assert units.add([span(10, attributes=AGENT)], now_ns=7).late_ages_ns == [102]


@pytest.mark.parametrize("make", [whole, by_unit])
def test_what_is_kept_comes_back_as_it_was(make: type[TraceBuffer]) -> None:
    buf = make()
    buf.add([span(10, parent=1, flags=0x300, attributes=AGENT), span(11, parent=10, tool="t"), span(12, parent=99)], now_ns=0)
    buf.pop_due(now_ns=70 * SECOND_NS)
    buf.add([span(13, parent=10, tool="t")], now_ns=71 * SECOND_NS)
    kept = [each for each in buf.restorer.kept(TRACE) if each.decided]
    assert [(each.looks, each.reevaluation_due) for each in kept] == [(0, True)]
    again = make()
    result = again.restorer.restore_decided(kept[0], now_ns=3)
    assert (result.received, result.relevant + result.ignored) == (len(kept[0].spans), len(kept[0].spans))
    assert again.restorer.kept(TRACE) == [kept[0]]
    again.add([span(14, parent=10, tool="t")], now_ns=4)
    (trace,) = again.pop_due(now_ns=20 * SECOND_NS)
    assert (trace.revision, len(trace.spans)) == (1, len(kept[0].spans) + 1)
    quiet = make()
    quiet.restorer.restore_decided(replace(kept[0], reevaluation_due=False), now_ns=3)
    assert quiet.pop_due(now_ns=20 * SECOND_NS) == []


def test_flags_of_an_open_trace_come_back_and_those_of_none_are_passed_over() -> None:
    buf = whole()
    buf.add([span(1)], now_ns=0)
    buf.restorer.mark(TRACE, Flags(truncated=True, lost=True))
    buf.restorer.mark(OTHER, Flags(truncated=True))
    (trace,) = buf.pop_due(now_ns=20 * SECOND_NS)
    assert trace.doubts == (IncompletenessReason.SPAN_LIMIT, IncompletenessReason.EVICTED)


@pytest.mark.parametrize(("damaged", "doubted"), [pytest.param(TRACE, {1}, id="one"), pytest.param(None, {1, 2}, id="any")])
def test_trace_of_which_something_was_lost_is_doubted(damaged: bytes | None, doubted: set[int]) -> None:
    buf = whole()
    buf.add([span(1), span(1, trace=2)], now_ns=0)
    buf.restorer.decide(OTHER, (), Trigger.ROOT_SPAN, age_ns=0, now_ns=0)
    buf.restorer.mark_damaged(damaged)
    buf.add([span(2, trace=2, parent=1, tool="t")], now_ns=1)
    traces = buf.pop_due(now_ns=20 * SECOND_NS)
    assert {trace.trace_id[-1] for trace in traces if IncompletenessReason.JOURNAL in trace.doubts} == doubted


def test_trace_that_is_new_here_and_was_lost_before_is_doubted_and_so_are_its_units() -> None:
    buf = by_unit()
    buf.restorer.mark_damaged(TRACE)
    buf.add([span(10, parent=1, flags=0x300, attributes=AGENT), span(1, trace=2)], now_ns=0)
    traces = buf.pop_due(now_ns=20 * SECOND_NS)
    assert {trace.trace_id[-1]: IncompletenessReason.JOURNAL in trace.doubts for trace in traces} == {1: True, 2: False}


def test_bounds_hold_again_only_when_all_is_back() -> None:
    buf = TraceBuffer(kinds=KINDS, limits=BufferLimits(num_traces=1))
    for number in (1, 2, 3):
        buf.add([span(1, trace=number)], now_ns=0, evict=False)
    assert len(buf) == 3
    buf.add([], now_ns=0)
    assert (len(buf), len(buf.pop_due(now_ns=0))) == (1, 2)


def test_inner_unit_that_lost_spans_casts_its_doubt_on_the_outer_one() -> None:
    buf = by_unit()
    buf.add([span(20, parent=10, flags=0x100, attributes=AGENT)], now_ns=0)
    buf.pop_due(now_ns=70 * SECOND_NS)
    buf.restorer.mark_damaged(TRACE)
    buf.add([span(10, flags=0x100, attributes=AGENT)], now_ns=71 * SECOND_NS)
    (outer,) = buf.pop_due(now_ns=140 * SECOND_NS)
    assert (outer.unit_span_id, IncompletenessReason.JOURNAL in outer.doubts) == (span(10).span_id, True)


# --- bytes that outlive the process


def test_spans_come_back_equal_with_their_origins_and_share_them_again() -> None:
    resource, scope = Resource(attributes={"a": (1, {"b": None})}), Scope(name="s", version="1")
    event = SpanEvent(name="exception", time_unix_ns=3, attributes={"m": b"\xff"})
    spans = [replace(span(n), resource=resource, scope=scope, events=(event,)) for n in (1, 2)]
    reader, writer = StoredSpanReader(), StoredSpanWriter()
    first, second = (reader.read(TRACE, writer.write(spans)) for _ in range(2))
    assert first == second == spans
    assert first[0].resource is second[1].resource
    assert [each.size_bytes for each in first] == [500, 500]


def test_reader_forgets_origins_that_never_come_again() -> None:
    reader = StoredSpanReader()
    for number in range(2500):
        reader.read(TRACE, StoredSpanWriter().write([span(1, resource={"n": number})]))
    assert len(reader._read) <= 1001  # noqa: SLF001 - what it takes is not to be seen from outside


def test_pipeline_takes_a_decision_up_and_says_it_again_if_asked() -> None:
    first = pipeline(count(any=1))
    decisions: list[Decision] = []
    first.on_decision = decisions.append
    spans = [span(1), span(2, parent=1, attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "t"})]
    first.add(spans, now_ns=0, transport="t")
    (report,) = first.pop_due(now_ns=20 * SECOND_NS)
    (decision,) = decisions
    assert decision.given is not None
    assert [label for _, _, label, _ in decision.given.said] == [Label.PASS]
    for reemit in (True, False):
        second = pipeline(count(any=1))
        second.add(spans, now_ns=0, transport="t")
        (trace,) = second.traces.restorer.decide(TRACE, (), decision.trigger, age_ns=0, now_ns=1)
        again = second.restore(decision, trace, reemit=reemit)
        said = None if again is None else [(verdict.evaluation_id, verdict.label) for verdict in again.verdicts]
        assert said == ([(verdict.evaluation_id, verdict.label) for verdict in report.verdicts] if reemit else None)
        assert second.restore(replace(decision, given=None), trace, reemit=True) is None
