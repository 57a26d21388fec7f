"""The main path, without I/O: spans and a time in, trace reports out. The only module that knows the order of the stages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from otel_toolcall_eval.assembly.trace_buffer import TraceBuffer
from otel_toolcall_eval.binding import Binder
from otel_toolcall_eval.judging import failure_of, judge_check
from otel_toolcall_eval.model.score import Completeness, EvaluatorFailure, Label, TraceReport
from otel_toolcall_eval.model.tool_call import Extraction
from otel_toolcall_eval.model.trace import Projection, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_toolcall_eval.assembly.completion import CompletionPolicy
    from otel_toolcall_eval.assembly.trace_buffer import AddResult, BufferLimits
    from otel_toolcall_eval.judging import Evaluators
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.trace import Span, Trace

OWN_SCOPE = "otel_toolcall_eval"
"""Scope name of the telemetry that we create ourselves. It is never judged, or we would score our own scores."""

MAX_BOUND_TRACES = 100_000


class CallReader(Protocol):
    """Reads tool calls out of spans."""

    @property
    def projection(self) -> Projection:
        """Return the attributes that it reads."""
        ...

    def is_relevant(self, span: Span) -> bool:
        """Tell whether the span could matter; cheap."""
        ...

    def extract(self, spans: Sequence[Span]) -> Extraction:
        """Read the calls out of a trace's spans, whatever their order."""
        ...

    def top_agent(self, spans: Sequence[Span]) -> str | None:
        """Return the name of the top-most agent."""
        ...


