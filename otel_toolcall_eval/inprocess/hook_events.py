"""Reads what the hooks of a span processor kept: which spans are open, what they bind, what the ended ones say. The worker thread's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.baggage import get_baggage
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace import Span as SdkSpan

from otel_toolcall_eval.engine.work_items import BindRequest, SpanRequest
from otel_toolcall_eval.inprocess.sdk_spans import SpanConverter
from otel_toolcall_eval.model.criteria import BoundCriteria
from otel_toolcall_eval.model.trace import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from otel_toolcall_eval.engine.work_items import WorkItem
    from otel_toolcall_eval.model.trace import Projection

TRANSPORT: Final = "in_process"

SpanHookEvent: TypeAlias = tuple[SdkSpan, Context] | SdkSpan | ReadableSpan | Span | BindRequest
"""A span that started, with the context that it started in if there is anything in it; one that ended, as it is or converted; a binding."""

TRACE_ID: Final = 0
SPAN_ID: Final = 1
IS_REMOTE: Final = 2
"""Places in a ``SpanContext``, which is a tuple. Its properties take five times as long, which counts for what is done for each span."""

_LOST_SPAN_ID: Final = 0  # no span has it


MAX_TRACES: Final = 10_000
"""As many as may be open in a process by default (``limits.num_traces``); 500 bytes each."""


class LocalTrace:
    """What is known of one trace that has open spans here."""

    __slots__ = ("named", "sampled", "span_ids")

    def __init__(self) -> None:
        """Start with no span."""
        self.span_ids: set[int] = set()
        self.sampled = False  # a span of it is sampled, so it will be evaluated
        self.named: object = None  # what baggage named last


class OpenSpans:
    """Counts the open spans of each trace, which a sidecar has to guess from silence. Owned by the evaluating thread.

    Bounded by traces: of too many the one that began first is forgotten, most likely one with a span that never ends; its verdict then no
    longer waits. Rejected: references to the spans themselves, which would keep an agent's memory.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._traces: dict[int, LocalTrace] = {}  # in order of their first open span

    @property
    def trace_ids(self) -> frozenset[int]:
        """Return the traces that have open spans."""
        return frozenset(self._traces)

    def start(self, trace_id: int, span_id: int, *, sampled: bool) -> LocalTrace:
        """Note that a span is open."""
        trace = self._traces.get(trace_id)
        if trace is None:
            if len(self._traces) >= MAX_TRACES:
                del self._traces[next(iter(self._traces))]
            trace = self._traces[trace_id] = LocalTrace()
        trace.span_ids.add(span_id)
        trace.sampled |= sampled
        return trace

    def end(self, trace_id: int, span_id: int) -> bool:
        """Note that a span has ended; True if its trace is one that will be evaluated. One whose start was not seen changes nothing."""
        trace = self._traces.get(trace_id)
        if trace is None:
            return False
        trace.span_ids.discard(span_id)
        if not trace.span_ids:
            del self._traces[trace_id]
        return trace.sampled

    def count(self, trace_id: int) -> int:
        """Return how many spans of a trace are open."""
        trace = self._traces.get(trace_id)
        return 0 if trace is None else len(trace.span_ids)


