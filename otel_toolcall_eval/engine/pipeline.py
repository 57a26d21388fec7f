"""The main path, without I/O: spans and a time in, trace reports out. The only module that knows the order of the stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.binding import Binder, BoundTraces
from otel_toolcall_eval.engine.buffer.clocks import clocks_of
from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy
from otel_toolcall_eval.engine.buffer.conversations import CONVERSATION_KEYS, Conversations, conversation_of
from otel_toolcall_eval.engine.buffer.decided_traces import DecisionCache
from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.engine.buffer.span_counts import AddResult, SpanCounts
from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds, by_parent
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.engine.evaluation import FilteredCalls, evaluate_criteria_set, failure_of
from otel_toolcall_eval.model.criteria import NOTHING_BOUND, BoundCriteria
from otel_toolcall_eval.model.decision import Decision, PriorVerdict, PriorVerdicts, verdict_keys
from otel_toolcall_eval.model.score import Completeness, EvaluatorFailure, TraceReport
from otel_toolcall_eval.model.tool_call import Extraction
from otel_toolcall_eval.model.trace import IncompletenessReason, Projection, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot
    from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
    from otel_toolcall_eval.engine.evaluation import CallReader, Evaluators, ReadableTrace
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.score import Verdict
    from otel_toolcall_eval.model.trace import Span, Trace

OWN_SCOPE = "otel_toolcall_eval"
"""Scope name of the telemetry that we create ourselves. It is never evaluated, or we would score our own scores."""


class Pipeline:
    """Assembly, extraction, binding and evaluation in a row. Owned by one thread, but for ``replace_criteria``.

    Attributes:
        on_decision: called with every decision, whether or not a report comes of it.
    """

    def __init__(
        self,
        *,
        reader: CallReader,
        evaluators: Evaluators,
        criteria: Iterable[CriteriaSet] = (),
        policy: CompletionPolicy | None = None,
        limits: BufferLimits | None = None,
        logs: LogCorrelator | None = None,
        stopwatch: Callable[[], int] = lambda: 0,
        bindings: BoundTraces | None = None,
        name_unbound: bool = True,
    ) -> None:
        """Put the stages together.

        Args:
            reader: reads tool calls.
            evaluators: by class of their criteria.
            criteria: sets in force until ``replace_criteria``.
            policy: waiting times; the sidecar's by default.
            limits: bounds; the sidecar's by default.
            logs: takes log records in; without it they are ignored.
            stopwatch: nanoseconds from any origin, to measure how long an evaluation takes; zero if nobody asks.
            bindings: criteria bound to trace IDs. With it, unbound traces stay in the buffer for the late window, since one of them may
                still be bound by ID.
            name_unbound: reports of unbound traces name their agent; finding it doubles the cost of such a trace.
        """
        self._reader = reader
        self._evaluators = evaluators
        self._binder = Binder(criteria)
        self._policy = policy or CompletionPolicy()
        root = self._policy.root
        kinds = SpanKinds(is_relevant=reader.is_relevant, is_root=root or by_parent, is_agent=reader.is_agent)
        self.traces = TraceBuffer(kinds=kinds, policy=policy, limits=limits)
        self.logs = logs or LogCorrelator()
        self._stopwatch = stopwatch
        self._name_unbound = name_unbound
        self._conversations = Conversations()
        self._bindings, self._binds_by_id = bindings or BoundTraces(), bindings is not None
        # Half of this is how long an ID is remembered at least, and a trace may be evaluated for as long as it may be open and revised.
        keep_ns = 2 * (self._policy.trace_timeout_ns + self._policy.late_span_window_ns)
        self._overloaded = DecisionCache(capacity=(limits or BufferLimits()).decisions, keep_ns=keep_ns)
        self._own_projection = reader.projection | Projection(keys=frozenset({*CONVERSATION_KEYS, *(key for key, _ in root.attributes)}))
        self.projection = self._own_projection | self._binder.projection
        self.counts, self.evaluated_spans = SpanCounts(), 0  # those of a trace that is evaluated again count again
        self._faults: list[Exception] = []
        self._batch, self._givens = 0, PriorVerdicts()
        self.on_decision: Callable[[Decision], None] | None = None

    @property
    def open_traces(self) -> int:
        """Return how many traces are open."""
        return len(self.traces)

    @property
    def buffered_bytes(self) -> int:
        """Return the estimated size of all open traces, and of the log records that wait for them."""
        return self.traces.size_bytes + self.logs.size_bytes

    @property
    def linked_traces(self) -> int:
        """Return how many decided traces had to do with another one."""
        return self._conversations.linked

    @property
    def criteria(self) -> tuple[CriteriaSet, ...]:
        """Return the criteria sets in force."""
        return self._binder.sets

    def replace_criteria(self, criteria: Iterable[CriteriaSet]) -> None:
        """Evaluate by these from the next trace on. May be called from any thread: one reference is swapped."""
        binder = Binder(criteria)
        self._binder = binder
        self.projection = self._own_projection | binder.projection

    def bind(self, trace_id: bytes, bound: BoundCriteria, *, now_ns: int) -> None:
        """Evaluate a trace by these criteria, in addition to what applies anyway.

        The trace may still come, be open, or have been evaluated within the late window: then it is evaluated once more.
        """
        self._bindings.bind(trace_id, bound)
        self.traces.reevaluate(trace_id, now_ns=now_ns)

    def add(
        self,
        spans: Iterable[Span],
        *,
        now_ns: int,
        transport: str,
        rejected: Mapping[str, int] | None = None,
        open_spans: Mapping[bytes, int] | None = None,
        evict: bool = True,
    ) -> AddResult:
        """Take in the spans of one request.

        Args:
            spans: what could be decoded.
            now_ns: monotonic time of arrival.
            transport: how they came; for the counts.
            rejected: how many spans of the same request could not be taken in, by reason (``SpanFault.reason``).
            open_spans: in process, how many local spans of each trace are still open.
            evict: False lets all stay that is open, whatever the bounds, until the next call.
        """
        foreign = [span for span in spans if span.scope.name != OWN_SCOPE]
        result = self.traces.add(foreign, now_ns=now_ns, open_spans=open_spans, evict=evict)
        self.counts = self.counts.plus(transport, result, rejected=rejected or {})
        return result

    def add_logs(self, records: Sequence[LogRecord], *, received: int, now_ns: int, transport: str) -> None:
        """Take in the log records of one request, which held ``received``; spans they say something of may come before or after."""
        self.logs.add(records, received=received, transport=transport, now_ns=now_ns)
        for trace_id in {record.trace_id for record in records if record.trace_id}:
            self.traces.reevaluate(trace_id, now_ns=now_ns, after_ns=self._policy.wait_after_root_ns)

    def shed(self, shed: SkippedRequest, *, now_ns: int) -> None:
        """Note what was passed on and will not be taken in. Its traces, open, evaluated or still to come, are in doubt: OVERLOAD."""
        for trace_id in shed.trace_ids:
            self._overloaded.add(trace_id, now_ns=now_ns)
        self.counts = self.counts.plus(shed.transport, AddResult(received=shed.spans, skipped=shed.spans), rejected=shed.rejected)
        if shed.records:
            self.logs.shed(received=shed.records, asked=shed.records_asked, transport=shed.transport)

    def next_due_ns(self) -> int | None:
        """Return a time before which no trace is due; None if none is open."""
        return self.traces.next_due_ns()

    def pop_due(self, *, now_ns: int, limit: int | None = None) -> list[TraceReport]:
        """Evaluate what is due now, about ``limit`` traces at most. One that is looked at again is reported only if a verdict changed."""
        self.logs.expire(now_ns=now_ns)
        return list(self._evaluate_all(self.traces.pop_due(now_ns=now_ns, limit=limit)))

    def drain(self, *, now_ns: int, trigger: Trigger = Trigger.SHUTDOWN) -> Iterator[TraceReport]:
        """Evaluate all that is open, one trace at a time, so that a long recording's reports need not all be held. Nothing is kept."""
        yield from self._evaluate_all(self.traces.drain(now_ns=now_ns, trigger=trigger))
        self.logs.clear()

    def waiting(self, *, now_ns: int, limit: int) -> OpenTracesSnapshot:
        """Return what is open, and what may be revised: why it waits, and until when; at most ``limit`` traces of each kind."""
        return self.traces.waiting(now_ns=now_ns, limit=limit)

    def take_faults(self) -> list[Exception]:
        """Return, once, what kept traces from being evaluated at all: faults of ours, each of which cost one trace its report."""
        faults, self._faults = self._faults, []
        return faults

    def restore(self, decision: Decision, trace: Trace, *, reemit: bool) -> TraceReport | None:
        """Restore a journaled decision on a trace that the buffer has just decided again.

        Args:
            decision: with what was said.
            trace: as it was then.
            reemit: the report may not have been delivered; make it again, by the criteria in force now.
        """
        self._bindings.of(trace)  # consumes the bindings: they were applied before the restart
        if (given := decision.given) is None:
            return None
        report = None
        if decision.reported and reemit:
            try:
                report = self.evaluate(
                    replace(trace, revision=given.revision, decided_after_ns=decision.decided_after_ns), bound=given.bound
                )
            except Exception as error:  # noqa: BLE001 - as in _evaluate_all
                self._faults.append(error)
            else:
                given = replace(given, said=verdict_keys(report))
        self._hold(trace, given)
        return report

    def _evaluate_all(self, traces: list[Trace]) -> Iterator[TraceReport]:
        self._batch += 1
        self.evaluated_spans += sum([len(trace.spans) for trace in traces])
        traces.reverse()
        while traces:
            trace = traces.pop()  # let go of at once: its spans are the most of what a recording weighs
            try:
                report = self._reevaluate(trace)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not cost the other traces their reports
                self._faults.append(error)
                self._note(trace, None)
            else:
                if report is not None:
                    yield report

    def _reevaluate(self, trace: Trace) -> TraceReport | None:
        """Evaluate a trace in the light of what was said of it before; None if nothing else is to be said now."""
        earlier = trace.note if isinstance(trace.note, PriorVerdict) else None
        bound = self._bindings.of(trace)
        revision = trace.revision if earlier is None else earlier.revision + 1
        bound = bound if earlier is None else earlier.bound.plus(bound)
        report = self.evaluate(trace if revision == trace.revision else replace(trace, revision=revision), bound=bound)
        given = self._givens.of(report, revision=revision, bound=bound)
        if earlier is not None and given.said == earlier.said:
            self.logs.decide(trace, unbound=report.unbound)
            self._note(trace, earlier)
            return None
        self._hold(trace, given)
        self._note(trace, given, reported=True, after_ns=report.decided_after_ns)
        return report

    def _hold(self, trace: Trace, given: PriorVerdict) -> None:
        """Keep what was said of a trace, or give it up if nothing evaluates it."""
        self.logs.decide(trace, unbound=not given.said)
        if not given.said and not self._binds_by_id:
            self.traces.release(trace.key)
        else:
            self.traces.attach(trace.key, given)

    def _note(self, trace: Trace, given: PriorVerdict | None, *, reported: bool = False, after_ns: int = 0) -> None:
        if self.on_decision is not None:
            self.on_decision(Decision.on(trace, given, batch=self._batch, reported=reported, after_ns=after_ns))

    def evaluate(self, trace: Trace, *, bound: BoundCriteria = NOTHING_BOUND) -> TraceReport:
        """Evaluate one trace by everything that is bound to it. Payloads of unbound traces are never looked at."""
        started = self._stopwatch()
        if len(self._overloaded) and self._overloaded.decided_ns(trace.trace_id) is not None:
            trace = replace(trace, doubts=(*trace.doubts, IncompletenessReason.OVERLOAD))
        survey = self._reader.survey(trace.spans)
        binding = self._binder.bind(trace, agent=lambda: survey.top_agent, bound=bound)
        extraction, failure = self._extract(trace, survey) if binding.sets else (Extraction(calls=()), None)
        doubts = tuple(dict.fromkeys((*trace.doubts, *extraction.doubts)))
        conversation = conversation_of(trace)
        if not trace.revision:
            self._conversations.note(trace, conversation)
        calls = FilteredCalls(extraction, doubts=doubts, failure=failure, clocks=clocks_of(trace.spans) if binding.sets else None)
        verdicts: list[Verdict] = []
        for criteria_set in binding.sets:
            verdicts += evaluate_criteria_set(self._evaluators, trace, criteria_set, calls)
        return TraceReport(
            trace_id=trace.trace_id,
            evaluated_span=trace.root,
            agent=survey.top_agent if binding.sets or self._name_unbound else None,
            trigger=trace.trigger,
            completeness=Completeness.PARTIAL if trace.doubts else Completeness.COMPLETE,
            doubts=doubts,
            revision=trace.revision,
            verdicts=tuple(verdicts),
            extraction=extraction,
            spans=trace.spans,
            unknown_criteria=binding.unknown,
            conversation_id=conversation,
            decided_after_ns=trace.decided_after_ns,
            evaluation_seconds=(self._stopwatch() - started) / 1e9,
        )

    def _extract(self, trace: Trace, survey: ReadableTrace) -> tuple[Extraction, EvaluatorFailure | None]:
        try:
            spans = self.logs.spans_of(trace)
            return (survey if spans is trace.spans else self._reader.survey(spans)).extract(), None
        except Exception as error:  # noqa: BLE001 - a bug of ours costs this trace its scores, and says so; no other trace
            return Extraction(calls=()), failure_of(error)
