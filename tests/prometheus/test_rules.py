"""Rules that promtool has nothing to say of: whether they tell what to do, and ask for what is emitted. Needs no Prometheus."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from boards.metrics import metric
from boards.promql import total
from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.prometheus_names import label_name
from otel_toolcall_eval.exporters.metrics.recording import OBSERVED, RECORDED
from otel_toolcall_eval.exporters.names import InstrumentKind
from tests.prometheus.rules import FILES, UNIT_TESTS, groups, rules

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORDING, ALERTS = FILES
each_alert = pytest.mark.parametrize("alert", [pytest.param(rule, id=rule["alert"]) for rule in rules(ALERTS)])


@each_alert
def test_alert_says_how_bad_it_is_what_is_wrong_and_what_to_do(alert: Mapping[str, Any]) -> None:
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert set(alert["annotations"]) == {"summary", "description", "runbook"}
    assert len(alert["annotations"]["summary"]) < 60
    assert "{{ $" in alert["annotations"]["description"]
    assert len(alert["annotations"]["runbook"]) > 100


@each_alert
def test_alert_fires_in_a_unit_test(alert: Mapping[str, Any]) -> None:
    tests = " ".join(file.read_text(encoding="utf-8") for file in UNIT_TESTS)
    fires = rf'ALERTS\{{alertname="{alert["alert"]}", alertstate="firing", severity="{alert["labels"]["severity"]}"'
    assert re.search(fires, tests)


def test_every_rule_has_a_name_of_its_own() -> None:
    found = [rule.get("record") or rule["alert"] for file in FILES for rule in rules(file)]
    assert len(set(found)) == len(found)


def test_every_group_has_an_interval_within_the_time_that_prometheus_looks_back() -> None:
    assert {group["interval"] for file in FILES for group in groups(file)} <= {"1m", "2m"}


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule["record"]) for rule in rules(RECORDING) if ":increase" in rule["record"]])
def test_growth_is_reckoned_as_on_the_dashboards(rule: Mapping[str, Any]) -> None:
    _, _, window = rule["record"].partition(":increase")
    expected = total(f"{metric(names.SCORE)}_count", window, "toolcall_eval_service_name", "toolcall_eval_criteria")
    assert re.sub(r"\s+", "", rule["expr"]) == re.sub(r"\s+", "", expected)


def test_every_metric_and_label_is_one_that_is_emitted_or_recorded() -> None:
    instruments = (*RECORDED, *OBSERVED)
    suffixes = {InstrumentKind.HISTOGRAM: ("_bucket", "_count", "_sum")}
    known = {metric(item) + suffix for item in instruments for suffix in suffixes.get(item.kind, ("",))}
    known |= {label_name(attribute.name) for item in instruments for attribute in item.attributes}
    known |= {rule["record"] for rule in rules(RECORDING)}
    expressions = " ".join(re.sub(r'"[^"]*"', "", rule["expr"]) for file in FILES for rule in rules(file))
    told = set(re.findall(r"\b[\w:]*(?:gen_ai|toolcall_eval)[\w:]+", expressions))
    assert told - known == set()
