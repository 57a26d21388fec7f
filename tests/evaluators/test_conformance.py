from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator, OrderJustification
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.model.criteria import ArgsCriteria, CountCriteria, OrderCriteria, OutputCriteria
from tests.evaluators.vectors import Vector, read_vectors

if TYPE_CHECKING:
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.score import Score
    from otel_toolcall_eval.model.tool_call import CallLog

VECTORS = read_vectors()


def score_of(criteria: Criteria, calls: CallLog) -> Score:
    if isinstance(criteria, CountCriteria):
        return CountEvaluator().evaluate(criteria, calls)
    if isinstance(criteria, OrderCriteria):
        return OrderEvaluator().evaluate(criteria, calls)
    if isinstance(criteria, ArgsCriteria):
        return ArgsEvaluator().evaluate(criteria, calls)
    assert isinstance(criteria, OutputCriteria)
    return OutputEvaluator().evaluate(criteria, calls)


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector.id) for vector in VECTORS])
def test_golden_vector_scores_as_the_semantics_demand(vector: Vector) -> None:
    score = score_of(vector.criteria, vector.log)
    assert score.value == pytest.approx(vector.score, abs=1e-9)
    assert score.certain, "everything was recorded, so nothing may be left open"
    assert score.doubts == ()
    if isinstance(score.justification, OrderJustification):
        assert score.justification.lcs == vector.lcs
    score.justification.details()
    assert "\n" not in score.justification.explain()


def test_golden_vectors_are_all_there() -> None:
    assert len(VECTORS) > 300
