"""The base of our pydantic models, and the one place where pydantic's errors become ours.

A model says which keys an object may have, in both spellings. pydantic finds what is wrong, all of it in one go; its words,
which know nothing of our files, never leave this module.
"""

from __future__ import annotations

import re
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from otel_toolcall_eval.settings.diagnostics import Spelling, did_you_mean, quoted, use_one_of
from otel_toolcall_eval.settings.types import OURS, kind_of, shown_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic_core import ErrorDetails

    from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, Step


_BUILDING: Final = RLock()


class ConfigModel(BaseModel):
    """An object in a file. Keys in snake_case or camelCase; of two spellings of one key camelCase wins (count-both-aliases)."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        arbitrary_types_allowed=True,
        defer_build=True,  # most are parts of others, or never asked for: building all forty is a tenth of what our import takes
        extra="forbid",
        frozen=True,
        loc_by_alias=False,
        populate_by_name=True,
    )

    @classmethod
    def model_rebuild(cls, **how: Any) -> bool | None:  # noqa: ANN401 - handed on as pydantic gives it
        """Build the validator, which pydantic does at its first use, in one thread at a time: two may read files at once."""
        with _BUILDING:
            return super().model_rebuild(**how)


ModelT = TypeVar("ModelT", bound=ConfigModel)


def spellings(model: type[ConfigModel]) -> frozenset[str]:
    """Return every key that the model knows, in both spellings."""
    return frozenset(model.model_fields) | frozenset(to_camel(name) for name in model.model_fields)


def member(raw: object, key: str) -> object:
    """Return the member of a raw object by its snake_case key, in whichever spelling it was written; None if it has none."""
    if not isinstance(raw, dict):
        return None
    return raw.get(to_camel(key), raw.get(key))


def place_of(raw: object, key: str, place: SourceLocation) -> SourceLocation:
    """Return the place of an object's member by its snake_case key, in whichever spelling it was written."""
    return place.at(to_camel(key) if isinstance(raw, dict) and to_camel(key) in raw else key)


def check(
    model: type[ModelT],
    raw: object,
    place: SourceLocation,
    diagnostics: Diagnostics,
    *,
    tolerant: bool = False,
    context: object = None,
) -> ModelT | None:
    """Return ``raw`` as a model, or None after all that is wrong with it went to ``diagnostics``.

    Args:
        model: what it should be.
        raw: plain values.
        place: where it stands.
        diagnostics: takes problems and warnings.
        tolerant: unknown keys are warned about and left out, in place of being problems.
        context: handed to the validators.
    """
    try:
        return model.model_validate(raw, context=context)
    except ValidationError as error:
        details = error.errors(include_url=False)
    report = _Report(model, raw, place, diagnostics, tolerant=tolerant)
    for detail in details:
        report.add(detail)
    if report.fatal:
        return None
    # Only keys to ignore are left; without them it fits. Not again tolerant: this ends here, whatever happens.
    return check(model, _without(raw, report.ignored), place, diagnostics, context=context)


class _FoundValue(NamedTuple):
    """What stands at pydantic's path: the path with the keys that the user wrote, the value there, and the nearest model around it."""

    path: tuple[Step, ...]
    value: object
    model: type[ConfigModel]


class _Report:
    """Turns the errors of one validation into problems and warnings."""

    def __init__(self, model: type[ConfigModel], raw: object, place: SourceLocation, diagnostics: Diagnostics, *, tolerant: bool) -> None:
        self.fatal = False
        self.ignored: list[tuple[Step, ...]] = []
        self._model = model
        self._raw = raw
        self._place = place
        self._diagnostics = diagnostics
        self._tolerant = tolerant

    def add(self, detail: ErrorDetails) -> None:
        location = detail["loc"]
        match detail["type"]:
            case "extra_forbidden":  # ends with the key as the user wrote it
                self._unknown_key(str(location[-1]), self._find(location[:-1]))
            case "missing":  # ends with our name of the field
                self._missing_key(str(location[-1]), self._find(location[:-1]))
            case _:
                self._problem(self._find(location).path, *in_our_words(detail))

    def _problem(self, path: Sequence[Step], what: str, fix: str) -> None:
        self.fatal = True
        self._diagnostics.problem(self._place.at(*path), what, fix)

    def _unknown_key(self, key: str, found: _FoundValue) -> None:
        here = (*found.path, key)
        if key in found.model.model_fields:  # to pydantic, the second spelling of a key is an unknown one
            self._diagnostics.warn(self._place.at(*here), f"{quoted(to_camel(key))} is given too, and wins", "remove one of them")
            self.ignored.append(here)
            return
        names = self._names_spelt_like(key, found.model)
        meant = did_you_mean(key, names)
        # A misspelt key that has to be there must not pass as something to ignore.
        if self._tolerant and not (meant is not None and _lacks(found, names[meant])):
            fix = "remove it" if meant is None else f"did you mean {quoted(meant)}?"
            self._diagnostics.warn(self._place.at(*found.path), f"the unknown key {quoted(key)} is ignored", fix)
            self.ignored.append(here)
            return
        self._problem(here, f"unknown key {quoted(key)}", use_one_of(key, names))

    def _missing_key(self, name: str, found: _FoundValue) -> None:
        keys = found.value if isinstance(found.value, dict) else ()
        unknown = [key for key in keys if isinstance(key, str) and key not in spellings(found.model)]
        for key in unknown:
            names = self._names_spelt_like(key, found.model)
            if names.get(did_you_mean(key, names) or "") == name:
                return  # the misspelt key is reported, and says which one was meant
        shown = to_camel(name) if self._place.spelling is Spelling.CAMEL else name
        fix = f"add it; {quoted(unknown[0])} is no key of this object" if unknown else "add it"
        self._problem(found.path, f"{quoted(shown)} is missing", fix)

    def _names_spelt_like(self, key: str, model: type[ConfigModel]) -> Mapping[str, str]:
        """Return the fields by their keys, spelt as the key is, or as the file's other keys are if the key does not tell."""
        camel = "_" not in key and (key != key.lower() or self._place.spelling is Spelling.CAMEL)
        return {to_camel(name) if camel else name: name for name in model.model_fields}

    def _find(self, location: Sequence[Step]) -> _FoundValue:
        path: tuple[Step, ...] = ()
        value, model = self._raw, self._model
        for step in location:
            if not isinstance(value, dict | list):
                break  # a single value that stands for an object or a list: there is nothing below it
            if step == "[key]" and not (isinstance(value, dict) and step in value):
                continue  # pydantic's mark for a key that is wrong itself
            written = step
            if isinstance(step, str) and step in model.model_fields:  # others are users' own, such as names of tools
                written = to_camel(step) if isinstance(value, dict) and to_camel(step) in value else step
                model = next(models_in(model.model_fields[step].annotation), model)
            path = (*path, written)
            value = value.get(written) if isinstance(value, dict) else value[written] if isinstance(written, int) else None
        return _FoundValue(path, value, model)


