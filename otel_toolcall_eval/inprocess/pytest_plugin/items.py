"""Finds the criteria that a test names, and evaluates its calls by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

from otel_toolcall_eval.model.errors import CriteriaError
from otel_toolcall_eval.settings.criteria_check import build_checks
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.diagnostics import quoted, use_one_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.inprocess.library import EvaluationResult
    from otel_toolcall_eval.model.criteria import Check, CriteriaSet
    from otel_toolcall_eval.settings.criteria_check import JsonObject

GIVEN = "(given in the test)"

PathsLike: TypeAlias = str | Path | Sequence[str | Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVerdict:
    """One verdict on a test's calls.

    Attributes:
        criteria: name of the item, or GIVEN.
    """

    criteria: str
    result: EvaluationResult


class ItemEvaluator(Protocol):
    """Has calls to evaluate."""

    def evaluate_check(self, check: Check) -> EvaluationResult:
        """Evaluate the calls by one check."""
        ...


def criteria_paths(given: PathsLike, *, root: Path, default: Sequence[Path]) -> tuple[Path, ...]:
    """Return criteria files that a test names, relative to ``root``, or those of the ini option."""
    listed = [given] if isinstance(given, str | Path) else given
    return tuple(root / path for path in listed) or tuple(default)


def evaluate_all(
    calls: ItemEvaluator,
    items: Iterable[str | Mapping[str, JsonObject | None]],
    paths: tuple[Path, ...],
    *,
    config: Mapping[str, JsonObject] | None = None,
) -> list[ItemVerdict]:
    """Evaluate calls by items of criteria files, and by criteria in the guides' form.

    Raises:
        CriteriaError: criteria can't be used, or no item has that name.
    """
    checks = [found for item in items for found in checks_of(item, paths, config=config)]
    if not checks:
        raise CriteriaError(where="tool_calls", what="nothing to hold the calls against is named", fix="name an item, or give criteria")
    return [ItemVerdict(criteria=name, result=calls.evaluate_check(check)) for name, check in checks]


def checks_of(
    item: str | Mapping[str, JsonObject | None], paths: tuple[Path, ...], *, config: Mapping[str, JsonObject] | None = None
) -> Sequence[tuple[str, Check]]:
    """Return the checks of an item, each with the name of its criteria; raises CriteriaError like ``evaluate_all``."""
    if isinstance(item, Mapping):
        return [(GIVEN, check) for check in build_checks(item, config).values()]
    found = find(item, paths)
    return [(found.name, check) for check in found.checks]


def find(name: str, paths: tuple[Path, ...]) -> CriteriaSet:
    """Return the criteria of a name; raises CriteriaError if there are none, or files can't be used."""
    if not paths:
        raise CriteriaError(
            where=f"tool_calls({quoted(name)})",
            what="no criteria files are named",
            fix='add criteria="evaluations/" here, or tool_calls_criteria = evaluations to pytest\'s ini file',
        )
    sets = _load(paths)
    for criteria_set in sets:
        if name == criteria_set.name or name in criteria_set.aliases:
            return criteria_set
    raise CriteriaError(
        where=f"tool_calls({quoted(name)})",
        what=f"nothing in {', '.join(map(str, paths))} has this name",
        fix=use_one_of(name, [criteria_set.name for criteria_set in sets]),
    )


@lru_cache(maxsize=32)  # a suite names the same few files in every test
def _load(paths: tuple[Path, ...]) -> tuple[CriteriaSet, ...]:
    return load_criteria([CriteriaSource(path=path) for path in paths]).sets
