"""What a trace was bound to from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_toolcall_eval.model.criteria import CriteriaSet


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCriteria:
    """What a trace was bound to from outside, by its ID.

    Attributes:
        names: of criteria that are loaded, or will be by the time the trace is judged.
        sets: criteria that were made in code and are loaded nowhere. Their selectors are not asked.
    """

    names: tuple[str, ...] = ()
    sets: tuple[CriteriaSet, ...] = ()

    def plus(self, other: BoundCriteria) -> BoundCriteria:
        """Return what both bind to, without repetition."""
        sets = {(bound.name, bound.version): bound for bound in (*self.sets, *other.sets)}
        return BoundCriteria(names=tuple(dict.fromkeys((*self.names, *other.names))), sets=tuple(sets.values()))


NOTHING_BOUND = BoundCriteria()
