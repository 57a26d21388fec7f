from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path
from typing import TypedDict

import pytest

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS, SCENARIOS, Scenario

GUIDE = Path(__file__).parents[2] / "golden" / "guides" / "sample-weather-tools.md"

EVALUATORS = {"ToolCallCountEvaluator", "ToolCallOrderEvaluator", "ToolCallArgsEvaluator", "ToolCallOutputEvaluator"}


class Item(TypedDict):
    id: str
    name: str
    inputs: dict[str, str]
    evaluationCriterias: dict[str, object]


class EvalSet(TypedDict):
    evaluatorRefs: list[str]
    evaluations: list[Item]


def eval_set() -> EvalSet:
    document: EvalSet = json.loads((EVALUATIONS / "eval-sets" / "default.json").read_text(encoding="utf-8"))
    return document


def items() -> dict[str, Item]:
    return {item["id"]: item for item in eval_set()["evaluations"]}


@pytest.mark.parametrize("kind", ["count", "order", "args", "output"])
def test_each_evaluator_has_a_file_in_the_samples_own_format(kind: str) -> None:
    evaluator = json.loads((EVALUATIONS / "evaluators" / f"tool-call-{kind}.json").read_text(encoding="utf-8"))
    assert evaluator["evaluatorTypeId"] == f"tool-call-{kind}"
    assert evaluator["evaluatorConfig"]["name"] == evaluator["id"]
    assert evaluator["id"] in EVALUATORS


def test_the_eval_set_holds_the_guides_five_test_cases() -> None:
    assert list(items()) == ["basic_weather", "weather_with_forecast", "weather_with_alerts", "sunny_weather", "tokyo_forecast"]
    assert set(eval_set()["evaluatorRefs"]) == EVALUATORS


def test_the_tokyo_case_is_the_guides_letter_by_letter() -> None:
    section = GUIDE.read_text(encoding="utf-8").partition('### Test Case: "tokyo_forecast"')[2]
    block = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert block is not None
    assert items()["tokyo_forecast"] == json.loads(block[1])


def test_each_test_case_has_criteria_for_all_four_evaluators() -> None:
    for name, item in items().items():
        assert set(item["evaluationCriterias"]) == EVALUATORS, name


def test_no_run_can_be_taken_for_that_of_another_test_case() -> None:
    inputs = [item["inputs"] for item in items().values()]
    for one, other in permutations(inputs, 2):
        assert not one.items() <= other.items()


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda run: run.title)
def test_each_run_is_asked_what_its_test_case_expects(run: Scenario) -> None:
    assert items()[run.criteria]["inputs"] == {"city": run.city, "action": run.action}
