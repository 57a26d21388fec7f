from __future__ import annotations

import pytest

from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES, EvaluatorType, ForeignEvaluator, ids_of, referred, type_of


@pytest.mark.parametrize("kind", EVALUATOR_TYPES.values(), ids=EVALUATOR_TYPES)
def test_each_evaluator_is_known_by_its_ids_and_by_its_class_name(kind: EvaluatorType) -> None:
    assert [type_of(name) for name in ids_of(kind)] == [kind, kind]
    assert [referred(name) for name in (*ids_of(kind), kind.class_name)] == [kind, kind, kind]
    assert type_of(kind.class_name) is None


@pytest.mark.parametrize(
    "name",
    [
        "uipath-llm-judge-output-semantic-similarity",
        "uipath-llm-judge-trajectory-similarity",
        "llm-judge-output-strict-json-similarity",
        "uipath-exact-match",
        "uipath-contains",
        "uipath-json-similarity",
        "uipath-binary-classification",
        "file://types/custom-evaluator-types.json",
    ],
)
def test_other_evaluators_of_the_family_are_known_and_not_ours(name: str) -> None:
    assert type_of(name) is ForeignEvaluator.FOREIGN
    assert referred(name) is ForeignEvaluator.FOREIGN


def test_other_evaluators_of_the_family_are_known_by_class_name() -> None:
    assert referred("LLMJudgeTrajectoryEvaluator") is ForeignEvaluator.FOREIGN


@pytest.mark.parametrize("name", ["tool-call-cost", "uipath-uipath-tool-call-count", "exact-match-2", "TOOL-CALL-COUNT", ""])
def test_anything_else_is_unknown(name: str) -> None:
    assert type_of(name) is None
    assert referred(name) is None
