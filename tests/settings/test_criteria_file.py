"""Criteria files: what they mean, and what is said of those that can't be used."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from otel_toolcall_eval.model.criteria import Check, CountCriteria, CountExpectation, Operator, Selector, SelectorScope
from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, LoadedCriteria, load_criteria
from tests.settings.loading import complaints, eval_set, evaluator, item, load, only_set, shown, warnings, write

if TYPE_CHECKING:
    from pathlib import Path

ONE_A = CountCriteria(expectations=(CountExpectation(tool="a", operator=Operator.EQUAL, count=1),))
TWO_B = {"toolCallsCount": {"b": ["=", 2]}}

OURS = """\
evaluators:
  - id: lenient
    evaluator_type_id: tool-call-args
    evaluator_config: {subset: true, pass_threshold: 0.5}
evaluations:
  - id: tokyo
    name: Tokyo
    match: {service: weather}
    evaluation_criterias:
      lenient:
        tool_calls: [{name: a, args: {on: true}}]
      ToolCallCountEvaluator:
        tool_calls_count: {a: ["=", 1]}
"""


def sample() -> dict[str, object]:
    """Return files in the sample's own form."""
    kinds: dict[str, tuple[str, str, object]] = {
        "count": ("Count", "toolCallsCount", {}),
        "order": ("Order", "toolCallsOrder", []),
        "args": ("Args", "toolCalls", []),
    }
    evaluators = {
        f"evaluators/tool-call-{kind}.json": {
            "version": "1.0",
            "id": f"ToolCall{name}Evaluator",
            "description": "...",
            "evaluatorTypeId": f"uipath-tool-call-{kind}",
            "evaluatorConfig": {"name": f"ToolCall{name}Evaluator", "strict": False, "defaultEvaluationCriteria": {key: empty}},
        }
        for kind, (name, key, empty) in kinds.items()
    }
    criterias = {
        "ToolCallCountEvaluator": {"toolCallsCount": {"a": ["=", 1]}},
        "ToolCallOrderEvaluator": {"toolCallsOrder": ["a"]},
        "ToolCallArgsEvaluator": {"toolCalls": [{"name": "a", "args": {"city": "Tokyo"}}]},
    }
    tokyo = {"id": "tokyo_forecast", "name": "Tokyo Weather Forecast", "inputs": {"city": "Tokyo"}, "evaluationCriterias": criterias}
    return {**evaluators, "eval-sets/default.json": eval_set(tokyo, evaluatorRefs=list(criterias))}


def test_no_sources_are_no_criteria() -> None:
    assert load_criteria([]) == LoadedCriteria()


def test_the_samples_form_is_read_unchanged(tmp_path: Path) -> None:
    loaded = load(tmp_path, sample())
    found = only_set(loaded)
    assert loaded.warnings == ()
    assert (found.name, found.aliases) == ("tokyo_forecast", ("Tokyo Weather Forecast",))
    assert found.selector == Selector(reach=SelectorScope.MATCHED, inputs={"city": "Tokyo"})
    assert [(check.evaluator, check.evaluator_id) for check in found.checks] == [
        ("ToolCallCountEvaluator", "tool-call-count"),
        ("ToolCallOrderEvaluator", "tool-call-order"),
        ("ToolCallArgsEvaluator", "tool-call-args"),
    ]
    assert found.checks[0].criteria == ONE_A
    assert found.source == str(tmp_path / "eval-sets" / "default.json")


def test_our_form_is_read(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"tokyo.yaml": OURS})
    found = only_set(loaded)
    assert loaded.warnings == ()
    assert found.selector == Selector(reach=SelectorScope.MATCHED, services=frozenset({"weather"}))
    assert [(check.evaluator, check.pass_threshold) for check in found.checks] == [("lenient", 0.5), ("ToolCallCountEvaluator", 1.0)]


