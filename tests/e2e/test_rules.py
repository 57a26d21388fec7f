"""promtool takes the rules, their unit tests pass, and over the invented hours each alert has the cause that was invented."""

from __future__ import annotations

import re
import shutil
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.e2e.prometheus import promtool, vector
from tests.prometheus.expected_alerts import causes
from tests.prometheus.rules import FILES, FOLDER, UNIT_TESTS, rules
from tests.prometheus.truth import Truth
from tests.prometheus.world import END
from tests.test_readme import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.e2e.prometheus import Serving
    from tests.prometheus.truth import Vector

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


def test_prometheus_takes_the_configuration_that_readme_shows(tmp_path: Path) -> None:
    (block,) = [block["body"] for block in BLOCKS if block["note"] == "prometheus.yml"]
    (tmp_path / "prometheus.yml").write_text(block, encoding="utf-8")
    (tmp_path / "config").symlink_to(FOLDER.parent)
    told = promtool("check", "config", tmp_path / "prometheus.yml")
    assert "2 rule files found" in told


RECORDED = {rule["record"]: rule["expr"] for rule in rules(FILES[0])}
ALERTS = {rule["alert"]: rule["expr"] for rule in rules(FILES[1])}


def written_out(expression: str) -> str:
    """Return an expression with what is recorded in place of the names it is recorded under, since blocks hold no recordings."""
    return re.sub(r"\b\w+:\w+:\w+\b", lambda found: f"({written_out(RECORDED[found[0]])})", expression)


@cache
def caused() -> Mapping[str, Vector]:
    return causes(Truth(), END)


@pytest.mark.parametrize("alert", ALERTS)
def test_alert_has_the_cause_that_was_invented(seeded: Serving, alert: str) -> None:
    answer = vector(seeded.instant(written_out(ALERTS[alert]), at=END))
    assert answer == {labels: pytest.approx(value, rel=1e-9) for labels, value in caused()[alert].items()}


def test_most_alerts_have_a_cause_and_some_have_none() -> None:
    assert set(caused()) == set(ALERTS)
    quiet = {alert for alert, cause in caused().items() if not cause}
    assert quiet == {"ToolCallSpansLost", "ToolCallSeriesOverflow", "ToolCallFaults"}
