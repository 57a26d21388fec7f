"""Agent invocations judged one by one: sessions, nesting, late and resent spans, and what happens when something is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.engine.buffer.completion import IN_PROCESS_POLICY, CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.span_kinds import RootCondition, SpanKinds
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from otel_toolcall_eval.model.trace import Span, Trace

UNITS = CompletionPolicy(unit=Unit.AGENT_INVOCATION)
KINDS = SpanKinds(is_relevant=lambda s: "tool.name" in s.attributes or "agent" in s.attributes, is_agent=lambda s: "agent" in s.attributes)
REMOTE = 0x300


def agent(number: int, parent: int | None = None, **fields: object) -> Span:
    return span(number, parent=parent, attributes={"agent": "a"}, **fields)  # type: ignore[arg-type]


def tool(number: int, parent: int | None, **fields: object) -> Span:
    return span(number, parent=parent, tool="t", **fields)  # type: ignore[arg-type]


class Session:
    """A buffer and the seconds that pass."""

    def __init__(self, policy: CompletionPolicy = UNITS, limits: BufferLimits | None = None) -> None:
        self.buffer = TraceBuffer(kinds=KINDS, policy=policy, limits=limits)
        self.late = 0

    def add(self, second: float, *spans: Span, open_spans: int | None = None) -> None:
        still_open = None if open_spans is None else {spans[0].trace_id: open_spans}
        result = self.buffer.add(spans, now_ns=round(second * SECOND_NS), open_spans=still_open)
        assert result.received == len(spans) == result.relevant + result.ignored + result.duplicate + result.conflict
        self.late += result.late

    def at(self, second: float) -> list[tuple[int | None, list[int]]]:
        """Return what is due: the agent span of each unit, and its spans."""
        return [told(trace) for trace in self.traces_at(second)]

    def traces_at(self, second: float) -> list[Trace]:
        return self.buffer.pop_due(now_ns=round(second * SECOND_NS))

    def is_empty(self, second: float = 100_000) -> bool:
        assert self.at(second) == []
        self.at(2 * second)
        return (len(self.buffer), self.buffer.size_bytes, self.buffer.revisable, self.buffer.next_due_ns()) == (0, 0, 0, None)


def told(trace: Trace) -> tuple[int | None, list[int]]:
    unit = None if trace.unit_span_id is None else int.from_bytes(trace.unit_span_id, "big")
    return unit, sorted(int.from_bytes(s.span_id, "big") for s in trace.spans)


def test_agent_at_the_root_is_a_unit_one_quiet_period_after_it() -> None:
    session = Session()
    session.add(0, tool(2, 1), agent(1))
    assert session.at(9.9) == []
    (trace,) = session.traces_at(10)
    assert (told(trace), trace.trigger, trace.doubts) == ((1, [1, 2]), Trigger.ROOT_SPAN, ())
    assert trace.root is not None
    assert trace.root.span_id == trace.unit_span_id
    assert session.is_empty()


def test_turns_of_a_session_whose_root_is_never_exported_each_get_a_verdict_at_the_cap() -> None:
    session, found = Session(), []
    for turn in range(20):
        base, at = 100 * (turn + 1), 40 * turn
        session.add(at, tool(base + 2, base + 1), tool(base + 3, base + 2), span(base + 9, parent=1))
        session.add(at + 5, agent(base + 1, parent=1))
        found += session.at(at + 5)
    found += session.at(19 * 40 + 65)
    assert found == [(base + 1, [base + 1, base + 2, base + 3]) for base in range(100, 2_100, 100)]


def test_root_that_is_known_spares_the_wait_for_the_cap_and_what_is_beside_the_agents_is_let_go() -> None:
    session = Session()
    session.add(0, agent(11, parent=1), tool(12, 11), span(5, parent=1), agent(21, parent=1), tool(22, 21))
    session.add(1, span(1))
    assert session.at(11) == [(11, [11, 12]), (21, [21, 22])]
    assert len(session.buffer) == 0
    assert session.is_empty()


def test_a21_parentless_agents_are_units_of_their_own() -> None:
    session = Session()
    session.add(0, agent(1), tool(2, 1), agent(11), tool(12, 11))
    assert session.at(10) == [(1, [1, 2]), (11, [11, 12])]


def test_a22_nested_agent_of_the_same_name_is_part_of_the_outer_one() -> None:
    session = Session()
    session.add(0, tool(3, 2), agent(2, parent=1), tool(4, 1))
    assert session.at(20) == []
    session.add(30, agent(1))
    assert session.at(40) == [(1, [1, 2, 3, 4])]


@pytest.mark.parametrize(("outer_at", "spans", "doubts"), [(100, [1, 2, 3, 4], ()), (500, [1, 4], (IncompletenessReason.EVICTED,))])
def test_outer_agent_that_ends_late_takes_over_what_was_judged_alone_or_says_that_it_is_gone(
    outer_at: int, spans: list[int], doubts: tuple[IncompletenessReason, ...]
) -> None:
    session = Session()
    session.add(0, tool(3, 2), agent(2, parent=1))
    assert session.at(60) == [(2, [2, 3])]
    session.at(outer_at)
    session.add(outer_at, tool(4, 1), agent(1))
    (trace,) = session.traces_at(outer_at + 10)
    assert (told(trace), trace.doubts) == ((1, spans), doubts)
    assert session.is_empty()


def test_agent_called_from_another_process_is_judged_after_its_quiet_period() -> None:
    session = Session()
    session.add(0, tool(3, 2), agent(2, parent=1, flags=REMOTE))
    assert session.at(10) == [(2, [2, 3])]


def test_a20_calls_beside_the_only_agent_count_for_it_and_a_trace_without_an_agent_counts_whole() -> None:
    session = Session()
    session.add(0, span(1), agent(2, parent=1), tool(3, 1), tool(4, 3), span(5, parent=1))
    assert session.at(10) == [(2, [2, 3, 4])]
    session.add(20, span(1, trace=2), tool(2, 1, trace=2))
    (trace,) = session.traces_at(30)
    assert (told(trace), trace.doubts) == ((None, [1, 2]), ())


def test_late_call_revises_a_trace_that_was_judged_whole() -> None:
    session = Session()
    session.add(0, tool(2, 1), span(1))
    assert session.at(10) == [(None, [1, 2])]
    session.add(20, tool(3, 1))
    assert session.at(40) == [(None, [1, 2, 3])]
    assert session.late == 1
    assert session.is_empty()


def test_calls_beside_two_agents_count_for_neither() -> None:
    session = Session()
    session.add(0, span(1), agent(2, parent=1), agent(3, parent=1), tool(4, 1), tool(5, 2))
    assert session.at(10) == [(2, [2, 5]), (3, [3])]


def test_late_spans_find_their_unit_by_parent_whatever_order_they_come_in() -> None:
    session = Session()
    session.add(0, agent(1), agent(11))
    assert session.at(10) == [(1, [1]), (11, [11])]
    session.add(20, tool(3, 2))
    session.add(21, span(2, parent=1), tool(12, 11))
    traces = session.traces_at(31)
    assert [(told(t), t.revision, t.trigger) for t in traces] == [
        ((1, [1, 2, 3]), 1, Trigger.LATE_SPAN),
        ((11, [11, 12]), 1, Trigger.LATE_SPAN),
    ]
    assert session.is_empty()


def test_batch_that_is_resent_after_everything_was_forgotten_makes_no_second_verdict() -> None:
    batch = [tool(4, 3), span(3, parent=2), tool(2, 1), agent(1)]
    for resent in (batch, batch[::-1], batch[2:]):
        session = Session()
        session.add(0, *batch)
        assert session.at(10) == [(1, [1, 2, 3, 4])]
        session.at(100)
        session.add(1_000, *resent)
        assert session.late >= 2
        assert session.is_empty()


def test_session_that_pauses_for_hours_gets_verdicts_for_its_new_turns() -> None:
    session = Session()
    session.add(0, tool(12, 11), agent(11, parent=1))
    assert session.at(60) == [(11, [11, 12])]
    session.at(2_000)
    assert len(session.buffer) == 0
    session.add(9_000, tool(22, 21), agent(21, parent=1))
    assert session.at(9_060) == [(21, [21, 22])]
    session.add(9_100, tool(32, 31))  # nothing but a stray call: the trace had its verdicts
    assert session.is_empty()


def test_span_whose_parent_has_not_come_holds_the_unit_and_makes_it_doubtful() -> None:
    session = Session()
    session.add(0, span(1), agent(2, parent=1), tool(4, 3))
    assert session.at(59.9) == []
    (trace,) = session.traces_at(60)
    assert (told(trace), trace.doubts) == ((2, [2]), (IncompletenessReason.ORPHAN,))
    session.add(70, span(3, parent=2))
    (again,) = session.traces_at(80)
    assert (told(again), again.doubts, again.revision) == ((2, [2, 3, 4]), (), 1)


def test_silent_turn_that_outlasts_the_idle_time_out_is_judged_with_a_doubt() -> None:
    session = Session()
    session.add(0, agent(11, parent=1), tool(22, 21))
    assert session.at(60) == [(11, [11])]
    assert session.at(301) == []
    assert len(session.buffer) == 0
    session.add(600, agent(21, parent=1))
    (trace,) = session.traces_at(660)
    assert (told(trace), trace.doubts) == ((21, [21]), (IncompletenessReason.EVICTED,))


def test_call_that_was_not_kept_makes_its_unit_doubtful_and_no_other() -> None:
    session = Session(limits=BufferLimits(span_limit=4))
    session.add(0, tool(2, 1), tool(3, 1), tool(4, 1), tool(5, 1), tool(6, 1), agent(1))
    (trace,) = session.traces_at(10)
    assert (told(trace), trace.doubts) == ((1, [1, 2, 3, 4, 5]), (IncompletenessReason.SPAN_LIMIT, IncompletenessReason.EVICTED))
    session.add(20, agent(11), tool(12, 11))
    assert [t.doubts for t in session.traces_at(30)] == [()]


def test_shutdown_and_eviction_judge_every_unit_and_leave_nothing() -> None:
    session = Session(limits=BufferLimits(num_traces=1))
    session.add(0, agent(1), agent(11, parent=99), tool(12, 11), tool(13, 98))
    session.add(1, agent(1, trace=2), tool(2, 1, trace=2))
    evicted = session.traces_at(1)
    assert [(told(t), t.trigger) for t in evicted] == [((1, [1]), Trigger.EVICTION), ((11, [11, 12]), Trigger.EVICTION)]
    drained = session.buffer.drain(now_ns=2 * SECOND_NS)
    assert [(told(t), t.doubts) for t in drained] == [((1, [1, 2]), (IncompletenessReason.SHUTDOWN,))]
    assert session.is_empty()


def test_in_process_an_agent_is_a_unit_the_moment_that_nothing_is_open() -> None:
    session = Session(replace(IN_PROCESS_POLICY, unit=UNITS.unit))
    session.add(0, tool(2, 1), open_spans=1)
    session.add(1, agent(1), open_spans=0)
    assert session.at(1) == [(1, [1, 2])]
    session.add(2, agent(11), open_spans=1)
    assert session.at(31.9) == []
    (trace,) = session.traces_at(32)
    assert trace.doubts == (IncompletenessReason.OPEN_SPANS,)


def test_other_copy_of_an_agent_span_that_is_none_takes_the_unit_back() -> None:
    session = Session()
    session.add(0, agent(2, parent=1, end=30), span(2, parent=1, end=40), agent(3, parent=1, end=50), tool(4, 3))
    session.add(1, span(1))
    assert session.at(11) == [(3, [3, 4])]


def test_rings_and_self_parents_end_and_are_units() -> None:
    session = Session()
    session.add(0, agent(1, parent=2), agent(2, parent=1), agent(3, parent=3), tool(4, 3), tool(5, 5))
    assert {unit for unit, _ in session.at(10)} >= {3}
    session.at(1_000)
    assert session.is_empty()


def test_a31_session_of_sixty_thousand_spans_takes_flat_memory_and_gives_a_verdict_for_each_turn() -> None:
    session, units, most = Session(), 0, 0
    for turn in range(600):
        base, at = 1_000 * (turn + 1), 12 * turn
        spans = [tool(base + n, base) if n % 3 else span(base + n, parent=base) for n in range(1, 100)]
        session.add(at, *spans, agent(base, parent=1))
        units += len(session.at(at))
        most = max(most, session.buffer.size_bytes)
    units += len(session.at(12 * 600 + 60))
    assert units == 600
    assert most < 30 * 100 * 600  # 300 s of units that may be part of another one, and 60 s of those to come


def test_what_is_left_of_a_packed_trace_when_a_unit_leaves_it_is_packed_again_and_not_judged_early() -> None:
    text = "It rains in Oslo, and the wind is from the north. " * 400
    heavy = [span(n, parent=20, attributes={"tool.name": text}, size=20_000) for n in range(21, 31)]
    session = Session(limits=BufferLimits(limit_bytes=240_000))
    session.add(0, agent(10, 9), tool(11, 10))
    session.add(25, agent(20, 9), *heavy)
    for number in range(2, 12):  # others come, and there is no room for all
        session.add(26, *[replace(one, trace_id=number.to_bytes(16, "big")) for one in (tool(2, 1), heavy[0])])
    assert session.at(60) == [(10, [10, 11])]
    assert session.buffer.size_bytes > 240_000
    session.add(61, replace(tool(3, 1), trace_id=bytes(15) + b"\x02"))
    assert session.buffer.size_bytes < 100_000
    assert session.at(84) == []
    assert session.at(85) == [(20, [*range(20, 31)])]


def test_units_have_keys_of_their_own_for_notes_and_release() -> None:
    session = Session()
    session.add(0, agent(1), agent(11))
    first, second = session.traces_at(10)
    session.buffer.attach(first.key, "said")
    session.buffer.release(second.key)
    session.add(20, tool(2, 1), tool(12, 11))
    (again,) = session.traces_at(30)
    assert (again.key, again.note) == (first.key, "said")


@pytest.mark.parametrize(
    ("condition", "candidate", "is_root"),
    [
        pytest.param(RootCondition(), span(1), True, id="no-parent"),
        pytest.param(RootCondition(), span(2, parent=1), False, id="no-condition"),
        pytest.param(RootCondition(name="run"), span(2, parent=1, name="run"), True, id="name"),
        pytest.param(RootCondition(name="run"), span(2, parent=1, name="runs"), False, id="other-name"),
        pytest.param(RootCondition(attributes=(("k", 1),)), span(2, parent=1, attributes={"k": 1}), True, id="attribute"),
        pytest.param(RootCondition(attributes=(("k", 1),)), span(2, parent=1, attributes={"k": True}), False, id="true-is-not-1"),
        pytest.param(RootCondition(attributes=(("k", "v"),)), span(2, parent=1), False, id="no-attribute"),
        pytest.param(RootCondition(name="run", attributes=(("k", 1),)), span(2, parent=1, name="run"), False, id="both-have-to-hold"),
    ],
)
def test_configured_condition_makes_a_root(condition: RootCondition, candidate: Span, is_root: bool) -> None:  # noqa: FBT001 - a column
    assert condition(candidate) is is_root


def test_trace_is_complete_a_quiet_period_after_its_configured_root() -> None:
    kinds = SpanKinds(is_relevant=KINDS.is_relevant, is_root=RootCondition(name="run"))
    buf = TraceBuffer(kinds=kinds)
    buf.add([tool(3, 2), span(2, parent=1, name="run")], now_ns=0)
    (trace,) = buf.pop_due(now_ns=10 * SECOND_NS)
    assert (trace.doubts, trace.trigger) == ((), Trigger.ROOT_SPAN)
    assert trace.root is not None
    assert trace.root.name == "run"


@given(data=st.data())
def test_order_batching_and_repetition_never_change_the_units(data: st.DataObject) -> None:
    spans = [span(1)]
    for number in range(2, data.draw(st.integers(3, 12))):
        kind, parent = data.draw(st.sampled_from(["agent", "tool", "other"])), data.draw(st.integers(1, number - 1))
        spans.append(agent(number, parent) if kind == "agent" else tool(number, parent) if kind == "tool" else span(number, parent=parent))
    sent = data.draw(st.permutations([*spans, *data.draw(st.lists(st.sampled_from(spans), max_size=4))]))
    cut = data.draw(st.integers(0, len(sent)))
    plain, other = Session(), Session()
    plain.add(0, *spans)
    other.add(0, *sent[:cut])
    other.add(1, *sent[cut:])
    expected = plain.traces_at(11)
    assert sorted((told(t), t.doubts) for t in other.traces_at(11)) == sorted((told(t), t.doubts) for t in expected)
    members = [number for t in expected for number in told(t)[1]]
    assert len(members) == len(set(members)), "a span in two units"