def test_one_structure_in_two_spellings_and_two_formats_is_the_same(tmp_path: Path) -> None:
    snake: dict[str, Any] = {
        "evaluators": [{"id": "e", "evaluator_type_id": "tool-call-order", "evaluator_config": {"strict": True, "parallel": "any"}}],
        "evaluations": [{"id": "x", "evaluation_criterias": {"e": {"tool_calls_order": ["a"]}}, "match": {"root_span_name": "r"}}],
    }
    camel: dict[str, Any] = {
        "evaluators": [{"id": "e", "evaluatorTypeId": "uipath-tool-call-order", "evaluatorConfig": {"strict": "true", "parallel": "any"}}],
        "evaluations": [{"id": "x", "evaluationCriterias": {"e": {"toolCallsOrder": ["a"]}}, "match": {"rootSpanName": "r"}}],
    }
    found = {
        only_set(load(tmp_path / str(number), {name: json.dumps(content)})).version
        for number, (name, content) in enumerate([("a.json", snake), ("a.json", camel), ("a.yaml", snake), ("a.yaml", camel)])
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("files", "reach"),
    [
        pytest.param({"a.json": eval_set(item())}, SelectorScope.FALLBACK, id="in-the-sample's-form"),
        pytest.param({"a.json": eval_set(item(), evaluators=[])}, SelectorScope.UNNAMED, id="in-ours"),
        pytest.param({"a.yaml": json.dumps(eval_set(item()))}, SelectorScope.UNNAMED, id="in-yaml"),
        pytest.param({"a.json": eval_set(item(inputs={}))}, SelectorScope.FALLBACK, id="with-empty-inputs"),
        pytest.param({"a.json": eval_set(item(match="all"))}, SelectorScope.EVERY, id="all"),
        pytest.param({"a.json": eval_set(item(match="named"))}, SelectorScope.NAMED, id="named"),
    ],
)
def test_an_item_without_conditions_reaches_as_far_as_its_form_says(tmp_path: Path, files: dict[str, object], reach: SelectorScope) -> None:
    assert only_set(load(tmp_path, files)).selector.reach is reach


@pytest.mark.parametrize(
    "name", ["ToolCallCountEvaluator", "tool-call-count", "uipath-tool-call-count"], ids=["class-name", "id", "id-with-prefix"]
)
def test_an_evaluator_as_it_comes_needs_no_file(tmp_path: Path, name: str) -> None:
    found = only_set(load(tmp_path, {"a.json": eval_set(item(evaluationCriterias={name: {"toolCallsCount": {"a": ["=", 1]}}}))}))
    assert found.checks == (Check(evaluator="ToolCallCountEvaluator", evaluator_id="tool-call-count", criteria=ONE_A),)


@pytest.mark.parametrize(
    ("config", "name", "expected"),
    [
        pytest.param({"name": "Inner"}, "Outer", "Inner", id="the-configuration's-name"),
        pytest.param({}, "Outer", "Outer", id="the-file's-name"),
        pytest.param({}, None, "my-count", id="its-id"),
        pytest.param(None, None, "my-count", id="without-configuration"),
    ],
)
def test_scores_have_the_name_that_the_evaluator_is_given(tmp_path: Path, config: object, name: str | None, expected: str) -> None:
    files = {
        "e.json": {"id": "my-count", "name": name, "evaluatorTypeId": "tool-call-count", "evaluatorConfig": config},
        "s.json": eval_set(item(evaluationCriterias={"my-count": {"toolCallsCount": {"a": ["=", 1]}}})),
    }
    assert only_set(load(tmp_path, files)).checks[0].evaluator == expected


def test_copies_of_an_evaluator_with_one_name_get_their_ids_as_names(tmp_path: Path) -> None:
    criterias = {"strict": {"toolCallsCount": {"a": ["=", 1]}}, "loose": {"toolCallsCount": {"a": ["=", 1]}}}
    files = {
        "a.json": evaluator("strict", name="Count", strict=True),
        "b.json": evaluator("loose", name="Count"),
        "s.json": eval_set(item(evaluationCriterias=criterias)),
    }
    loaded = load(tmp_path, files)
    assert [check.evaluator for check in only_set(loaded).checks] == ["strict", "loose"]
    assert shown(loaded.warnings, tmp_path) == [
        "a.json: several evaluators have the name 'Count'; scores are emitted under their IDs; give each its own name",
        "b.json: several evaluators have the name 'Count'; scores are emitted under their IDs; give each its own name",
    ]


