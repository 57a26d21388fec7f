"""Finds what a dialect's sources name on a span, without decoding it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect import Dialect, Pattern, ReadStep, Source, ValueOrigin
from otel_toolcall_eval.extraction.matching import MAX_TESTED_LENGTH, holds, present, value_of
from otel_toolcall_eval.model.values import value_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.extraction.lookup_plan import FieldSource, Places
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span, SpanEvent, Value

MAX_CHILDREN_ASKED = 100
"""How many children a ``child`` source looks at. Producers that need it write two or three."""

EVERY_FIELD = "*"
"""The field that stands for all attributes of an event, as an object."""

MAX_FLATTENED_DEPTH = 20
"""How many segments a flattened key is split into; the rest stays together."""


@value_class
class Found:
    """A recorded value, where it was found, and by which dialect.

    Attributes:
        names: schema that names positional arguments, where the source tells where it is.
        cut: True if the producer says that it cut the value off.
    """

    value: Value
    source: Source
    dialect: Dialect
    names: Value = None
    cut: bool = False


def find_all(span: Span, tree: SpanTree, places: Places) -> Iterator[tuple[FieldSource, Found]]:
    """Yield what is found at the places of a field, in their order, nulls too."""
    for place in places:
        source = place.source
        for looked_at in _spans(span, tree, source):
            if _open(source, looked_at):
                for value in _values(looked_at, source):
                    yield (
                        place,
                        Found(
                            value=value,
                            source=source,
                            dialect=place.dialect,
                            names=looked_at.attributes.get(source.names_from) if source.names_from else None,
                            cut=source.cut_when is not None and holds(source.cut_when, looked_at),
                        ),
                    )


def find_in(span: Span, tree: SpanTree, source: Source) -> Iterator[Value]:
    """Yield what one source finds."""
    for looked_at in _spans(span, tree, source):
        if _open(source, looked_at):
            yield from _values(looked_at, source)


def find_content(span: Span, tree: SpanTree, places: Places) -> list[Found]:
    """Return what was recorded, in the order in which it is worth looking at: placeholders left out, blanks last.

    Where a producer says that it cut a value off, no other dialect's reading of the same place counts.
    """
    whole: list[Found] = []
    blank: list[Found] = []
    cut: set[tuple[ReadStep, str, str]] = set()
    for place, found in find_all(span, tree, places):
        key = found.source.step, found.source.key, found.source.field
        if key in cut:
            continue  # a dialect that does not know of the cut reads the same place: to it the rest looks whole
        if found.cut:
            cut.add(key)
        if place.placeholders and isinstance(found.value, str) and found.value.strip() in place.placeholders:
            continue
        (whole if present(found.value) else blank).append(found)
    return whole + blank


def find_direct(span: Span, place: FieldSource, attribute: str) -> Found | None:
    """Return what ``find_content`` does where there is only this place, and it is the value of an attribute as it stands."""
    value = value_of(span.attributes, attribute)
    if value is None and attribute not in span.attributes:
        return None
    if place.placeholders and isinstance(value, str) and value.strip() in place.placeholders:
        return None
    return Found(value=value, source=place.source, dialect=place.dialect)


def _spans(span: Span, tree: SpanTree, source: Source) -> Sequence[Span]:
    if source.step is ReadStep.SELF:
        return (span,)
    if source.step is ReadStep.CHILD:
        return tree.children(span)[:MAX_CHILDREN_ASKED]
    parent = tree.parent(span)
    return () if parent is None else (parent,)


def _open(source: Source, span: Span) -> bool:
    if source.only_if is not None and not holds(source.only_if, span):
        return False
    return source.unless is None or not holds(source.unless, span)


def _values(span: Span, source: Source) -> Iterator[Value]:
    if source.origin is ValueOrigin.EVENT:
        yield from _event_values(span, source)
    elif source.origin is ValueOrigin.ATTR:
        if source.key in span.attributes:
            yield span.attributes[source.key]
    elif source.origin is ValueOrigin.ATTR_PREFIX:
        if (rebuilt := _rebuilt(span.attributes, source.key)) is not None:
            yield rebuilt
    elif source.origin is ValueOrigin.SPAN_NAME:
        if (name := _cut_name(span.name, source)) is not None:
            yield name
    else:
        yield source.key


def _event_values(span: Span, source: Source) -> Iterator[Value]:
    for event in span.events:
        found, value = event_value(event, source)
        if found:
            yield value


def event_value(event: SpanEvent, source: Source) -> tuple[bool, Value]:
    """Tell whether an event is the one that a source names and has its field, and return the field's value."""
    if event.name != source.key:
        return False, None
    if source.field == EVERY_FIELD:
        return True, event.attributes
    return source.field in event.attributes, event.attributes.get(source.field)


def _cut_name(name: str, source: Source) -> str | None:
    """Return the part of a span's name that a source wants; None if the name does not have it."""
    if not name.startswith(source.strip_prefix) or not name.endswith(source.strip_suffix):
        return None
    name = name.removeprefix(source.strip_prefix).removesuffix(source.strip_suffix)
    if source.before_last:
        return name.rpartition(source.before_last)[0] or None
    return name if source.pattern is None else _found_in(name, source.pattern)


def _found_in(name: str, pattern: Pattern) -> str | None:
    """Return what a pattern's first group finds, or all that it finds if it has no group."""
    found = pattern.search(name[:MAX_TESTED_LENGTH])
    if found is None:
        return None
    try:
        return found.group(1)
    except IndexError:
        return found.group(0)


def _rebuilt(attributes: Mapping[str, Value], prefix: str) -> Value:
    """Rebuild a value from flattened keys; None if there are none. Segments that are 0, 1, 2, ... make a list."""
    flat = {key[len(prefix) :]: value for key, value in attributes.items() if key.startswith(prefix) and len(key) > len(prefix)}
    return grown(flat) if flat else None


def grown(flat: Mapping[str, Value]) -> Value:
    """Turn dotted keys into nested objects and lists. Of a key that is a leaf and a branch, the branch wins.

    Cost: linear in the segments, which are bounded for each key.
    """
    root: dict[str, object] = {}
    for key, value in sorted(flat.items()):
        branch = root
        *steps, last = key.split(".", MAX_FLATTENED_DEPTH)
        for step in steps:
            below = branch.get(step)
            if not isinstance(below, _Branch):
                below = branch[step] = _Branch()
            branch = below
        branch[last] = value  # a leaf sorts before the branches of its name, so it never replaces one
    return _listed(root)


class _Branch(dict[str, object]):
    """A branch of our own making, told apart from a recorded object."""


def _listed(branch: Mapping[str, object]) -> Value:
    """Turn branches with the keys 0 to n-1 into lists. Recursion is bounded by MAX_FLATTENED_DEPTH."""
    grown_members: dict[str, Value] = {
        key: _listed(value) if isinstance(value, _Branch) else value  # type: ignore[misc] # the leaves came in as Value
        for key, value in branch.items()
    }
    if grown_members and all(str(index) in grown_members for index in range(len(grown_members))):
        return tuple(grown_members[str(index)] for index in range(len(grown_members)))
    return grown_members
