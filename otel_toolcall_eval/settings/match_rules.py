"""Which traces an item of an eval set judges. Source: DESIGN, section 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.model.criteria import Reach, Selector
from otel_toolcall_eval.settings.criteria_shapes import MatchShape
from otel_toolcall_eval.settings.fields import kind_of
from otel_toolcall_eval.settings.shape import check
from otel_toolcall_eval.settings.suggestion import nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Attributes, Value
    from otel_toolcall_eval.settings.place import Findings, Place

_WORDS = {"all": Reach.EVERY, "named": Reach.NAMED}
_CHOICES = "write all, named, or an object of conditions"


def selector_of(
    match: object,
    inputs: Mapping[str, object],
    place: Place,
    findings: Findings,
    *,
    services: frozenset[str],
    unconditional: Reach,
) -> Selector:
    """Return what selects the traces of an item; what is wrong with it goes to ``findings``.

    Args:
        match: ``all``, ``named``, an object of conditions, or None where there is none.
        inputs: the item's inputs, a condition beside those of ``match``. A trace that names the item is judged by it
            whatever its inputs, so they don't matter with ``named``.
        place: where ``match`` stands.
        findings: takes problems.
        services: what the item's file is for; empty means any.
        unconditional: how far an item without ``match`` and inputs reaches.
    """
    if match is None:
        return _selector(MatchShape(), inputs, services, unconditional)
    if isinstance(match, str) and match in _WORDS:
        reach = _WORDS[match]
        return _selector(MatchShape(), {} if reach is Reach.NAMED else inputs, services, reach)
    if isinstance(match, dict):
        return _combined(match, inputs, place, findings, services)
    guess = nearest(match, _WORDS) if isinstance(match, str) else None
    what = f"{quoted(match)} is not known here" if isinstance(match, str) else f"this is {kind_of(match)}"
    findings.problem(place, what, _CHOICES if guess is None else f"did you mean {quoted(guess)}?")
    return Selector()


def _combined(
    match: object,
    inputs: Mapping[str, object],
    place: Place,
    findings: Findings,
    services: frozenset[str],
) -> Selector:
    """Join the conditions of ``match``, the item's inputs, and the services of the path; all have to hold."""
    shape = check(MatchShape, match, place, findings)
    if shape is None:
        return Selector()
    if not any((shape.resource, shape.service, shape.root_span_name, shape.agent_name, shape.attributes, shape.inputs)):
        findings.problem(place, "no condition is given", _CHOICES)
    for key in shape.inputs.keys() & inputs.keys():
        if shape.inputs[key] != inputs[key]:
            findings.problem(place, f"the input {quoted(key)} differs from the one in the item's inputs", "keep one of them")
    wanted = shape.service or services
    both = wanted & services if services else wanted
    if wanted and not both:
        findings.problem(place, "the service is none of those that this path is for", "name one of them, or none")
    return _selector(shape, {**inputs, **shape.inputs}, both, Reach.MATCHED)


def _selector(shape: MatchShape, inputs: Mapping[str, object], services: frozenset[str], reach: Reach) -> Selector:
    return Selector(
        reach=Reach.MATCHED if inputs else reach,
        services=services,
        resource=_attributes(shape.resource),
        root_span_name=shape.root_span_name,
        agent_name=shape.agent_name,
        attributes=_attributes(shape.attributes),
        inputs=cast("Mapping[str, Json]", inputs),
    )


def _attributes(raw: Mapping[str, object]) -> Attributes:
    return {key: _attribute(value) for key, value in raw.items()}


def _attribute(value: object) -> Value:
    """Return a plain value as OTLP has it: lists are tuples."""
    if isinstance(value, dict):
        return {key: _attribute(member) for key, member in value.items()}
    if isinstance(value, list):
        return tuple(_attribute(member) for member in value)
    return cast("Value", value)
