"""The exported JSON Schema says what the loaders do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.diagnostics import Diagnostics
from otel_toolcall_eval.settings.schema import KINDS, criteria_schema
from otel_toolcall_eval.settings.yaml_tree import parse_yaml
from tests.settings.loading import eval_set, evaluator, item, top
from tests.settings.test_service import WHOLE


def valid(kind: str, value: object) -> bool:
    return bool(Draft202012Validator(criteria_schema(kind)).is_valid(value))


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_valid_and_hold_all_that_they_refer_to(kind: str) -> None:
    schema = criteria_schema(kind)
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema)
    definitions: Any = schema["$defs"]
    assert all(f'"#/$defs/{name}"' in text for name in definitions)
    assert criteria_schema(kind) == schema


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_has_both_spellings_and_is_described(kind: str) -> None:
    definitions: Any = criteria_schema(kind)["$defs"]
    for definition in definitions.values():
        if "enum" in definition:
            continue
        properties = definition["properties"]
        assert definition["additionalProperties"] is False
        assert definition["description"]
        for name, schema in properties.items():
            assert "description" in schema or "$ref" in schema, name
            camel = name.split("_")[0] + "".join(part.capitalize() for part in name.split("_")[1:])
            assert properties[camel] == schema


FULL_ITEM = item(
    name="x",
    inputs={"city": "Tokyo"},
    match={"service": ["a"], "resource": {"b": 1}, "root_span_name": "r", "agentName": "g", "attributes": {}, "inputs": {}},
    passThreshold=0.5,
)
CASES = [
    pytest.param("eval-set", eval_set(item()), True, id="eval-set"),
    pytest.param("eval-set", eval_set(FULL_ITEM), True, id="with-everything"),
    pytest.param("eval-set", {"evaluators": []}, True, id="evaluators-alone"),
    pytest.param("eval-set", {"name": "x"}, False, id="neither"),
    pytest.param("eval-set", eval_set(evaluatons=[]), False, id="misspelt"),
    pytest.param("eval-set", eval_set({"id": "x"}), False, id="item-without-criteria"),
    pytest.param("eval-set", eval_set(item(match="everything")), False, id="unknown-word"),
    pytest.param("eval-set", eval_set(item(evaluationCriterias={"e": None, "f": {}})), True, id="default-criteria"),
    pytest.param("eval-set", eval_set(item(evaluationCriterias={"e": {"toolCallsCount": {"a": ["=>", 1]}}})), False, id="unknown-operator"),
    pytest.param("eval-set", eval_set(item(evaluationCriterias={"e": {"toolCallsOrder": []}})), False, id="empty-order"),
    pytest.param(
        "eval-set", eval_set(item(evaluationCriterias={"e": {"tool_calls": [{"name": "a", "args": None}]}})), False, id="args-null"
    ),
    pytest.param(
        "eval-set", eval_set(item(evaluationCriterias={"e": {"tool_outputs": [{"name": "a", "output": None}]}})), True, id="output-null"
    ),
    pytest.param("settings", {"listen": {"grpc": "a:1", "control": "off", "http": None, "tls": None}}, True, id="listeners"),
    pytest.param("settings", {"listen": {"control": False, "grpc": {"address": "a:1", "tokenFile": "t"}}}, True, id="own-protection"),
    pytest.param("settings", {"listen": {"http": {"cors": {"allowedOrigins": ["*", "http://a:1"]}}}}, True, id="origins"),
    pytest.param("settings", {"listen": {"http": {"cors": {"allowed_origins": ["http://a/"]}}}}, False, id="no-origin"),
    pytest.param("settings", {"listen": {"allowed_hosts": ["*", "a.b", "10.0.0.7", "[::1]", "fd00::7"]}}, True, id="hosts"),
    pytest.param("settings", {"listen": {"allowed_hosts": ["http://a"]}}, False, id="no-host"),
    pytest.param("settings", {"listen": {"grpc": {"cors": {}}}}, False, id="cors-of-grpc"),
    pytest.param("settings", {"listen": {"grpc": "off"}}, False, id="grpc-off"),
    pytest.param("settings", {"listen": {"grpc": 5}}, False, id="no-listener"),
    pytest.param("settings", {"listen": {"tls": "cert.pem"}}, False, id="tls-as-text"),
    pytest.param("evaluator", evaluator(strict="true", name="x"), True, id="evaluator"),
    pytest.param(
        "evaluator", {"id": "x", "evaluator_type_id": "uipath-tool-call-args", "evaluator_config": None}, True, id="null-configuration"
    ),
    pytest.param("evaluator", evaluator(strict=None), False, id="strict-null"),
    pytest.param("evaluator", evaluator(subset=True), False, id="another-evaluator's-setting"),
    pytest.param("evaluator", evaluator(kind="tool-call-args", subset=True, matching="positional"), True, id="its-own-setting"),
    pytest.param("evaluator", evaluator(kind="tool-call-cost"), False, id="unknown-evaluator"),
    pytest.param("evaluator", evaluator(kind="uipath-exact-match", anything=1), True, id="another-evaluator-of-the-family"),
    pytest.param("evaluator", evaluator(defaultEvaluationCriteria={"toolCallsCount": {}}), True, id="empty-default"),
    pytest.param("evaluator", evaluator(defaultEvaluationCriteria={"toolCallsCount": 3}), False, id="wrong-default"),
    pytest.param("evaluator", evaluator(include={"kinds": ["mcp"]}), True, id="include"),
    pytest.param("evaluator", evaluator(include={"kinds": []}), False, id="include-nothing"),
    pytest.param("criteria", evaluator(), True, id="criteria-may-be-an-evaluator"),
    pytest.param("criteria", eval_set(item()), True, id="or-an-eval-set"),
    pytest.param("criteria", {"a": 1}, False, id="and-nothing-else"),
    pytest.param("settings", {}, True, id="no-settings"),
    pytest.param("settings", {"criteria": ["a", {"path": "b", "services": "c"}], "export": {"otlp": "off"}}, True, id="settings"),
    pytest.param("settings", {"limits": {"numTraces": 5, "max_request_bytes": "5MiB"}, "listen": None}, True, id="both-spellings"),
    pytest.param("settings", {"export": {"otlp": "on"}}, False, id="neither-off-nor-an-object"),
    pytest.param("settings", {"limits": {"num_traces": "5"}}, False, id="text-for-a-number"),
    pytest.param("settings", {"completion": {"idle_timeout": "5x"}}, False, id="unknown-unit"),
    pytest.param("settings", {"lisen": {}}, False, id="misspelt-section"),
]


@pytest.mark.parametrize(("kind", "value", "expected"), CASES)
def test_schemas_tell_right_from_wrong(kind: str, value: object, expected: bool) -> None:  # noqa: FBT001 - a table's column
    assert valid(kind, value) is expected


def test_a_file_with_every_setting_is_valid() -> None:
    value, _ = parse_yaml(WHOLE, top(), Diagnostics())
    assert valid("settings", value)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(SettingsError) as caught:
        criteria_schema("eval_set")
    assert str(caught.value) == "schema: 'eval_set' is not a kind of file; did you mean 'eval-set'?"