COUNTED = ("relevant", "ignored", "duplicate", "conflict", "late", "dropped")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCounts:
    """Counts of spans since the start, never changed but replaced, so that any thread reads those of one moment.

    ``received = relevant + ignored + duplicate + conflict + rejected`` holds at every moment, for each transport.

    Attributes:
        by: what became of spans, and the transport that they came by, to their number.
    """

    by: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def total(self, what: str) -> int:
        """Return a number over all transports."""
        return sum(number for (counted, _), number in self.by.items() if counted == what)

    def plus(self, transport: str, result: AddResult, *, rejected: int) -> SpanCounts:
        """Return the counts after one more request."""
        by = {**self.by}
        found = {"received": result.received + rejected, "rejected": rejected, **{what: getattr(result, what) for what in COUNTED}}
        for what, number in found.items():
            by[what, transport] = by.get((what, transport), 0) + number
        return SpanCounts(by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What was said of a trace, kept as long as it may be revised."""

    revision: int
    said: tuple[tuple[str, str, Label, float | None], ...]
    bound_names: tuple[str, ...]


class Pipeline:
    """Assembly, extraction, binding and evaluation in a row. Owned by one thread, but for ``bind`` and ``replace_criteria``."""

    def __init__(
        self,
        *,
        reader: CallReader,
        evaluators: Evaluators,
        criteria: Iterable[CriteriaSet] = (),
        policy: CompletionPolicy | None = None,
        limits: BufferLimits | None = None,
        stopwatch: Callable[[], int] = lambda: 0,
    ) -> None:
        """Put the stages together.

        Args:
            reader: reads tool calls.
            evaluators: by class of their criteria.
            criteria: sets in force until ``replace_criteria``.
            policy: waiting times; the sidecar's by default.
            limits: bounds; the sidecar's by default.
            stopwatch: nanoseconds from any origin, to measure how long an evaluation takes; zero if nobody asks.
        """
        self._reader = reader
        self._evaluators = evaluators
        self._binder = Binder(criteria)
        self._buffer = TraceBuffer(is_relevant=reader.is_relevant, policy=policy, limits=limits)
        self._stopwatch = stopwatch
        self._bound_names: dict[bytes, tuple[str, ...]] = {}
        self.projection = reader.projection | self._binder.projection
        self.counts = SpanCounts()

    @property
    def open_traces(self) -> int:
        """Return how many traces are open."""
        return len(self._buffer)

    @property
    def buffered_bytes(self) -> int:
        """Return the estimated size of all open traces."""
        return self._buffer.size_bytes

    @property
    def criteria(self) -> tuple[CriteriaSet, ...]:
        """Return the criteria sets in force."""
        return self._binder.sets

    def replace_criteria(self, criteria: Iterable[CriteriaSet]) -> None:
        """Judge by these from the next trace on. May be called from any thread: one reference is swapped."""
        binder = Binder(criteria)
        self._binder = binder
        self.projection = self._reader.projection | binder.projection

    def bind(self, trace_id: bytes, names: Iterable[str]) -> None:
        """Judge a trace by the criteria of these names, in addition to what applies anyway. May be called from any thread."""
        if len(self._bound_names) >= MAX_BOUND_TRACES:  # bound to traces that never came
            self._bound_names.pop(next(iter(self._bound_names)), None)
        self._bound_names[trace_id] = (*self._bound_names.get(trace_id, ()), *names)

    def add(
        self,
        spans: Iterable[Span],
        *,
        now_ns: int,
        transport: str,
        rejected: int = 0,
        open_spans: Mapping[bytes, int] | None = None,
    ) -> AddResult:
        """Take in the spans of one request.

        Args:
            spans: what could be decoded.
            now_ns: monotonic time of arrival.
            transport: how they came; for the counts.
            rejected: spans of the same request that could not be taken in.
            open_spans: in process, how many local spans of each trace are still open.
        """
        foreign = [span for span in spans if span.scope.name != OWN_SCOPE]
        result = self._buffer.add(foreign, now_ns=now_ns, open_spans=open_spans)
        self.counts = self.counts.plus(transport, result, rejected=rejected)
        return result

    def next_due_ns(self) -> int | None:
        """Return a time before which no trace is due; None if none is open."""
        return self._buffer.next_due_ns()

    def pop_due(self, *, now_ns: int) -> list[TraceReport]:
        """Judge what is due now. A trace that is looked at again is reported only if a verdict changed."""
        judged = (self._judge_anew(trace) for trace in self._buffer.pop_due(now_ns=now_ns))
        return [report for report in judged if report is not None]

    def drain(self, *, now_ns: int, trigger: Trigger = Trigger.SHUTDOWN) -> list[TraceReport]:
        """Judge all that is open."""
        return [
            self.judge(trace, bound_names=self._bound_names.pop(trace.trace_id, ()))
            for trace in self._buffer.drain(now_ns=now_ns, trigger=trigger)
        ]

    def _judge_anew(self, trace: Trace) -> TraceReport | None:
        """Judge a trace in the light of what was said of it before; None if nothing else is to be said now."""
        given = trace.note if isinstance(trace.note, _Given) else None
        names = self._bound_names.pop(trace.trace_id, ())
        if given is not None:
            trace = replace(trace, revision=given.revision + 1)
            names = (*given.bound_names, *names)
        report = self.judge(trace, bound_names=names)
        said = tuple((verdict.criteria, verdict.evaluator, verdict.label, verdict.emitted_score) for verdict in report.verdicts)
        if given is not None and said == given.said:
            return None
        if report.unbound:
            self._buffer.release(trace.trace_id)
        else:
            self._buffer.attach(trace.trace_id, _Given(revision=report.revision, said=said, bound_names=names))
        return report

    def judge(self, trace: Trace, *, bound_names: tuple[str, ...] = ()) -> TraceReport:
        """Judge one trace by everything that is bound to it. Payloads of unbound traces are never looked at."""
        started = self._stopwatch()
        agent = self._reader.top_agent(trace.spans)
        binding = self._binder.bind(trace, agent=agent, bound_names=bound_names)
        extraction, failure = self._extract(trace) if binding.sets else (Extraction(calls=()), None)
        doubts = (*trace.doubts, *extraction.doubts)
        verdicts = tuple(
            judge_check(self._evaluators, trace, criteria_set, check, extraction, trace_doubts=doubts, failure=failure)
            for criteria_set in binding.sets
            for check in criteria_set.checks
        )
        return TraceReport(
            trace_id=trace.trace_id,
            judged_span=trace.root,
            agent=agent,
            trigger=trace.trigger,
            completeness=Completeness.PARTIAL if trace.doubts else Completeness.COMPLETE,
            doubts=doubts,
            revision=trace.revision,
            verdicts=verdicts,
            extraction=extraction,
            unknown_criteria=binding.unknown,
            decided_after_ns=trace.decided_after_ns,
            evaluation_seconds=(self._stopwatch() - started) / 1e9,
        )

    def _extract(self, trace: Trace) -> tuple[Extraction, EvaluatorFailure | None]:
        try:
            return self._reader.extract(trace.spans), None
        except Exception as error:  # noqa: BLE001 - a bug of ours costs this trace its scores, and says so; no other trace
            return Extraction(calls=()), failure_of(error)
