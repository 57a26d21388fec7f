"""What became of spans, counted by transport."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.engine.buffer.limits import AddResult

CountKey: TypeAlias = "tuple[str, tuple[tuple[str, str], ...]]"

COUNTED = ("relevant", "ignored", "duplicate", "conflict", "skipped", "late", "dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """Counts of spans since the start, never changed but replaced, so that any thread reads those of one moment.

    ``received = relevant + ignored + duplicate + conflict + rejected + skipped`` holds at every moment, for each transport.

    Attributes:
        by: what became of spans, and the attributes of the count, to their number. Attributes are the transport that they came
            by and, for ``rejected``, the reason.
    """

    by: Mapping[CountKey, int] = field(default_factory=dict)

    def total(self, what: str) -> int:
        """Return a number over all transports and reasons."""
        return sum(number for (counted, _), number in self.by.items() if counted == what)

    def plus(self, transport: str, result: AddResult, *, rejected: Mapping[str, int]) -> SpanCounts:
        """Return the counts after one more request, of which some spans were ``rejected``: reason to their number."""
        by_transport = (("transport", transport),)
        found: dict[CountKey, int] = {
            ("received", by_transport): result.received + sum(rejected.values()),
            **{(what, by_transport): getattr(result, what) for what in COUNTED},
            **{("rejected", (*by_transport, ("reason", reason))): number for reason, number in rejected.items()},
        }
        return SpanCounts(by={**self.by, **{key: self.by.get(key, 0) + number for key, number in found.items()}})
