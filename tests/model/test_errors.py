"""Errors cross to another process whole, as what a worker of a pool raises does."""

from __future__ import annotations

import pickle

import pytest

from otel_toolcall_eval.model.errors import CriteriaError, ExpectationTimeoutError, OverloadedError, Problem, ToolCallEvalError

PROBLEMS = (Problem(where="a.yaml: 3", what="'=>' is no operator", fix="use =="), Problem(where="b", what="c", fix="d"))


@pytest.mark.parametrize("kind", [ToolCallEvalError, CriteriaError, ExpectationTimeoutError, OverloadedError])
def test_errors_are_the_same_after_a_journey(kind: type[ToolCallEvalError]) -> None:
    error = kind.of(PROBLEMS)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes of a moment ago
    assert (type(again), again.problems, str(again)) == (kind, PROBLEMS, str(error))
