"""promtool takes the rules, and their unit tests pass."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.e2e.prometheus import promtool
from tests.prometheus.rules import FILES, FOLDER, UNIT_TESTS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e


def test_rules_are_well_formed_and_free_of_doubles() -> None:
    promtool("check", "rules", "--lint=all", "--lint-fatal", *FILES)


@pytest.mark.parametrize("file", [pytest.param(file, id=file.stem) for file in UNIT_TESTS])
def test_unit_tests_of_the_rules_pass(file: Path) -> None:
    promtool("test", "rules", file)


@pytest.mark.parametrize(
    ("said", "instead"),
    [
        pytest.param("> 0\n        for: 10m", "> 0\n        for: 40m", id="alerts-that-wait-too-long"),
        pytest.param("for: 10m\n", "for: 1m\n", id="alerts-that-do-not-wait"),
        pytest.param("            or increase(", "            and increase(", id="growth-of-new-series-alone"),
    ],
)
def test_unit_tests_of_the_rules_can_fail(tmp_path: Path, said: str, instead: str) -> None:
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    alerts = tmp_path / "alerts.yaml"
    text = alerts.read_text(encoding="utf-8")
    assert said in text
    alerts.write_text(text.replace(said, instead), encoding="utf-8")
    with pytest.raises(AssertionError, match="FAILED"):
        promtool("test", "rules", tmp_path / "tests" / "rules.yaml")
