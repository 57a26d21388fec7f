"""What evaluators keep from trace to trace: plans of criteria, and recorded texts that were as expected."""

from __future__ import annotations

from sys import getsizeof
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.model.tool_call import Payload

MAX_BYTES: Final = 1 << 16
"""Memory of all texts that are remembered for one criteria set; evaluators keep up to 256 of these."""

MAX_TEXT_CHARS: Final = 1 << 12
_ENTRY_BYTES: Final = 200  # what a text takes beside itself
_MAX_RULES: Final = 8  # two for each way of reading: several dialects may write the same tool's calls


class MatchCache:
    """Texts by expectation, each with the rules by which it was read. Decoding and comparing them is the dearest part of a verdict.

    No decoded content is kept, so nobody can change what the next trace is compared with.
    Several threads may use one: each step is a single operation on a dictionary, and the worst is a text that is compared once more.
    """

    __slots__ = ("_size_bytes", "_texts")

    def __init__(self, expectations: int) -> None:
        """Know none."""
        self._texts: list[dict[str, tuple[object, ...]]] = [{} for _ in range(expectations)]
        self._size_bytes = 0

    def knows(self, place: int, payload: Payload) -> bool:
        """Tell whether a payload is known to be what the expectation at a place asks for."""
        decided_by = payload.decided_by
        if decided_by is None:
            return False
        text, source, dialect = decided_by
        return _are_among(self._texts[place].get(text, ()), source, dialect)

    def add(self, place: int, payload: Payload) -> None:
        """Remember that a payload is what the expectation at a place asks for, if its text and rules alone decide that."""
        decided_by = payload.decided_by
        if decided_by is None or len(decided_by[0]) > MAX_TEXT_CHARS:
            return
        text, source, dialect = decided_by
        known = self._texts[place].get(text)
        if known is not None:
            if not _are_among(known, source, dialect) and len(known) < _MAX_RULES:
                self._texts[place][text] = (*known, source, dialect)
            return
        size_bytes = getsizeof(text) + _ENTRY_BYTES
        if self._size_bytes + size_bytes > MAX_BYTES:
            for texts in self._texts:
                texts.clear()
            self._size_bytes = 0
        self._texts[place][text] = source, dialect
        self._size_bytes += size_bytes


def _are_among(rules: tuple[object, ...], source: object, dialect: object) -> bool:
    """Tell whether two rules stand side by side among those of a text."""
    return any(rules[place] is source and rules[place + 1] is dialect for place in range(0, len(rules), 2))


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
