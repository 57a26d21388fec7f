"""Takes spans from the SDK of the same process.

The hooks run in the application's threads: they never raise, never wait, never evaluate, and take no lock but to wake the worker thread.
What they do is append to a deque, which needs none. The worker thread comes for it when a root ends, when a span ends whose root is not
open here (a detached child, another process's), when much has gathered, and after a second in any case; so an agent's threads are not
interrupted for each span. Only there spans are counted as open, and converted. Rejected: converting in the hook, which took 15 us for each
span and, with a wake-up for each, up to 300 us on a busy machine; counting in the hook, which takes a lock.

Cost of ``on_start`` and ``on_end`` together: no more than of the SDK's batch processor, see ``tests/bench/bench_processor.py``.
"""

from __future__ import annotations

import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace import Span as SdkSpan

from otel_toolcall_eval.engine.work_items import BindRequest
from otel_toolcall_eval.inprocess.hook_events import IS_REMOTE, SPAN_ID, TRACE_ID, TRANSPORT, HookEventReader
from otel_toolcall_eval.inprocess.verdict_listeners import WATCHERS_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.context import Context

    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.inprocess.hook_events import SpanHookEvent
    from otel_toolcall_eval.inprocess.pending_roots import PendingRoots
    from otel_toolcall_eval.inprocess.verdict_listeners import WatchedTraces
    from otel_toolcall_eval.model.criteria import BoundCriteria
    from otel_toolcall_eval.model.trace import Projection

LOOK_AT: Final = 256
"""News that makes the worker thread come: starts and ends, some hundred spans."""

MAX_WHOLE: Final = 4096
"""News beyond which ended spans are converted by the application's thread: some 2,048 spans wait in full, as many as in the SDK's batch
processor. What is kept of one takes a kilobyte, and converting it slows down who ends spans faster than they can be evaluated."""

MAX_QUEUED_EVENTS: Final = 40_960
"""News beyond which ended spans are dropped and counted: some 20 MB."""

MAX_ROOTS: Final = 10_000

LOOK_SECONDS: Final = 1.0

_current = getattr(getattr(otel_context, "_RUNTIME_CONTEXT", None), "get_current", otel_context.get_current)  # without the call around it


_logger = logging.getLogger(__name__)


class LocalSink(Protocol):
    """The worker, as a span processor sees it: it evaluates on a thread of its own and drains the processor's queue."""

    def wake(self) -> None:
        """Wake the worker."""
        ...

    def refuse(self, transport: str, reason: str) -> None:
        """Count spans that were dropped."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until everything that is due is evaluated and exported."""
        ...

    def shutdown(self, timeout_seconds: float) -> bool:
        """Evaluate and export everything, and end."""
        ...


class DroppedSpanLog:
    """Counts."""

    def __init__(self, sink: LocalSink) -> None:
        """Start with none; the sink is told of each."""
        self._sink = sink
        self._complained = False
        self.count = 0

    def drop(self, reason: str) -> None:
        """Count one that there was no room for."""
        self.count += 1
        self._sink.refuse(TRANSPORT, reason)

    def log_once(self) -> None:
        """Count a fault of ours, and log the first. Called from except clauses only, so the traceback is at hand; never raises."""
        self.count += 1
        with suppress(Exception):
            self._sink.refuse(TRANSPORT, "internal")
        if not self._complained:
            self._complained = True
            _logger.error("a span could not be taken in; the application is not affected, please report this", exc_info=True)  # noqa: LOG014 - see above