def _lacks(found: _FoundValue, name: str) -> bool:
    """Tell whether a key is due that is absent."""
    return (
        found.model.model_fields[name].is_required()
        and isinstance(found.value, dict)
        and found.value.keys().isdisjoint((name, to_camel(name)))
    )


def in_our_words(detail: ErrorDetails) -> tuple[str, str]:
    """Return what is wrong and how to mend it. Every type that our models can raise is here; a test makes them all occur."""
    value, context = detail.get("input"), detail.get("ctx", {})
    what, fix = _KINDS_DUE.get(detail["type"], ("a key is not text", "use text for keys"))  # what only mappings from code can have
    match detail["type"]:
        case str(ours) if ours == OURS:
            return str(context.get("what")), str(context.get("fix"))
        case "string_type":
            fix = "put it in quotes" if isinstance(value, bool | int | float) else "write a name"
        case "bool_type" if isinstance(value, str):
            return f"{quoted(value)} is neither true nor false", "write true or false, without quotes"
        case "greater_than_equal" | "less_than_equal" as kind:
            bound = f"at least {context['ge']}" if kind == "greater_than_equal" else f"at most {context['le']}"
            return f"{shown_number(value)} is not {bound}", f"write a number of {bound}"
        case "float_type" if isinstance(value, int) and not isinstance(value, bool):
            return "the number is too large", "write a smaller number"
        case "enum":
            choices = _QUOTED.findall(str(context.get("expected")))
            if isinstance(value, str):
                return f"{quoted(value)} is not known here", use_one_of(value, choices)
            fix = f"use one of {', '.join(sorted(choices))}"
    return what.format(kind_of(value)), fix


_QUOTED = re.compile("'([^']*)'")
_KINDS_DUE: Mapping[str, tuple[str, str]] = {
    "model_type": ("this is {}, not an object", "write keys with values"),
    "dict_type": ("this is {}, not an object", "write keys with values"),
    "list_type": ("this is {}, not a list", "write a list, even for a single entry"),
    "frozen_set_type": ("this is {}, not a list", "write a list, even for a single entry"),
    "too_short": ("this is empty", "add at least one entry, or remove it"),
    "string_type": ("this is {}, not text", ""),
    "string_too_short": ("this is empty", "write a name"),
    "string_unicode": ("this is not valid Unicode", "write the character itself in place of its escapes"),
    "bool_type": ("this is {}, not true or false", "write true or false"),
    "int_type": ("this is {}, not a whole number", "write a whole number"),
    "float_type": ("this is {}, not a number", "write a number"),
    "enum": ("this is {}, not text", ""),
}


def models_in(annotation: object) -> Iterator[type[ConfigModel]]:
    """Yield the models that a type is made of."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def _without(raw: object, ignored: Sequence[tuple[Step, ...]]) -> object:
    """Return a copy of ``raw`` that lacks these members."""
    here = {path[0] for path in ignored if len(path) == 1}
    deeper: dict[Step, list[tuple[Step, ...]]] = {}
    for path in ignored:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    if isinstance(raw, list):
        return [_without(value, deeper[index]) if index in deeper else value for index, value in enumerate(raw)]
    members = cast("dict[Step, object]", raw)  # pydantic finds unknown keys in nothing else
    return {key: _without(value, deeper[key]) if key in deeper else value for key, value in members.items() if key not in here}
