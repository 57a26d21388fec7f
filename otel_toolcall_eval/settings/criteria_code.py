"""Criteria that are given in code: the guides' mappings, objects of ours, or the names of what is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from otel_toolcall_eval.errors import CriteriaError, Problem
from otel_toolcall_eval.model.bound import Bound
from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    Check,
    CountCriteria,
    Criteria,
    CriteriaSet,
    OrderCriteria,
    OutputCriteria,
    Reach,
    Selector,
)
from otel_toolcall_eval.settings.criteria_check import build_check
from otel_toolcall_eval.settings.criteria_file import versioned
from otel_toolcall_eval.settings.evaluator_types import BY_ID

JsonObject: TypeAlias = Mapping[str, object]

GuidesForm: TypeAlias = Mapping[str, JsonObject | None]
"""For each evaluator, by class name or ID, what it expects."""

GivenObject: TypeAlias = CriteriaSet | Check | Criteria

GivenCriteria: TypeAlias = GuidesForm | GivenObject | str | Sequence[GivenObject | str]

_EVALUATOR_IDS: Mapping[type, str] = {
    CountCriteria: "tool-call-count",
    OrderCriteria: "tool-call-order",
    ArgsCriteria: "tool-call-args",
    OutputCriteria: "tool-call-output",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeCriteria:
    """Criteria as code gave them.

    Attributes:
        bound: what a trace is to be bound to.
        keys: for each set of ``bound.sets``, the names that its checks have for the caller.
    """

    bound: Bound
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
        found = CodeCriteria(bound=Bound(sets=_set_of(tuple(checks.values()), name)), keys=(tuple(checks),) if checks else ())
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
        elif isinstance(given, CountCriteria | OrderCriteria | ArgsCriteria | OutputCriteria):
            kind = BY_ID[_EVALUATOR_IDS[type(given)]]
            checks.append(Check(evaluator=kind.class_name, evaluator_id=kind.evaluator_id, criteria=given))
        else:
            message = f"{where}: {type(given).__name__} is no criteria; give the guides' mapping, criteria objects, or names"
            raise TypeError(message)
    sets.extend(_set_of(tuple(checks), name))
    keys = tuple(tuple(check.evaluator for check in built.checks) for built in sets)
    return CodeCriteria(bound=Bound(names=tuple(filter(None, names)), sets=tuple(sets)), keys=keys)


def _set_of(checks: tuple[Check, ...], name: str) -> tuple[CriteriaSet, ...]:
    return (versioned(CriteriaSet(name=name, checks=checks, selector=Selector(reach=Reach.NAMED), source="code")),) if checks else ()


def _misplaced(criteria: GuidesForm, config: Mapping[str, JsonObject]) -> list[Problem]:
    """Return the configurations that would have no effect, because no criteria have their name."""
    named = ", ".join(map(repr, criteria))
    return [
        Problem(where=f"config[{name!r}]", what="no criteria have this name, so it has no effect", fix=f"use one of {named}")
        for name in config
        if name not in criteria
    ]