class SpanSource(SpanProcessor):
    """A span processor that keeps news for a sink."""

    def __init__(
        self,
        sink: LocalSink,
        *,
        projection: Callable[[], Projection],
        shutdown_seconds: float,
        own_scope: str,
        baggage_key: str,
        watched: WatchedTraces,
        roots: PendingRoots | None = None,
    ) -> None:
        """Prepare.

        Args:
            sink: takes the spans.
            projection: attributes to keep; asked at each turn, since criteria may be reloaded.
            shutdown_seconds: most that ``shutdown`` may take.
            own_scope: scope of our own spans, which are passed over.
            baggage_key: baggage of this name names the criteria of the trace.
            watched: is told of the watchers in the context of each trace.
            roots: holds roots back until their verdict, if anything does.
        """
        self._sink = sink
        self.losses = DroppedSpanLog(sink)
        self._shutdown_seconds = shutdown_seconds
        self._watched = watched
        self._held_roots = roots
        self._reader = HookEventReader(
            projection=projection,
            own_scope=own_scope,
            baggage_key=baggage_key,
            on_fault=self.losses.log_once,
            on_end=None if roots is None else roots.taken,
        )
        self._news: deque[SpanHookEvent] = deque()  # any thread appends, the worker thread takes
        self._roots: dict[int, int] = {}  # open local root of each trace, the last if there are several: no other span's end completes it
        self._resting = True  # the worker thread waits for ever, and wants to be asked for a look
        self._asked = False  # it was, and has not come yet
        self._marked = 0  # how much news the last turn had
        self._look_at = LOOK_AT
        self._full = False  # more news than may wait
        self._lossy: set[int] = set()  # traces that lost spans to that
        self.on_root_start: Callable[[SdkSpan], None] = lambda _: None  # hears of each root that starts, in the application's thread
        self._stopped = False

    @property
    def dropped(self) -> int:
        """Return how much could not be taken in."""
        return self.losses.count

    # The hooks are written for speed, since the application waits for them.

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Note that the span is open, and who watches its trace."""
        try:
            parent = span.parent
            if parent is None or parent[IS_REMOTE]:
                self._root_starts(span)
                self._start_with_context(span, parent_context)
            elif parent_context is not None or len(_current()) > 1:  # more than its parent: baggage, or watchers
                self._start_with_context(span, parent_context)
            elif not self._full:
                self._news.append(span)
            if self._resting:
                self._look()
        except Exception:  # noqa: BLE001 - an exception here would reach the application and replace its own
            self.losses.log_once()

    def on_end(self, span: ReadableSpan) -> None:
        """Keep the span for the worker thread."""
        self.keep(span)

    def keep(self, span: ReadableSpan) -> bool:
        """Do the same; False if it was dropped, or is none that is evaluated."""
        try:
            context = span.context
            if type(span) is not ReadableSpan or context is None:  # isinstance takes ten times as long, and is for few
                if isinstance(span, SdkSpan):  # among the news an SDK span is one that starts; a processor may hand it on
                    return self.keep_ending(span)
                if context is None:
                    return False
            news = self._news
            waiting = len(news)
            if waiting < self._look_at:
                news.append(span)
            elif not self._has_room(span, waiting):
                return False
            else:
                news.append(self._reader.convert(span) if waiting >= MAX_WHOLE and context.trace_flags.sampled else span)
            root = self._roots.get(context[TRACE_ID])
            if root is None or root == context[SPAN_ID] or self._resting:
                self._root_may_have_ended(span)
        except Exception:  # noqa: BLE001 - an exception here would reach the application and replace its own
            self.losses.log_once()
            return False
        return True

    def keep_ending(self, span: SdkSpan) -> bool:
        """Keep a span that is ending as it stands; its end is not to be kept again. False if it was dropped."""
        try:
            waiting = len(self._news)
            if waiting >= self._look_at and not self._has_room(span, waiting):
                return False
            self._news.append(self._reader.convert(span))
            self._root_may_have_ended(span)
        except Exception:  # noqa: BLE001 - an exception here would reach the application and replace its own
            self.losses.log_once()
            return False
        return True

    def bind(self, trace_id: bytes, bound: BoundCriteria) -> None:
        """Evaluate a trace by these criteria, too; in turn with what the hooks heard before and after. Dropped where spans would be."""
        if self._full or len(self._news) >= MAX_QUEUED_EVENTS:
            self.losses.drop("shutdown" if self._stopped else "overloaded")
            return
        self._news.append(BindRequest(trace_id=trace_id, bound=bound))
        self._look()

    def mark(self) -> int:
        """Return how much news there is; for the worker thread."""
        self._asked = False  # before counting: what is appended later finds it so, and asks
        self._full = self._stopped
        self._marked = len(self._news)
        return self._marked

    def take(self, count: int) -> Iterator[WorkItem]:
        """Return so much news as requests; for the worker thread."""
        lost = (self._lossy.pop() for _ in range(len(self._lossy)))  # never iterated or swapped: hooks add to it meanwhile
        yield from self._reader.read(self._some_news(count), lost=lost)

    def on_batch_done(self) -> None:
        """Hear that a turn is over; for the worker thread."""
        if self._held_roots is not None:
            self._held_roots.on_batch_done()

    def seconds_to_wait(self) -> float | None:
        """Return how long the worker thread may wait at most; None if there is nothing to come for."""
        if self._news or self._marked:  # the news of a busy agent is come for, it need not ask
            return LOOK_SECONDS
        self._resting = True
        if self._news:  # it came meanwhile, and may not have seen that it should ask
            self._resting = False
            return LOOK_SECONDS
        return None

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Wait until every ended span is taken in and every verdict that is due is sent; False if not in time."""
        try:
            self._sink.wake()
            return self._sink.flush(timeout_millis / 1000)
        except Exception:  # noqa: BLE001 - the application must not suffer from a fault of ours
            self.losses.log_once()
            return False

    def shutdown(self) -> None:
        """Evaluate what is open, send it and end. Later spans are dropped."""
        if self._stopped:
            return
        self._stopped = True
        self._full, self._look_at = True, 0
        try:
            self._sink.shutdown(self._shutdown_seconds)
            with suppress(IndexError):
                while True:  # what was too late for the last turn
                    if not isinstance(self._news.popleft(), tuple | SdkSpan | BindRequest):
                        self.losses.drop("shutdown")
        except Exception:  # noqa: BLE001 - the application must not suffer from a fault of ours
            self.losses.log_once()

    def is_evaluated(self, span: ReadableSpan) -> bool:
        """Tell whether a verdict may fall on a span: it is sampled, of this process, and not our own."""
        context = span.context
        return context.trace_flags.sampled and context.trace_id not in self._reader.parents and not self._reader.is_ours(span)

    def restart_in_child(self) -> None:
        """Begin anew after a fork. A trace that was open then is the parent's to evaluate: two verdicts on it would be one too many."""
        self._reader.reset(self._roots, tuple(self._news))
        self._news.clear()
        self._roots, self._lossy = {}, set()
        self._resting, self._asked = True, False
        self._watched.reset()
        if self._held_roots is not None:
            self._held_roots.reset()

    def _look(self) -> None:
        """Have the worker thread come, unless it is on its way."""
        self._resting = False
        if not self._asked:
            self._asked = True
            self._sink.wake()

    def _start_with_context(self, span: SdkSpan, parent_context: Context | None) -> None:
        context = _current() if parent_context is None else parent_context
        if WATCHERS_KEY in context or (parent_context is not None and WATCHERS_KEY in _current()):
            self._tell_watchers(span, parent_context)
        if not self._full:
            self._news.append((span, context))

    def _root_may_have_ended(self, span: ReadableSpan) -> None:
        if self._roots.get(span.context.trace_id) == span.context.span_id:
            self._roots.pop(span.context.trace_id, None)
        # Our own spans are made by the worker thread; if they made it come again, it would come once too often for each verdict.
        if not self._reader.is_ours(span):
            self._look()

    def _has_room(self, span: ReadableSpan, waiting: int) -> bool:
        """Have the worker thread come, since much has gathered; False, and the span is dropped, if there is no room for it until then."""
        if waiting >= MAX_QUEUED_EVENTS or self._stopped:
            self._full = True
            if len(self._lossy) < MAX_ROOTS:
                self._lossy.add(span.context.trace_id)
            self.losses.drop("shutdown" if self._stopped else "overloaded")
            return False
        self._look()
        return True

    def _root_starts(self, span: SdkSpan) -> None:
        if self._stopped:
            return
        if len(self._roots) >= MAX_ROOTS:  # roots that never end; without them, spans below make the worker thread come more often
            self._roots.clear()
        context = span.get_span_context()
        self._roots[context.trace_id] = context.span_id
        self.on_root_start(span)

    def _some_news(self, count: int) -> Iterator[SpanHookEvent]:
        for _ in range(count):
            try:
                piece = self._news.popleft()
            except IndexError:  # shutdown gave up waiting for this thread, and threw the rest away
                return
            yield piece

    def _tell_watchers(self, span: SdkSpan, context: Context | None) -> None:
        """Bind what the code around the span expects of its trace."""
        found = span.get_span_context()
        if self._full or not found.trace_flags.sampled or found.trace_id in self._reader.parents:  # these are not evaluated here
            return
        trace_id = found.trace_id.to_bytes(16, "big")
        for bound in self._watched.claims(trace_id, context):
            self._news.append(BindRequest(trace_id=trace_id, bound=bound))