def test_a_configured_and_a_plain_evaluator_of_one_name_are_told_apart(tmp_path: Path) -> None:
    criterias = {
        "mine": {"toolCallsCount": {"a": ["=", 1]}},
        "ToolCallCountEvaluator": {"toolCallsCount": {"a": ["=", 1]}},
        "tool-call-count": TWO_B,
    }
    files = {"a.json": evaluator("mine", name="ToolCallCountEvaluator"), "s.json": eval_set(item(evaluationCriterias=criterias))}
    found = only_set(load(tmp_path, files))
    assert [check.evaluator for check in found.checks] == ["mine", "ToolCallCountEvaluator", "tool-call-count"]


def test_a_name_that_is_another_evaluators_id_tells_nothing_apart(tmp_path: Path) -> None:
    files = {
        "a.json": evaluator("x", name="ToolCallCountEvaluator"),
        "b.json": evaluator("y", name="x"),
        "s.json": eval_set(item(evaluationCriterias={"x": TWO_B, "y": TWO_B, "ToolCallCountEvaluator": TWO_B})),
    }
    assert [check.evaluator for check in only_set(load(tmp_path, files)).checks] == ["x", "y", "ToolCallCountEvaluator"]


@pytest.mark.parametrize("empty", [pytest.param(None, id="null"), pytest.param({}, id="empty-object")])
def test_an_item_without_criteria_of_its_own_has_the_evaluators_default(tmp_path: Path, empty: object) -> None:
    files = {
        "e.json": evaluator(defaultEvaluationCriteria={"toolCallsCount": {"a": ["=", 1]}}),
        "s.json": eval_set(item(evaluationCriterias={"my-count": empty})),
    }
    by_item, by_default = load(tmp_path, files).sets
    assert by_item.checks == by_default.checks
    assert by_item.checks[0].criteria == ONE_A


@pytest.mark.parametrize(
    ("services", "reach"),
    [pytest.param([], SelectorScope.FALLBACK, id="for-all"), pytest.param(["a"], SelectorScope.UNNAMED, id="for-a-service")],
)
def test_default_criteria_are_a_set_of_their_own(tmp_path: Path, services: list[str], reach: SelectorScope) -> None:
    files = {"e.json": evaluator(defaultEvaluationCriteria={"toolCallsCount": {"a": ["=", 1]}})}
    found = only_set(load(tmp_path, files, services=frozenset(services)))
    assert found.name == "my-count"
    assert found.selector == Selector(reach=reach, services=frozenset(services))


def test_inline_evaluators_have_default_criteria_too(tmp_path: Path) -> None:
    default = "{default_evaluation_criteria: {tool_calls_order: [a]}}"
    text = f"evaluators: [{{id: e, evaluator_type_id: tool-call-order, evaluator_config: {default}}}]"
    assert only_set(load(tmp_path, {"a.yaml": text})).name == "e"


def test_an_item_that_is_not_evaluated_by_anything_is_left_out_with_a_warning(tmp_path: Path) -> None:
    files = {
        "s.json": eval_set(
            item(), item(id="two", evaluationCriterias={"ToolCallOrderEvaluator": None}), item(id="3", evaluationCriterias={})
        )
    }
    loaded = load(tmp_path, files)
    assert only_set(loaded).name == "one"
    assert shown(loaded.warnings, tmp_path) == [
        (
            "s.json: two.ToolCallOrderEvaluator: 'ToolCallOrderEvaluator' is not evaluated: there are no criteria, and no default; "
            "give criteria here, or default criteria in the evaluator"
        ),
        "s.json: two: the item 'two' is left out: nothing in it is evaluated; give it criteria",
        "s.json: 3: the item '3' is left out: nothing in it is evaluated; give it criteria",
    ]


def test_other_evaluators_of_the_family_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    criterias = {
        "ToolCallCountEvaluator": {"toolCallsCount": {"a": ["=", 1]}},
        "J": {"expectedOutput": {}},
        "ExactMatchEvaluator": {"x": 1},
    }
    files = {
        "j.json": evaluator("J", "uipath-llm-judge-output-semantic-similarity", prompt="...", model="..."),
        "s.json": eval_set(item(evaluationCriterias=criterias), evaluatorRefs=[*criterias, "LLMJudgeTrajectoryEvaluator"]),
    }
    loaded = load(tmp_path, files)
    assert [check.evaluator for check in only_set(loaded).checks] == ["ToolCallCountEvaluator"]
    assert shown(loaded.warnings, tmp_path) == [
        "j.json: an evaluator of type 'uipath-llm-judge-output-semantic-similarity' is not run here; use the sample's own tools for it",
        "s.json: one.J: the evaluator 'J' is not run here; nothing to do for the others",
        "s.json: one.ExactMatchEvaluator: the evaluator 'ExactMatchEvaluator' is not run here; nothing to do for the others",
    ]


