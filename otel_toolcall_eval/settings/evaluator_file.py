"""Reads evaluators: files of their own, and the inline ``evaluators`` of an eval set."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.settings.config_model import check, member, place_of
from otel_toolcall_eval.settings.criteria_check import ConfiguredEvaluator, configure
from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES, EvaluatorModel, EvaluatorType, ForeignEvaluator, referred, type_of
from otel_toolcall_eval.settings.diagnostics import quoted, use_one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation

Known: TypeAlias = "ConfiguredEvaluator | ForeignEvaluator"

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def key_of(identifier: str) -> str:
    """Return the form in which IDs are compared: as they are, but a GUID in lower case, since tools write it either way."""
    return identifier.lower() if _GUID.fullmatch(identifier) else identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """Where in a file unknown keys are errors; elsewhere they are warned about.

    Attributes:
        structure: in the file, its items and evaluators: not in the sample's form, whose tools write more than we read.
        content: in configurations and criteria: not in JSON, since these are the guides' own words even in a file that also uses
            ours. A misspelt key that has to be there is an error in any case.
    """

    structure: bool
    content: bool


class EvaluatorScope:
    """The evaluators that are known in one place: of one path, or inline in one file."""

    def __init__(self) -> None:
        """Begin without any."""
        self._known: dict[str, tuple[Known, SourceLocation]] = {}

    def add(self, raw: object, place: SourceLocation, diagnostics: Diagnostics, *, strictness: Strictness) -> None:
        """Read an evaluator; what is wrong with it goes to ``diagnostics``."""
        identifier = member(raw, "id")
        model = check(EvaluatorModel, raw, place, diagnostics, tolerant=not strictness.structure)
        type_id = member(raw, "evaluator_type_id") if model is None else model.evaluator_type_id
        kind = type_of(type_id) if isinstance(type_id, str) else None
        if kind is None and isinstance(type_id, str) and type_id:
            at = place_of(raw, "evaluator_type_id", place)
            diagnostics.problem(at, f"{quoted(type_id)} is not an evaluator that we know", use_one_of(type_id, EVALUATOR_TYPES))
        if kind is ForeignEvaluator.FOREIGN:
            diagnostics.warn(place, f"an evaluator of type {quoted(str(type_id))} is not run here", "use the sample's own tools for it")
        key = identifier if isinstance(identifier, str) else ""
        found: Known = ForeignEvaluator.FOREIGN  # what is unusable is passed over as well; it has been reported
        if isinstance(kind, EvaluatorType):
            config_place = place_of(raw, "evaluator_config", place)
            name = None if model is None else model.name
            config = member(raw, "evaluator_config")
            found = configure(kind, config, config_place, diagnostics, key=key, name=name, tolerant=not strictness.content)
        if not key:
            return
        if key_of(key) in self._known:
            first = self._known[key_of(key)][1].file_and_line
            diagnostics.problem(place, f"the evaluator ID {quoted(key)} is taken by {first}", "give one of them another ID")
        self._known.setdefault(key_of(key), (found, place))

    def settle_names(self, diagnostics: Diagnostics) -> None:
        """Give evaluators that share a name, as copies of a file do, their IDs as names: scores have to tell them apart."""
        names = Counter(evaluator.name for evaluator in self.evaluators)
        for key, (evaluator, place) in self._known.items():
            if isinstance(evaluator, ConfiguredEvaluator) and names[evaluator.name] > 1:
                what = f"several evaluators have the name {quoted(evaluator.name)}; scores are emitted under their IDs"
                diagnostics.warn(place, what, "give each its own name")
                self._known[key] = (replace(evaluator, name=evaluator.key), place)

    @property
    def evaluators(self) -> Sequence[ConfiguredEvaluator]:
        """Return the evaluators that are ours to run."""
        return [evaluator for evaluator, _ in self._known.values() if isinstance(evaluator, ConfiguredEvaluator)]

    @property
    def keys(self) -> Iterable[str]:
        """Return the IDs as they were written."""
        return [evaluator.key for evaluator in self.evaluators]

    def get(self, identifier: str) -> Known | None:
        """Return the evaluator with this ID, or None."""
        found = self._known.get(key_of(identifier))
        return None if found is None else found[0]


def find(identifier: str, scopes: Iterable[EvaluatorScope], unconfigured: Callable[[EvaluatorType], ConfiguredEvaluator]) -> Known | None:
    """Return what an eval set means by an ID: the nearest evaluator that has it, else one of ours as it comes."""
    for scope in scopes:
        found = scope.get(identifier)
        if found is not None:
            return found
    kind = referred(identifier)
    return unconfigured(kind) if isinstance(kind, EvaluatorType) else kind
