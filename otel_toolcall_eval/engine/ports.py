"""What the worker asks of its surroundings: a clock, emitters and a journal.

Another back end is one module in ``exporters/`` whose class has the three methods of ``Emitter``, and one line in ``sidecar/build.py``
(or ``inprocess/build.py``), where it joins the list of emitters. ``tests/exporters/test_emitters.py`` holds every emitter to these rules:

- ``emit`` never waits. An emitter that does I/O has a thread and a bounded queue of its own, and counts what it drops.
- Every report is emitted: of unbound traces (``report.unbound``), without an evaluated span, again with a higher ``revision`` if late
  spans changed a verdict, and with the same ``evaluation_id`` if an earlier process may not have delivered it.
- ``attributes.clean_name`` shortens names. ``attributes.explanation``, which redacts secrets, is the only source of explanations. A report
  holds all that was recorded, so anything else taken from ``report.extraction``, span attributes or justifications leaks users' data.
- An exception in ``emit`` is counted as a failure and logged once without its message; other emitters and later reports are unaffected.

Rejected: loading third-party emitters by entry points. They would run on the evaluating thread without any bound on their time, and on
reports whose shape is not a public promise. The public ways out are ``serve --verdicts json`` and OTLP.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from otel_toolcall_eval.engine.counters import Counts
    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.decision import Decision
    from otel_toolcall_eval.model.score import TraceReport


class Emitter(Protocol):
    """Creates telemetry out of reports. Only the worker's thread calls ``emit``; any thread may call the other methods."""

    def emit(self, report: TraceReport) -> None:
        """Emit one report; must not wait for the network."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Send what is emitted; False if that took too long. May be called at any time, after ``shutdown`` too."""
        ...

    def shutdown(self, timeout_seconds: float) -> None:
        """Send what is emitted and let go of everything, within the time-out. May be called again."""
        ...


class Clock(Protocol):
    """Monotonic time."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        ...


class MonotonicClock:
    """The system's monotonic clock."""

    def now_ns(self) -> int:
        """Return nanoseconds from any fixed origin; never goes back."""
        return time.monotonic_ns()


class Journal(Protocol):
    """Keeps what is taken in and what is decided, so that it survives the process. Called by the worker's thread alone.

    Attributes:
        keeps_senders_waiting: a request is answered only when it is written.
    """

    keeps_senders_waiting: bool

    def replay(self, pipeline: Pipeline, *, now_ns: int) -> Iterable[TraceReport]:
        """Take up what an earlier process left; yields reports that are to be emitted again. Comes first."""
        ...

    def write(self, items: Sequence[WorkItem], pipeline: Pipeline, *, now_ns: int) -> Sequence[WorkItem]:
        """Write requests and return what is to be taken in; the others have been refused."""
        ...

    def on_decision(self, decision: Decision) -> None:
        """Note a decision; the next ``release`` writes it."""
        ...

    def release(self, reports: Sequence[TraceReport]) -> Sequence[TraceReport]:
        """Write the decisions noted since the last call, and return the reports that may be emitted now."""
        ...

    def maintain(self, pipeline: Pipeline, *, now_ns: int, last: bool = False) -> Sequence[TraceReport]:
        """Keep the file in order, if it is time; returns reports that had to wait."""
        ...

    def next_ns(self) -> int | None:
        """Return when ``maintain`` is wanted; None if there is nothing to do."""
        ...

    def counts(self) -> Counts:
        """Return its counts; any thread."""
        ...