def test_evaluator_refs_choose_among_the_evaluators(tmp_path: Path) -> None:
    criterias = {"ToolCallCountEvaluator": {"toolCallsCount": {"a": ["=", 1]}}, "ToolCallOrderEvaluator": {"toolCallsOrder": ["a"]}}
    loaded = load(tmp_path, {"s.json": eval_set(item(evaluationCriterias=criterias), evaluatorRefs=["ToolCallCountEvaluator"])})
    assert [check.evaluator for check in only_set(loaded).checks] == ["ToolCallCountEvaluator"]
    assert shown(loaded.warnings, tmp_path) == [
        (
            "s.json: one.ToolCallOrderEvaluator: the evaluator 'ToolCallOrderEvaluator' is not among the evaluatorRefs, so it is not run; "
            "add it to them"
        ),
    ]


def test_guids_are_the_same_in_either_case(tmp_path: Path) -> None:
    guid = "0a1b2c3d-0000-4000-8000-00000000ABCD"
    criterias = {guid.upper(): {"toolCallsCount": {"a": ["=", 1]}}}
    files = {"e.json": evaluator(guid.lower(), name="Mine"), "s.json": eval_set(item(evaluationCriterias=criterias), evaluatorRefs=[guid])}
    assert only_set(load(tmp_path, files)).checks[0].evaluator == "Mine"


def test_keys_that_we_do_not_know_are_ignored_with_a_warning_in_the_samples_form(tmp_path: Path) -> None:
    files = {"s.json": eval_set(item(expectedAgentBehavior="..."), item(id="two", expectedAgentBehavior="..."), evaluatorConfigs=[])}
    assert warnings(tmp_path, files) == [
        "s.json: the unknown key 'evaluatorConfigs' is ignored; did you mean 'evaluators'?",
        "s.json: one: the unknown key 'expectedAgentBehavior' is ignored (here and in 1 more places); remove it",
    ]


def test_files_of_another_kind_in_a_folder_are_passed_over_with_a_warning(tmp_path: Path) -> None:
    files = {
        "a.json": eval_set(item()),
        "package.json": {"name": "x"},
        "list.json": [1],
        "evaluatons.json": {"evaluatons": []},
        "k8s.yaml": "kind: Pod",
    }
    assert warnings(tmp_path, files) == [
        (
            "evaluatons.json: this is neither an evaluator nor an eval set, and is passed over; "
            "did you mean 'evaluations' where it says 'evaluatons'?"
        ),
        "k8s.yaml:1: this is neither an evaluator nor an eval set, and is passed over; nothing to do if it is something else",
        "list.json: this is neither an evaluator nor an eval set, and is passed over; nothing to do if it is something else",
        "package.json: this is neither an evaluator nor an eval set, and is passed over; nothing to do if it is something else",
    ]


def test_a_file_is_read_once_however_often_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a/s.json": eval_set(item())})
    sources = [
        CriteriaSource(path=tmp_path / "a"),
        CriteriaSource(path=tmp_path / "a" / "s.json"),
        CriteriaSource(path=tmp_path / "a/../a"),
    ]
    loaded = load_criteria(sources)
    assert (len(loaded.sets), loaded.warnings) == (1, ())


def test_a_file_named_for_two_services_is_read_for_the_first_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path, {"s.json": eval_set(item())})
    loaded = load_criteria([CriteriaSource(path=tmp_path / "s.json", services=frozenset({name})) for name in ("a", "b")])
    assert only_set(loaded).selector.services == {"a"}
    assert [warning.what for warning in loaded.warnings] == ["the file is read once, for the services of the first path that leads to it"]


def test_each_path_has_evaluators_of_its_own(tmp_path: Path) -> None:
    """Two agents with folders in the sample's form, whose evaluators have the same IDs, as the sample's have."""
    for name, strict in (("a", True), ("b", False)):
        write(tmp_path / name, {"e.json": evaluator("ToolCallCountEvaluator", strict=strict), "s.json": eval_set(item(id=name))})
    loaded = load_criteria([CriteriaSource(path=tmp_path / name, services=frozenset({name})) for name in ("a", "b")])
    assert [getattr(found.checks[0].criteria, "strict", None) for found in loaded.sets] == [True, False]


