"""Takes up what an earlier process left behind: its decisions, and traces as they stood. For a journal.

Spans come back by the ordinary way, through the buffer. What can't come that way is here: a decision is taken again by what it was
taken by then, not by time; a trace that was decided comes back decided. Its window for late spans, and the quiet period of a trace
that is open, start anew: senders that could not reach us are still in their back-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
from otel_toolcall_eval.engine.buffer.span_counts import AddResult

if TYPE_CHECKING:
    from collections.abc import Collection

    from otel_toolcall_eval.engine.buffer.decided_traces import DecidedTraces, DecisionCache
    from otel_toolcall_eval.engine.buffer.decision_maker import DecisionMaker
    from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds
    from otel_toolcall_eval.model.trace import Span, Trace, Trigger

_UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What is known of a trace, or a unit of one, beside its spans; see ``OpenTrace``."""

    truncated: bool = False
    lost: bool = False
    damaged: bool = False
    outside: bool = False
    provisional: bool = False
    above: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSnapshot:
    """One trace, or unit, as it stands.

    Attributes:
        decided: it may still be revised; else it is open.
        note: what was attached to it.
        looks: how often it was looked at again.
        reevaluation_due: something came late that calls for another look.
    """

    trace_id: bytes
    unit_span_id: bytes | None
    spans: tuple[Span, ...]
    flags: Flags
    decided: bool
    note: object = None
    looks: int = 0
    reevaluation_due: bool = False


class TraceRestorer:
    """Works on the buffer's own tables. Owned by the buffer."""

    def __init__(
        self,
        *,
        kinds: SpanKinds,
        open_traces: dict[bytes, OpenTrace],
        settled: DecidedTraces,
        decided: DecisionCache,
        decider: DecisionMaker,
        by_unit: bool,
    ) -> None:
        """Take the tables; ``by_unit`` says that agent invocations are evaluated one by one."""
        self._kinds = kinds
        self._open = open_traces
        self._settled = settled
        self._decided = decided
        self._decider = decider
        self._by_unit = by_unit
        self._damaged: set[bytes] = set()

    def holds(self, trace_id: bytes) -> bool:
        """Tell whether anything of a trace is open, or may be revised."""
        return trace_id in self._open or self._settled.find(trace_id) is not None or bool(self._settled.kept_units(trace_id))

    def is_expired(self, trace_id: bytes, *, now_ns: int) -> bool:
        """Tell whether nothing that comes now for this trace can change anything. Where units are evaluated, new ones may always come."""
        return (
            not self._by_unit
            and trace_id not in self._open
            and self._settled.open_to(trace_id, now_ns=now_ns) is None
            and self._decided.decided_ns(trace_id) is not None
        )

    def held(self) -> set[bytes]:
        """Return the IDs of all traces of which anything is held. Cost: linear."""
        return {*self._open, *(trace.trace_id for trace in self._settled)}

    def kept(self, trace_id: bytes) -> list[TraceSnapshot]:
        """Return what is held of a trace: decided parts in order of decision, then what is open."""
        found = [self._settled.find(trace_id), *self._settled.kept_units(trace_id), self._open.get(trace_id)]
        return [_kept(trace) for trace in found if trace is not None]

    def decide(self, trace_id: bytes, units: Collection[bytes], trigger: Trigger, *, age_ns: int, now_ns: int) -> list[Trace]:
        """Decide as was decided ``age_ns`` ago: these units of a trace, or all of it. Returns none of what isn't there."""
        trace = self._open.get(trace_id)
        if trace is None:
            return []
        closed = self._decider.decide_again(trace, units, trigger, now_ns=now_ns)
        for each in closed:
            kept = self._settled.find(each.key)
            if kept is not None:
                kept.decided_ns = now_ns - age_ns
        return closed

    def reevaluate(self, key: bytes, trigger: Trigger, *, number: int, now_ns: int) -> Trace | None:
        """Look at a decided trace for the ``number``-th time, as was done before; None if it isn't there, or has been done."""
        trace = self._settled.find(key)
        if trace is None or trace.revisions >= number:
            return None
        trace.revise_ns, trace.news, trace.revisions = None, False, number
        return trace.close(trigger, now_ns=now_ns)

    def remember(self, key: bytes, *, age_ns: int, now_ns: int) -> None:
        """Remember that a trace or unit was decided ``age_ns`` ago."""
        for each in {key, key[:16]}:
            self._decided.add(each, now_ns=now_ns, decided_ns=now_ns - age_ns)

    def mark(self, trace_id: bytes, flags: Flags) -> None:
        """Set the flags of an open trace."""
        trace = self._open.get(trace_id)
        if trace is not None:
            trace.truncated |= flags.truncated
            trace.lost |= flags.lost
            trace.damaged |= flags.damaged

    def restore_decided(self, kept: TraceSnapshot, *, now_ns: int) -> AddResult:
        """Put a decided trace, or unit, back on the shelf. Returns what its spans count as."""
        flags, result = kept.flags, AddResult(received=len(kept.spans))
        trace = OpenTrace(kept.trace_id, self._kinds, now_ns=now_ns, unit_span_id=kept.unit_span_id)
        trace.above, trace.provisional, trace.outside = flags.above, flags.provisional, flags.outside
        trace.truncated, trace.lost, trace.damaged = flags.truncated, flags.lost, flags.damaged
        for span in kept.spans:
            relevant = self._kinds.is_relevant(span)
            trace.add(span, now_ns=now_ns, relevant=relevant, span_limit=_UNBOUNDED, max_bytes=_UNBOUNDED)
            result.count(relevant=relevant)
        trace.revisions = kept.looks
        self._decider.remember(trace, now_ns=now_ns)
        self._decider.keep(trace, now_ns=now_ns)
        if kept.reevaluation_due:
            trace.news = True
            self._decider.on_late_span(trace, now_ns=now_ns)
        return result

    def mark_damaged(self, trace_id: bytes | None) -> None:
        """Note that spans of a trace, or of any (None), could not be read back, whether or not others of it could."""
        if trace_id is not None:
            self._damaged.add(trace_id)
        for trace in [*self._open.values(), *self._settled]:
            trace.damaged |= trace_id in {None, trace.trace_id}

    def is_damaged(self, trace_id: bytes) -> bool:
        """Tell whether spans of a trace that is new here could not be read back."""
        return trace_id in self._damaged


def _kept(trace: OpenTrace) -> TraceSnapshot:
    return TraceSnapshot(
        trace_id=trace.trace_id,
        unit_span_id=trace.unit_span_id,
        spans=tuple(trace.spans.values()),
        flags=Flags(
            truncated=trace.truncated,
            lost=trace.lost,
            damaged=trace.damaged,
            outside=trace.outside,
            provisional=trace.provisional,
            above=trace.above,
        ),
        decided=trace.decided_ns is not None,
        note=trace.note,
        looks=trace.revisions,
        reevaluation_due=trace.revise_ns is not None,
    )
