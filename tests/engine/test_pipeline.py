"""The main path: what is bound is judged, what fails costs only itself, and partial traces say so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.binding import BoundTraces
from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.pipeline import OWN_SCOPE, Pipeline
from otel_toolcall_eval.model.criteria import (
    BoundCriteria,
    Check,
    CountCriteria,
    CountExpectation,
    CriteriaSet,
    Operator,
    OrderCriteria,
    Selector,
    SelectorScope,
)
from otel_toolcall_eval.model.decision import PriorVerdicts
from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.score import Completeness, Label, Score
from otel_toolcall_eval.model.trace import IncompletenessReason, Span, Trigger
from tests.fakes import FailingEvaluator, NamesEvaluator, PlainJustification, PlainReader, span

if TYPE_CHECKING:
    import pytest

    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.tool_call import CallLog, Extraction

COUNT = CountCriteria(expectations=(CountExpectation(tool="a", operator=Operator.EQUAL, count=1),))
ORDER = OrderCriteria(expected=("a",))


def criteria_set(name: str = "set", *, version: str = "1", reach: SelectorScope = SelectorScope.EVERY, order: bool = False) -> CriteriaSet:
    checks = [Check(evaluator="Count", evaluator_id="tool-call-count", criteria=COUNT)]
    if order:
        checks.append(Check(evaluator="Order", evaluator_id="tool-call-order", criteria=ORDER))
    return CriteriaSet(name=name, checks=tuple(checks), version=version, selector=Selector(reach=reach))


def pipeline(*sets: CriteriaSet, evaluator: NamesEvaluator | None = None, fail_order: bool = False) -> Pipeline:
    count = evaluator or NamesEvaluator()
    return Pipeline(
        reader=PlainReader(),
        evaluators={CountCriteria: count, OrderCriteria: FailingEvaluator() if fail_order else count},
        criteria=sets,
    )


def test_bound_trace_is_judged_by_each_check_in_order() -> None:
    evaluator = NamesEvaluator()
    pipe = pipeline(criteria_set("one", order=True), criteria_set("two"), evaluator=evaluator)
    pipe.add([span(3, parent=1, tool="b"), span(2, parent=1, tool="a"), span(1, attributes={"agent": "main"})], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10**10)
    assert [(v.criteria, v.evaluator, v.label, v.emitted_score) for v in report.verdicts] == [
        ("one", "Count", Label.PASS, 1.0),
        ("one", "Order", Label.PASS, 1.0),
        ("two", "Count", Label.PASS, 1.0),
    ]
    assert evaluator.seen == [(["a", "b"], False)] * 3
    assert (report.agent, report.trigger, report.completeness, report.unbound) == ("main", Trigger.ROOT_SPAN, Completeness.COMPLETE, False)


def test_report_holds_the_spans() -> None:
    pipe = Pipeline(reader=PlainReader(), evaluators={CountCriteria: NamesEvaluator()}, criteria=[criteria_set()])
    spans = [span(2, parent=1, tool="a"), span(1, attributes={"agent": "main"})]
    pipe.add(spans, now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10**10)
    assert list(report.spans) == spans


def test_unbound_trace_is_reported_and_its_calls_are_never_read() -> None:
    class Reader(PlainReader):
        def extract(self, spans: object) -> Extraction:
            raise AssertionError(spans)

    pipe = Pipeline(reader=Reader(), evaluators={})
    pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10**10)
    assert report.unbound


def test_partial_trace_is_open_ended_and_its_uncertain_verdict_has_no_score() -> None:
    evaluator = NamesEvaluator()
    pipe = pipeline(criteria_set(), evaluator=evaluator)
    pipe.add([span(2, parent=1, tool="a")], now_ns=0, transport="grpc")
    (report,) = pipe.drain(now_ns=1)
    (verdict,) = report.verdicts
    assert evaluator.seen == [(["a"], True)]
    assert (verdict.label, verdict.emitted_score, verdict.completeness) == (Label.INCONCLUSIVE, None, Completeness.PARTIAL)
    assert verdict.doubts == (IncompletenessReason.NO_ROOT, IncompletenessReason.ORPHAN, IncompletenessReason.SHUTDOWN)


def test_failing_evaluator_costs_only_its_own_verdict() -> None:
    pipe = pipeline(criteria_set(order=True), fail_order=True)
    pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10**10)
    good, bad = report.verdicts
    assert good.label is Label.PASS
    assert (bad.label, bad.score, bad.emitted_score) == (Label.INCONCLUSIVE, None, None)
    assert bad.failure is not None
    assert bad.failure.error_type == "RuntimeError"


def test_failing_reader_costs_its_trace_the_scores_and_says_so() -> None:
    class Reader(PlainReader):
        def extract(self, spans: object) -> Extraction:
            raise ValueError(spans)

    pipe = Pipeline(reader=Reader(), evaluators={CountCriteria: NamesEvaluator()}, criteria=[criteria_set()])
    pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10**10)
    assert [v.failure.error_type if v.failure else None for v in report.verdicts] == ["ValueError"]


def test_own_telemetry_is_never_grouped_counted_or_judged() -> None:
    pipe = pipeline(criteria_set())
    pipe.add([span(1, tool="a", scope=OWN_SCOPE)], now_ns=0, transport="grpc")
    assert (pipe.open_traces, pipe.counts.total("received")) == (0, 0)


def test_counts_add_up_over_transports() -> None:
    pipe = pipeline(criteria_set())
    pipe.add([span(1), span(1), span(2, parent=1, tool="a")], now_ns=0, transport="grpc", rejected={"end": 2})
    pipe.add([span(2, parent=1, tool="b")], now_ns=0, transport="http")
    counts = pipe.counts
    assert {what: number for (what, attributes), number in counts.by.items() if ("transport", "grpc") in attributes} == {
        "received": 5,
        "rejected": 2,
        "relevant": 1,
        "ignored": 1,
        "duplicate": 1,
        "conflict": 0,
        "late": 0,
        "dropped": 0,
        "skipped": 0,
    }
    assert {what: counts.total(what) for what in ("received", "rejected", "conflict")} == {"received": 6, "rejected": 2, "conflict": 1}


def test_trace_bound_by_id_is_judged_by_what_it_was_bound_to() -> None:
    pipe = pipeline(criteria_set("named", reach=SelectorScope.NAMED), criteria_set("other", reach=SelectorScope.UNNAMED))
    pipe.bind(span(1).trace_id, BoundCriteria(names=("named",)), now_ns=0)
    pipe.bind(span(1).trace_id, BoundCriteria(names=("missing",)), now_ns=0)
    pipe.add([span(1, tool="a"), span(1, trace=2, tool="a")], now_ns=0, transport="grpc")
    first, second = pipe.pop_due(now_ns=10**10)
    assert [v.criteria for v in first.verdicts] == ["named"]
    assert first.unknown_criteria == ("missing",)
    assert [v.criteria for v in second.verdicts] == ["other"]


def test_trace_bound_to_criteria_of_code_is_judged_by_them_and_again_when_it_is_revised() -> None:
    pipe = Pipeline(reader=PlainReader(), evaluators={CountCriteria: NamesEvaluator()}, bindings=BoundTraces())
    pipe.add([span(1)], now_ns=0, transport="grpc")
    assert pipe.traces.is_open(span(1).trace_id)
    (unbound,) = pipe.pop_due(now_ns=10**10)
    assert (unbound.unbound, pipe.traces.is_open(span(1).trace_id)) == (True, False)
    for name in ("first", "second"):
        made = CriteriaSet(name=name, checks=criteria_set().checks, selector=Selector(reach=SelectorScope.NAMED))
        pipe.bind(span(1).trace_id, BoundCriteria(sets=(made,)), now_ns=10**10)
        (report,) = pipe.pop_due(now_ns=10**10)
    assert [verdict.criteria for verdict in report.verdicts] == ["first", "second"]
    assert (report.revision, report.unknown_criteria) == (2, ())


def test_bindings_of_traces_that_never_come_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.engine.binding.MAX_BOUND_TRACES", 2)
    pipe = pipeline(criteria_set("named", reach=SelectorScope.NAMED))
    for number in (1, 2, 3):
        pipe.bind(span(1, trace=number).trace_id, BoundCriteria(names=("named",)), now_ns=0)
    pipe.add([span(1, trace=number) for number in (1, 2, 3)], now_ns=0, transport="grpc")
    assert [len(r.verdicts) for r in pipe.pop_due(now_ns=10**10)] == [0, 1, 1]


def test_replaced_criteria_hold_from_the_next_verdict_on() -> None:
    pipe = pipeline(criteria_set("old"))
    pipe.add([span(1)], now_ns=0, transport="grpc")
    pipe.replace_criteria(
        [CriteriaSet(name="new", checks=criteria_set().checks, selector=Selector(reach=SelectorScope.MATCHED, attributes={"k": 1}))]
    )
    assert "k" in pipe.projection.keys
    assert [s.name for s in pipe.criteria] == ["new"]
    (report,) = pipe.pop_due(now_ns=10**10)
    assert report.unbound


def test_evaluation_id_is_stable_and_changes_with_the_criteria() -> None:
    def judged(version: str) -> list[str]:
        pipe = pipeline(criteria_set(version=version, order=True))
        pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
        return [v.evaluation_id for v in pipe.pop_due(now_ns=10**10)[0].verdicts]

    assert judged("1") == judged("1")
    assert len({*judged("1"), *judged("2")}) == 4
    assert all(len(found) == 32 for found in judged("1"))


def test_waiting_time_and_evaluation_time_are_reported() -> None:
    ticks = iter([1_000_000_000, 1_500_000_000])
    pipe = Pipeline(reader=PlainReader(), evaluators={}, stopwatch=lambda: next(ticks))
    spans: list[Span] = [span(1)]
    pipe.add(spans, now_ns=5, transport="grpc")
    assert pipe.next_due_ns() == 10**10 + 5
    assert pipe.buffered_bytes > 0
    (report,) = pipe.pop_due(now_ns=10**10 + 5)
    assert (report.decided_after_ns, report.evaluation_seconds) == (10**10, 0.5)


class CallsEvaluator(NamesEvaluator):
    """Scores 1.0 if ``a`` was called once."""

    def evaluate(self, criteria: Criteria, log: CallLog) -> Score:
        super().evaluate(criteria, log)
        value = 1.0 if sum(call.name == "a" for call in log.calls) == 1 else 0.0
        return Score(value=value, lowest=value, highest=value, justification=PlainJustification())


def test_revision_is_reported_only_if_a_verdict_changed() -> None:
    second_ns = 10**9
    pipe = pipeline(criteria_set("named", reach=SelectorScope.NAMED), evaluator=CallsEvaluator())
    pipe.bind(span(1).trace_id, BoundCriteria(names=("named",)), now_ns=0)
    pipe.add([span(1), span(2, parent=1, tool="a")], now_ns=0, transport="grpc")
    (first,) = pipe.pop_due(now_ns=10 * second_ns)
    pipe.add([span(3, parent=1, tool="b")], now_ns=20 * second_ns, transport="grpc")
    assert pipe.pop_due(now_ns=30 * second_ns) == []
    pipe.add([span(4, parent=1, tool="a")], now_ns=31 * second_ns, transport="grpc")
    (second,) = pipe.pop_due(now_ns=41 * second_ns)
    assert [(r.revision, r.verdicts[0].label) for r in (first, second)] == [(0, Label.PASS), (1, Label.FAIL)]
    assert first.verdicts[0].evaluation_id != second.verdicts[0].evaluation_id
    assert pipe.counts.total("late") == 2


def test_what_the_same_is_said_of_is_kept_once_and_revised_each_for_itself() -> None:
    second_ns = 10**9
    pipe = pipeline(criteria_set(), evaluator=CallsEvaluator())
    tools = ("a", "a", "b", "a")
    spans = [one for number, tool in enumerate(tools, 1) for one in (span(2, trace=number, parent=1, tool=tool), span(1, trace=number))]
    pipe.add(spans, now_ns=0, transport="grpc")
    labels = [report.verdicts[0].label for report in pipe.pop_due(now_ns=10 * second_ns)]
    assert labels == [Label.PASS, Label.PASS, Label.FAIL, Label.PASS]
    notes = [trace.note for trace in pipe.traces._settled]  # noqa: SLF001 - that it is one object is what is kept of memory
    assert notes[0] is notes[1]
    assert notes[0] == notes[3] != notes[2]
    pipe.add([span(3, trace=number, parent=1, tool="a") for number in (2, 3)], now_ns=11 * second_ns, transport="grpc")
    revised = pipe.pop_due(now_ns=21 * second_ns)
    assert {(r.trace_id[-1], r.revision, r.verdicts[0].label) for r in revised} == {(2, 1, Label.FAIL), (3, 1, Label.PASS)}


def test_trace_that_was_judged_by_nothing_can_be_bound_within_the_late_window() -> None:
    second_ns = 10**9
    kept = Pipeline(
        reader=PlainReader(),
        evaluators={CountCriteria: NamesEvaluator()},
        criteria=[criteria_set("named", reach=SelectorScope.NAMED)],
        bindings=BoundTraces(),
    )
    for pipe, verdicts in ((kept, ["named"]), (pipeline(criteria_set("named", reach=SelectorScope.NAMED)), None)):
        pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
        (first,) = pipe.pop_due(now_ns=10 * second_ns)
        assert first.unbound
        pipe.bind(span(1).trace_id, BoundCriteria(names=("named",)), now_ns=20 * second_ns)
        found = pipe.pop_due(now_ns=20 * second_ns)
        assert [[v.criteria for v in report.verdicts] for report in found] == ([verdicts] if verdicts else [])


def test_late_span_that_came_just_before_the_end_still_revises_the_verdict() -> None:
    second_ns = 10**9
    pipe = Pipeline(reader=PlainReader(), evaluators={CountCriteria: CallsEvaluator()}, criteria=[criteria_set()])
    pipe.add([span(1)], now_ns=0, transport="grpc")
    (first,) = pipe.pop_due(now_ns=10 * second_ns)
    pipe.add([span(2, parent=1, tool="a")], now_ns=12 * second_ns, transport="grpc")
    (second,) = pipe.drain(now_ns=13 * second_ns)
    assert [(r.revision, r.verdicts[0].label) for r in (first, second)] == [(0, Label.FAIL), (1, Label.PASS)]


def test_log_record_that_comes_after_the_verdict_makes_the_trace_worth_another_look() -> None:
    second_ns = 10**9
    pipe = pipeline(criteria_set())
    pipe.add([span(1, tool="a")], now_ns=0, transport="grpc")
    assert len(pipe.pop_due(now_ns=10 * second_ns)) == 1
    record = LogRecord(trace_id=span(1).trace_id, span_id=span(1).span_id, event_name="x")
    pipe.add_logs([record], received=1, now_ns=20 * second_ns, transport="grpc")
    assert pipe.next_due_ns() == 30 * second_ns
    assert pipe.pop_due(now_ns=30 * second_ns) == []  # and nothing else is to be said


def test_traces_that_spans_were_shed_of_are_judged_with_a_doubt_be_they_open_judged_or_still_to_come() -> None:
    evaluator = NamesEvaluator()
    pipe = pipeline(criteria_set(), evaluator=evaluator)
    second = 10**9
    pipe.add([span(1, trace=1, tool="a")], now_ns=0, transport="grpc")
    pipe.add([span(1, trace=4, tool="a")], now_ns=0, transport="grpc")
    (first, untouched) = pipe.pop_due(now_ns=11 * second)
    assert first.doubts == untouched.doubts == ()
    pipe.add([span(1, trace=2, tool="a")], now_ns=11 * second, transport="grpc")
    ids = {number.to_bytes(16) for number in (1, 2, 3)}
    pipe.shed(SkippedRequest(transport="grpc", trace_ids=ids, spans=7, rejected=Counter(end=1)), now_ns=12 * second)
    pipe.add([span(2, trace=1, tool="b", parent=1), span(1, trace=3, tool="a")], now_ns=13 * second, transport="grpc")
    pipe.add([span(2, trace=4, tool="b", parent=1)], now_ns=13 * second, transport="grpc")
    reports = {int.from_bytes(report.trace_id): report for report in pipe.pop_due(now_ns=60 * second)}
    assert {trace: (report.doubts, report.completeness) for trace, report in reports.items()} == {
        1: ((IncompletenessReason.OVERLOAD,), Completeness.PARTIAL),
        2: ((IncompletenessReason.OVERLOAD,), Completeness.PARTIAL),
        3: ((IncompletenessReason.OVERLOAD,), Completeness.PARTIAL),
    }
    assert {report.verdicts[0].label for report in reports.values()} == {Label.INCONCLUSIVE}
    counts = pipe.counts
    taken = ("relevant", "ignored", "duplicate", "conflict", "skipped", "rejected")
    assert counts.total("received") == sum(map(counts.total, taken)) == 14
    assert counts.total("skipped") == 7


def test_shed_log_records_are_counted() -> None:
    pipe = pipeline(criteria_set())
    pipe.shed(SkippedRequest(transport="grpc", trace_ids={bytes(15) + b"a"}, records=3, records_asked=1), now_ns=0)
    assert pipe.logs.counts["received", (("transport", "grpc"),)] == 3


def test_what_is_said_of_a_trace_stands_with_its_own_binding_though_another_is_equal() -> None:
    pipe = pipeline(criteria_set())
    pipe.add([span(1)], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10 * 10**9)
    givens, equal = PriorVerdicts(), [BoundCriteria(names=("a",)), BoundCriteria(names=("a",))]
    assert [givens.of(report, revision=0, bound=bound).bound is bound for bound in (*equal, *equal)] == [True] * 4
    assert givens.of(report, revision=0, bound=equal[1]) is givens.of(report, revision=0, bound=equal[1])