def test_evaluators_of_another_path_are_found(tmp_path: Path) -> None:
    write(tmp_path, {"e/e.json": evaluator(), "s.json": eval_set(item(evaluationCriterias={"my-count": TWO_B}))})
    loaded = load_criteria([CriteriaSource(path=tmp_path / "s.json"), CriteriaSource(path=tmp_path / "e")])
    assert only_set(loaded).checks[0].evaluator == "my-count"


def test_a_display_name_of_several_items_stands_for_none(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        {"s.json": eval_set(item(name="Same"), item(id="two", name="Same"), item(id="three", name="one"), item(id="4", name="Four"))},
    )
    assert [found.aliases for found in loaded.sets] == [(), (), (), ("Four",)]
    assert shown(loaded.warnings, tmp_path) == [
        (
            "s.json: one: several items are called 'Same', so traces have to name them by ID (here and in 1 more places); "
            "give each its own name"
        ),
        "s.json: three: several items are called 'one', so traces have to name them by ID; give each its own name",
    ]


def test_thresholds_of_items_go_before_those_of_evaluators(tmp_path: Path) -> None:
    files = {
        "e.json": evaluator(passThreshold=0.25),
        "s.json": eval_set(
            item(evaluationCriterias={"my-count": TWO_B}),
            item(id="two", evaluationCriterias={"my-count": TWO_B}, passThreshold=0),
        ),
    }
    assert [found.checks[0].pass_threshold for found in load(tmp_path, files).sets] == [0.25, 0.0]


def test_versions_change_with_anything_but_the_place(tmp_path: Path) -> None:
    variants: list[dict[str, object]] = [
        eval_set(item()),
        eval_set(item(id="two")),
        eval_set(item(name="x")),
        eval_set(item(match="all")),
        eval_set(item(passThreshold=0.5)),
        eval_set(item(inputs={"a": [1, {"b": None}]})),
        eval_set(item(inputs={"a": [1, {"b": 2}]})),
        eval_set(item(evaluationCriterias={"ToolCallCountEvaluator": TWO_B})),
        eval_set(item(match={"service": ["a", "b"]})),
    ]
    first = [only_set(load(tmp_path / "x" / str(number), {"s.json": content})).version for number, content in enumerate(variants)]
    again = [only_set(load(tmp_path / "y" / str(number), {"t.json": content})).version for number, content in enumerate(variants)]
    assert first == again
    assert len(set(first)) == len(variants)


def test_versions_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Sets have another order in each process; a version that depended on it would make every restart a new evaluation."""
    write(tmp_path, {"s.json": eval_set(item(match={"service": ["a", "b", "c"]}))})
    script = (
        "import sys, pathlib; from otel_toolcall_eval.settings.criteria_file import *;"
        "print(load_criteria([CriteriaSource(path=pathlib.Path(sys.argv[1]))]).sets[0].version)"
    )
    versions = {
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(versions) == 1


EXAMPLE = """\
evaluations:
  - id: tokyo_forecast
    evaluation_criterias:
      ToolCallCountEvaluator:
        tool_calls_count:
          get_humidity: ["=>", 1]