class HookEventReader:
    """Turns news into requests. Only ``convert`` and ``is_ours`` are for other threads, too."""

    def __init__(
        self,
        *,
        projection: Callable[[], Projection],
        own_scope: str,
        baggage_key: str,
        on_fault: Callable[[], None],
        on_end: Callable[[ReadableSpan | Span], None] | None = None,
    ) -> None:
        """Prepare.

        Args:
            projection: attributes to keep; asked for each span, since criteria may be reloaded.
            own_scope: scope of our own spans, which are passed over.
            baggage_key: baggage of this name names the criteria of the trace.
            on_fault: is called, in an except clause, for each piece of news that could not be read.
            on_end: hears of each span that ended, first of all.
        """
        self._projection = projection
        self._own_scope = own_scope
        self._baggage_key = baggage_key
        self._on_fault = on_fault
        self._on_end = on_end
        self._converter = SpanConverter()
        self._open = OpenSpans()
        self.parents: frozenset[int] = frozenset()  # traces that were open in the parent process when this one was forked

    def reset(self, roots: Iterable[int], news: Iterable[SpanHookEvent]) -> None:
        """Leave what is open, has an open root, or is in the news, to the parent process. Two verdicts on it would be one too many."""
        spans = (piece[0] if isinstance(piece, tuple) else piece for piece in news)
        started = (span.get_span_context().trace_id for span in spans if isinstance(span, SdkSpan))
        self.parents = frozenset((*self.parents, *self._open.trace_ids, *roots, *started))
        self._open = OpenSpans()

    def is_ours(self, span: ReadableSpan) -> bool:
        """Tell whether a span is our own telemetry."""
        scope = span.instrumentation_scope
        return scope is not None and scope.name == self._own_scope

    def convert(self, span: ReadableSpan) -> Span:
        """Return what is kept of a span."""
        return self._converter.convert(span, self._projection())

    def read(self, news: Iterable[SpanHookEvent], *, lost: Iterable[int]) -> Iterator[WorkItem]:
        """Return news as requests: bindings as they come, then all spans, with the number of those that are still open.

        Args:
            news: in the order in which it came.
            lost: traces of which spans had to be dropped. Each counts as one with an open span, so its verdict waits as long as may be, and
                says that it is partial.
        """
        spans: list[Span] = []
        touched: set[int] = set()
        for trace_id in lost:
            self._open.start(trace_id, _LOST_SPAN_ID, sampled=True)
            touched.add(trace_id)
        for piece in news:
            try:
                if type(piece) is ReadableSpan:  # before those whose isinstance takes ten times as long
                    self._ended(piece, spans, touched)
                elif isinstance(piece, tuple):
                    yield from self._started_in(*piece, touched)
                elif isinstance(piece, BindRequest):
                    yield piece
                elif isinstance(piece, SdkSpan):
                    self._started(piece, touched)
                else:
                    self._ended(piece, spans, touched)
            except Exception:  # noqa: BLE001 - one span's fault; the others are taken
                self._on_fault()
        if touched:
            open_spans = {trace_id.to_bytes(16, "big"): self._open.count(trace_id) for trace_id in touched}
            yield SpanRequest(spans=spans, transport=TRANSPORT, rejected={}, open_spans=open_spans, size_bytes=0)

    def _started(self, span: SdkSpan, touched: set[int]) -> LocalTrace | None:
        context = span.context
        trace_id = context[TRACE_ID]
        if trace_id in self.parents or self.is_ours(span):
            return None
        touched.add(trace_id)
        return self._open.start(trace_id, context[SPAN_ID], sampled=context.trace_flags.sampled)

    def _started_in(self, span: SdkSpan, context: Context, touched: set[int]) -> Iterator[WorkItem]:
        trace = self._started(span, touched)
        named = None if trace is None else get_baggage(self._baggage_key, context)
        if trace is not None and named is not None and trace.named != named:
            yield _bound_by_baggage(span.get_span_context().trace_id, trace, named)

    def _ended(self, span: ReadableSpan | Span, spans: list[Span], touched: set[int]) -> None:
        if self._on_end is not None:
            self._on_end(span)
        if isinstance(span, Span):
            trace_id, span_id, sampled = int.from_bytes(span.trace_id), int.from_bytes(span.span_id), True
        else:
            if self.is_ours(span):
                return
            context = span.context
            trace_id, span_id, sampled = context[TRACE_ID], context[SPAN_ID], context.trace_flags.sampled
        if trace_id in self.parents:
            return
        judged = self._open.end(trace_id, span_id)
        touched.add(trace_id)
        # A span that was only recorded is not exported. Where its trace is evaluated, it was a step of the agent like any other.
        if not (judged or sampled):
            return
        try:
            spans.append(span if isinstance(span, Span) else self.convert(span))
        except Exception:
            self._open.start(trace_id, _LOST_SPAN_ID, sampled=True)  # as for ``lost``: what can't be read must not count as not called
            raise


def _bound_by_baggage(trace_id: int, trace: LocalTrace, named: object) -> BindRequest:
    """Bind the criteria that a test harness set around the agent's call."""
    trace.named = named
    listed = named.split(",") if isinstance(named, str) else named if isinstance(named, list | tuple) else ()
    names = tuple(filter(None, (str(name).strip() for name in listed)))
    return BindRequest(trace_id=trace_id.to_bytes(16, "big"), bound=BoundCriteria(names=names))
