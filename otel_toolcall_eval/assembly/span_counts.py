"""What became of spans, counted by transport."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.assembly.limits import AddResult

COUNTED = ("relevant", "ignored", "duplicate", "conflict", "late", "dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """Counts of spans since the start, never changed but replaced, so that any thread reads those of one moment.

    ``received = relevant + ignored + duplicate + conflict + rejected`` holds at every moment, for each transport.

    Attributes:
        by: what became of spans, and the transport that they came by, to their number.
        rejected: transport and reason to the number of spans rejected for it; over all reasons it is ``by["rejected", transport]``.
    """

    by: Mapping[tuple[str, str], int] = field(default_factory=dict)
    rejected: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def total(self, what: str) -> int:
        """Return a number over all transports."""
        return sum(number for (counted, _), number in self.by.items() if counted == what)

    def plus(self, transport: str, result: AddResult, *, rejected: Mapping[str, int]) -> SpanCounts:
        """Return the counts after one more request, of which some spans were ``rejected``: reason to their number."""
        lost = sum(rejected.values())
        by = {**self.by}
        found = {"received": result.received + lost, "rejected": lost, **{what: getattr(result, what) for what in COUNTED}}
        for what, number in found.items():
            by[what, transport] = by.get((what, transport), 0) + number
        by_reason = {**self.rejected}
        for reason, number in rejected.items():
            by_reason[transport, reason] = by_reason.get((transport, reason), 0) + number
        return SpanCounts(by=by, rejected=by_reason)
