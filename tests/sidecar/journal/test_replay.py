"""What one process took in and decided holds in the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.work_items import BindRequest
from otel_toolcall_eval.model.criteria import BoundCriteria, CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from otel_toolcall_eval.sidecar.journal.store import Sync
from tests.engine.buffer.judged import args, count
from tests.fakes import SECOND_NS, span
from tests.sidecar.journal.lives import ANY, HOUR_NS, Killed, Life, holds_open, next_life, request, verdicts

if TYPE_CHECKING:
    from pathlib import Path

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Span

AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}


def tool(number: int, *, trace: int = 1, parent: int | None = 1, name: str = "search") -> Span:
    return span(
        number,
        trace=trace,
        parent=parent,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name},
        resource={"r": 1},
    )


def labels(reports: list[TraceReport]) -> list[tuple[int, str]]:
    return [(report.revision, report.verdicts[0].label.value) for report in reports]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "j"


@pytest.mark.parametrize("sync", Sync)
def test_spans_of_an_open_trace_are_there_again_and_its_quiet_period_starts_anew(path: Path, sync: Sync) -> None:
    life = Life(path, sync)
    life.send(span(1), tool(2))
    life.wait(9)
    life = next_life(life)
    life.send(tool(3, name="other"))
    life.wait(9)
    assert life.emitted == []
    life.wait(2)
    (report,) = life.emitted
    assert (report.trigger, report.doubts, [call.name for call in report.extraction.calls]) == (Trigger.ROOT_SPAN, (), ["search", "other"])
    assert life.pipeline.counts.total("received") == 3
    life.die()


@pytest.mark.parametrize("delivered", [True, False])
def test_decision_is_not_taken_again_and_its_report_is_emitted_again_unless_it_was_delivered(path: Path, *, delivered: bool) -> None:
    life = Life(path, delivers=delivered)
    life.send(span(1), tool(2))
    life.wait(11)
    life.wait(2)
    assert labels(life.emitted) == [(0, "pass")]
    life = next_life(life)
    assert labels(life.emitted) == [(0, "pass")] * (1 if delivered else 2)
    assert len(set(verdicts(life.emitted))) == 1
    life.wait(400)
    assert len(life.emitted) == (1 if delivered else 2)
    life.die()


def test_late_span_after_the_restart_revises_the_verdict(path: Path) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.wait(12)
    life = next_life(life)
    life.send(tool(3), tool(4))
    life.wait(11)
    assert labels(life.emitted) == [(0, "pass"), (1, "fail")]
    life = next_life(life)
    life.send(tool(2), tool(3))
    life.wait(11)
    assert labels(life.emitted) == [(0, "pass"), (1, "fail")]  # duplicates change nothing
    life.die()


def test_look_that_changed_nothing_counts_as_one_in_the_next_process(path: Path) -> None:
    life = Life(path, policy=CompletionPolicy(max_revisions=1))
    life.send(span(1), tool(2), tool(3, name="other"))
    life.wait(12)
    life.send(span(4, parent=1, attributes=AGENT))
    life.wait(11)
    life = next_life(life)
    life.send(tool(5), tool(6))
    life.wait(11)
    assert labels(life.emitted) == [(0, "pass")]
    life.die()


def test_decided_trace_stays_decided_when_its_spans_are_gone(path: Path) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.wait(12)
    life.wait(120)
    for _ in range(3):
        life = next_life(life)
        assert not life.pipeline.traces.restorer.holds(span(1).trace_id)
        life.send(tool(3))
        life.wait(600)
    assert labels(life.emitted) == [(0, "pass")]
    assert life.pipeline.counts.total("late") == 1
    life.die()


@pytest.mark.parametrize("jump_ns", [-HOUR_NS, HOUR_NS, -50 * 365 * 24 * HOUR_NS, 50 * 365 * 24 * HOUR_NS])
def test_clock_that_was_set_between_the_two_lives_does_no_harm(path: Path, jump_ns: int) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.send(span(1, trace=2), tool(2, trace=2))
    life.wait(75)
    life.send(span(1, trace=3), tool(2, trace=3))
    life.wait(12)
    life.send(span(1, trace=4), tool(2, trace=4))
    life = next_life(life, unix_ns=life.unix_ns + jump_ns, now_ns=5)
    life.send(tool(5), tool(5, trace=3), tool(5, trace=4))
    life.wait(300)
    final = {report.trace_id[-1]: report for report in life.emitted}
    assert {number: report.revision for number, report in final.items()} == {1: 0, 2: 0, 3: 1, 4: 0}
    ages = life.pipeline.traces.add([tool(6)], now_ns=life.now_ns).late_ages_ns
    assert all(0 <= age <= 2 * HOUR_NS for age in ages)
    life.die()


def test_criteria_that_changed_meanwhile_judge_what_was_not_delivered_and_leave_the_rest(path: Path) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.wait(12)
    life.wait(2)
    life.delivers = False
    life.send(span(1, trace=2), tool(2, trace=2))
    life.wait(12)
    changed = CriteriaSet(name="faults", checks=(count(any=0),), version="2", selector=Selector(reach=SelectorScope.EVERY))
    life = next_life(life, criteria=[changed])
    assert [(report.trace_id[-1], *said) for report, said in zip(life.emitted, labels(life.emitted), strict=True)] == [
        (1, 0, "pass"),
        (2, 0, "pass"),
        (2, 0, "fail"),
    ]
    first, again = life.emitted[1].verdicts[0], life.emitted[2].verdicts[0]
    assert first.evaluation_id != again.evaluation_id  # the version is part of it
    life.die()


def test_log_records_and_bindings_survive(path: Path) -> None:
    named = CriteriaSet(name="named", checks=(args("search", {"q": 1}),), selector=Selector(reach=SelectorScope.NAMED))
    life = Life(path, criteria=[named])
    life.turn(BindRequest(trace_id=span(1).trace_id, bound=BoundCriteria(names=("named",))))
    record = LogRecord(
        trace_id=span(1).trace_id,
        span_id=span(2).span_id,
        event_name="gen_ai.client.inference.operation.details",
        attributes={"gen_ai.tool.call.arguments": '{"q": 1}'},
    )
    life.log(record, LogRecord(trace_id=None, span_id=None, event_name="x", attributes={"call_id": "c"}))
    life = next_life(life)
    assert life.pipeline.logs.counts["received", (("transport", "journal"),)] == 2
    life.send(span(1), tool(2))
    life = next_life(life)
    life.wait(12)
    (report,) = life.emitted
    assert report.verdicts[0].criteria == "named"
    life = next_life(life)
    life.wait(80)
    life.send(span(1, trace=3))
    life.wait(3600 + 3600)
    life = next_life(life)
    assert life.pipeline.logs.counts.get(("received", (("transport", "journal"),)), 0) == 0
    life.die()


def test_evicted_trace_is_evicted_once_and_the_bounds_hold_after_a_restart_with_lower_ones(path: Path) -> None:
    limits = BufferLimits(num_traces=3)
    life = Life(path, limits=limits, delivers=False)
    for number in range(1, 6):
        life.send(span(1, trace=number), tool(2, trace=number))
    assert [(report.trace_id[-1], report.trigger) for report in life.emitted] == [(1, Trigger.EVICTION), (2, Trigger.EVICTION)]
    life = next_life(life, emitted=[])
    assert [(report.trace_id[-1], report.trigger) for report in life.emitted] == [(1, Trigger.EVICTION), (2, Trigger.EVICTION)]
    assert all(report.doubts == (IncompletenessReason.EVICTED,) for report in life.emitted)
    life = next_life(life, limits=BufferLimits(num_traces=1), emitted=[], delivers=True)
    life.wait(20)
    assert [report.trace_id[-1] for report in life.emitted] == [1, 2, 3, 4, 5]
    assert [report.trigger for report in life.emitted[2:]] == [Trigger.EVICTION, Trigger.EVICTION, Trigger.ROOT_SPAN]
    life.die()


def test_units_of_one_session_are_each_judged_once(path: Path) -> None:
    life = Life(path, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION))
    for turn in range(4):
        first = 10 * turn + 10
        life.send(span(first, parent=1, attributes=AGENT, flags=0x300), tool(first + 1, parent=first))
        life = next_life(life)
        life.wait(11)
        life = next_life(life)
        life.wait(2)
    judged = [report.evaluated_span for report in life.emitted]
    assert [each and each.span_id[-1] for each in judged] == [10, 20, 30, 40]
    life.send(tool(12, parent=10))
    life.wait(20)
    assert [(report.evaluated_span and report.evaluated_span.span_id[-1], report.revision) for report in life.emitted[4:]] == [(10, 1)]
    life.die()


def test_units_that_were_judged_together_are_judged_together_again(path: Path) -> None:
    # A call beside two agents belongs to neither; beside one agent alone it would be counted to it.
    life = Life(path, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION), delivers=False)
    agents = [each for first in (10, 20) for each in (span(first, parent=1, attributes=AGENT), tool(first + 1, parent=first))]
    life.send(span(1), *agents, tool(5))
    life.wait(12)
    assert [len(report.extraction.calls) for report in life.emitted] == [1, 1]
    life = next_life(life)
    assert [len(report.extraction.calls) for report in life.emitted] == [1, 1, 1, 1]
    assert len(set(verdicts(life.emitted))) == 2
    life.die()


def test_a_journal_holds_open_what_is_not_decided_or_not_delivered(path: Path) -> None:
    life = Life(path, delivers=False)
    life.send(span(1))
    life.die()
    assert holds_open(path)
    life = Life(path, delivers=False)
    life.wait(11)
    assert len(life.emitted) == 1
    life.die()
    assert holds_open(path)  # it may not have reached whoever listens
    Life(path).end()
    assert not holds_open(path)


def test_what_a_clean_end_cut_short_is_judged_for_good_by_the_next_process(path: Path) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.send(span(1, trace=2))
    life.end()
    assert labels(life.emitted) == [(0, "inconclusive")] * 2
    assert [report.trigger for report in life.emitted] == [Trigger.SHUTDOWN] * 2
    assert not holds_open(path)
    again = Life(path, emitted=life.emitted)
    assert len(again.pipeline.traces) == 0
    again.send(tool(2, trace=2), tool(3, trace=2))
    again.wait(9)
    assert len(again.emitted) == 2
    again.wait(400)
    assert {(report.trace_id[-1], *labels([report])[0]) for report in again.emitted[2:]} == {(1, 1, "pass"), (2, 1, "fail")}
    assert not any(report.doubts for report in again.emitted[2:])
    third = next_life(again)
    third.send(tool(4))
    third.wait(400)
    assert len(third.emitted) == 4  # it stays decided
    third.die()


def test_late_span_after_a_clean_end_revises_the_verdict(path: Path) -> None:
    life = Life(path)
    life.send(span(1), tool(2))
    life.wait(12)
    life.end()
    again = Life(path, emitted=life.emitted)
    again.send(tool(3), tool(4))
    again.wait(11)
    assert labels(again.emitted) == [(0, "pass"), (1, "fail")]
    again.die()


def test_trace_whose_root_had_not_come_at_a_clean_end_is_open_again(path: Path) -> None:
    named = replace(ANY, selector=Selector(reach=SelectorScope.NAMED))
    life = Life(path, criteria=(named,))
    life.send(tool(2))
    life.end()
    assert [report.unbound for report in life.emitted] == [True]
    assert not holds_open(path)
    again = Life(path, criteria=(named,))
    assert len(again.pipeline.traces) == 1
    again.send(replace(span(1), attributes={"toolcall_eval.criteria": ANY.name}))
    again.wait(11)
    assert labels(again.emitted) == [(0, "pass")]
    again.die()


def test_end_without_delivery_emits_again_at_the_next_start(path: Path) -> None:
    life = Life(path, delivers=False)
    life.send(span(1), tool(2))
    life.end(delivered=False)
    again = Life(path, emitted=life.emitted)
    assert [report.trigger for report in again.emitted] == [Trigger.SHUTDOWN] * 2
    assert len(set(verdicts(again.emitted))) == 1
    again.die()


def test_settings_that_judge_other_units_after_the_restart_leave_nothing_open_for_ever(path: Path) -> None:
    by_unit = CompletionPolicy(unit=Unit.AGENT_INVOCATION)
    life = Life(path, policy=by_unit)
    life.send(span(10, parent=1, attributes=AGENT, flags=0x300), tool(11, parent=10))
    life.wait(12)
    life = next_life(life, policy=CompletionPolicy())
    life.wait(400)
    life = next_life(life, policy=by_unit)
    life.wait(4000)
    assert len(life.pipeline.traces) == 0
    life.die()


SPANS = [span(1), *(tool(n) for n in range(2, 5)), tool(5, parent=2, name="other"), span(6, parent=1, attributes=AGENT)]
SESSION = [
    span(1, attributes={}),
    *(each for first in (10, 20, 30) for each in (span(first, parent=1, attributes=AGENT), tool(first + 1, parent=first))),
    tool(12, parent=10, name="other"),
    tool(22, parent=21),
]
STEPS = ["written", "taken", "judged", "decided", "emitted", ""]


def operations(spans: list[Span]) -> st.SearchStrategy[list[tuple[str, object]]]:
    part = st.lists(st.sampled_from(range(len(spans))), min_size=1, max_size=4)
    sending = st.tuples(st.just("send"), st.tuples(st.integers(1, 3), part))
    waiting = st.tuples(st.just("wait"), st.sampled_from([11, 3]))
    killing = st.tuples(st.just("kill"), st.sampled_from(STEPS))
    # What matters is a kill after a verdict that was given on part of the spans, so these come in a row more often than by chance.
    judged = st.tuples(sending, st.just(("wait", 11)), killing)
    return st.lists(st.one_of(judged, st.tuples(sending), st.tuples(waiting), st.tuples(killing)), max_size=8).map(
        lambda groups: [operation for group in groups for operation in group]
    )


def lived(path: Path, script: list[tuple[str, object]], spans: list[Span], policy: CompletionPolicy, *, kills: bool, **how: object) -> Life:
    """Run a script; where a kill comes in the middle of a turn, the sender sends again, and a wait that it cut short begins anew."""
    life = Life(path, policy=policy, **how)  # type: ignore[arg-type] # as declared there
    for what, detail in script:
        if what == "kill":
            life.kill_at = str(detail) if kills else ""
            if kills and not detail:
                life = next_life(life)
            continue
        try:
            play(life, what, detail, spans)
        except Killed:
            life = next_life(life)
            play(life, what, detail, spans)
    life.kill_at = ""
    if kills:
        life = next_life(life)
    for trace in (1, 2, 3):  # whatever was not sent is sent in the end, so that all come to the same
        life.send(*(span_in(each, trace) for each in spans))
    life.wait(400)
    return life


def span_in(each: Span, trace: int) -> Span:
    return replace(each, trace_id=trace.to_bytes(16, "big"))


def play(life: Life, what: str, detail: object, spans: list[Span]) -> None:
    if what == "wait":
        assert isinstance(detail, int)
        life.wait(detail)
    elif isinstance(detail, tuple):
        trace, chosen = detail
        life.send(*(span_in(spans[place], trace) for place in chosen))


@pytest.mark.slow
@pytest.mark.parametrize("compact_bytes", [1, 1 << 30], ids=["compacting", "plain"])
@pytest.mark.parametrize(
    ("spans", "unit"), [pytest.param(SPANS, Unit.TRACE, id="traces"), pytest.param(SESSION, Unit.AGENT_INVOCATION, id="units")]
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_kills_change_no_final_verdict_and_no_verdict_that_was_given(
    tmp_path_factory: pytest.TempPathFactory, spans: list[Span], unit: Unit, compact_bytes: int, data: st.DataObject
) -> None:
    # A kill starts waiting anew, so no time may run out in the one run that does not in the other.
    policy = CompletionPolicy(max_revisions=1000, late_span_window_ns=1000 * SECOND_NS, wait_after_root_max_ns=200 * SECOND_NS, unit=unit)
    script = data.draw(operations(spans))
    folder = tmp_path_factory.mktemp("lives")
    plain = lived(folder / "a", script, spans, policy, kills=False)
    killed = lived(folder / "b", script, spans, policy, kills=True, compact_bytes=compact_bytes)
    plain.die()
    killed.die()
    assert finals(killed.emitted) == finals(plain.emitted)
    given_twice = set(verdicts(killed.emitted))
    assert len({verdict[0] for verdict in given_twice}) == len(given_twice)


def finals(reports: list[TraceReport]) -> dict[object, object]:
    last: dict[object, tuple[int, object]] = {}
    for report in reports:
        key = (report.trace_id, report.evaluated_span and report.evaluated_span.span_id)
        said = [(verdict.evaluator, verdict.label, verdict.emitted_score, verdict.doubts) for verdict in report.verdicts]
        if key not in last or report.revision >= last[key][0]:
            last[key] = (report.revision, said)
    return {key: said for key, (_, said) in last.items()}


def test_request_is_answered_when_it_is_written_and_not_before(path: Path) -> None:
    life = Life(path)
    asked = request(span(1))
    assert asked.done is not None
    life.kill_at = "written"
    with pytest.raises(Killed):
        life.turn(asked)
    assert asked.done.done()
    life = next_life(life)
    assert life.pipeline.open_traces == 1
    life.die()


def test_doubt_for_what_was_passed_on_unjudged_survives(path: Path) -> None:
    life = Life(path, delivers=False)
    life.send(span(1), tool(2), span(1, trace=2), tool(2, trace=2))
    life.turn(SkippedRequest(transport="grpc", trace_ids={span(1).trace_id}, spans=1))
    life = next_life(life)
    life.wait(12)
    life = next_life(life)
    doubted = {report.trace_id[-1]: IncompletenessReason.OVERLOAD in report.doubts for report in life.emitted}
    assert doubted == {1: True, 2: False}
    assert len(set(verdicts(life.emitted))) == 2
    life.die()
