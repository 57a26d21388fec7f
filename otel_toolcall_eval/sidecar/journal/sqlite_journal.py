"""The journal as the worker sees it: what is written when, who waits for it, and what happens when the disk fails.

Group commit: in each turn the worker takes all requests that wait; they are written in one transaction, and only then answered (with
``Sync.ACK``) and taken in. So nothing is decided that is not in the file, and the more senders wait, the less each commit costs.
A decision is committed before its reports are emitted. So after a kill it is taken up, never taken a second time; its reports are emitted
again unless a flush of all emitters had succeeded since: delivered at least once, decided exactly once.

When the file can't be written: with ``Sync.ACK`` requests are refused before they have any effect, and reports wait, until it can; else
evaluation goes on without it, and what it lacks is written as it stands once it can be written again. A verdict that fell meanwhile is
not emitted again after a kill.
Threads: the worker's, but for ``counts``, ``problem``, ``close`` and what the two tickers call.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, SpanRequest
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.sidecar.journal.entries import WAITING, RowKind, bind_of, decision_of, logs_of, shed_of, spans_of
from otel_toolcall_eval.sidecar.journal.replay import Replay
from otel_toolcall_eval.sidecar.journal.retention import SECOND_NS, Removal, Retention, compaction
from otel_toolcall_eval.sidecar.journal.store import FAULTS, JournalStore, Sync
from otel_toolcall_eval.sidecar.journal.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
    from otel_toolcall_eval.engine.counters import Counts
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.decision import Decision
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.sidecar.journal.entries import Draft


_logger = logging.getLogger(__name__)

TIDY_NS = SECOND_NS
SYNC_SECONDS = 1.0
DELIVER_SECONDS = 3.0
FLUSH_SECONDS = 10.0
COMPACT_BYTES = 64 << 20
STOP_SECONDS = 1.0


class SqliteJournal:
    """A journal in a file. Open from the start; ``close`` it when the worker's thread has ended."""

    def __init__(
        self,
        path: Path,
        sync: Sync,
        *,
        limits: BufferLimits,
        late_window_ns: int,
        flush: Callable[[float], bool],
        unix_clock: Callable[[], int] = time.time_ns,
        compact_bytes: int = COMPACT_BYTES,
        store: JournalStore | None = None,
    ) -> None:
        """Open the file, and have it for ourselves.

        Args:
            path: of the file; made if need be.
            sync: when what was written is on the disk itself.
            limits: the buffer's bounds, which bound the file, too.
            late_window_ns: how long a decided trace may be revised.
            flush: has all emitters send what was emitted, within so many seconds; False if that took longer. Called on a thread.
            unix_clock: Unix time in nanoseconds; it may be set at any time.
            compact_bytes: room that rows take before it is looked whether they are all needed.
            store: the file, if it is open.

        Raises:
            SettingsError: the file can't be had.
        """
        self.keeps_senders_waiting = sync is Sync.ACK
        self._store = store or JournalStore(path, sync)
        self._writer = Writer(
            self._store, while_failing="requests are refused" if self.keeps_senders_waiting else "judging goes on without the journal"
        )
        self._limits = limits
        self._retention = Retention(late_window_ns=late_window_ns, limits=limits)
        self._flush = flush
        self._unix_clock = unix_clock
        self._compact_bytes = self._compact_at = compact_bytes
        self._stored_delivered = self._store.delivered()
        self._emitted = self._delivered = self._stored_delivered  # written by one thread, read by the other
        self._replaying = True
        self._touched: set[bytes] = set()
        self._removal = Removal()
        self._dirty: set[bytes] = set()  # traces of which rows are missing
        self._noted: list[Decision] = []  # not yet attempted to write
        self._unwritten: list[Decision] = []  # could not be written
        self._held: list[TraceReport] = []
        self._tidy_ns = 0
        self._damaged = self._sync_failures = 0
        self._tickers = [SyncTimer("delivery", DELIVER_SECONDS, self.deliver)]
        if sync is Sync.INTERVAL:
            self._tickers.append(SyncTimer("sync", SYNC_SECONDS, self._sync_disk))

    def replay(self, pipeline: Pipeline, *, now_ns: int) -> Iterator[TraceReport]:
        """Take up what an earlier process left; yields the reports that may not have reached whoever listens."""
        replay = Replay(
            pipeline,
            self._retention,
            now_ns=now_ns,
            unix_ns=self._unix_clock(),
            delivered=self._stored_delivered,
            keep_ns=self._limits.decisions_ns,
        )
        try:
            yield from replay.run(self._store)
        except FAULTS as error:
            self._writer.failed(error, ruined=True)
            replay.end(cut_short=True)
        else:
            replay.end(cut_short=False)
        self._damaged = replay.damaged
        if replay.damaged:
            _logger.error("some of the journal is damaged; the traces that it was of are judged as partial", extra={"rows": replay.damaged})
        self._replaying = False
        for ticker in self._tickers:
            ticker.start()

    def write(self, items: Sequence[WorkItem], pipeline: Pipeline, *, now_ns: int) -> Sequence[WorkItem]:
        """Write requests, let their senders be answered, and return what is to be taken in: all of it, unless some had to be refused."""
        drafts = [draft for item in items for draft in _drafts(item, pipeline, now_ns)]
        trace_ids = [draft.trace_id for draft in drafts if draft.kind is RowKind.SPANS]
        if drafts and not self._insert(drafts, now_ns):
            if self.keeps_senders_waiting:
                return [item for item in items if not _refused(item)]
            self._dirty.update(trace_ids)
        self._touched.update(trace_ids)
        for item in items:
            if isinstance(item, SpanRequest | LogRequest) and item.done is not None and item.done.set_running_or_notify_cancel():
                item.done.set_result(None)
        return items

    def on_decision(self, decision: Decision) -> None:
        """Note a decision; the next ``release`` writes it."""
        self._noted.append(decision)

    def release(self, reports: Sequence[TraceReport]) -> Sequence[TraceReport]:
        """Write the decisions noted since the last call, and return the reports that may be emitted now."""
        decisions, self._noted = self._noted, []
        self._emitted = self._writer.last  # what was written before, and given out, has been emitted since
        if not decisions or (not self._unwritten and self._write_decisions(decisions)):
            return reports
        self._unwritten += decisions
        if not self.keeps_senders_waiting:
            return reports
        self._held += reports
        return []

    def maintain(self, pipeline: Pipeline, *, now_ns: int, last: bool = False) -> Sequence[TraceReport]:
        """Do what has to be done from time to time; returns reports that had to wait and may be emitted now: at ``last``, all.

        At ``last`` nothing is removed: what was decided just now may be revised by spans that the next process gets.
        """
        self._emitted = self._writer.last
        if now_ns < self._tidy_ns and not last:
            return []
        self._tidy_ns = now_ns + TIDY_NS
        if self._writer.failing or self._unwritten or self._dirty:
            self._recover(pipeline)
        if not last:
            self._tidy(pipeline, now_ns)
        if self._unwritten and not last:
            return []
        held, self._held = self._held, []
        return held

    def next_ns(self) -> int | None:
        """Return when ``maintain`` is wanted next; None if there is nothing to do."""
        missing = self._writer.failing or self._unwritten or self._dirty
        idle = self._retention.is_idle and not self._touched and self._delivered == self._stored_delivered
        return None if idle and not missing else self._tidy_ns

    def has_problem(self) -> bool:
        """Tell whether requests can't be taken: the file can't be written, or what it holds is still being taken up."""
        return self._replaying or (self._writer.failing and self.keeps_senders_waiting)

    def counts(self) -> Counts:
        """Return counts since the start, as ``accounts`` has them."""
        return {
            ("toolcall_eval.journal.failures", ()): self._writer.failures + self._sync_failures,
            ("toolcall_eval.journal.discarded", ()): self._store.discarded,
            ("toolcall_eval.journal.damaged", ()): self._damaged,
            ("toolcall_eval.journal.size", ()): self._store.file_bytes,
        }

    def deliver(self) -> None:
        """Have sent what was emitted, and note how far that got."""
        emitted = self._emitted
        if emitted > self._delivered and self._flush(FLUSH_SECONDS):
            self._delivered = emitted

    def close(self, *, delivered: bool, ended: bool, timeout_seconds: float = STOP_SECONDS) -> None:
        """Close the file. The next process takes up what is in it: what is open, and what may still be revised.

        Args:
            delivered: all that was emitted has been sent.
            ended: the worker's thread has ended. If it hasn't, the file is its, and is left as after a kill.
            timeout_seconds: how long to wait for what goes on beside it.
        """
        for ticker in self._tickers:
            ticker.stop(min(STOP_SECONDS, max(0.0, timeout_seconds)))
        if ended:
            if delivered and not self._unwritten and not self._replaying:
                self._writer.deliver(self._emitted)
            self._store.close()

    def _insert(self, drafts: Sequence[Draft], now_ns: int) -> bool:
        rows = None if self._dirty else self._writer.insert(drafts)
        for row in rows or ():
            if row.kind in WAITING:
                self._retention.waits(row.number, len(row.body), now_ns=now_ns)
        return rows is not None

    def _write_decisions(self, decisions: Sequence[Decision]) -> bool:
        unix_ns = self._unix_clock()
        rows = self._writer.insert([decision_of(decision, unix_ns=unix_ns) for decision in decisions])
        for row, decision in zip(rows or (), decisions, strict=rows is not None):
            self._retention.decided(decision.trace_id, decision.key, number=row.number, unix_ns=unix_ns)
        return rows is not None

    def _tidy(self, pipeline: Pipeline, now_ns: int) -> None:
        earlier, retention, writer, delivered = pipeline.traces.restorer, self._retention, self._writer, self._delivered
        touched, self._touched = self._touched, set()
        retention.let_go([trace_id for trace_id in touched if not earlier.holds(trace_id)], last_number=writer.last)
        retention.watch(earlier.holds, last_number=writer.last, now_ns=now_ns)
        if delivered != self._stored_delivered and writer.deliver(delivered):
            self._stored_delivered = delivered
        # What could not be removed the last time comes first.
        self._removal = self._removal or retention.removal(earlier.holds, delivered=self._stored_delivered, now_ns=now_ns)
        forget = retention.forgotten(writer.last_decided + len(self._removal.remember), now_ns=now_ns)
        if self._removal and writer.remove(self._removal, forget=forget):
            self._removal = Removal()
        if not writer.failing and writer.tidy() > self._compact_at:
            self._compact(retention.settled(earlier.held(), delivered=self._stored_delivered), pipeline)
            self._compact_at = max(self._compact_bytes, 2 * writer.tidy())

    def _compact(self, trace_ids: Iterable[bytes], pipeline: Pipeline) -> bool:
        fates = self._retention.fates
        made = compaction(trace_ids, pipeline.traces.restorer, fates, unix_ns=self._unix_clock())
        done = self._writer.compact(made)
        if done:
            made.done(fates)
        return done

    def _recover(self, pipeline: Pipeline) -> None:
        """Try to write again, and then what is missing."""
        earlier = pipeline.traces.restorer
        if self._writer.failing and self._writer.try_again():
            self._dirty |= earlier.held()
        if not self.keeps_senders_waiting:
            self._dirty &= earlier.held()
            # They have been emitted, perhaps of spans that are not in the file, so nothing is to be made of them again.
            self._unwritten = [replace(decision, reported=False) for decision in self._unwritten[-self._limits.decisions :]]
        if self._unwritten and self._write_decisions(self._unwritten):
            self._unwritten = []
        if self._dirty and not self._unwritten and self._compact(self._dirty & earlier.held(), pipeline):
            self._touched |= self._dirty
            self._dirty = set()

    def _sync_disk(self) -> None:
        try:
            self._store.sync()
        except OSError:
            self._sync_failures += 1


def _drafts(item: WorkItem, pipeline: Pipeline, now_ns: int) -> Iterable[Draft]:
    if isinstance(item, SpanRequest):
        return spans_of(item, lambda trace_id: pipeline.traces.restorer.is_expired(trace_id, now_ns=now_ns))
    if isinstance(item, LogRequest):
        return logs_of(item)
    if isinstance(item, SkippedRequest):
        return shed_of(item)
    return [bind_of(item)] if isinstance(item, BindRequest) else ()


def _refused(item: WorkItem) -> bool:
    """Refuse a request with telemetry; False if the item is something else."""
    if not isinstance(item, SpanRequest | LogRequest):
        return False
    if item.done is not None and item.done.set_running_or_notify_cancel():
        what, fix = "the journal can't be written", "send the request again after a moment"
        item.done.set_exception(OverloadedError(where=item.transport, what=what, fix=fix))
    return True


class SyncTimer:
    """A thread that calls."""

    def __init__(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Prepare to call every so many seconds. ``call`` must not raise."""
        self._seconds = seconds
        self._call = call
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"toolcall-eval-journal-{name}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """Call no more; waits for a call that is under way, but not for longer than told."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._call()
