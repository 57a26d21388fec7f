"""Reads an eval set: each item becomes a criteria set."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, cast

from otel_toolcall_eval.model.criteria import CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.settings.config_model import check, member, place_of
from otel_toolcall_eval.settings.criteria_check import ConfiguredEvaluator, criteria_of
from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES, EvalItemModel, EvalSetModel, ForeignEvaluator, MatchModel
from otel_toolcall_eval.settings.diagnostics import SourceLocation, did_you_mean, quoted, use_one_of
from otel_toolcall_eval.settings.evaluator_file import EvaluatorScope, find, key_of
from otel_toolcall_eval.settings.types import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.criteria import Check, Criteria
    from otel_toolcall_eval.model.tool_call import Json
    from otel_toolcall_eval.model.trace import Attributes, Value
    from otel_toolcall_eval.settings.criteria_models import EvaluatorType
    from otel_toolcall_eval.settings.diagnostics import Diagnostics
    from otel_toolcall_eval.settings.document import SettingsDocument
    from otel_toolcall_eval.settings.evaluator_file import Known, Strictness


@cache
def _unconfigured(kind: EvaluatorType) -> ConfiguredEvaluator:
    """Return an evaluator that a set may name without its file."""
    origin = SourceLocation(origin="")
    return ConfiguredEvaluator(key=kind.class_name, name=kind.class_name, kind=kind, config=kind.config(), default=None, place=origin)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedSet:
    """A criteria set and where it was read."""

    criteria_set: CriteriaSet
    place: SourceLocation


class EvalSetReader:
    """Reads one eval set."""

    def __init__(self, document: SettingsDocument, diagnostics: Diagnostics, *, services: frozenset[str], strictness: Strictness) -> None:
        """Read the inline evaluators; the items wait until the evaluators of all files are known."""
        self.inline = EvaluatorScope()
        self._document = document
        self._diagnostics = diagnostics
        self._services = services
        self._strictness = strictness
        self._refs: frozenset[str] = frozenset()
        for place, raw in self._members("evaluators"):
            self.inline.add(raw, place, diagnostics, strictness=strictness)
        self.inline.settle_names(diagnostics)

    def read(self, scopes: Sequence[EvaluatorScope]) -> list[LocatedSet]:
        """Return the criteria sets of the items.

        Args:
            scopes: the evaluators of the files, nearest first; inline ones go before them.
        """
        within = [self.inline, *scopes]
        model = check(EvalSetModel, self._document.value, self._document.place, self._diagnostics, tolerant=not self._strictness.structure)
        if model is not None:
            self._refs = frozenset(key_of(ref) for ref in model.evaluator_refs)
            at = place_of(self._document.value, "evaluator_refs", self._document.place)
            for index, ref in enumerate(model.evaluator_refs):
                self._find(ref, at.at(index), within)
        found = (self._item(raw, place, within) for place, raw in self._members("evaluations"))
        return [placed for placed in found if placed is not None]

    def _members(self, key: str) -> Iterator[tuple[SourceLocation, object]]:
        """Yield the members of a list at the top with their places, each shown by its ID if it has one."""
        members = member(self._document.value, key)
        at = place_of(self._document.value, key, self._document.place)
        for index, raw in enumerate(members if isinstance(members, list) else ()):
            identifier = member(raw, "id")
            shown = identifier if isinstance(identifier, str) and identifier else f"{key}[{index}]"
            yield at.at(index).shown_as(shown), raw

    def _find(self, identifier: str, place: SourceLocation, scopes: Sequence[EvaluatorScope]) -> Known | None:
        found = find(identifier, scopes, _unconfigured)
        if found is None:
            known = {*(key for scope in scopes for key in scope.keys), *(kind.class_name for kind in EVALUATOR_TYPES.values())}
            self._diagnostics.problem(place, f"no evaluator has the ID {quoted(identifier)}", use_one_of(identifier, known))
        return found

    def _item(self, raw: object, place: SourceLocation, scopes: Sequence[EvaluatorScope]) -> LocatedSet | None:
        model = check(EvalItemModel, raw, place, self._diagnostics, tolerant=not self._strictness.structure)
        selector = selector_of(
            member(raw, "match"),
            {} if model is None else model.inputs,
            place_of(raw, "match", place),
            self._diagnostics,
            services=self._services,
            unconditional=SelectorScope.UNNAMED if self._strictness.structure else SelectorScope.FALLBACK,
        )
        checks = self._checks(raw, place, scopes, None if model is None else model.pass_threshold)
        if model is None:
            return None
        if not checks:
            self._diagnostics.warn(place, f"the item {quoted(model.id)} is left out: nothing in it is evaluated", "give it criteria")
            return None
        built = CriteriaSet(
            name=model.id,
            checks=checks,
            selector=selector,
            aliases=(model.name,) if model.name not in (None, model.id) else (),
            source=place.origin,
        )
        return LocatedSet(criteria_set=built, place=place)

    def _checks(self, raw: object, place: SourceLocation, scopes: Sequence[EvaluatorScope], threshold: float | None) -> tuple[Check, ...]:
        criterias = member(raw, "evaluation_criterias")
        at = place_of(raw, "evaluation_criterias", place)
        chosen: list[tuple[str, ConfiguredEvaluator, Criteria]] = []
        for key, raw_criteria in criterias.items() if isinstance(criterias, dict) else ():
            evaluator = self._find(key, at.at(key), scopes)
            if not isinstance(evaluator, ConfiguredEvaluator):
                if evaluator is ForeignEvaluator.FOREIGN:
                    self._diagnostics.warn(at.at(key), f"the evaluator {quoted(key)} is not run here", "nothing to do for the others")
                continue
            criteria = self._criteria(evaluator, raw_criteria, at.at(key))
            if self._refs and key_of(key) not in self._refs:
                what = f"the evaluator {quoted(key)} is not among the evaluatorRefs, so it is not run"
                self._diagnostics.warn(at.at(key), what, "add it to them")
            elif criteria is not None:
                chosen.append((key, evaluator, criteria))
        names = _distinct_names([(key, evaluator.name) for key, evaluator, _ in chosen])
        return tuple(
            evaluator.check(criteria, name=name, pass_threshold=threshold)
            for name, (_, evaluator, criteria) in zip(names, chosen, strict=True)
        )

    def _criteria(self, evaluator: ConfiguredEvaluator, raw: object, place: SourceLocation) -> Criteria | None:
        if raw is not None and raw != {}:
            return criteria_of(evaluator.config, raw, place, self._diagnostics, tolerant=not self._strictness.content)
        if evaluator.default is None:
            what = f"{quoted(evaluator.key)} is not evaluated: there are no criteria, and no default"
            self._diagnostics.warn(place, what, "give criteria here, or default criteria in the evaluator")
        return evaluator.default


def _distinct_names(evaluators: Sequence[tuple[str, str]]) -> Sequence[str]:
    """Return a name for each evaluator, given as key and name: the name where no other has it, else the key, which none shares.

    Evaluators of different paths, or a configured and an unconfigured one, may have one name; scores have to tell them apart.
    """
    names = Counter(name for _, name in evaluators)
    chosen = [name if names[name] == 1 else key for key, name in evaluators]
    return chosen if len(set(chosen)) == len(chosen) else [key for key, _ in evaluators]


_WORDS = {"all": SelectorScope.EVERY, "named": SelectorScope.NAMED}
_CHOICES = "write all, named, or an object of conditions"


def selector_of(
    match: object,
    inputs: Mapping[str, object],
    place: SourceLocation,
    diagnostics: Diagnostics,
    *,
    services: frozenset[str],
    unconditional: SelectorScope,
) -> Selector:
    """Return what selects the traces of an item; what is wrong with it goes to ``diagnostics``.

    Args:
        match: ``all``, ``named``, an object of conditions, or None where there is none.
        inputs: the item's inputs, a condition beside those of ``match``. A trace that names the item is evaluated by it
            whatever its inputs, so they don't matter with ``named``.
        place: where ``match`` stands.
        diagnostics: takes problems.
        services: what the item's file is for; empty means any.
        unconditional: how far an item without ``match`` and inputs reaches.
    """
    if match is None:
        return _selector(MatchModel(), inputs, services, unconditional)
    if isinstance(match, str) and match in _WORDS:
        reach = _WORDS[match]
        return _selector(MatchModel(), {} if reach is SelectorScope.NAMED else inputs, services, reach)
    if isinstance(match, dict):
        return _combined(match, inputs, place, diagnostics, services)
    guess = did_you_mean(match, _WORDS) if isinstance(match, str) else None
    what = f"{quoted(match)} is not known here" if isinstance(match, str) else f"this is {kind_of(match)}"
    diagnostics.problem(place, what, _CHOICES if guess is None else f"did you mean {quoted(guess)}?")
    return Selector()


def _combined(
    match: object,
    inputs: Mapping[str, object],
    place: SourceLocation,
    diagnostics: Diagnostics,
    services: frozenset[str],
) -> Selector:
    """Join the conditions of ``match``, the item's inputs, and the services of the path; all have to hold."""
    model = check(MatchModel, match, place, diagnostics)
    if model is None:
        return Selector()
    if not any((model.resource, model.service, model.root_span_name, model.agent_name, model.attributes, model.inputs)):
        diagnostics.problem(place, "no condition is given", _CHOICES)
    for key in model.inputs.keys() & inputs.keys():
        if model.inputs[key] != inputs[key]:
            diagnostics.problem(place, f"the input {quoted(key)} differs from the one in the item's inputs", "keep one of them")
    wanted = model.service or services
    both = wanted & services if services else wanted
    if wanted and not both:
        diagnostics.problem(place, "the service is none of those that this path is for", "name one of them, or none")
    return _selector(model, {**inputs, **model.inputs}, both, SelectorScope.MATCHED)


def _selector(model: MatchModel, inputs: Mapping[str, object], services: frozenset[str], reach: SelectorScope) -> Selector:
    return Selector(
        reach=SelectorScope.MATCHED if inputs else reach,
        services=services,
        resource=_attributes(model.resource),
        root_span_name=model.root_span_name,
        agent_name=model.agent_name,
        attributes=_attributes(model.attributes),
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
