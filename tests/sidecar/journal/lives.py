"""A pipeline with a journal, turn by turn as the worker runs them, and killed wherever a test likes."""

from __future__ import annotations

import shutil
import sqlite3
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count as counter
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.engine.work_items import BindRequest, LogRequest, SpanRequest
from otel_toolcall_eval.extraction.log_joining import LogJoiner
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.sidecar.journal.entries import RowKind
from otel_toolcall_eval.sidecar.journal.sqlite_journal import COMPACT_BYTES, SqliteJournal
from otel_toolcall_eval.sidecar.journal.store import Sync
from tests.engine.buffer.judged import READER, count, criteria_set
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Span

ANY = criteria_set([count(any=["<=", 2], search=1)])
HOUR_NS = 3600 * SECOND_NS

_OPEN = """
SELECT EXISTS (SELECT max(CASE WHEN kind = :decision THEN number END) AS decided
               FROM entries WHERE kind IN (:spans, :open, :settled, :decision) GROUP BY trace_id
               HAVING decided IS NULL OR decided > (SELECT number FROM delivered))
"""
_KINDS = {kind.name.lower(): int(kind) for kind in RowKind}


def holds_open(path: Path) -> bool:
    """Tell whether a journal holds traces that are not decided, or of which what was decided may not have reached whoever listens."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return bool(connection.execute(_OPEN, _KINDS).fetchone()[0])


class Killed(Exception):  # noqa: N818 - no error: what a test asks for
    """The process is gone."""


@dataclass
class Life:
    """One process.

    Attributes:
        emitted: reports, in the order in which they were emitted.
        kill_at: a step at which the process ends: ``written``, ``taken``, ``judged``, ``decided``, ``emitted``.
    """

    path: Path
    sync: Sync = Sync.ACK
    policy: CompletionPolicy = field(default_factory=CompletionPolicy)
    limits: BufferLimits = field(default_factory=BufferLimits)
    criteria: Sequence[CriteriaSet] = (ANY,)
    compact_bytes: int = COMPACT_BYTES
    now_ns: int = 0
    unix_ns: int = 1_790_000_000 * SECOND_NS
    emitted: list[TraceReport] = field(default_factory=list)
    delivers: bool = True
    kill_at: str = ""

    def __post_init__(self) -> None:
        self.pipeline = Pipeline(
            reader=READER,
            evaluators=evaluators_by_criteria(),
            criteria=self.criteria,
            policy=self.policy,
            limits=self.limits,
            logs=LogCorrelator(LogJoiner(READER.asked)),
        )
        self.journal = SqliteJournal(
            self.path,
            self.sync,
            limits=self.limits,
            late_window_ns=self.policy.late_span_window_ns,
            flush=lambda _: self.delivers,
            unix_clock=lambda: self.unix_ns,
            compact_bytes=self.compact_bytes,
        )
        self.pipeline.on_decision = self.journal.on_decision
        self.emitted += self.journal.replay(self.pipeline, now_ns=self.now_ns)

    def _step(self, name: str) -> None:
        if self.kill_at == name:
            raise Killed

    def turn(self, *items: WorkItem, deliver: bool = False) -> list[WorkItem]:
        """Do what the worker does in one turn; returns what was taken in."""
        taken = list(self.journal.write(items, self.pipeline, now_ns=self.now_ns))
        self._step("written")
        for item in taken:
            if isinstance(item, SpanRequest):
                self.pipeline.add(item.spans, now_ns=self.now_ns, transport=item.transport)
            elif isinstance(item, LogRequest):
                self.pipeline.add_logs(item.records, received=item.received, now_ns=self.now_ns, transport=item.transport)
            elif isinstance(item, BindRequest):
                self.pipeline.bind(item.trace_id, item.bound, now_ns=self.now_ns)
            elif isinstance(item, SkippedRequest):
                self.pipeline.shed(item, now_ns=self.now_ns)
        self._step("taken")
        self._emit(self.pipeline.pop_due(now_ns=self.now_ns))
        if deliver:
            self.emitted += self.journal.maintain(self.pipeline, now_ns=self.now_ns)
            self.journal.deliver()
        self.emitted += self.journal.maintain(self.pipeline, now_ns=self.now_ns)
        return taken

    def _emit(self, reports: Sequence[TraceReport]) -> None:
        self._step("judged")
        reports = self.journal.release(reports)
        self._step("decided")
        self.emitted += reports
        self._step("emitted")

    def send(self, *spans: Span) -> list[WorkItem]:
        """Take in one request with spans."""
        return self.turn(request(*spans))

    def log(self, *records: LogRecord) -> None:
        """Take in one request with log records."""
        self.turn(LogRequest(records=records, transport="grpc", received=len(records), size_bytes=1, done=Future()))

    def wait(self, seconds: float, *, deliver: bool = True) -> None:
        """Let time pass, a second at a time, as the worker's thread would see it."""
        end_ns, self.unix_ns = self.now_ns + int(seconds * SECOND_NS), self.unix_ns + int(seconds * SECOND_NS)
        while self.now_ns < end_ns:
            due_ns = self.pipeline.next_due_ns()
            soonest = end_ns if due_ns is None or due_ns <= self.now_ns else min(due_ns, end_ns)
            self.now_ns = min(soonest, self.now_ns + 60 * SECOND_NS)
            self.turn(deliver=deliver)

    def die(self) -> None:
        """Leave the file as it is: what the system has is what a killed process leaves."""
        self.journal.close(delivered=False, ended=True)

    def end(self, *, delivered: bool = True) -> None:
        """End as on SIGTERM."""
        self._emit(list(self.pipeline.drain(now_ns=self.now_ns)))
        self.emitted += self.journal.maintain(self.pipeline, now_ns=self.now_ns, last=True)
        self.journal.close(delivered=delivered, ended=True)


_copies = counter(1)


def copy_of(path: Path) -> Path:
    """Copy a journal as it lies on the disk at this moment, while it is open: what a process leaves that is killed now."""
    target = path.with_name(f"{path.name.partition('.')[0]}.{next(_copies)}")
    for suffix in ("", "-wal"):
        if path.with_name(path.name + suffix).exists():
            shutil.copyfile(path.with_name(path.name + suffix), target.with_name(target.name + suffix))
    return target


def next_life(life: Life, **changes: object) -> Life:
    """Kill a process, and start another one on what it left, which remembers what the first one emitted."""
    path = copy_of(life.path)
    life.die()
    given: dict[str, object] = {
        name: getattr(life, name)
        for name in ("sync", "policy", "limits", "criteria", "compact_bytes", "now_ns", "unix_ns", "delivers", "emitted")
    }
    return Life(path=path, **{**given, **changes})  # type: ignore[arg-type] # as declared above


def request(*spans: Span) -> SpanRequest:
    """Build a request whose sender waits."""
    return SpanRequest(spans=spans, transport="grpc", rejected={}, open_spans=None, size_bytes=1, done=Future())


def verdicts(reports: Sequence[TraceReport]) -> Iterator[tuple[object, ...]]:
    """Yield what tells verdicts apart: two with one ID have to be equal in everything else."""
    for report in reports:
        for verdict in report.verdicts:
            yield (
                verdict.evaluation_id,
                report.trace_id,
                report.revision,
                report.evaluated_span and report.evaluated_span.span_id,
                report.trigger,
                verdict.label,
                verdict.emitted_score,
                verdict.doubts,
            )
