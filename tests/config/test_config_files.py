"""Every file under config/ loads, and a slip in any of them is told in the right words."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from otel_toolcall_eval.model.criteria import OrderCriteria, Parallel, SelectorScope
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.document import read_document
from otel_toolcall_eval.settings.schema import criteria_schema
from otel_toolcall_eval.settings.service import Deployment
from otel_toolcall_eval.settings.service_file import SINGLE_VARIABLES, load_settings
from tests.settings.loading import complaints, setting_complaints

CONFIG = Path(__file__).parent.parent.parent / "config"
SIDECAR = CONFIG / "sidecar.yaml"
WEATHER = CONFIG / "weather"
CRITERIA = sorted((CONFIG / "criteria").iterdir())


def content(path: Path) -> object:
    document = read_document(path, Diagnostics())
    assert document is not None
    return document.value


def errors(kind: str, value: object) -> list[str]:
    return [error.message for error in Draft202012Validator(criteria_schema(kind)).iter_errors(value)]


def test_the_sidecars_file_says_what_holds_without_it() -> None:
    found = load_settings(SIDECAR, {}, Deployment.SIDECAR)
    assert found == load_settings(None, {}, Deployment.SIDECAR)
    assert found.warnings == ()


def test_the_sidecars_file_has_every_setting_with_a_comment() -> None:
    def leaves(value: object, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
        if isinstance(value, dict):
            return {leaf for key, member in value.items() for leaf in leaves(member, (*path, key))}
        return {path}

    # Of what has two forms, one is shown; what each listener may have for itself is what all of them have together.
    two_forms = {("export", "otlp"), ("listen", "http"), ("listen", "grpc", "address"), ("listen", "control", "address")}
    own = {
        leaf
        for leaf in SINGLE_VARIABLES.values()
        if leaf[1:2] in {("grpc",), ("http",), ("control",)} and {"tls", "token_file"} & {*leaf[2:]}
    }
    assert leaves(content(SIDECAR)) == {*SINGLE_VARIABLES.values(), ("criteria",), ("dialects",)} - two_forms - own
    lines = SIDECAR.read_text(encoding="utf-8").splitlines()
    settings = [number for number, line in enumerate(lines) if re.match(r" *[a-z_]+: \S", line)]
    assert len(settings) == len(leaves(content(SIDECAR)))
    assert all(lines[number - 1].lstrip().startswith("#") for number in settings)


def test_the_sidecars_file_fits_its_schema() -> None:
    assert errors("settings", content(SIDECAR)) == []


@pytest.mark.parametrize("path", CRITERIA, ids=lambda path: path.stem)
def test_criteria_load_without_a_warning_and_fit_their_schema(path: Path) -> None:
    assert path.suffix == ".yaml"
    assert load_criteria([CriteriaSource(path=path)]).warnings == ()
    assert errors("eval-set", content(path)) == []
    assert errors("criteria", content(path)) == []


def test_criteria_load_together_and_show_each_way_to_find_a_trace() -> None:
    loaded = load_criteria([CriteriaSource(path=CONFIG / "criteria")])
    assert {found.name: found.selector.reach for found in loaded.sets} == {
        "no_destructive_tools": SelectorScope.EVERY,
        "research_with_citations": SelectorScope.NAMED,
        "research-order": SelectorScope.FALLBACK,
        "checkout_in_production": SelectorScope.MATCHED,
        "refund_large": SelectorScope.MATCHED,
        "weather_in_tokyo": SelectorScope.MATCHED,
        "booking": SelectorScope.MATCHED,
        "booking_draft": SelectorScope.MATCHED,
    }
    checks = {found.name: found.checks for found in loaded.sets}
    order = checks["research_with_citations"][0].criteria
    assert isinstance(order, OrderCriteria)
    assert order.parallel is Parallel.ANY
    assert [check.pass_threshold for check in checks["booking"] + checks["booking_draft"]] == [0.5, 1.0, 0.75]


def test_the_samples_own_files_load_without_a_warning_and_are_those_of_the_demonstration() -> None:
    loaded = load_criteria([CriteriaSource(path=WEATHER)])
    assert loaded.warnings == ()
    assert [found.name for found in loaded.sets] == [
        "basic_weather",
        "weather_with_forecast",
        "weather_with_alerts",
        "sunny_weather",
        "tokyo_forecast",
    ]
    shown = {path.relative_to(WEATHER): path.read_bytes() for path in WEATHER.rglob("*.json")}
    assert shown == {path.relative_to(EVALUATIONS): path.read_bytes() for path in EVALUATIONS.rglob("*.json")}
    for path in WEATHER.rglob("*.json"):
        assert errors("evaluator" if path.parent.name == "evaluators" else "eval-set", content(path)) == []


def test_the_processors_file_says_what_holds_without_it_but_for_its_criteria() -> None:
    found = load_settings(CONFIG / "in_process.yaml", {}, Deployment.IN_PROCESS)
    assert replace(found, criteria=()) == load_settings(None, {}, Deployment.IN_PROCESS)
    assert [source.path for source in found.criteria] == [WEATHER]
    assert found.warnings == ()
    assert errors("settings", content(CONFIG / "in_process.yaml")) == []


def test_the_criteria_of_the_examples_load_without_a_warning_and_fit_their_schema() -> None:
    path = CONFIG / "examples" / "order_desk.yaml"
    loaded = load_criteria([CriteriaSource(path=path)])
    assert loaded.warnings == ()
    assert [found.name for found in loaded.sets] == ["refund"]
    assert errors("eval-set", content(path)) == []


def test_every_file_is_looked_at_here() -> None:
    """Dashboards and deployments have tests of their own; what is read as settings or criteria does not escape."""
    assert {path.name for path in CRITERIA} == {f"{name}.yaml" for name in ("match", "order", "policy", "thresholds")}
    folders = {
        "collector",
        "compose",
        "criteria",
        "dialects",
        "examples",
        "grafana",
        "kubernetes",
        "prometheus",
        "status",
        "weather",
    }
    assert {path.name for path in CONFIG.iterdir()} == {"sidecar.yaml", "in_process.yaml", "compose.yaml", *folders}


def test_the_pictures_of_the_status_page_are_light() -> None:
    sizes = {path.name: path.stat().st_size for path in (CONFIG / "status").iterdir()}
    assert set(sizes) == {"trace.png", "verdicts.png"}
    assert max(sizes.values()) < 150_000


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        pytest.param(
            "policy",
            'delete_account: ["=", 0]',
            'delete_account: ["=<", 0]',
            "no_destructive_tools.policy-counts.delete_account: '=<' is not an operator; use one of = == != > >= < <=",
            id="operator",
        ),
        pytest.param(
            "policy",
            'drop_table: ["=", 0]',
            'drop_table: ["=", -1]',
            "no_destructive_tools.policy-counts.drop_table: the count -1 is negative; calls are counted from 0",
            id="count",
        ),
        pytest.param(
            "policy", "match: all", "match: al", "no_destructive_tools.match: 'al' is not known here; did you mean 'all'?", id="match-word"
        ),
        pytest.param(
            "policy",
            "strict: true",
            "stric: true",
            "policy-counts.evaluator_config.stric: unknown key 'stric'; did you mean 'strict'?",
            id="configuration",
        ),
        pytest.param(
            "order",
            "parallel: any",
            "parallel: start",
            "research-order.evaluator_config.parallel: 'start' is not known here; did you mean 'start_time'?",
            id="choice",
        ),
        pytest.param(
            "order",
            "tool-call-order",
            "tool-call-oder",
            "research-order.evaluator_type_id: 'tool-call-oder' is not an evaluator that we know; did you mean 'tool-call-order'?",
            id="evaluator-type",
        ),
        pytest.param(
            "order",
            "      ToolCallCountEvaluator:",
            "      ToolCalCountEvaluator:",
            "research_with_citations.ToolCalCountEvaluator: no evaluator has the ID 'ToolCalCountEvaluator'; "
            "did you mean 'ToolCallCountEvaluator'?",
            id="evaluator",
        ),
        pytest.param(
            "match",
            "root_span_name",
            "root_span",
            "checkout_in_production.match.root_span: unknown key 'root_span'; did you mean 'root_span_name'?",
            id="condition",
        ),
        pytest.param(
            "match",
            "            args: {city: Tokyo}",
            "            parameters: {city: Tokyo}",
            "weather_in_tokyo.ToolCallArgsEvaluator[0]: 'args' is missing; add it; 'parameters' is no key of this object",
            id="missing-key",
        ),
        pytest.param(
            "thresholds",
            "pass_threshold: 0.75",
            "pass_treshold: 0.75",
            "booking_draft.pass_treshold: unknown key 'pass_treshold'; did you mean 'pass_threshold'?",
            id="item",
        ),
        pytest.param(
            "thresholds",
            "kinds: [function, mcp]",
            "kinds: [functions, mcp]",
            "lenient-args.evaluator_config.include.kinds[0]: 'functions' is not known here; did you mean 'function'?",
            id="list-of-choices",
        ),
        pytest.param(
            "thresholds", "evaluations:", "evaluation:", "evaluation: unknown key 'evaluation'; did you mean 'evaluations'?", id="top"
        ),
    ],
)
def test_a_slip_in_criteria_has_its_words_and_its_line(tmp_path: Path, name: str, old: str, new: str, expected: str) -> None:
    text = (CONFIG / "criteria" / f"{name}.yaml").read_text(encoding="utf-8")
    assert old in text
    found = complaints(tmp_path, {f"{name}.yaml": text.replace(old, new, 1)}, f"{name}.yaml")
    lines = [re.sub(rf"^{name}\.yaml:(\d+): ", "", complaint) for complaint in found]
    assert expected in lines
    line = int(found[lines.index(expected)].split(":")[1])
    changed = text.replace(old, new, 1).splitlines()
    # A missing key is told in the line of the object that lacks it.
    assert new.strip().splitlines()[0] in "\n".join(changed[line - 1 : line + 1])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("\nlisten:", "\nlisen:", "lisen: unknown key 'lisen'; did you mean 'listen'?", id="section"),
        pytest.param("grpc: 127.0.0.1:4317", "grcp: 127.0.0.1:4317", "listen.grcp: unknown key 'grcp'; did you mean 'grpc'?", id="setting"),
        pytest.param(
            " address: 127.0.0.1:4318",
            " address: 127.0.0.1",
            "listen.http.address: '127.0.0.1' has no port from 0 to 65535; write host:port, as in 127.0.0.1:4317 or [::1]:4317",
            id="address",
        ),
        pytest.param(
            "idle_timeout: 5m",
            "idle_timeout: 5min",
            "completion.idle_timeout: '5min' is not a duration; "
            "write a number with a unit, as in 500ms, 10s, 5m or 1h, or a number of seconds",
            id="duration",
        ),
        pytest.param(
            "bytes: 8MiB",
            "bytes: 8MB",
            "limits.maximum_trace_size_bytes: '8MB' is not a size; "
            "write a number of bytes, or one with a unit, as in 64MiB (KiB, MiB, GiB)",
            id="size",
        ),
        pytest.param(
            "insecure: false",
            "insecure: no",
            "listen.insecure: 'no' is neither true nor false; write true or false, without quotes",
            id="flag",
        ),
        pytest.param("values: off", "values: of", "explain.values: 'of' is not known here; did you mean 'off'?", id="choice"),
    ],
)
def test_a_slip_in_settings_has_its_words(tmp_path: Path, old: str, new: str, expected: str) -> None:
    text = SIDECAR.read_text(encoding="utf-8")
    assert text.count(old) == 1
    (found,) = setting_complaints(tmp_path, text.replace(old, new))
    assert re.sub(r"^sidecar\.yaml:\d+: ", "", found) == expected
