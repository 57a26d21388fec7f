"""Who waits for the verdict on a trace, in the process where it runs.

A watcher stands in the OpenTelemetry context of the code that it watches, so it goes where the context goes: into tasks, into threads
that the application (or an instrumentation) hands the context to, into generators. Each span that starts there tells it of its trace.
Rejected: a global registry of processors, which would have to guess which provider, and which of several agents at once, is meant.
"""

from __future__ import annotations

import weakref
from threading import RLock
from typing import TYPE_CHECKING, Final, Protocol, cast

from opentelemetry.context import get_current
from opentelemetry.context import get_value as context_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from opentelemetry.context import Context

    from otel_toolcall_eval.model.criteria import BoundCriteria, CriteriaSet
    from otel_toolcall_eval.model.score import TraceReport

WATCHERS_KEY: Final = "otel_toolcall_eval-watchers"
"""Key of the watchers, a tuple with the outermost first, in the context."""

MAX_WATCHED_TRACES: Final = 10_000


class VerdictListener(Protocol):
    """Waits for verdicts. Its methods are called in the application's threads and in the worker thread, and neither raise nor wait."""

    @property
    def bound(self) -> BoundCriteria:
        """Return what the traces that it watches are to be evaluated by."""
        ...

    def claim(self, trace_id: bytes) -> bool:
        """Hear that a span of this trace starts; True the first time, when the trace is to be bound."""
        ...

    def decided(self, report: TraceReport, loaded: Sequence[CriteriaSet]) -> None:
        """Hear what is said of a trace, now that these criteria are loaded. May come again, with a later revision."""
        ...

    def ended(self, trace_id: bytes) -> None:
        """Hear that nothing more will be said of a trace: whoever evaluated it has ended."""
        ...


def watchers_in(context: Context | None) -> tuple[VerdictListener, ...]:
    """Return the watchers of the context that a span starts in; a context that was made from nothing leaves it to the current one."""
    found = None if context is None else context.get(WATCHERS_KEY)
    return cast("tuple[VerdictListener, ...]", found or context_value(WATCHERS_KEY, get_current()) or ())


class WatchedTraces:
    """Remembers who watches which trace, and tells them; an emitter. Holds nobody alive."""

    def __init__(self, loaded: Callable[[], Sequence[CriteriaSet]]) -> None:
        """Start with none; ``loaded`` returns the criteria in force."""
        self._loaded = loaded
        self.reset()

    def reset(self) -> None:
        """Forget all: after a fork they are the parent's, and so may the holder of the lock be."""
        self._lock = RLock()  # a signal handler may start a span while this thread is in here
        self._by_trace: dict[bytes, tuple[weakref.ref[VerdictListener], ...]] = {}  # guarded by _lock
        self._has_ended = False  # likewise

    def add(self, trace_id: bytes, watcher: VerdictListener) -> None:
        """Tell this watcher of this trace. Of too many traces the oldest is forgotten: its watcher runs into its time-out."""
        with self._lock:
            if self._has_ended:
                watcher.ended(trace_id)
                return
            known = self._by_trace.pop(trace_id, ())
            if len(self._by_trace) >= MAX_WATCHED_TRACES:
                self._by_trace.pop(next(iter(self._by_trace)))
            self._by_trace[trace_id] = (*known, weakref.ref(watcher))

    def claims(self, trace_id: bytes, context: Context | None) -> Iterator[BoundCriteria]:
        """Tell the watchers of a context that a span of this trace starts in it; what the trace is to be bound to, if it is new to them."""
        for watcher in watchers_in(context):
            if watcher.claim(trace_id):
                self.add(trace_id, watcher)
                yield watcher.bound

    def emit(self, report: TraceReport) -> None:
        """Tell everyone who watches the trace of this report."""
        with self._lock:
            found = self._by_trace.get(report.trace_id, ())
        if not found:
            return
        alive = [watcher for watcher in (reference() for reference in found) if watcher is not None]
        if not alive:
            with self._lock:
                self._by_trace.pop(report.trace_id, None)
        for watcher in alive:
            watcher.decided(report, self._loaded())

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002 - an emitter's
        """Return True: nothing is kept back."""
        return True

    def shutdown(self, timeout_seconds: float) -> None:  # noqa: ARG002 - an emitter's
        """Tell whoever still waits that nothing more comes."""
        with self._lock:
            watched, self._by_trace, self._has_ended = self._by_trace, {}, True
        for trace_id, references in watched.items():
            for watcher in (reference() for reference in references):
                if watcher is not None:
                    watcher.ended(trace_id)
