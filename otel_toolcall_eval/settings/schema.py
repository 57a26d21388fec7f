"""JSON Schema of the files that users write, for editors and for checks before deployment.

It is the strict form in both spellings. Files in the sample's own form may have more keys and still load, with warnings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pydantic.alias_generators import to_camel
from pydantic.json_schema import models_json_schema

from otel_toolcall_eval.model.errors import SettingsError
from otel_toolcall_eval.settings.criteria_models import (
    EVALUATOR_TYPES,
    FOREIGN_PATTERN,
    EvalItemModel,
    EvalSetModel,
    EvaluatorModel,
    MatchModel,
    ids_of,
)
from otel_toolcall_eval.settings.diagnostics import quoted, use_one_of
from otel_toolcall_eval.settings.service_models import ServiceModel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_toolcall_eval.settings.config_model import ConfigModel
    from otel_toolcall_eval.settings.criteria_models import EvaluatorConfig

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_TOPS: Mapping[str, tuple[type[ConfigModel], ...]] = {
    "criteria": (EvaluatorModel, EvalSetModel),
    "evaluator": (EvaluatorModel,),
    "eval-set": (EvalSetModel,),
    "settings": (ServiceModel,),
}
KINDS: Final = tuple(_TOPS)
"""``criteria`` is any file that a criteria path may name: an evaluator or an eval set."""


def criteria_schema(kind: str) -> dict[str, object]:
    """Return the JSON Schema, draft 2020-12, of a kind of file.

    Args:
        kind: ``criteria``, ``evaluator``, ``eval-set`` or ``settings``.

    Raises:
        SettingsError: there is no such kind.
    """
    if kind not in _TOPS:
        raise SettingsError(where="schema", what=f"{quoted(kind)} is not a kind of file", fix=use_one_of(kind, KINDS))
    definitions = _definitions()
    references = [_reference(model) for model in _TOPS[kind]]
    top: dict[str, object] = references[0] if len(references) == 1 else {"anyOf": references}
    return {"$schema": _DIALECT, "title": f"otel-toolcall-eval {kind}", **top, "$defs": _reachable(top, definitions)}


def _configs() -> list[type[EvaluatorConfig]]:
    return [kind.config for kind in EVALUATOR_TYPES.values()]


def _definitions() -> dict[str, dict[str, object]]:
    """Return the schema of every model, with what the models leave to code filled in, in both spellings."""
    models: list[type[ConfigModel]] = [model for config in _configs() for model in (config, config.expects)]
    models += [EvaluatorModel, EvalSetModel, EvalItemModel, MatchModel, ServiceModel]
    _, generated = models_json_schema([(model, "validation") for model in models], by_alias=False)
    definitions = cast("dict[str, dict[str, object]]", generated["$defs"])
    _fill_in(definitions)
    for definition in definitions.values():
        _spell_both_ways(definition)
    definitions["EvaluatorModel"]["allOf"] = [*_all_of(definitions["EvaluatorModel"]), *_configurations()]
    needed = [{"required": ["evaluations"]}, {"required": ["evaluators"]}]
    definitions["EvalSetModel"]["anyOf"] = needed
    return definitions


def _fill_in(definitions: Mapping[str, Mapping[str, object]]) -> None:
    def fill(model: type[ConfigModel], name: str, schema: Mapping[str, object]) -> None:
        properties = cast("dict[str, dict[str, object]]", definitions[model.__name__]["properties"])
        kept = {key: value for key, value in properties[name].items() if key in ("description", "default")}
        properties[name] = {**kept, **schema}

    nothing: list[Mapping[str, object]] = [{"type": "null"}, {"type": "object", "maxProperties": 0}]
    for config in _configs():
        empty = {"type": "array", "maxItems": 0}
        only_empties = {"type": "object", "additionalProperties": {"enum": [[], {}]}}
        fill(config, "default_evaluation_criteria", {"anyOf": [*nothing, empty, only_empties, _reference(config.expects)]})
    foreign = {"type": "string", "pattern": FOREIGN_PATTERN.pattern}
    ids = [name for kind in EVALUATOR_TYPES.values() for name in ids_of(kind)]
    fill(
        EvaluatorModel,
        "evaluator_type_id",
        {"anyOf": [{"enum": ids}, foreign]},
    )
    fill(EvalSetModel, "evaluators", {"type": "array", "items": _reference(EvaluatorModel)})
    fill(EvalSetModel, "evaluations", {"type": "array", "items": _reference(EvalItemModel)})
    any_criteria = [_reference(config.expects) for config in _configs()]
    fill(EvalItemModel, "evaluation_criterias", {"type": "object", "additionalProperties": {"anyOf": [*nothing, *any_criteria]}})
    fill(EvalItemModel, "match", {"anyOf": [{"type": "null"}, {"enum": ["all", "named"]}, _reference(MatchModel)]})


def _spell_both_ways(definition: dict[str, object]) -> None:
    """Let every key of an object be written in snake_case and in camelCase."""
    properties = cast("dict[str, dict[str, object]]", definition.get("properties", {}))
    for name in list(properties):
        if properties[name].get("default") is None:  # our way to say that a key was left out, and no value to write
            properties[name].pop("default", None)
        properties[name].pop("uniqueItems", None)  # of sets, where what stands twice does no harm
        properties[to_camel(name)] = properties[name]
    required = cast("list[str]", definition.pop("required", []))
    plain = [name for name in required if to_camel(name) == name]
    if plain:
        definition["required"] = plain
    either = [{"anyOf": [{"required": [name]}, {"required": [to_camel(name)]}]} for name in required if name not in plain]
    if either:
        definition["allOf"] = either


def _all_of(definition: Mapping[str, object]) -> list[object]:
    return cast("list[object]", definition.get("allOf", []))


def _configurations() -> Iterator[Mapping[str, object]]:
    """Yield, for each evaluator, what its configuration looks like."""
    for kind in EVALUATOR_TYPES.values():
        has_id = {"enum": list(ids_of(kind))}
        keys = ("evaluator_type_id", "evaluatorTypeId")
        named = {"anyOf": [{"required": [key], "properties": {key: has_id}} for key in keys]}
        config = {"anyOf": [{"type": "null"}, _reference(kind.config)]}
        yield {"if": named, "then": {"properties": {"evaluator_config": config, "evaluatorConfig": config}}}


def _reference(model: type[ConfigModel]) -> dict[str, object]:
    return {"$ref": f"#/$defs/{model.__name__}"}


def _reachable(schema: object, definitions: Mapping[str, object]) -> dict[str, object]:
    """Return the definitions that a schema refers to, directly or through others, by name."""
    found: dict[str, object] = {}
    waiting = list(_references(schema))
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = definitions[name]
            waiting.extend(_references(definitions[name]))
    return dict(sorted(found.items()))


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for member in schema.values():
            yield from _references(member)
    elif isinstance(schema, list):
        for member in schema:
            yield from _references(member)
