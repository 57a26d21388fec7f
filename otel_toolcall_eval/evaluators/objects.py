"""Finds expected objects by some of their members: what can be said of an object that was cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.payload.equality import member_identities

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from otel_toolcall_eval.model.tool_call import Json


class ObjectIndex:
    """Expected objects by their members. A set of expectations is an integer whose bit i stands for expectation i."""

    __slots__ = ("_all", "_by_member")

    def __init__(self, identities: Iterable[Hashable]) -> None:
        """Index expectations by the identities of what they expect; one that is no object is never found."""
        self._all = 0
        self._by_member: dict[Hashable, int] = {}
        for position, wanted in enumerate(identities):
            if isinstance(wanted, frozenset):
                self._all |= 1 << position
                for member in wanted:
                    self._by_member[member] = self._by_member.get(member, 0) | 1 << position

    def having(self, members: Mapping[str, Json]) -> int:
        """Return the set of expectations that expect an object with all these members, equal in value; all if there are none.

        Cost: one step for each member.
        """
        found = self._all
        for member in member_identities(members):
            found &= self._by_member.get(member, 0)
        return found


def spread(calls_by_expectations: Mapping[int, int], total: int) -> list[int]:
    """Return for each of ``total`` expectations the set of calls, given the set of calls for each set of expectations."""
    spread_out = [0] * total
    for expectations, calls in calls_by_expectations.items():
        for position in bits(expectations):
            spread_out[position] |= calls
    return spread_out


def bits(members: int) -> Iterator[int]:
    """Yield the positions of the ones, ascending."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest
