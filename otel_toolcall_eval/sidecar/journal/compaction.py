"""Writes traces anew as they stand, in place of all the rows that led there.

Rows may turn out to be of no use: copies of spans, spans beyond a trace's bounds, units of a long session that are over. They are not told
apart from the others when they are written. When much has come together, or after the file could not be written for a while, it is simpler
to begin again from what is held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.decision import PriorVerdict
from otel_toolcall_eval.sidecar.journal.entries import decision_of, kept_of, standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.engine.buffer.restore import TraceRestorer
    from otel_toolcall_eval.sidecar.journal.entries import Draft
    from otel_toolcall_eval.sidecar.journal.retention import TraceRecord


@dataclass(slots=True, kw_only=True)
class Compaction:
    """What is to be written.

    Attributes:
        deleted: trace IDs, all of whose rows are replaced but for log records and bindings.
        drafts: the rows that take their place.
        past: keys of decisions that can't be revised any more, each with the time of the decision; they are only remembered.
    """

    deleted: list[bytes] = field(default_factory=list)
    drafts: list[Draft] = field(default_factory=list)
    past: list[tuple[bytes, int]] = field(default_factory=list)

    def done(self, fates: dict[bytes, TraceRecord]) -> None:
        """Note that the decisions that are only remembered have no rows any more."""
        past = {key for key, _ in self.past}
        for trace_id in self.deleted:
            if trace_id in fates:
                fates[trace_id].keys = {key: at for key, at in fates[trace_id].keys.items() if key not in past}


def compaction(trace_ids: Iterable[bytes], earlier: TraceRestorer, fates: dict[bytes, TraceRecord], *, unix_ns: int) -> Compaction:
    """Return what puts rows of these traces as they stand in place of all others. Cost: linear in their spans."""
    made = Compaction()
    for trace_id in trace_ids:
        made.deleted.append(trace_id)
        keys = dict(fates[trace_id].keys) if trace_id in fates else {}
        for kept in earlier.kept(trace_id):
            made.drafts.append(kept_of(kept))
            if kept.decided:
                stands = standing(kept.note if isinstance(kept.note, PriorVerdict) else None, kept)
                made.drafts.append(decision_of(stands, unix_ns=keys.pop(stands.key, unix_ns)))
        made.past += keys.items()
    return made
