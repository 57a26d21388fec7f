"""What a cell held. Apart from ``cells``, since it goes from process to process, as no object of compiled code does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_toolcall_eval.emission.recording import Occasion


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a cell held at one moment.

    Attributes:
        total: of what was recorded.
        counts: by bucket; empty for a counter.
        exemplars: the newest of each bucket, or of the counter.
    """

    total: float
    counts: tuple[int, ...] = ()
    low: float = 0.0
    high: float = 0.0
    exemplars: tuple[tuple[float, Occasion], ...] = ()

    def since(self, earlier: State | None) -> State:
        """Return what came on top of an earlier state."""
        if earlier is None:
            return self
        counts = tuple(now - then for now, then in zip(self.counts, earlier.counts, strict=True))
        return State(total=self.total - earlier.total, counts=counts, low=self.low, high=self.high, exemplars=self.exemplars)
