"""The buffer groups spans, waits as the completion policy says, and stays within its bounds. Virtual time throughout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.engine.buffer.completion import IN_PROCESS_POLICY, CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.open_trace import judged_root
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.trace import IncompletenessReason, Span, Trace, Trigger
from tests.fakes import SECOND_NS, span

QUIET_NS = 10 * SECOND_NS


def relevant(candidate: object) -> bool:
    return "tool.name" in candidate.attributes  # type: ignore[attr-defined]


def buffer(policy: CompletionPolicy | None = None, limits: BufferLimits | None = None) -> TraceBuffer:
    return TraceBuffer(is_relevant=relevant, policy=policy, limits=limits)


def ids(trace: Trace) -> list[int]:
    return sorted(int.from_bytes(s.span_id, "big") for s in trace.spans)


def test_trace_is_due_one_quiet_period_after_its_root_and_not_before() -> None:
    buf = buffer()
    assert buf.quiet_ns == QUIET_NS
    buf.add([span(2, parent=1, tool="a"), span(1)], now_ns=0)
    assert buf.pop_due(now_ns=QUIET_NS - 1) == []
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert (trace.trigger, trace.doubts, ids(trace)) == (Trigger.ROOT_SPAN, (), [1, 2])
    assert trace.root is not None
    assert trace.root.span_id == (1).to_bytes(8, "big")
    assert len(buf) == 0


def test_what_is_due_may_be_had_in_parts_and_the_rest_stays_due() -> None:
    buf = buffer()
    buf.add([span(1, trace=number) for number in range(1, 6)], now_ns=0)
    parts = []
    while (due_ns := buf.next_due_ns()) is not None and due_ns <= QUIET_NS:
        parts.append([trace.trace_id[-1] for trace in buf.pop_due(now_ns=QUIET_NS, limit=2)])
    assert parts == [[1, 2], [3, 4], [5]]
    assert buf.pop_due(now_ns=QUIET_NS, limit=2) == []


def test_trace_is_open_until_it_is_decided() -> None:
    buf = buffer(IN_PROCESS_POLICY)
    root = span(1)
    assert not buf.is_open(root.trace_id)
    buf.add([root], now_ns=0)
    assert buf.is_open(root.trace_id)
    buf.pop_due(now_ns=0)
    assert not buf.is_open(root.trace_id)


def test_trace_without_a_new_span_hears_of_those_that_started_and_of_those_that_are_gone() -> None:
    buf = buffer(IN_PROCESS_POLICY)
    root = span(1)
    buf.add([root], now_ns=0)
    buf.add([], now_ns=0, open_spans={root.trace_id: 1, b"unknown": 1})
    assert buf.pop_due(now_ns=1) == []
    buf.add([], now_ns=2, open_spans={root.trace_id: 0})
    assert [trace.doubts for trace in buf.pop_due(now_ns=2)] == [()]


def test_each_span_restarts_the_quiet_period() -> None:
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.add([span(2, parent=1)], now_ns=9 * SECOND_NS)
    assert buf.pop_due(now_ns=QUIET_NS) == []
    assert buf.next_due_ns() == 19 * SECOND_NS
    assert [ids(t) for t in buf.pop_due(now_ns=19 * SECOND_NS)] == [[1, 2]]


def test_chatty_trace_is_judged_at_the_cap() -> None:
    buf = buffer()
    for second in range(0, 70, 5):
        buf.add([span(second + 1, parent=None if second == 0 else 1)], now_ns=second * SECOND_NS)
        if second < 60:
            assert buf.pop_due(now_ns=second * SECOND_NS) == []
    (trace,) = buf.pop_due(now_ns=65 * SECOND_NS)
    assert trace.trigger is Trigger.ROOT_SPAN


def test_orphan_holds_the_verdict_up_to_the_cap_and_is_named() -> None:
    buf = buffer()
    buf.add([span(1), span(3, parent=2)], now_ns=0)
    assert buf.pop_due(now_ns=60 * SECOND_NS - 1) == []
    (trace,) = buf.pop_due(now_ns=60 * SECOND_NS)
    assert trace.doubts == (IncompletenessReason.ORPHAN,)


def test_parent_that_arrives_ends_the_hold() -> None:
    buf = buffer()
    buf.add([span(1), span(3, parent=2)], now_ns=0)
    buf.add([span(2, parent=1)], now_ns=20 * SECOND_NS)
    (trace,) = buf.pop_due(now_ns=30 * SECOND_NS)
    assert trace.doubts == ()


def test_parent_in_another_process_makes_a_root() -> None:
    buf = buffer()
    buf.add([span(5, parent=4, flags=0x300)], now_ns=0)
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert (trace.trigger, trace.doubts) == (Trigger.ROOT_SPAN, ())


@pytest.mark.parametrize("flags", [pytest.param(0x100, id="local"), pytest.param(0, id="old-sdk")])
def test_missing_parent_that_is_not_remote_makes_no_root(flags: int) -> None:
    buf = buffer()
    buf.add([span(5, parent=4, flags=flags)], now_ns=0)
    assert buf.pop_due(now_ns=300 * SECOND_NS - 1) == []
    (trace,) = buf.pop_due(now_ns=300 * SECOND_NS)
    assert (trace.trigger, trace.doubts) == (Trigger.IDLE_TIMEOUT, (IncompletenessReason.NO_ROOT, IncompletenessReason.ORPHAN))


def test_long_run_is_not_cut_while_active() -> None:
    # tool spans every 120 s for 30 minutes, root last: one verdict with all calls
    buf = buffer()
    for turn in range(15):
        now_ns = turn * 120 * SECOND_NS
        assert buf.pop_due(now_ns=now_ns) == []
        buf.add([span(turn + 2, parent=1, tool="t")], now_ns=now_ns)
    buf.add([span(1)], now_ns=15 * 120 * SECOND_NS)
    (trace,) = buf.pop_due(now_ns=15 * 120 * SECOND_NS + QUIET_NS)
    assert len(trace.spans) == 16


def test_drip_feed_is_cut_by_age() -> None:
    buf = buffer()
    for turn in range(16):
        buf.add([span(turn + 2, parent=1)], now_ns=turn * 240 * SECOND_NS)
    (trace,) = buf.pop_due(now_ns=3600 * SECOND_NS)
    assert trace.trigger is Trigger.TRACE_TIMEOUT
    assert IncompletenessReason.NO_ROOT in trace.doubts


def test_in_process_a_trace_is_due_the_moment_that_nothing_is_open() -> None:
    buf = buffer(IN_PROCESS_POLICY)
    root = span(1)
    buf.add([root], now_ns=0, open_spans={root.trace_id: 1})
    assert buf.pop_due(now_ns=30 * SECOND_NS - 1) == []
    buf.add([span(2, parent=1)], now_ns=5, open_spans={root.trace_id: 0})
    (trace,) = buf.pop_due(now_ns=5)
    assert trace.doubts == ()


def test_in_process_a_span_that_never_ends_is_named() -> None:
    buf = buffer(IN_PROCESS_POLICY)
    root = span(1)
    buf.add([root], now_ns=0, open_spans={root.trace_id: 2})
    (trace,) = buf.pop_due(now_ns=30 * SECOND_NS)
    assert trace.doubts == (IncompletenessReason.OPEN_SPANS,)


def test_equal_copies_are_counted_once() -> None:
    buf = buffer()
    first = buf.add([span(1), span(2, parent=1, tool="a"), span(2, parent=1, tool="a")], now_ns=0)
    again = buf.add([span(1), span(2, parent=1, tool="a")], now_ns=1)
    assert (first.received, first.relevant, first.ignored, first.duplicate) == (3, 1, 1, 1)
    assert (again.received, again.duplicate) == (2, 2)
    (trace,) = buf.pop_due(now_ns=QUIET_NS + 1)
    assert ids(trace) == [1, 2]


@pytest.mark.parametrize("swap", [False, True], ids=["short-first", "long-first"])
def test_of_two_different_copies_the_later_end_wins(swap: bool) -> None:  # noqa: FBT001 - a parameter of the table
    copies = [span(2, parent=1, tool="a", end=25), span(2, parent=1, tool="a", end=99)]
    buf = buffer()
    result = buf.add([span(1), *(copies[::-1] if swap else copies)], now_ns=0)
    assert (result.conflict, result.relevant) == (1, 1)
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert [s.end_unix_ns for s in trace.spans if s.span_id == (2).to_bytes(8, "big")] == [99]


def test_conflict_that_moves_the_parent_leaves_no_false_orphan() -> None:
    buf = buffer()
    buf.add([span(1), span(3, parent=2, end=50), span(3, parent=1, end=60)], now_ns=0)
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert trace.doubts == ()


def test_conflict_between_spans_whose_parent_came_meanwhile_keeps_the_books_straight() -> None:
    buf = buffer()
    buf.add([span(3, parent=2, end=50), span(2, parent=1), span(1), span(3, parent=2, end=60)], now_ns=0)
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert trace.doubts == ()


def test_two_orphans_of_one_parent_and_a_conflict_still_wait_for_it() -> None:
    buf = buffer()
    buf.add([span(1), span(3, parent=9, end=50), span(4, parent=9), span(3, parent=1, end=60)], now_ns=0)
    (trace,) = buf.pop_due(now_ns=60 * SECOND_NS)
    assert trace.doubts == (IncompletenessReason.ORPHAN,)


def test_late_span_does_not_reopen_a_decided_trace() -> None:
    # one verdict for each trace ID, revisions explicit
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    result = buf.add([span(2, parent=1, tool="a"), span(3, parent=1)], now_ns=30 * SECOND_NS)
    assert (result.late, result.relevant, result.ignored, len(buf)) == (2, 1, 1, 0)
    assert result.late_ages_ns == [20 * SECOND_NS] * 2
    assert buf.pop_due(now_ns=40 * SECOND_NS - 1) == []
    (trace,) = buf.pop_due(now_ns=40 * SECOND_NS)
    assert (trace.trigger, trace.revision, ids(trace)) == (Trigger.LATE_SPAN, 1, [1, 2, 3])


def test_more_late_spans_restart_the_quiet_period_of_a_revision() -> None:
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    buf.add([span(2, parent=1, tool="a")], now_ns=20 * SECOND_NS)
    buf.add([span(3, parent=1, tool="b")], now_ns=25 * SECOND_NS)
    assert buf.pop_due(now_ns=30 * SECOND_NS) == []
    (trace,) = buf.pop_due(now_ns=35 * SECOND_NS)
    assert ids(trace) == [1, 2, 3]
    assert buf.pop_due(now_ns=69 * SECOND_NS) == []


def test_revision_is_made_at_the_end_of_the_window_at_the_latest() -> None:
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    buf.add([span(2, parent=1, tool="a")], now_ns=69 * SECOND_NS)
    (trace,) = buf.pop_due(now_ns=70 * SECOND_NS)
    assert trace.revision == 1
    assert (buf.size_bytes, buf.revisable, buf.next_due_ns()) == (0, 0, None)


def test_irrelevant_late_span_and_late_copies_are_counted_and_nothing_more() -> None:
    buf = buffer()
    buf.add([span(1), span(2, parent=1, tool="a")], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    result = buf.add([span(3, parent=1), span(2, parent=1, tool="a")], now_ns=20 * SECOND_NS)
    assert (result.late, result.duplicate) == (1, 1)
    assert buf.pop_due(now_ns=1_000 * SECOND_NS) == []
    assert buf.size_bytes == 0


@pytest.mark.parametrize(
    ("early", "late"),
    [
        pytest.param(span(3, parent=2), span(2, parent=1), id="parent-of-an-orphan"),
        pytest.param(span(3, parent=1, tool="a", end=40), span(3, parent=1, tool="a", end=50), id="longer-copy-of-a-tool-span"),
    ],
)
def test_late_span_that_matters_makes_a_revision(early: Span, late: Span) -> None:
    # an orphan is provisional; its parent arrives in the window: judged once more
    buf = buffer()
    buf.add([span(1), early], now_ns=0)
    (first,) = buf.pop_due(now_ns=60 * SECOND_NS)
    buf.add([late], now_ns=70 * SECOND_NS)
    (second,) = buf.pop_due(now_ns=80 * SECOND_NS)
    assert (first.revision, second.revision, second.doubts) == (0, 1, ())


def test_late_root_makes_a_revision() -> None:
    buf = buffer()
    buf.add([span(2, parent=1, tool="a")], now_ns=0)
    (first,) = buf.pop_due(now_ns=300 * SECOND_NS)
    buf.add([span(1)], now_ns=310 * SECOND_NS)
    (second,) = buf.pop_due(now_ns=320 * SECOND_NS)
    assert (first.doubts, second.doubts) == ((IncompletenessReason.NO_ROOT, IncompletenessReason.ORPHAN), ())


def test_there_are_at_most_three_revisions() -> None:
    policy = CompletionPolicy(wait_after_root_ns=1, late_span_window_ns=1_000)
    buf = buffer(policy)
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=1)
    revisions = []
    for number in range(2, 9):
        buf.add([span(number, parent=1, tool="a")], now_ns=10 * number)
        revisions += [trace.revision for trace in buf.pop_due(now_ns=10 * number + 1)]
    assert revisions == [1, 2, 3]


def test_span_past_the_window_is_late_and_changes_nothing() -> None:
    # an approval pause; the resumed run comes hours later
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    buf.pop_due(now_ns=70 * SECOND_NS)
    result = buf.add([span(2, parent=1, tool="a")], now_ns=600 * SECOND_NS)
    assert (result.late, result.late_ages_ns, result.relevant) == (1, [590 * SECOND_NS], 1)
    assert buf.pop_due(now_ns=10_000 * SECOND_NS) == []
    assert len(buf) == 0


def test_note_comes_back_with_a_revision_and_a_released_trace_is_never_looked_at_again() -> None:
    buf = buffer()
    buf.add([span(1), span(1, trace=2)], now_ns=0)
    first, second = buf.pop_due(now_ns=QUIET_NS)
    buf.attach(first.trace_id, "said")
    buf.release(second.trace_id)
    buf.attach(second.trace_id, "gone")
    buf.add([span(2, parent=1, tool="a"), span(2, trace=2, parent=1, tool="a")], now_ns=20 * SECOND_NS)
    (again,) = buf.pop_due(now_ns=30 * SECOND_NS)
    assert (again.trace_id, again.note) == (first.trace_id, "said")


def test_when_memory_is_short_revisions_are_given_up_before_open_traces() -> None:
    buf = buffer(limits=BufferLimits(limit_bytes=1_400))
    buf.add([span(1)], now_ns=0)
    buf.pop_due(now_ns=QUIET_NS)
    buf.add([span(1, trace=2)], now_ns=QUIET_NS)
    assert buf.pop_due(now_ns=QUIET_NS) == []
    assert (len(buf), buf.revisable) == (1, 0)


def test_oldest_trace_is_evicted_with_a_verdict_when_there_are_too_many() -> None:
    buf = buffer(limits=BufferLimits(num_traces=10))
    for number in range(11):
        buf.add([span(1, trace=number + 1)], now_ns=number)
    assert buf.next_due_ns() == 0
    (trace,) = buf.pop_due(now_ns=11)
    assert (trace.trace_id, trace.trigger, trace.doubts) == ((1).to_bytes(16, "big"), Trigger.EVICTION, (IncompletenessReason.EVICTED,))
    assert len(buf) == 10


def test_oldest_trace_is_evicted_when_memory_runs_out_and_the_gauge_returns_to_zero() -> None:
    buf = buffer(limits=BufferLimits(limit_bytes=4_000))
    for number in range(5):
        buf.add([span(1, trace=number + 1, size=3_000)], now_ns=number)
        assert buf.size_bytes <= 4_000
    evicted = buf.pop_due(now_ns=5)
    assert [t.trace_id[-1] for t in evicted] == [1, 2, 3, 4]
    assert {t.trigger for t in evicted} == {Trigger.MEMORY}
    buf.drain(now_ns=6)
    assert buf.size_bytes == 0


def test_span_limit_is_counted_and_named_and_the_root_is_kept() -> None:
    buf = buffer(limits=BufferLimits(span_limit=3))
    result = buf.add([span(n, parent=1, tool="loop") for n in range(2, 12)], now_ns=0)
    buf.add([span(1, tool="root-is-a-tool-too")], now_ns=1)
    assert (result.relevant, result.dropped) == (10, 7)
    (trace,) = buf.pop_due(now_ns=QUIET_NS + 1)
    assert trace.doubts == (IncompletenessReason.SPAN_LIMIT,)
    assert len(trace.spans) == 4


def test_one_giant_trace_stays_within_its_own_bound() -> None:
    buf = buffer(limits=BufferLimits(maximum_trace_size_bytes=10_000))
    for number in range(1_000):
        buf.add([span(number + 2, parent=1)], now_ns=0)
    assert buf.size_bytes <= 10_000
    buf.add([span(1, trace=2)], now_ns=0)
    assert len(buf.pop_due(now_ns=QUIET_NS)) == 1


def test_shutdown_judges_everything_and_says_so() -> None:
    buf = buffer()
    buf.add([span(1), span(1, trace=2, parent=7)], now_ns=0)
    traces = buf.drain(now_ns=1)
    assert [(t.trigger, t.doubts) for t in traces] == [
        (Trigger.SHUTDOWN, (IncompletenessReason.SHUTDOWN,)),
        (Trigger.SHUTDOWN, (IncompletenessReason.NO_ROOT, IncompletenessReason.ORPHAN, IncompletenessReason.SHUTDOWN)),
    ]
    assert buf.next_due_ns() is None


def test_parents_in_a_ring_and_self_parents_are_judged() -> None:
    buf = buffer()
    buf.add([span(1, parent=2), span(2, parent=1), span(1, trace=2, parent=1)], now_ns=0)
    traces = buf.pop_due(now_ns=300 * SECOND_NS)
    assert [t.root.span_id if t.root else None for t in traces] == [(1).to_bytes(8, "big")] * 2
    assert [t.doubts for t in traces] == [(IncompletenessReason.NO_ROOT,)] * 2


def plainly_judged(spans: list[Span]) -> Span | None:
    """Put the rule for the judged root in one key."""
    ids = {one.span_id for one in spans}

    def rank(one: Span) -> tuple[bool, bool, bool, int, bytes]:
        below_another = one.parent_span_id in ids and not one.is_root
        return one.parent_span_id is not None, not one.is_root, below_another, one.start_unix_ns, one.span_id

    return min(spans, key=rank, default=None)


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.none() | st.integers(0, 7), st.sampled_from([0, 0x100, 0x300]), st.integers(0, 3)),
        max_size=6,
        unique_by=lambda row: row[0],
    )
)
def test_judged_root_is_the_first_by_the_rule_in_any_order(rows: list[tuple[int, int | None, int, int]]) -> None:
    spans = [span(number, parent=parent, flags=flags, start=start) for number, parent, flags, start in rows]
    assert judged_root(spans) is plainly_judged(spans)
    assert judged_root(iter(spans[::-1])) is plainly_judged(spans)


def test_decision_cache_forgets_by_generation_and_stays_within_its_capacity() -> None:
    buf = buffer(limits=BufferLimits(decisions=4))
    for number in range(20):
        buf.add([span(1, trace=number + 1)], now_ns=number)
        buf.drain(now_ns=number)
    assert buf.add([span(2, trace=20, parent=1)], now_ns=21).late == 1
    assert buf.add([span(2, trace=1, parent=1)], now_ns=21).late == 0


@given(
    batches=st.lists(
        st.lists(
            st.tuples(st.integers(1, 3), st.integers(1, 6), st.none() | st.integers(0, 7), st.booleans(), st.integers(0, 3)), max_size=6
        ),
        max_size=12,
    ),
    limit=st.integers(1, 4),
)
def test_spans_are_conserved_and_bounds_hold(batches: list[list[tuple[int, int, int | None, bool, int]]], limit: int) -> None:
    buf = buffer(limits=BufferLimits(num_traces=limit, span_limit=3, limit_bytes=20_000, decisions=2))
    for step, batch in enumerate(batches):
        spans = [
            span(number, trace=trace, parent=parent, tool="t" if is_tool else None, end=10 * number + extra)
            for trace, number, parent, is_tool, extra in batch
        ]
        result = buf.add(spans, now_ns=step * 7 * SECOND_NS)
        assert result.received == len(spans) == result.relevant + result.ignored + result.duplicate + result.conflict
        assert len(buf) <= limit
        assert buf.size_bytes <= 20_000
        buf.pop_due(now_ns=step * 7 * SECOND_NS)
    buf.drain(now_ns=10_000 * SECOND_NS)
    assert (len(buf), buf.size_bytes, buf.next_due_ns()) == (0, 0, None)


@given(data=st.data())
def test_order_batching_and_repetition_never_change_what_is_judged(data: st.DataObject) -> None:
    spans = [span(1), *(span(n, parent=data.draw(st.integers(1, n)), tool="t", end=data.draw(st.integers(0, 99))) for n in range(2, 8))]
    sent = data.draw(st.permutations([*spans, *data.draw(st.lists(st.sampled_from(spans), max_size=5))]))
    cut = data.draw(st.integers(0, len(sent)))
    plain, other = buffer(), buffer()
    plain.add(spans, now_ns=0)
    other.add(sent[:cut], now_ns=0)
    other.add(sent[cut:], now_ns=1)
    (expected,), (actual,) = plain.pop_due(now_ns=QUIET_NS), other.pop_due(now_ns=QUIET_NS + 1)
    assert sorted(actual.spans, key=lambda s: s.span_id) == sorted(expected.spans, key=lambda s: s.span_id)
    assert (actual.root, actual.trigger, actual.doubts) == (expected.root, expected.trigger, expected.doubts)


def test_forgetting_a_trace_that_is_not_kept_changes_nothing() -> None:
    buf = buffer()
    buf.add([span(1)], now_ns=0)
    buf.release(span(1).trace_id)
    assert len(buf.pop_due(now_ns=QUIET_NS)) == 1


def test_decided_trace_is_looked_at_on_request_within_its_window_and_three_times_at_most() -> None:
    policy = CompletionPolicy(wait_after_root_ns=1, late_span_window_ns=1_000)
    buf = buffer(policy)
    buf.add([span(1)], now_ns=0)
    buf.reevaluate(span(1).trace_id, now_ns=0)  # still open: nothing to look at again
    assert [trace.revision for trace in buf.pop_due(now_ns=1)] == [0]
    looks = []
    for now_ns in (10, 20, 30, 40):
        buf.reevaluate(span(1).trace_id, now_ns=now_ns, after_ns=5)
        assert buf.pop_due(now_ns=now_ns + 4) == []
        looks += [trace.revision for trace in buf.pop_due(now_ns=now_ns + 5)]
    assert looks == [1, 2, 3]
    buf.reevaluate(span(1).trace_id, now_ns=5_000)
    assert buf.pop_due(now_ns=5_000) == []


def test_revision_that_is_due_when_everything_is_drained_is_made() -> None:
    buf = buffer()
    buf.add([span(1), span(1, trace=2)], now_ns=0)
    assert len(buf.pop_due(now_ns=QUIET_NS)) == 2
    buf.add([span(2, parent=1, tool="a")], now_ns=12 * SECOND_NS)
    assert [(trace.revision, ids(trace)) for trace in buf.drain(now_ns=13 * SECOND_NS)] == [(1, [1, 2])]
    assert buf.size_bytes == 0


def test_without_agents_a_trace_is_its_own_unit() -> None:
    policy = CompletionPolicy(unit=Unit.AGENT_INVOCATION)
    buf = buffer(policy)
    buf.add([span(1), span(2, parent=1, tool="a")], now_ns=0)
    (trace,) = buf.pop_due(now_ns=QUIET_NS)
    assert (trace.unit_span_id, ids(trace)) == (None, [1, 2])
