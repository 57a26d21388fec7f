"""AnyValue in OTLP/JSON.

An AnyValue is an object with one known key, which says the type. An empty object, or one without a known key, is None; of several
known keys the last one counts, as in protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.otlp.any_value import MAX_NESTING, NestedTooDeepError
from otel_toolcall_eval.otlp.json_fields import (
    WrongTypeError,
    as_object,
    base64_of,
    bool_of,
    double_of,
    integer_of,
    list_of,
    object_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_toolcall_eval.model.trace import Value
    from otel_toolcall_eval.otlp.json_fields import JsonObject
    from otel_toolcall_eval.otlp.limits import MemberBudget

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


def attribute_value(attribute: JsonObject, budget: MemberBudget, depth: int = 0, *, name: str = "value") -> Value:
    """Return the value of a ``KeyValue``, or of another object that holds an AnyValue.

    Args:
        attribute: the object that holds ``key`` and ``value``.
        budget: members that the request may still hold.
        depth: arrays and key-value lists around the value.
        name: field that holds the value.

    Raises:
        WrongTypeError: something in it has the wrong type.
        NestedTooDeepError: it is nested deeper than MAX_NESTING.
        TooLargeError: the budget is spent.
    """
    any_value = object_of(attribute, name)
    try:
        return _read(any_value, budget, depth)
    except WrongTypeError as error:
        error.inside(name)
        raise


def _read(any_value: JsonObject, budget: MemberBudget, depth: int) -> Value:
    value: Value = None
    for name in any_value:
        if any_value[name] is None:
            continue
        if name in _READ_SCALAR:
            value = _READ_SCALAR[name](any_value)
        elif name in {"arrayValue", "kvlistValue"}:
            if depth == MAX_NESTING:
                raise NestedTooDeepError
            read_members = _array if name == "arrayValue" else _kvlist
            try:
                value = read_members(object_of(any_value, name), budget, depth + 1)
            except WrongTypeError as error:
                error.inside(name)
                raise
    return value


def _array(fields: JsonObject, budget: MemberBudget, depth: int) -> Value:
    members: list[Value] = []
    for position, member in enumerate(list_of(fields, "values")):
        budget.spend()
        try:
            members.append(_read(as_object(member), budget, depth))
        except WrongTypeError as error:
            error.inside("values", f"[{position}]")
            raise
    return tuple(members)


def _kvlist(fields: JsonObject, budget: MemberBudget, depth: int) -> Value:
    members: dict[str, Value] = {}
    for position, member in enumerate(list_of(fields, "values")):
        budget.spend()
        try:
            attribute = as_object(member)
            members[text_of(attribute, "key")] = attribute_value(attribute, budget, depth)
        except WrongTypeError as error:
            error.inside("values", f"[{position}]")
            raise
    return members


def _text(any_value: JsonObject) -> Value:
    return text_of(any_value, "stringValue")


def _bool(any_value: JsonObject) -> Value:
    return bool_of(any_value, "boolValue")


def _int(any_value: JsonObject) -> Value:
    return integer_of(any_value, "intValue", low=_INT64_MIN, high=_INT64_MAX)


def _double(any_value: JsonObject) -> Value:
    return double_of(any_value, "doubleValue")


def _bytes(any_value: JsonObject) -> Value:
    return base64_of(any_value, "bytesValue")


_READ_SCALAR: Mapping[str, Callable[[JsonObject], Value]] = {
    "stringValue": _text,
    "boolValue": _bool,
    "intValue": _int,
    "doubleValue": _double,
    "bytesValue": _bytes,
}
