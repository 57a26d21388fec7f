"""Queues reports, and stores them on a thread of its own.

The evaluating thread only reads the labels and queues the report; another thread takes up to BATCH_REPORTS
out of it twice a second, makes rows of them, renders their explanations and writes all at once. Both share the interpreter's lock, and
the sidecar may evaluate thousands of traces a second, so this is as much as is remembered in the long run; of a burst the queue takes
up to PASSING_WAITING reports of which every verdict is a pass, and up to OTHERS_WAITING others. What comes beyond is counted and not
remembered: of passing traces that is a sample, and failures are kept as long as they are not hundreds a second themselves. Room for passing
reports comes back by time, PASSING_A_SECOND, so that hours of nothing but passes cost 1 % of a core and not 11 %; and all at once when
someone looks at a page, for whom what waits is remembered first.
Rejected: rows made on the evaluating thread (0.35 ms each), and explanations rendered when a page asks for them: both reports and payloads
would have to be kept until then, megabytes each.
Traces that nothing is bound to are counted by service, and not remembered one by one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.exporters import names
from otel_toolcall_eval.exporters.metrics.evaluated_services import service_of
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.sidecar.admin.status.rows import condense

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.sidecar.admin.status.rows import ReportDetail
    from otel_toolcall_eval.sidecar.admin.status.store import HistoryStore

_logger = logging.getLogger(__name__)

PASSING_WAITING: Final = 300
OTHERS_WAITING: Final = 700
WAITING_BYTES: Final = 16 << 20
"""Of the spans of reports that wait for a batch; one report has room in any case."""

BATCH_SECONDS: Final = 0.5
BATCH_REPORTS: Final = 50
"""A hundred a second at most: up to 11 % of a core, with what the database takes."""

PASSING_A_SECOND: Final = 10
_PLACE_NS: Final = 1_000_000_000 // PASSING_A_SECOND  # after which a place comes back

MAX_SERVICES: Final = 100
MAX_NAMES: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundService:
    """A service whose traces no criteria select.

    Attributes:
        traces: how many of them, since the start.
        latest: one of them.
        asked_for: names of criteria that they ask for and that are not loaded.
    """

    traces: int
    latest: bytes
    latest_unix_ns: int
    asked_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTotals:
    """What came since the start, whether or not it is remembered."""

    passing: int = 0
    others: int = 0
    unbound: int = 0
    passing_left_out: int = 0
    others_left_out: int = 0


class RecentReports:
    """An emitter that remembers. ``emit`` is called by the worker's thread, all else by any.

    Attributes:
        store: what is remembered.
    """

    def __init__(self, store: HistoryStore, *, tell: ReportDetail, clock: Callable[[], int] = time.time_ns) -> None:
        """Remember in this store, which is closed at the end; the thread starts with the first report.

        Args:
            store: takes the rows.
            tell: the rules on what may be shown.
            clock: Unix time in nanoseconds.
        """
        self.store = store
        self._tell = tell
        self._clock = clock
        self._faults: set[str] = set()
        self._lock = threading.Lock()  # of what waits and of the counts; held for moments
        self._batch = threading.Lock()  # of making rows
        self._waiting: deque[tuple[TraceReport, int, bool, int]] = deque()
        self._waiting_bytes = 0
        self._room = {True: PASSING_WAITING, False: OTHERS_WAITING}
        self._room_to_come = 0  # for passing reports: the places of those that were remembered, until their time has come
        self._room_since_ns = 0  # our clock
        self._counts = {True: 0, False: 0}
        self._left_out = {True: 0, False: 0}
        self._unbound_traces = 0
        self._unbound: dict[str, UnboundService] = {}
        self._thread: threading.Thread | None = None
        self._something = threading.Event()
        self._stopping = threading.Event()

    def emit(self, report: TraceReport) -> None:
        """Let a report wait for the next batch, if it has room."""
        if not report.verdicts:
            self._count_unbound(report)
            return
        passed = all(verdict.label is Label.PASS for verdict in report.verdicts)
        now_ns = self._clock()
        with self._lock:
            self._counts[passed] += 1
            if self._room_to_come:
                self._give_room(now_ns)
            # Weighed only where there is room, which under a flood there is for one in fifty.
            size = sum([span.size_bytes for span in report.spans]) if self._room[passed] else 0
            if not self._room[passed] or (self._waiting and self._waiting_bytes + size > WAITING_BYTES):
                self._left_out[passed] += 1
                return
            self._room[passed] -= 1
            self._waiting_bytes += size
            self._waiting.append((report, now_ns, passed, size))
        if not self._something.is_set():
            self._something.set()
            if self._thread is None and not self._stopping.is_set():
                self._thread = threading.Thread(target=self._run, name="otel-toolcall-eval-status", daemon=True)
                self._thread.start()

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002 - the emitters' common signature; a batch takes moments
        """Remember what waits."""
        self.settle()
        return True

    def shutdown(self, timeout_seconds: float) -> None:
        """Remember what waits, and close the store. May be called again."""
        self._stopping.set()
        self._something.set()
        if self._thread is not None:
            self._thread.join(timeout_seconds)
        self.settle()
        self.store.close()

    def settle(self, *, most: int | None = None) -> None:
        """Make rows of what waits, the longest waiting first, and write them; ``most`` of them, or all that is here now."""
        with self._batch:
            rows = []
            for _ in range(len(self._waiting) if most is None else most):
                with self._lock:
                    if not self._waiting:
                        break
                    report, evaluated_unix_ns, passed, size = self._waiting.popleft()
                    if passed:
                        self._room_to_come += 1
                    else:
                        self._room[False] += 1
                    self._waiting_bytes -= size
                try:
                    rows.append(condense(report, evaluated_unix_ns=evaluated_unix_ns, tell=self._tell))
                except Exception as error:  # noqa: BLE001 - a bug of ours must not cost the others their rows, nor end the thread
                    self._failed(error)
            if most is None:
                with self._lock:
                    self._room[True] += self._room_to_come
                    self._room_to_come = 0
            if rows:
                self.store.add(rows, now_unix_ns=self._clock())

    @property
    def seen(self) -> ReportTotals:
        """Return what came since the start."""
        with self._lock:
            return ReportTotals(
                passing=self._counts[True],
                others=self._counts[False],
                unbound=self._unbound_traces,
                passing_left_out=self._left_out[True],
                others_left_out=self._left_out[False],
            )

    @property
    def unbound(self) -> Mapping[str, UnboundService]:
        """Return the services whose traces no criteria select, by name; the empty name is for traces without one."""
        with self._lock:
            return dict(self._unbound)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._something.wait()
            self._stopping.wait(BATCH_SECONDS)  # so that a batch is one
            self.settle(most=BATCH_REPORTS)
            self._something.clear()
            if self._waiting:  # after the clearing: what came since has set it again, or is seen here
                self._something.set()

    def _give_room(self, now_ns: int) -> None:
        """Give back the room for passing reports whose time has come; under the lock. A clock that is set gives none, or all."""
        come = min(self._room_to_come, (now_ns - self._room_since_ns) // _PLACE_NS)
        if come:
            since = self._room_since_ns + come * _PLACE_NS  # so that no part of a place is lost
            self._room_since_ns = since if 0 < come < self._room_to_come else now_ns
        if come > 0:
            self._room[True] += come
            self._room_to_come -= come

    def _failed(self, error: Exception) -> None:
        """Log the first fault of each kind. The message may hold users' data, so it stays out."""
        kind = type(error).__qualname__
        if kind not in self._faults:
            self._faults.add(kind)
            _logger.error("a report could not be remembered for the status page; please report it", extra={"error_type": kind})

    def _count_unbound(self, report: TraceReport) -> None:
        service = self._tell.name(service_of(report) or "")
        now_ns = self._clock()
        with self._lock:
            if not report.revision:
                self._unbound_traces += 1
            if service not in self._unbound and len(self._unbound) >= MAX_SERVICES:
                service = names.OTHER
            before = self._unbound.get(service)
            asked_for = () if before is None else before.asked_for
            if report.unknown_criteria:
                more = (self._tell.name(name) for name in report.unknown_criteria[:MAX_NAMES])
                asked_for = tuple(dict.fromkeys((*asked_for, *more)))[:MAX_NAMES]
            traces = (0 if before is None else before.traces) + (not report.revision)
            self._unbound[service] = UnboundService(traces=traces, latest=report.trace_id, latest_unix_ns=now_ns, asked_for=asked_for)