"""


def test_a_complaint_names_file_line_item_evaluator_tool_fault_and_cure(tmp_path: Path) -> None:
    assert complaints(tmp_path, {"weather.yaml": EXAMPLE}) == [
        "weather.yaml:6: tokyo_forecast.ToolCallCountEvaluator.get_humidity: '=>' is not an operator; use one of = == != > >= < <=",
    ]
    as_json = eval_set(
        item(id="tokyo_forecast", evaluationCriterias={"ToolCallCountEvaluator": {"toolCallsCount": {"get_humidity": ["=>", 1]}}})
    )
    assert complaints(tmp_path / "json", {"weather.json": as_json}) == [
        "weather.json: tokyo_forecast.ToolCallCountEvaluator.get_humidity: '=>' is not an operator; use one of = == != > >= < <=",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(
            "evaluations:", "evaluatons:", "a.yaml:5: evaluatons: unknown key 'evaluatons'; did you mean 'evaluations'?", id="top"
        ),
        pytest.param(
            "evaluator_type_id",
            "evaluator_typ_id",
            "a.yaml:3: lenient.evaluator_typ_id: unknown key 'evaluator_typ_id'; did you mean 'evaluator_type_id'?",
            id="evaluator",
        ),
        pytest.param(
            "tool-call-args",
            "tool-cal-args",
            "a.yaml:3: lenient.evaluator_type_id: 'tool-cal-args' is not an evaluator that we know; did you mean 'tool-call-args'?",
            id="evaluator-id",
        ),
        pytest.param(
            "subset: true",
            "subst: true",
            "a.yaml:4: lenient.evaluator_config.subst: unknown key 'subst'; did you mean 'subset'?",
            id="configuration",
        ),
        pytest.param(
            "subset: true",
            "subset: yes",
            "a.yaml:4: lenient.evaluator_config.subset: 'yes' is neither true nor false; write true or false, without quotes",
            id="yes-is-text-in-yaml",
        ),
        pytest.param(
            "pass_threshold: 0.5",
            "pass_threshold: 5",
            "a.yaml:4: lenient.evaluator_config.pass_threshold: 5 is not at most 1.0; write a number of at most 1.0",
            id="threshold",
        ),
        pytest.param(
            "match: {service: weather}",
            "mach: {service: weather}",
            "a.yaml:8: tokyo.mach: unknown key 'mach'; did you mean 'match'?",
            id="item",
        ),
        pytest.param(
            "{service: weather}",
            "{servce: weather}",
            "a.yaml:8: tokyo.match.servce: unknown key 'servce'; did you mean 'service'?",
            id="match",
        ),
        pytest.param(
            "{service: weather}",
            "everything",
            "a.yaml:8: tokyo.match: 'everything' is not known here; write all, named, or an object of conditions",
            id="match-word",
        ),
        pytest.param(
            "      lenient:",
            "      lenent:",
            "a.yaml:10: tokyo.lenent: no evaluator has the ID 'lenent'; did you mean 'lenient'?",
            id="evaluator-of-an-item",
        ),
        pytest.param(
            "args: {on", "arg: {on", "a.yaml:11: tokyo.lenient[0].arg: unknown key 'arg'; did you mean 'args'?", id="expected-call"
        ),
        pytest.param("name: a,", "", "a.yaml:11: tokyo.lenient[0]: 'name' is missing; add it", id="missing-name"),
        pytest.param(
            '["=", 1]',
            '["=", "1"]',
            "a.yaml:13: tokyo.ToolCallCountEvaluator.a: the count is text, not a whole number; "
            'write a list of an operator and a whole number, as in [">=", 1]',
            id="count",
        ),
        pytest.param(
            '{a: ["=", 1]}',
            "{}",
            "a.yaml:13: tokyo.ToolCallCountEvaluator.tool_calls_count: this is empty; add at least one entry, or remove it",
            id="no-expectation",
        ),
        pytest.param("  - id: tokyo\n", "  - nam: tokyo\n", None, id="item-without-id"),
        pytest.param("- id: lenient\n    ", "- ", None, id="evaluator-without-id"),
    ],
)
def test_each_kind_of_slip_has_its_words(tmp_path: Path, old: str, new: str, expected: str | None) -> None:
    assert OURS.count(old) == 1
    found = complaints(tmp_path, {"a.yaml": OURS.replace(old, new)}, "a.yaml")
    if expected is None:
        assert any("'id' is missing" in complaint for complaint in found)
    else:
        assert expected in found


@pytest.mark.parametrize(
    ("files", "named", "expected"),
    [
        pytest.param(
            {},
            ["none.yaml"],
            ["none.yaml: the file can't be read (No such file or directory); check its name and permissions"],
            id="no-file",
        ),
        pytest.param(
            {"a.json": {"x": 1}},
            ["a.json"],
            ["a.json: this is neither an evaluator nor an eval set; an eval set has evaluations, an evaluator has evaluatorTypeId"],
            id="another-file-named-directly",
        ),
        pytest.param(
            {"a.yaml": "evaluatons: []", "b.json": eval_set(item())},
            [],
            ["a.yaml:1: this is neither an evaluator nor an eval set; did you mean 'evaluations' where it says 'evaluatons'?"],
            id="a-slip-in-the-key-that-tells",
        ),
        pytest.param(
            {"a.json": "{"},
            [],
            ["a.json:1: not valid JSON in column 2: Expecting property name enclosed in double quotes; mend the syntax"],
            id="syntax",
        ),
        pytest.param(
            {"a.json": eval_set(item()), "b.yaml": json.dumps(eval_set(item()))},
            [],
            ["b.yaml:1: one: the name 'one' is taken by a.json; give one of them another ID"],
            id="one-name-twice",
        ),
        pytest.param(
            {"a.json": evaluator(), "b.json": evaluator(), "s.json": eval_set(item())},
            [],
            ["b.json: the evaluator ID 'my-count' is taken by a.json; give one of them another ID"],
            id="one-evaluator-twice",
        ),
        pytest.param(
            {"s.json": eval_set(item(), evaluatorRefs=["ToolCallCuontEvaluator", "zzz"])},
            [],
            [
                "s.json: evaluatorRefs[0]: no evaluator has the ID 'ToolCallCuontEvaluator'; did you mean 'ToolCallCountEvaluator'?",
                (
                    "s.json: evaluatorRefs[1]: no evaluator has the ID 'zzz'; "
                    "use one of ToolCallArgsEvaluator, ToolCallCountEvaluator, ToolCallOrderEvaluator, ToolCallOutputEvaluator"
                ),
            ],
            id="unknown-reference",
        ),
        pytest.param(
            {"s.json": {"evaluations": {}, "evaluatorRefs": "x"}},
            [],
            [
                "s.json: evaluatorRefs: this is text, not a list; write a list, even for a single entry",
                "s.json: evaluations: this is an object, not a list; write a list, even for a single entry",
            ],
            id="of-the-wrong-types",
        ),
        pytest.param(
            {"s.json": eval_set(5, {"id": 5, "evaluationCriterias": []}, item(id=""), item(inputs=None, match={"x": 1}))},
            [],
            [
                "s.json: evaluations[0]: this is a whole number, not an object; write keys with values",
                "s.json: evaluations[1].id: this is a whole number, not text; put it in quotes",
                "s.json: evaluations[1].evaluationCriterias: this is a list, not an object; write keys with values, as in {city: Tokyo}",
                "s.json: evaluations[2].id: this is empty; write a name",
                "s.json: one.inputs: this is null, not an object; write keys with values, as in {city: Tokyo}",
                "s.json: one.match.x: unknown key 'x'; use one of agentName, attributes, inputs, resource, rootSpanName, service",
            ],
            id="items-of-the-wrong-types",
        ),
        pytest.param(
            {
                "e.json": evaluator(kind="tool-call-cost"),
                "f.json": evaluator("f", "tool-call-args", strict=None, defaultEvaluationCriteria={"toolCalls": [1]}),
            },
            [],
            [
                "e.json: evaluatorTypeId: 'tool-call-cost' is not an evaluator that we know; did you mean 'tool-call-count'?",
                "f.json: evaluatorConfig.strict: this is null, not true or false; write true or false",
                "f.json: evaluatorConfig.defaultEvaluationCriteria[0]: this is a whole number, not an object; write keys with values",
            ],
            id="evaluators",
        ),
        pytest.param(
            {"e.json": evaluator()},
            [],
            [".: nothing in these files is evaluated; give an eval set, or default criteria in an evaluator"],
            id="nothing-to-evaluate",
        ),
        pytest.param(
            {"s.json": eval_set(item(evaluationCriterias={"ToolCallCountEvaluator": None}))},
            [],
            [
                ".: nothing in these files is evaluated; give an eval set, or default criteria in an evaluator",
                (
                    "s.json: one.ToolCallCountEvaluator: 'ToolCallCountEvaluator' is not evaluated: there are no criteria, and no default; "
                    "give criteria here, or default criteria in the evaluator"
                ),
                "s.json: one: the item 'one' is left out: nothing in it is evaluated; give it criteria",
            ],
            id="nothing-to-evaluate-and-why",
        ),
    ],
)
def test_files_that_can_not_be_used_are_refused(tmp_path: Path, files: dict[str, object], named: list[str], expected: list[str]) -> None:
    assert complaints(tmp_path, files, *named) == expected


def test_all_that_is_wrong_with_all_files_is_told_at_once(tmp_path: Path) -> None:
    found = complaints(
        tmp_path,
        {"a.json": "{", "b.yaml": EXAMPLE, "c.json": evaluator(kind="x"), "d.yaml": "a: [", "e.json": eval_set(item(passThreshold=2))},
    )
    assert {complaint.split(":")[0] for complaint in found} == {"a.json", "b.yaml", "c.json", "d.yaml", "e.json"}


def test_in_our_form_unknown_keys_are_errors_in_json_too(tmp_path: Path) -> None:
    assert complaints(tmp_path, {"s.json": eval_set(item(match="all", expectedAgentBehaviour="x"))}) == [
        (
            "s.json: one.expectedAgentBehaviour: unknown key 'expectedAgentBehaviour'; "
            "use one of evaluationCriterias, id, inputs, match, name, passThreshold"
        ),
    ]


def test_a_source_is_a_folder_or_a_file(tmp_path: Path) -> None:
    with pytest.raises(CriteriaError, match="No such file or directory"):
        load_criteria([CriteriaSource(path=tmp_path / "missing")])


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.floats(-1, 2)
    | st.sampled_from(["", "a", "all", "ToolCallCountEvaluator", "tool-call-args"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "id", "name", "match", "toolCalls", "args"]), inner, max_size=2)
    ),
    max_leaves=4,
)
BASES = ({"a.yaml": json.loads(json.dumps(YAML(typ="safe", pure=True).load(OURS)))}, sample())


def paths(value: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    members: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(path for key, member in members for path in paths(member, (*here, key)))]


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, object]:
    """Draw files that would load, but for up to three values that are something else, or keys that are misspelt or gone."""
    files: Any = json.loads(json.dumps(draw(st.sampled_from(BASES))))
    for _ in range(draw(st.integers(1, 3))):
        inside = [path for path in paths(files) if len(path) > 1]  # the files stay; what is in them may become nothing at all
        if not inside:
            break
        *around, last = draw(st.sampled_from(inside))
        holder = files
        for step in around:
            holder = holder[step]
        how = draw(st.sampled_from(["replace", "remove", "misspell"]))
        value = holder[last]
        if how == "replace" or isinstance(holder, list):
            holder[last] = draw(JUNK)
        else:
            del holder[last]
            if how == "misspell" and around:
                holder[f"{last}x"[1:]] = value
    return {str(name): json.dumps(content) for name, content in files.items()}


@given(damaged())
def test_damaged_files_load_or_are_refused_with_places_faults_and_cures(files: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(pathlib.Path(folder), files)
        try:
            load_criteria([CriteriaSource(path=pathlib.Path(folder))])
        except CriteriaError as error:
            assert all(problem.where.startswith(folder) and problem.what and problem.fix for problem in error.problems)  # noqa: PT017 - both are right


def test_unknown_keys_in_criteria_and_configuration_are_warned_about_in_json_even_beside_words_of_ours(tmp_path: Path) -> None:
    item = {"id": "a", "match": "all", "evaluationCriterias": {"ToolCallCountEvaluator": {"tool_calls_count": {"f": ["=", 1]}, "other": 5}}}
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"evaluations": [item]}), encoding="utf-8")
    loaded = load_criteria([CriteriaSource(path=path)])
    assert [found.name for found in loaded.sets] == ["a"]
    assert ["unknown key 'other'" in str(warning) for warning in loaded.warnings] == [True]
    path.write_text(json.dumps({"evaluations": [{**item, "other": 5}]}), encoding="utf-8")
    with pytest.raises(CriteriaError, match="unknown key 'other'"):
        load_criteria([CriteriaSource(path=path)])


def test_default_criteria_give_way_to_an_item_of_their_evaluator_s_name(tmp_path: Path) -> None:
    default = {
        "evaluatorTypeId": "tool-call-count",
        "id": "same",
        "evaluatorConfig": {"defaultEvaluationCriteria": {"toolCallsCount": {"f": ["=", 1]}}},
    }
    (tmp_path / "evaluator.json").write_text(json.dumps(default), encoding="utf-8")
    (tmp_path / "set.json").write_text(
        json.dumps({"evaluations": [{"id": "same", "evaluationCriterias": {"same": None}}]}), encoding="utf-8"
    )
    assert [found.name for found in load_criteria([CriteriaSource(path=tmp_path)]).sets] == ["same", "same (default)"]
