"""Takes up what an earlier process left, in the order in which it was written and by the same code as live.

Spans and log records are taken in as if they came now; a decision is taken where it stands, by the trigger that it was taken by, and what
was said then holds. A report that may not have reached whoever listens is made and emitted again, under the same ID: by the criteria in
force now, which are the same unless they were changed meanwhile, and then the ID differs, since it names their version.
What was evaluated because a process ended is looked at again after a quiet period: that end cut it short, and does not any more.
Ages come from a clock that may have been set since: they only say how late a late span was, and are kept within what makes sense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.model.trace import Trigger
from otel_toolcall_eval.sidecar.journal.entries import WAITING, EntryReader, RowKind, body_is_whole, head_is_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.decision import Decision
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.sidecar.journal.entries import Row
    from otel_toolcall_eval.sidecar.journal.retention import Retention
    from otel_toolcall_eval.sidecar.journal.store import JournalStore

TRANSPORT = "journal"
"""What spans and log records are counted under that were taken in by an earlier process."""


class Replay:
    """One replay. Owned by the worker's thread.

    Attributes:
        damaged: rows that could not be read.
        number: of rows that could.
    """

    def __init__(self, pipeline: Pipeline, retention: Retention, *, now_ns: int, unix_ns: int, delivered: int, keep_ns: int) -> None:
        """Prepare.

        Args:
            pipeline: as it was built.
            retention: is told what rows there are.
            now_ns: monotonic time, which all of it happens at.
            unix_ns: the same as Unix time.
            delivered: number of the last decision that has reached whoever listens.
            keep_ns: the greatest age that makes sense.
        """
        self.damaged = 0
        self.number = 0
        self._pipeline = pipeline
        self._restorer = pipeline.traces.restorer
        self._retention = retention
        self._now_ns = now_ns
        self._unix_ns = unix_ns
        self._delivered = delivered
        self._keep_ns = keep_ns
        self._reader = EntryReader()
        self._group: list[tuple[Decision, int, int]] = []  # decisions of one moment, with their numbers and times
        self._traces: dict[bytes, None] = {}
        self._all_damaged = False

    def run(self, store: JournalStore) -> Iterator[TraceReport]:
        """Take up all of it; yields what is to be emitted again."""
        for found in store.decided():
            if found is None:
                self.damaged += 1
            else:
                key, unix_ns = found
                self._restorer.remember(key, age_ns=self._age_ns(unix_ns), now_ns=self._now_ns)
        for row in store.rows():
            yield from self._take(row)
        yield from self._decide()

    def end(self, *, cut_short: bool) -> None:
        """Do what comes last; ``cut_short`` if rows may be left that can't be read."""
        if self._all_damaged or cut_short:
            self._restorer.mark_damaged(None)
        self._pipeline.add((), now_ns=self._now_ns, transport=TRANSPORT)  # within bounds again
        gone = [trace_id for trace_id in self._traces if not self._restorer.holds(trace_id)]
        self._retention.let_go(gone, last_number=self.number)

    def _age_ns(self, unix_ns: int) -> int:
        return min(max(0, self._unix_ns - unix_ns), self._keep_ns)

    def _take(self, row: Row) -> Iterator[TraceReport]:
        if not head_is_whole(row):
            self._all_damaged = True
            self.damaged += 1
            return
        self.number = row.number
        if row.kind in WAITING:
            self._retention.waits(row.number, len(row.body), now_ns=self._now_ns)
        else:
            self._traces[row.trace_id] = None
        whole = body_is_whole(row)
        if row.kind == RowKind.DECISION and whole:
            yield from self._take_decision(row)
            return
        yield from self._decide()
        if not whole:
            self._take_damaged(row)
        elif row.kind == RowKind.SPANS:
            self._pipeline.add(self._reader.spans(row), now_ns=self._now_ns, transport=TRANSPORT, evict=False)
        elif row.kind == RowKind.LOGS:
            records = self._reader.logs(row)
            self._pipeline.add_logs(records, received=len(records), now_ns=self._now_ns, transport=TRANSPORT)
        elif row.kind == RowKind.BIND:
            self._pipeline.bind(row.trace_id, self._reader.bind(row), now_ns=self._now_ns)
        elif row.kind == RowKind.SHED:
            self._pipeline.shed(SkippedRequest(transport=TRANSPORT, trace_ids={row.trace_id}), now_ns=self._now_ns)
        else:
            self._take_kept(row)

    def _take_damaged(self, row: Row) -> None:
        """Make up for a row of which only the trace is known. What can't be said is said to be missing."""
        self.damaged += 1
        if row.trace_id:
            self._restorer.mark_damaged(row.trace_id)
        if row.kind == RowKind.DECISION:  # decided it is, whatever was said: a second verdict would contradict the first
            self._restorer.decide(row.trace_id, (), Trigger.ROOT_SPAN, age_ns=0, now_ns=self._now_ns)
            self._restorer.remember(row.trace_id, age_ns=0, now_ns=self._now_ns)

    def _take_kept(self, row: Row) -> None:
        kept = self._reader.kept(row)
        if kept.decided:
            result = self._restorer.restore_decided(kept, now_ns=self._now_ns)
            self._pipeline.counts = self._pipeline.counts.plus(TRANSPORT, result, rejected={})
        else:
            self._pipeline.add(kept.spans, now_ns=self._now_ns, transport=TRANSPORT, evict=False)
            self._restorer.mark(row.trace_id, kept.flags)

    def _take_decision(self, row: Row) -> Iterator[TraceReport]:
        decision, unix_ns = self._reader.decision(row)
        if decision.trigger is Trigger.SHUTDOWN and decision.given is not None and not decision.given.said:
            return  # nothing was said, and only the end of that process cut it short: its root, and its criteria, may still come
        if self._group:
            first, _, _ = self._group[0]
            together = decision.trace_id == first.trace_id and decision.batch == first.batch and not decision.look and not first.look
            if not together:
                yield from self._decide()
        self._group.append((decision, row.number, unix_ns))

    def _decide(self) -> Iterator[TraceReport]:
        """Take the decisions again that were taken at one moment."""
        if not self._group:
            return
        group, self._group = self._group, []
        first, _, unix_ns = group[0]
        age_ns = self._age_ns(unix_ns)
        if first.look:
            looked = self._restorer.reevaluate(first.key, first.trigger, number=first.look, now_ns=self._now_ns)
            traces = [] if looked is None else [looked]
        else:
            units = {decision.unit_span_id for decision, _, _ in group if decision.unit_span_id is not None}
            traces = self._restorer.decide(first.trace_id, units, first.trigger, age_ns=age_ns, now_ns=self._now_ns)
        by_key = {trace.key: trace for trace in traces}
        for decision, number, decided_unix_ns in group:
            self._retention.decided(decision.trace_id, decision.key, number=number, unix_ns=decided_unix_ns)
            trace = by_key.get(decision.key)
            if trace is None:  # it came back decided, or its spans are gone
                self._restorer.remember(decision.key, age_ns=age_ns, now_ns=self._now_ns)
                self._pipeline.traces.attach(decision.key, decision.given)
                continue
            report = self._pipeline.restore(decision, trace, reemit=number > self._delivered)
            if decision.trigger is Trigger.SHUTDOWN:
                buffer = self._pipeline.traces
                buffer.reevaluate(decision.trace_id, now_ns=self._now_ns, after_ns=buffer.quiet_ns)
            if report is not None:
                yield report
