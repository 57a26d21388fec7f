"""What trace and log requests in JSON have in common: lists of objects, scopes and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from otel_toolcall_eval.model.trace import Resource, Scope
from otel_toolcall_eval.otlp.any_value import NestedTooDeepError
from otel_toolcall_eval.otlp.json_fields import WrongTypeError, as_object, list_of, object_of, text_of
from otel_toolcall_eval.otlp.json_values import attribute_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.model.trace import Value
    from otel_toolcall_eval.otlp.json_fields import JsonObject
    from otel_toolcall_eval.otlp.limits import MemberBudget

_Read = TypeVar("_Read")


def each(fields: JsonObject, name: str, handle: Callable[[JsonObject], None]) -> None:
    """Handle each object of a list, and say in which one something is wrong."""
    for position, value in enumerate(list_of(fields, name)):
        try:
            handle(as_object(value))
        except WrongTypeError as error:
            error.inside(name, f"[{position}]")
            raise


def in_field(owner: JsonObject, name: str, read: Callable[[JsonObject], _Read]) -> _Read:
    """Read the object in a field, and say so if something in it is wrong."""
    fields = object_of(owner, name)
    try:
        return read(fields)
    except WrongTypeError as error:
        error.inside(name)
        raise


def length(group: object, name: str) -> int:
    """Return how many elements a list has; what is no list has none, and is reported when its turn comes."""
    elements = group.get(name) if isinstance(group, dict) else None
    return len(elements) if isinstance(elements, list) else 0


def scope_of(fields: JsonObject) -> Scope:
    """Return a scope."""
    return Scope(name=text_of(fields, "name"), version=text_of(fields, "version"))


def resource_of(fields: JsonObject, budget: MemberBudget) -> Resource:
    """Return a resource with all its attributes."""
    return Resource(attributes=attributes_of(fields, _everything, budget)[0])


def attributes_of(owner: JsonObject, keeps: Callable[[str], bool], budget: MemberBudget) -> tuple[dict[str, Value], int]:
    """Return the attributes that are kept, and how many were left out because they are nested too deep."""
    kept: dict[str, Value] = {}
    too_deep = 0
    for position, value in enumerate(list_of(owner, "attributes")):
        try:
            attribute = as_object(value)
            key = text_of(attribute, "key")
            if keeps(key):
                kept[key] = attribute_value(attribute, budget)
        except NestedTooDeepError:
            too_deep += 1
        except WrongTypeError as error:
            error.inside("attributes", f"[{position}]")
            raise
    return kept, too_deep


def all_attributes_of(owner: JsonObject, budget: MemberBudget) -> dict[str, Value]:
    """Return all attributes but those that are nested too deep."""
    return attributes_of(owner, _everything, budget)[0]


def _everything(_key: str) -> bool:
    return True
