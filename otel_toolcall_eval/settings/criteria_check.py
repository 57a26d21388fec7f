"""Turns configurations and criteria into Checks, for files piece by piece and for code in one call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from otel_toolcall_eval.model.criteria import BoundCriteria, Check, Criteria, CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.model.errors import CriteriaError, Problem
from otel_toolcall_eval.settings.config_model import check, member, place_of
from otel_toolcall_eval.settings.criteria_models import EVALUATOR_TYPES, EvaluatorType, referred, type_of_criteria
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation, quoted, use_one_of
from otel_toolcall_eval.settings.plain_values import plain_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.settings.criteria_models import EvaluatorConfig


_VERSION_CHARACTERS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredEvaluator:
    """A configured evaluator.

    Attributes:
        key: the ID that eval sets use for it.
        name: what its scores are emitted under.
        config: its configuration; the default one if the one given is faulty, so that criteria can still be looked at.
        default: criteria for items that give none of their own; None if there are none.
        place: where it was defined.
    """

    key: str
    name: str
    kind: EvaluatorType
    config: EvaluatorConfig
    default: Criteria | None
    place: SourceLocation

    def check(self, criteria: Criteria, *, name: str | None = None, pass_threshold: float | None = None) -> Check:
        """Return a check of these criteria, under another name or threshold if one is given."""
        threshold = self.config.pass_threshold if pass_threshold is None else pass_threshold
        return Check(
            evaluator=name or self.name,
            evaluator_id=self.kind.evaluator_id,
            criteria=criteria,
            pass_threshold=1.0 if threshold is None else threshold,
            include=self.config.include.build(),
        )


def configure(
    kind: EvaluatorType,
    raw: object,
    place: SourceLocation,
    diagnostics: Diagnostics,
    *,
    key: str,
    name: str | None,
    tolerant: bool,
) -> ConfiguredEvaluator:
    """Return an evaluator with the given configuration; what is wrong with it goes to ``diagnostics``.

    Args:
        kind: which evaluator.
        raw: its configuration as plain values; None is the same as {}.
        place: where the configuration stands.
        diagnostics: takes problems and warnings.
        key: the ID of this evaluator.
        name: what its scores are emitted under if the configuration does not say.
        tolerant: unknown keys are no problem.
    """
    config = check(kind.config, {} if raw is None else raw, place, diagnostics, tolerant=tolerant) or kind.config()
    raw_default = member(raw, "default_evaluation_criteria")
    default = None
    if not says_nothing(raw_default):
        default_place = place_of(raw, "default_evaluation_criteria", place)
        default = criteria_of(config, raw_default, default_place, diagnostics, tolerant=tolerant)
    return ConfiguredEvaluator(key=key, name=config.name or name or key, kind=kind, config=config, default=default, place=place)


def criteria_of(
    config: EvaluatorConfig, raw: object, place: SourceLocation, diagnostics: Diagnostics, *, tolerant: bool
) -> Criteria | None:
    """Return raw criteria under a configuration; None after what is wrong with them went to ``diagnostics``."""
    model = check(config.expects, raw, place, diagnostics, tolerant=tolerant)
    return None if model is None else config.build(model)


def says_nothing(default: object) -> bool:
    """Tell whether default criteria stand for "no default": null, [], {}, or an object all of whose members are empty."""
    if default is None or default in ([], {}):
        return True
    return isinstance(default, dict) and all(value in ([], {}) for value in default.values())


def build_check(
    evaluator: str,
    config: Mapping[str, object] | None,
    criteria: Mapping[str, object] | None,
    *,
    tolerant: bool = True,
    warn: Callable[[Problem], None] | None = None,
) -> Check:
    """Build a check from the mappings that the evaluator guides use.

    Args:
        evaluator: its ID (``tool-call-count``, with or without ``uipath-``) or class name (``ToolCallCountEvaluator``).
        config: the guides' configuration, in either spelling; None is the same as {}.
        criteria: the guides' criteria, in either spelling; with None or {} the configuration's default criteria hold.
            Values are copied, so that changing the mappings later changes nothing.
        tolerant: unknown keys are ignored, as the guides' own form has it; False makes them errors.
        warn: is told what was ignored.

    Returns:
        The check, under the name that the configuration gives, else under the evaluator's class name.

    Raises:
        CriteriaError: with everything that is wrong; each ``where`` begins with the evaluator's name.

    Source: the four evaluator guides.
    """
    diagnostics = Diagnostics()
    configured = _configured(evaluator, config, diagnostics, tolerant=tolerant)
    raw = plain_values(criteria, configured.place, diagnostics, from_code=True)
    chosen = configured.default
    if raw is not None and raw != {} and not diagnostics.problems:
        chosen = criteria_of(configured.config, raw, configured.place, diagnostics, tolerant=tolerant)
    diagnostics.raise_any(CriteriaError)
    _tell(diagnostics, warn)
    if chosen is None:
        what = "there are no criteria, and no default criteria"
        raise CriteriaError(where=str(configured.place), what=what, fix="give evaluation criteria")
    return configured.check(chosen)


def check_config(evaluator: str, config: Mapping[str, object] | None, *, warn: Callable[[Problem], None] | None = None) -> None:
    """Raise CriteriaError if ``build_check`` would refuse this configuration whatever the criteria; ``warn`` is told what it ignores."""
    diagnostics = Diagnostics()
    _configured(evaluator, config, diagnostics, tolerant=True)
    diagnostics.raise_any(CriteriaError)
    _tell(diagnostics, warn)


def _tell(diagnostics: Diagnostics, warn: Callable[[Problem], None] | None) -> None:
    if warn is not None:
        for warning in diagnostics.warnings:
            warn(warning)


def _configured(name: str, config: Mapping[str, object] | None, diagnostics: Diagnostics, *, tolerant: bool) -> ConfiguredEvaluator:
    kind = referred(name)
    if not isinstance(kind, EvaluatorType):
        fix = use_one_of(name, [*EVALUATOR_TYPES, *(kind.class_name for kind in EVALUATOR_TYPES.values())])
        raise CriteriaError(where="evaluator", what=f"{quoted(name)} is not an evaluator of ours", fix=fix)
    place = SourceLocation(origin="", shown=(_name_in(config) or kind.class_name,))
    raw = plain_values(config, place, diagnostics, from_code=True)
    diagnostics.raise_any(CriteriaError)  # what was not copied whole would be complained about again
    return configure(kind, raw, place, diagnostics, key=kind.class_name, name=None, tolerant=tolerant)


def _name_in(config: object) -> str | None:
    name = member(config, "name")
    return name if isinstance(name, str) and name else None


JsonObject: TypeAlias = Mapping[str, object]

GuidesForm: TypeAlias = Mapping[str, JsonObject | None]
"""For each evaluator, by class name or ID, what it expects."""

GivenObject: TypeAlias = CriteriaSet | Check | Criteria

GivenCriteria: TypeAlias = GuidesForm | GivenObject | str | Sequence[GivenObject | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCriteria:
    """Criteria as code gave them.

    Attributes:
        bound: what a trace is to be bound to.
        keys: for each set of ``bound.sets``, the names that its checks have for the caller.
    """

    bound: BoundCriteria
    keys: tuple[tuple[str, ...], ...] = ()


def build_checks(criteria: GuidesForm, config: Mapping[str, JsonObject] | None) -> dict[str, Check]:
    """Build the checks of criteria in the guides' form, under the names that they have there.

    Raises:
        CriteriaError: criteria can't be used; names all that is wrong.
        TypeError: criteria are no mapping.
    """
    given: object = criteria
    if not isinstance(given, Mapping):
        message = f"criteria is a {type(given).__name__}; give a mapping of evaluators to what they expect; files are for the processor"
        raise TypeError(message)
    problems = [*_misplaced(criteria, config or {})]
    checks: dict[str, Check] = {}
    for name, expected in criteria.items():
        try:
            checks[name] = build_check(name, (config or {}).get(name), expected, tolerant=False)
        except CriteriaError as error:
            problems.extend(error.problems)
    if problems:
        raise CriteriaError.of(problems)
    return checks


def read_criteria(criteria: GivenCriteria, config: Mapping[str, JsonObject] | None, *, name: str, where: str) -> CodeCriteria:
    """Read criteria that are given in code.

    Args:
        criteria: the guides' mapping; a ``CriteriaSet``, ``Check``, or criteria of one evaluator, or several of them; or names of criteria
            that are loaded.
        config: for the guides' mapping, each evaluator's configuration.
        name: that scores of nameless criteria are emitted under.
        where: what was called, for the error.

    Raises:
        CriteriaError: criteria can't be used, or there are none; names all that is wrong.
        TypeError: they are of another type.
    """
    if isinstance(criteria, Mapping):
        checks = build_checks(criteria, config)
        found = CodeCriteria(bound=BoundCriteria(sets=_set_of(tuple(checks.values()), name)), keys=(tuple(checks),) if checks else ())
    else:
        if config:
            what = "it is for criteria in the guides' form"
            raise CriteriaError(where=f"{where}: config", what=what, fix="leave it out, or give a mapping")
        found = _of_objects(criteria, name, where)
    if not found.bound.names and not found.bound.sets:
        raise CriteriaError(where=where, what="there are no criteria", fix="give a mapping of evaluators to what they expect, or names")
    return found


def _of_objects(criteria: GivenObject | str | Sequence[GivenObject | str], name: str, where: str) -> CodeCriteria:
    names: list[str] = []
    sets: list[CriteriaSet] = []
    checks: list[Check] = []
    items: Sequence[object] = (criteria,)  # without a type checker, callers give anything
    if isinstance(criteria, Sequence) and not isinstance(criteria, str):
        items = criteria
    for given in items:
        if isinstance(given, str):
            names.append(given.strip())
        elif isinstance(given, CriteriaSet):
            sets.append(given if given.version else versioned(given))
        elif isinstance(given, Check):
            checks.append(given)
        elif isinstance(given, Criteria):
            kind = type_of_criteria(given)
            checks.append(Check(evaluator=kind.class_name, evaluator_id=kind.evaluator_id, criteria=given))
        else:
            message = f"{where}: {type(given).__name__} is no criteria; give the guides' mapping, criteria objects, or names"
            raise TypeError(message)
    sets.extend(_set_of(tuple(checks), name))
    keys = tuple(tuple(check.evaluator for check in built.checks) for built in sets)
    return CodeCriteria(bound=BoundCriteria(names=tuple(filter(None, names)), sets=tuple(sets)), keys=keys)


def _set_of(checks: tuple[Check, ...], name: str) -> tuple[CriteriaSet, ...]:
    return (
        (versioned(CriteriaSet(name=name, checks=checks, selector=Selector(reach=SelectorScope.NAMED), source="code")),) if checks else ()
    )


def _misplaced(criteria: GuidesForm, config: Mapping[str, JsonObject]) -> list[Problem]:
    """Return the configurations that would have no effect, because no criteria have their name."""
    named = ", ".join(map(repr, criteria))
    return [
        Problem(where=f"config[{name!r}]", what="no criteria have this name, so it has no effect", fix=f"use one of {named}")
        for name in config
        if name not in criteria
    ]


def versioned(criteria_set: CriteriaSet) -> CriteriaSet:
    """Return the set with a version that is the same in every process, and differs when anything but the file's name does."""
    content = _canonical(replace(criteria_set, version="", source=""))
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return replace(criteria_set, version=hashlib.sha256(text.encode()).hexdigest()[:_VERSION_CHARACTERS])


def _canonical(value: object) -> object:
    """Return a value as JSON can hold it: sets sorted, dataclasses as objects."""
    if is_dataclass(value) and not isinstance(value, type):
        given = [field.name for field in fields(value) if field.init]  # what else there is follows from these
        members = {name: _canonical(getattr(value, name)) for name in given}
        return {**members, "pass_threshold": float(value.pass_threshold)} if isinstance(value, Check) else members  # 1 is 1.0
    if isinstance(value, Mapping):
        return {str(key): _canonical(member) for key, member in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(str(member) for member in value)
    if isinstance(value, list | tuple):
        return [_canonical(member) for member in value]
    return value
