"""One check against one trace: the word for its score, which calls count, and what an evaluator's own fault costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.evaluation import (
    FilteredCalls,
    evaluate_criteria_set,
    evaluation_id,
    failure_of,
    included,
    label,
    trace_hash,
)
from otel_toolcall_eval.model.criteria import CallFilter, Check, CriteriaSet, OrderCriteria
from otel_toolcall_eval.model.score import Completeness, Label, Score
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, Extraction, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason, Trace, Trigger
from tests.fakes import NOTHING, FailingEvaluator, NamesEvaluator, PlainJustification

if TYPE_CHECKING:
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.tool_call import CallLog

ORDER = OrderCriteria(expected=("a",))
CHECK = Check(evaluator="Order", evaluator_id="tool-call-order", criteria=ORDER, pass_threshold=0.5)
SET = CriteriaSet(name="set", checks=(CHECK,), version="1")
TRACE = Trace(trace_id=bytes(16), spans=(), root=None, trigger=Trigger.ROOT_SPAN)
CALLS = Extraction(calls=(ToolCall(name="a", arguments=NOTHING, output=NOTHING),))


@pytest.mark.parametrize(
    ("lowest", "highest", "threshold", "expected"),
    [
        pytest.param(1.0, 1.0, 1.0, Label.PASS, id="full-score"),
        pytest.param(0.75, 0.75, 1.0, Label.FAIL, id="below-default-threshold"),
        pytest.param(0.75, 0.75, 0.75, Label.PASS, id="exactly-at-threshold"),
        pytest.param(0.5, 1.0, 1.0, Label.INCONCLUSIVE, id="open"),
        pytest.param(0.0, 0.5, 1.0, Label.INCONCLUSIVE, id="open-though-it-can-not-pass"),
    ],
)
def test_label_follows_score_and_threshold(lowest: float, highest: float, threshold: float, expected: Label) -> None:
    score = Score(value=lowest, lowest=lowest, highest=highest, justification=PlainJustification())
    assert label(score, threshold) is expected


@pytest.mark.parametrize(
    ("lowest", "value", "highest"),
    [
        pytest.param(155.59, 155.59, 155.59, id="percent"),
        pytest.param(-0.1, 0.0, 1.0, id="below-zero"),
        pytest.param(0.0, float("nan"), 1.0, id="not-a-number"),
        pytest.param(0.5, 0.4, 1.0, id="outside-its-own-range"),
    ],
)
def test_c15_what_is_no_score_counts_as_a_failure(lowest: float, value: float, highest: float) -> None:
    class Wrong:
        def evaluate(self, criteria: Criteria, log: CallLog) -> Score:  # noqa: ARG002 - the protocol's signature
            return Score(value=value, lowest=lowest, highest=highest, justification=PlainJustification())

    verdict = evaluate_criteria_set({OrderCriteria: Wrong()}, TRACE, SET, FilteredCalls(CALLS))[0]
    assert (verdict.score, verdict.label) == (None, Label.INCONCLUSIVE)
    assert verdict.failure is not None
    assert verdict.failure.error_type == "ValueError"


def test_without_a_score_the_label_is_inconclusive() -> None:
    assert label(None, 0.0) is Label.INCONCLUSIVE


def test_only_included_kinds_and_phases_are_judged() -> None:
    calls = tuple(
        ToolCall(name=f"{kind}-{phase}", kind=kind, phase=phase, arguments=NOTHING, output=NOTHING)
        for kind in CallKind
        for phase in CallPhase
    )
    names = [call.name for call in included(Extraction(calls=calls), CallFilter())]
    assert names == ["function-executed", "mcp-executed", "provider-executed", "agent-executed"]
    wide = CallFilter(kinds=frozenset(CallKind), phases=frozenset({CallPhase.REQUESTED}))
    assert len(included(Extraction(calls=calls), wide)) == len(CallKind)


def test_verdict_carries_score_doubts_and_completeness() -> None:
    evaluator = NamesEvaluator()
    whole = evaluate_criteria_set({OrderCriteria: evaluator}, TRACE, SET, FilteredCalls(CALLS))[0]
    part = evaluate_criteria_set({OrderCriteria: evaluator}, TRACE, SET, FilteredCalls(CALLS, doubts=(IncompletenessReason.ORPHAN,)))[0]
    assert evaluator.seen == [(["a"], False), (["a"], True)]
    assert (whole.label, whole.completeness, whole.pass_threshold) == (Label.PASS, Completeness.COMPLETE, 0.5)
    assert (part.label, part.completeness, part.doubts) == (Label.INCONCLUSIVE, Completeness.PARTIAL, (IncompletenessReason.ORPHAN,))


def test_doubts_of_the_trace_and_of_the_score_are_told_once_each() -> None:
    class Doubting:
        def evaluate(self, criteria: Criteria, log: CallLog) -> Score:  # noqa: ARG002 - the protocol's signature
            doubts = (IncompletenessReason.VALUE_TRUNCATED, IncompletenessReason.ORPHAN)
            return Score(value=0.0, lowest=0.0, highest=1.0, justification=PlainJustification(), doubts=doubts)

    verdict = evaluate_criteria_set({OrderCriteria: Doubting()}, TRACE, SET, FilteredCalls(CALLS, doubts=(IncompletenessReason.ORPHAN,)))[0]
    assert (verdict.doubts, verdict.completeness) == (
        (IncompletenessReason.ORPHAN, IncompletenessReason.VALUE_TRUNCATED),
        Completeness.PARTIAL,
    )


def test_criteria_of_one_reach_share_one_view_of_the_calls() -> None:
    calls = FilteredCalls(CALLS)
    other = CallFilter(kinds=frozenset({CallKind.MCP}))
    assert calls.seen_by(CallFilter()) is calls.seen_by(CallFilter())
    assert (len(calls.seen_by(CallFilter()).calls), len(calls.seen_by(other).calls)) == (1, 0)


@pytest.mark.parametrize(
    ("clocks", "seen"),
    [
        pytest.param({b"1": 0, b"2": 1}, (0, 1), id="two"),
        pytest.param({b"1": 0}, (0, -1), id="one-is-not-known"),
        pytest.param({b"1": 1, b"2": 1}, (), id="these-calls-share-one"),
        pytest.param({}, (), id="none-told-apart"),
    ],
)
def test_clocks_are_told_apart_only_where_those_of_the_calls_disagree(clocks: dict[bytes, int], seen: tuple[int, ...]) -> None:
    made = tuple(ToolCall(name="a", arguments=NOTHING, output=NOTHING, span_id=span_id) for span_id in (b"1", b"2"))
    assert FilteredCalls(Extraction(calls=made), clocks=clocks).seen_by(CallFilter()).clocks == seen


def test_failing_evaluator_is_caught_and_named() -> None:
    verdict = evaluate_criteria_set({OrderCriteria: FailingEvaluator()}, TRACE, SET, FilteredCalls(CALLS))[0]
    assert (verdict.label, verdict.score, verdict.emitted_score) == (Label.INCONCLUSIVE, None, None)
    assert verdict.failure is not None
    assert verdict.failure.error_type == "RuntimeError"


def test_calls_that_could_not_be_read_are_not_judged() -> None:
    evaluator = NamesEvaluator()
    failure = failure_of(ValueError("boom"))
    verdict = evaluate_criteria_set({OrderCriteria: evaluator}, TRACE, SET, FilteredCalls(CALLS, failure=failure))[0]
    assert (verdict.failure, verdict.score, evaluator.seen) == (failure, None, [])


def test_evaluation_ids_are_stable_and_differ_by_all_that_is_said_to_tell_them_apart() -> None:
    other = replace(CHECK, evaluator="Count")
    sets = [replace(SET, name=name, version=version, checks=(CHECK, other)) for name in ("set", "\ud800") for version in ("1", "")]
    traces = [replace(TRACE, unit_span_id=unit, revision=revision) for unit in (None, b"12345678") for revision in (0, 1, 12)]
    found = [ids_of(trace, some) for trace in traces for some in sets]
    assert found == [ids_of(trace, replace(some)) for trace in traces for some in sets]
    assert len({one for ids in found for one in ids}) == len(traces) * len(sets) * 2
    assert all(len(one) == 32 and one == one.lower() and int(one, 16) for ids in found for one in ids)


def test_evaluation_ids_are_the_same_in_all_processes_and_versions() -> None:
    """Whoever joins by them does so across restarts. A change of the recipe is a change that operators are told of."""
    assert ids_of(TRACE, SET) == ["1b300c810132a8d8c9fed856a5f80ccb"]


def ids_of(trace: Trace, criteria_set: CriteriaSet) -> list[str]:
    return [
        verdict.evaluation_id
        for verdict in evaluate_criteria_set({OrderCriteria: NamesEvaluator()}, trace, criteria_set, FilteredCalls(CALLS))
    ]


def test_evaluation_id_has_all_its_digits() -> None:
    assert evaluation_id(5, 5) == "0" * 32
    assert evaluation_id(2**128 - 1, 0) == "f" * 32
    assert evaluation_id(trace_hash(TRACE), SET.marks[0]) == ids_of(TRACE, SET)[0]


def test_marks_are_made_once_and_change_nothing_else() -> None:
    fresh = replace(SET)
    assert fresh.marks is fresh.marks
    assert (fresh, repr(fresh)) == (replace(SET), repr(replace(SET)))
    assert CriteriaSet(name="none", checks=()).marks == ()
