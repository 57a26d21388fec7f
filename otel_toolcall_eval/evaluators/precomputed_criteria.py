"""Keeps what an evaluator works out from criteria alone, since the same criteria judge trace after trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PLANS: Final = 256
"""Plans kept by each evaluator. Criteria bound to single traces come and go; without a bound they would pile up."""

CriteriaT = TypeVar("CriteriaT")
PlanT = TypeVar("PlanT")


class PrecomputedCriteria(Generic[CriteriaT, PlanT]):
    """Plans by the identity of their criteria: criteria are frozen, and hold mappings, so they can't be hashed.

    Several threads may use one: each step is a single operation on a dictionary, and the worst is a plan that is made twice.
    """

    __slots__ = ("_build", "_plans")

    def __init__(self, build: Callable[[CriteriaT], PlanT]) -> None:
        """Make plans with ``build`` when they are first asked for."""
        self._build = build
        # The criteria are kept beside their plan, so that their id can't be given to another object.
        self._plans: dict[int, tuple[CriteriaT, PlanT]] = {}

    def of(self, criteria: CriteriaT) -> PlanT:
        """Return the plan for these criteria; the same one each time."""
        known = self._plans.get(id(criteria))
        if known is not None:
            return known[1]
        if len(self._plans) >= MAX_PLANS:
            self._plans.clear()
        plan = self._build(criteria)
        self._plans[id(criteria)] = (criteria, plan)
        return plan
