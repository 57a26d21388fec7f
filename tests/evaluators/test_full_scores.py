"""Of a full score all is said once: the outcomes and the explanation are those of any other trace that meets the criteria."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.evaluation import evaluate
from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CountCriteria,
    CountExpectation,
    Matching,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
    Parallel,
)
from tests.evaluators.calls import ABSENT, call, log

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.evaluation import Evaluators
    from otel_toolcall_eval.model.criteria import Criteria

CALLS = [
    call("a"),
    call("a", {"x": 1}, "one", group=1),
    call("b", {"x": 1}, "one", group=1),
    call("b", {"x": 1, "y": 2}, "two", aliases=("a",)),
    call("a", ABSENT, ABSENT),
]
LOGS = [log(*calls, open_ended=open_ended) for size in range(4) for calls in product(CALLS, repeat=size) for open_ended in (False, True)]

CRITERIA: dict[str, Criteria] = {
    **{
        f"count, {sign.name}, {strict}": CountCriteria(
            expectations=tuple(CountExpectation(tool=tool, operator=sign, count=2) for tool in "ab"), strict=strict
        )
        for sign in Operator
        for strict in (False, True)
    },
    **{
        f"order, {parallel.name}, {strict}": OrderCriteria(expected=("a", "b"), strict=strict, parallel=parallel)
        for parallel in Parallel
        for strict in (False, True)
    },
    **{
        f"args, {matching.name}, {subset}": ArgsCriteria(
            expectations=tuple(ArgsExpectation(tool=tool, arguments={"x": 1}) for tool in "ab"), subset=subset, matching=matching
        )
        for matching in Matching
        for subset in (False, True)
    },
    **{
        f"output, {matching.name}, {strict}": OutputCriteria(
            expectations=tuple(OutputExpectation(tool=tool, output="one") for tool in "ab"), strict=strict, matching=matching
        )
        for matching in Matching
        for strict in (False, True)
    },
}


@pytest.mark.parametrize("criteria", [pytest.param(criteria, id=name) for name, criteria in CRITERIA.items()])
def test_traces_that_meet_criteria_are_told_of_alike(criteria: Criteria) -> None:
    evaluators: Evaluators = {
        CountCriteria: CountEvaluator(),
        OrderCriteria: OrderEvaluator(),
        ArgsCriteria: ArgsEvaluator(),
        OutputCriteria: OutputEvaluator(),
    }
    scores = [evaluate(evaluators, criteria, calls) for calls in LOGS]
    met = [score for score in scores if score.value >= 1.0 and score.certain and not score.doubts]
    assert len(met) > 1
    assert len({score.justification.explain() for score in met}) == 1
    assert all(score.outcomes is met[0].outcomes for score in met)
    assert met[0].outcomes
