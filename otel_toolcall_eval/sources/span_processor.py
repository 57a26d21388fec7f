"""Takes ended spans from the SDK of the same process.

The hooks run in the application's threads: they never raise, never block, never evaluate. What they do is count a trace's
open spans, copy the few attributes that matter, and hand the copy to the worker's queue.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from opentelemetry.baggage import get_baggage
from opentelemetry.sdk.trace import SpanProcessor

from otel_toolcall_eval.binding import Bound
from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.sources.sdk_spans import SpanConverter
from otel_toolcall_eval.sources.watching import watchers_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace import Span as SdkSpan

    from otel_toolcall_eval.model.trace import Projection, Span
    from otel_toolcall_eval.sources.watching import WatchedTraces

_logger = logging.getLogger(__name__)

TRANSPORT = "in_process"
MAX_TRACKED_TRACES = 100_000


class LocalSink(Protocol):
    """Takes spans of this process."""

    def offer_spans(self, spans: Sequence[Span], *, transport: str, open_spans: Mapping[bytes, int] | None = None) -> None:
        """Queue spans, or raise OverloadedError."""
        ...

    def bind(self, trace_id: bytes, bound: Bound) -> None:
        """Judge a trace by these criteria, too."""
        ...

    def refuse(self, transport: str, reason: str) -> None:
        """Count spans that were not taken."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until what was offered is judged, if it is due, and sent."""
        ...

    def shutdown(self, timeout_seconds: float) -> bool:
        """Judge and send everything, and end."""
        ...


class SpanSource(SpanProcessor):
    """A span processor that feeds a sink."""

    def __init__(
        self,
        sink: LocalSink,
        *,
        projection: Callable[[], Projection],
        shutdown_seconds: float,
        own_scope: str,
        baggage_key: str,
        watched: WatchedTraces,
    ) -> None:
        """Prepare.

        Args:
            sink: takes the spans.
            projection: attributes to keep; asked for each span, since criteria may be reloaded.
            shutdown_seconds: most that ``shutdown`` may take.
            own_scope: scope of our own spans, which are passed over.
            baggage_key: baggage of this name names the criteria of the trace.
            watched: is told of the watchers in the context of each trace.
        """
        self._sink = sink
        self._projection = projection
        self._shutdown_seconds = shutdown_seconds
        self._own_scope = own_scope
        self._baggage_key = baggage_key
        self._watched = watched
        self._converter = SpanConverter()
        self._lock = threading.RLock()  # a signal handler or a finaliser may end a span while this thread is in here
        self._open: dict[int, int] = {}  # by trace ID; guarded by _lock
        self._named: dict[int, object] = {}  # what baggage named for open traces; guarded by _lock
        self._parents: frozenset[int] = frozenset()  # traces that were open in the parent process when this one was forked
        self._stopped = False
        self._complained = False
        self.dropped = 0

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Count the span as open, and take the names of criteria out of its baggage."""
        try:
            if self._is_ours(span):
                return
            trace_id = span.get_span_context().trace_id
            with self._lock:
                if trace_id in self._parents:
                    return
                if trace_id in self._open or len(self._open) < MAX_TRACKED_TRACES:
                    self._open[trace_id] = self._open.get(trace_id, 0) + 1
                    self._bind_from_baggage(trace_id, parent_context)
                    self._bind_from_watchers(span, parent_context)
        except Exception:  # noqa: BLE001 - an exception here would reach the application and replace its own
            self._complain()

    def on_end(self, span: ReadableSpan) -> None:
        """Hand the span on, with the number of spans of its trace that are still open."""
        try:
            if self._is_ours(span):
                return
            context = span.get_span_context()
            if context is None or context.trace_id in self._parents:
                return
            ours = None
            if context.trace_flags.sampled and not self._stopped:
                ours = self._converter.convert(span, self._projection())
            # Counted and handed on under one lock: the last number that the sink hears has to be the newest one, or a trace
            # would wait for a span that ended long ago.
            with self._lock:
                still_open = self._ended(context.trace_id)
                if ours is not None:
                    self._sink.offer_spans((ours,), transport=TRANSPORT, open_spans={ours.trace_id: still_open})
            if self._stopped:
                self._drop("shutdown")
        except OverloadedError:
            self._drop("overloaded")
        except Exception:  # noqa: BLE001 - an exception here would reach the application and replace its own
            self._complain()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until every ended span is taken in and every verdict that is due is sent; False if not in time."""
        try:
            return self._sink.flush(timeout_millis / 1000)
        except Exception:  # noqa: BLE001 - the application must not suffer from a fault of ours
            self._complain()
            return False

    def shutdown(self) -> None:
        """Judge what is open, send it and end. Later spans are dropped."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self._sink.shutdown(self._shutdown_seconds)
        except Exception:  # noqa: BLE001 - the application must not suffer from a fault of ours
            self._complain()

    def restart_in_child(self) -> None:
        """Begin anew after a fork. A trace that was open then is the parent's to judge: two verdicts on it would be one too many."""
        self._lock = threading.RLock()
        self._watched.begin_anew()
        self._parents = frozenset((*self._parents, *self._open))
        self._open = {}

    def _bind_from_baggage(self, trace_id: int, context: Context | None) -> None:
        """Bind the criteria that a test harness set around the agent's call. Source: DESIGN, section 4, rule 1."""
        named = get_baggage(self._baggage_key, context)
        if named is None or self._named.get(trace_id) == named:
            return
        self._named[trace_id] = named
        listed = named.split(",") if isinstance(named, str) else named if isinstance(named, list | tuple) else ()
        names = [str(name).strip() for name in listed]
        self._sink.bind(trace_id.to_bytes(16, "big"), Bound(names=tuple(name for name in names if name)))

    def _bind_from_watchers(self, span: SdkSpan, context: Context | None) -> None:
        """Bind what the code around the span expects of its trace."""
        watchers = watchers_in(context)
        found = span.get_span_context()
        if not watchers or not found.trace_flags.sampled:  # what is not sampled is not judged
            return
        trace_id = found.trace_id.to_bytes(16, "big")
        for watcher in watchers:
            if watcher.claim(trace_id):
                self._watched.add(trace_id, watcher)
                self._sink.bind(trace_id, watcher.bound)

    def _ended(self, trace_id: int) -> int:
        left = self._open.get(trace_id, 1) - 1
        if left > 0:
            self._open[trace_id] = left
        else:
            self._open.pop(trace_id, None)
        return left

    def _is_ours(self, span: ReadableSpan) -> bool:
        scope = span.instrumentation_scope
        return scope is not None and scope.name == self._own_scope

    def _drop(self, reason: str) -> None:
        self.dropped += 1
        self._sink.refuse(TRANSPORT, reason)

    def _complain(self) -> None:
        self.dropped += 1
        with suppress(Exception):
            self._sink.refuse(TRANSPORT, "internal")
        if not self._complained:
            self._complained = True
            # called from except clauses only, so the traceback is at hand
            _logger.error("a span could not be taken in; the application is not affected, please report this", exc_info=True)  # noqa: LOG014 - see above
