"""Turns an evaluator's configuration and criteria into a Check: for files piece by piece, for code in one call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from otel_toolcall_eval.errors import CriteriaError
from otel_toolcall_eval.model.criteria import Check
from otel_toolcall_eval.settings.evaluator_types import BY_ID, EvaluatorType, referred
from otel_toolcall_eval.settings.place import Findings, Place
from otel_toolcall_eval.settings.plain import to_plain
from otel_toolcall_eval.settings.shape import Shape, check, member, place_of
from otel_toolcall_eval.settings.suggestion import quoted, use_one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_toolcall_eval.errors import Problem
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.settings.criteria_shapes import ConfigShape

_ShapeT = TypeVar("_ShapeT", bound=Shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluator:
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
    config: ConfigShape
    default: Criteria | None
    place: Place

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
    place: Place,
    findings: Findings,
    *,
    key: str,
    name: str | None,
    tolerant: bool,
) -> Evaluator:
    """Return an evaluator with the given configuration; what is wrong with it goes to ``findings``.

    Args:
        kind: which evaluator.
        raw: its configuration as plain values; None is the same as {}.
        place: where the configuration stands.
        findings: takes problems and warnings.
        key: the ID of this evaluator.
        name: what its scores are emitted under if the configuration does not say.
        tolerant: unknown keys are no problem.
    """
    config = check(kind.config, {} if raw is None else raw, place, findings, tolerant=tolerant) or kind.config()
    raw_default = member(raw, "default_evaluation_criteria")
    default = None
    if not says_nothing(raw_default):
        default_place = place_of(raw, "default_evaluation_criteria", place)
        default = criteria_of(config, raw_default, default_place, findings, tolerant=tolerant)
    return Evaluator(key=key, name=config.name or name or key, kind=kind, config=config, default=default, place=place)


def criteria_of(config: ConfigShape, raw: object, place: Place, findings: Findings, *, tolerant: bool) -> Criteria | None:
    """Return raw criteria under a configuration; None after what is wrong with them went to ``findings``."""

    def read(shape: type[_ShapeT], raw_criteria: object, /) -> _ShapeT | None:
        return check(shape, raw_criteria, place, findings, tolerant=tolerant)

    return config.criteria(raw, read)


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

    Source: the four evaluator guides; SEMANTICS, section 4.
    """
    findings = Findings()
    configured = _configured(evaluator, config, findings, tolerant=tolerant)
    raw = to_plain(criteria, configured.place, findings, from_code=True)
    chosen = configured.default
    if raw is not None and raw != {} and not findings.problems:
        chosen = criteria_of(configured.config, raw, configured.place, findings, tolerant=tolerant)
    findings.raise_any(CriteriaError)
    _tell(findings, warn)
    if chosen is None:
        what = "there are no criteria, and no default criteria"
        raise CriteriaError(where=str(configured.place), what=what, fix="give evaluation criteria")
    return configured.check(chosen)


def check_config(evaluator: str, config: Mapping[str, object] | None, *, warn: Callable[[Problem], None] | None = None) -> None:
    """Raise CriteriaError if ``build_check`` would refuse this configuration whatever the criteria; ``warn`` is told what it ignores."""
    findings = Findings()
    _configured(evaluator, config, findings, tolerant=True)
    findings.raise_any(CriteriaError)
    _tell(findings, warn)


def _tell(findings: Findings, warn: Callable[[Problem], None] | None) -> None:
    if warn is not None:
        for warning in findings.warnings:
            warn(warning)


def _configured(name: str, config: Mapping[str, object] | None, findings: Findings, *, tolerant: bool) -> Evaluator:
    kind = referred(name)
    if not isinstance(kind, EvaluatorType):
        fix = use_one_of(name, [*BY_ID, *(kind.class_name for kind in BY_ID.values())])
        raise CriteriaError(where="evaluator", what=f"{quoted(name)} is not an evaluator of ours", fix=fix)
    place = Place(origin="", shown=(_name_in(config) or kind.class_name,))
    raw = to_plain(config, place, findings, from_code=True)
    findings.raise_any(CriteriaError)  # what was not copied whole would be complained about again
    return configure(kind, raw, place, findings, key=kind.class_name, name=None, tolerant=tolerant)


def _name_in(config: object) -> str | None:
    name = member(config, "name")
    return name if isinstance(name, str) and name else None
