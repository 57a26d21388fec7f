from __future__ import annotations

from pathlib import Path

import pytest

from otel_toolcall_eval.settings import criteria_file
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, FileKind, files_of, in_our_form, kind_of_file, meant_kind, true_path
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.document import SettingsDocument
from tests.settings.loading import eval_set, evaluator, item, shown, top, write


def found(folder: Path, diagnostics: Diagnostics | None = None) -> list[str]:
    return [str(path.relative_to(folder)) for path in files_of(CriteriaSource(path=folder), diagnostics or Diagnostics())]


def test_folders_are_read_whole_and_in_order(tmp_path: Path) -> None:
    write(tmp_path, {"b/z.json": {}, "b/a.yaml": "", "a.yml": "", "c.JSON": {}, "readme.md": "", "b/c/d.json": {}})
    assert found(tmp_path) == ["a.yml", "b/a.yaml", "b/c/d.json", "b/z.json", "c.JSON"]


def test_hidden_names_are_passed_over(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap: the true file in a hidden folder, a link to the folder, a link to the file through that."""
    write(tmp_path, {"..2026_01_01/weather.yaml": "", ".hidden.json": {}})
    (tmp_path / "..data").symlink_to("..2026_01_01")
    (tmp_path / "weather.yaml").symlink_to("..data/weather.yaml")
    assert found(tmp_path) == ["weather.yaml"]


def test_links_that_lead_back_up_end(tmp_path: Path) -> None:
    write(tmp_path, {"a/b.json": {}})
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    assert found(tmp_path) == ["a/b.json"]


def test_links_to_folders_elsewhere_are_followed(tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/x.json": {}, "here/y.json": {}})
    (tmp_path / "here" / "more").symlink_to(tmp_path / "elsewhere")
    assert found(tmp_path / "here") == ["more/x.json", "y.json"]


def test_a_file_is_its_own_list_whatever_it_is_called(tmp_path: Path) -> None:
    assert files_of(CriteriaSource(path=tmp_path / "none.txt"), Diagnostics()) == [tmp_path / "none.txt"]


def test_an_empty_folder_is_told(tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    assert found(tmp_path, diagnostics) == []
    assert shown(diagnostics.problems, tmp_path) == [
        ".: the folder holds no .json, .yaml or .yml file; name another, or put criteria into it"
    ]


def test_a_mistaken_folder_is_not_searched_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteria_file, "MAX_ENTRIES", 5)
    write(tmp_path, {f"{number}.json": {} for number in range(6)})
    diagnostics = Diagnostics()
    assert found(tmp_path, diagnostics) == []
    assert shown(diagnostics.problems, tmp_path) == [".: more than 5 files lie below this folder; name the folder that holds the criteria"]


def test_a_folder_that_can_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> object:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", refuse)  # tests may run as root, whom no permission stops
    diagnostics = Diagnostics()
    assert found(tmp_path, diagnostics) == []
    assert shown(diagnostics.problems, tmp_path) == [".: the folder can't be read (Permission denied); check its permissions"]


def test_true_path_is_the_same_for_all_names_of_a_file(tmp_path: Path) -> None:
    write(tmp_path, {"a.json": {}})
    (tmp_path / "b.json").symlink_to("a.json")
    assert true_path(tmp_path / "b.json") == true_path(tmp_path / "a.json")
    assert true_path(Path("a\0b")) == "a\0b"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param({"evaluatorTypeId": "x"}, FileKind.EVALUATOR, id="evaluator"),
        pytest.param({"evaluator_type_id": "x"}, FileKind.EVALUATOR, id="evaluator-in-snake-case"),
        pytest.param({"evaluations": []}, FileKind.EVAL_SET, id="eval-set"),
        pytest.param({"evaluators": []}, FileKind.EVAL_SET, id="evaluators-alone"),
        pytest.param({"name": "x"}, FileKind.OTHER, id="another-object"),
        pytest.param([], FileKind.OTHER, id="a-list"),
        pytest.param(None, FileKind.OTHER, id="nothing"),
    ],
)
def test_files_are_told_apart_by_their_keys(value: object, kind: FileKind) -> None:
    assert kind_of_file(value) is kind


@pytest.mark.parametrize(
    ("value", "cure"),
    [
        pytest.param({"evaluatons": []}, "did you mean 'evaluations' where it says 'evaluatons'?", id="eval-set"),
        pytest.param({"evaluatorTypId": "x"}, "did you mean 'evaluatorTypeId' where it says 'evaluatorTypId'?", id="evaluator"),
        pytest.param({"evaluatorRefs": [], "name": "x"}, None, id="keys-that-are-right"),
        pytest.param({"dependencies": {}}, None, id="something-else"),
        pytest.param([], None, id="a-list"),
    ],
)
def test_a_misspelt_key_that_tells_what_a_file_is_gets_found(value: object, cure: str | None) -> None:
    assert meant_kind(value) == cure


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        pytest.param(eval_set(item(), evaluatorRefs=["ToolCallCountEvaluator"]), False, id="the-sample's-eval-set"),
        pytest.param(
            evaluator(name="x", strict=False, defaultEvaluationCriteria={"toolCallsCount": {}}), False, id="the-sample's-evaluator"
        ),
        pytest.param(eval_set({"id": "x", "expectedAgentBehavior": "y"}), False, id="with-keys-of-the-sample's-tools"),
        pytest.param(eval_set(item(match="all")), True, id="match"),
        pytest.param(eval_set(item(passThreshold=0.5)), True, id="pass-threshold"),
        pytest.param(eval_set(evaluators=[]), True, id="inline-evaluators"),
        pytest.param(evaluator(matching="positional"), True, id="matching"),
        pytest.param(evaluator(include={}), True, id="include"),
        pytest.param({"evaluations": [], "evaluator_refs": []}, True, id="snake-case-at-the-top"),
        pytest.param(evaluator(default_evaluation_criteria={}), False, id="the-guides-spelling-in-a-configuration"),
        pytest.param(evaluator(defaultEvaluationCriteria={"tool_calls": []}), False, id="the-guides-spelling-in-default-criteria"),
        pytest.param(
            eval_set({"id": "x", "evaluationCriterias": {"y": {"tool_calls_count": {}}}}), False, id="the-guides-spelling-in-criteria"
        ),
        pytest.param(
            eval_set({"id": "x", "evaluationCriterias": {"y": {"toolCallsCount": {"match": ["=", 1]}}}}), False, id="a-tool-called-match"
        ),
        pytest.param({"evaluations": {}, "evaluatorConfig": 5}, False, id="of-the-wrong-types"),
    ],
)
def test_our_form_is_told_from_the_samples(value: object, ours: bool) -> None:  # noqa: FBT001 - a table's column
    assert in_our_form(SettingsDocument(value=value, place=top(), yaml=False)) is ours
    assert in_our_form(SettingsDocument(value=value, place=top(), yaml=True))
