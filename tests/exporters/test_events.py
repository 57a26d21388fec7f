from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry._logs import NoOpLoggerProvider
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import NoOpTracerProvider

from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy, event_attributes
from otel_toolcall_eval.exporters.events.events import EventsEmitter
from otel_toolcall_eval.model.score import Label
from tests.exporters.reports import CANARY, END_UNIX_NS, SPAN_ID, TRACE_ID, evaluated_span, inconclusive, report, verdict
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.trace import ReadableSpan, Span

NOW_UNIX_NS = END_UNIX_NS + 10_000_000_000


class Emitted:
    """An emitter over the real SDK, and what came out."""

    def __init__(self, *, explain_values: ExplainValues = ExplainValues.OFF, evaluated_span_is_remote: bool = True) -> None:
        self._logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
        self._spans = InMemorySpanExporter()
        self.logger_provider = LoggerProvider(shutdown_on_exit=False)
        self.logger_provider.add_log_record_processor(SimpleLogRecordProcessor(self._logs))
        # As an application may have it: our spans must follow their parents.
        self.tracer_provider = TracerProvider(shutdown_on_exit=False, sampler=ParentBased(ALWAYS_OFF))
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.emitter = EventsEmitter(
            self.logger_provider,
            self.tracer_provider,
            explain=ExplanationPolicy(values=explain_values),
            evaluated_span_is_remote=evaluated_span_is_remote,
            clock=lambda: NOW_UNIX_NS,
        )

    @property
    def logs(self) -> Sequence[ReadableLogRecord]:
        return self._logs.get_finished_logs()

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        return self._spans.get_finished_spans()


@pytest.fixture
def emitted() -> Emitted:
    return Emitted()


def test_each_verdict_is_a_log_event_in_the_judged_span(emitted: Emitted) -> None:
    given = report(verdict(), inconclusive(criteria="other"))
    emitted.emitter.emit(given)
    assert len(emitted.logs) == 2
    for log, of in zip(emitted.logs, given.verdicts, strict=True):
        record = log.log_record
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id, record.span_id) == (int.from_bytes(TRACE_ID), int.from_bytes(SPAN_ID))
        assert record.trace_flags == 0x01
        assert (record.timestamp, record.observed_timestamp) == (NOW_UNIX_NS, NOW_UNIX_NS)
        assert dict(record.attributes or {}) == event_attributes(given, of)
        assert log.instrumentation_scope is not None
        assert log.instrumentation_scope.name == "otel_toolcall_eval"


def test_verdicts_are_events_on_one_span_of_ours_below_the_judged_span(emitted: Emitted) -> None:
    given = report(verdict(), inconclusive(criteria="other"))
    emitted.emitter.emit(given)
    (span,) = emitted.spans
    assert span.name == "evaluate_tool_calls"
    assert span.context is not None
    assert span.parent is not None
    assert (span.context.trace_id, span.parent.span_id) == (int.from_bytes(TRACE_ID), int.from_bytes(SPAN_ID))
    assert span.parent.is_remote
    assert span.instrumentation_scope is not None
    assert span.instrumentation_scope.name == "otel_toolcall_eval"
    assert [event.name for event in span.events] == ["gen_ai.evaluation.result"] * 2
    assert [dict(event.attributes or {}) for event in span.events] == [event_attributes(given, of) for of in given.verdicts]
    assert (span.attributes or {})["toolcall_eval.verdict_time_unix_ns"] == NOW_UNIX_NS


def test_our_span_never_makes_the_trace_longer(emitted: Emitted) -> None:
    emitted.emitter.emit(report(verdict()))
    (span,) = emitted.spans
    assert (span.start_time, span.end_time) == (END_UNIX_NS, END_UNIX_NS)
    assert {event.timestamp for event in span.events} == {END_UNIX_NS}


@pytest.mark.parametrize(
    ("end_unix_ns", "expected"),
    [
        pytest.param(0, 0, id="epoch"),
        pytest.param(-1, 0, id="before"),
        pytest.param(2**64 - 1, 2**63 - 1, id="beyond-what-backends-read"),
    ],
)
def test_impossible_times_are_bounded(emitted: Emitted, end_unix_ns: int, expected: int) -> None:
    emitted.emitter.emit(report(verdict(), span=evaluated_span(end_unix_ns=end_unix_ns)))
    (span,) = emitted.spans
    assert (span.start_time, span.end_time) == (expected, expected)


def test_seventeenth_verdict_goes_into_a_summary_on_the_span_and_still_is_a_log_event(emitted: Emitted) -> None:
    emitted.emitter.emit(report(*(verdict(Label.PASS, evaluator=f"e{number}") for number in range(40))))
    (span,) = emitted.spans
    assert len(span.events) == 17
    assert span.events[16].name == "toolcall_eval.omitted_results"
    assert len(emitted.logs) == 40


def test_unbound_trace_makes_no_events(emitted: Emitted) -> None:
    emitted.emitter.emit(report())
    assert not emitted.logs
    assert not emitted.spans


@pytest.mark.parametrize(
    "span", [pytest.param(None, id="no-span"), pytest.param(evaluated_span(trace_id=b"", span_id=b""), id="execution-without-ids")]
)
def test_without_a_judged_span_there_are_log_events_and_no_new_trace(emitted: Emitted, span: object) -> None:
    outer = TracerProvider(shutdown_on_exit=False).get_tracer("application").start_span("unrelated")
    with trace.use_span(outer, end_on_exit=True):
        emitted.emitter.emit(report(verdict(), span=span))  # type: ignore[arg-type]  # Span or None
    (log,) = emitted.logs
    assert (log.log_record.trace_id, log.log_record.span_id) == (0, 0)
    assert not emitted.spans


def test_context_of_the_emitting_thread_does_not_matter(emitted: Emitted) -> None:
    outer = TracerProvider(shutdown_on_exit=False).get_tracer("application").start_span("unrelated")
    with trace.use_span(outer, end_on_exit=True):
        emitted.emitter.emit(report(verdict()))
    assert emitted.logs[0].log_record.trace_id == int.from_bytes(TRACE_ID)
    assert emitted.spans[0].context is not None
    assert emitted.spans[0].context.trace_id == int.from_bytes(TRACE_ID)


def test_inside_the_agents_process_the_parent_is_local() -> None:
    emitted = Emitted(evaluated_span_is_remote=False)
    emitted.emitter.emit(report(verdict()))
    parent = emitted.spans[0].parent
    assert parent is not None
    assert not parent.is_remote


def test_revisions_are_emitted_as_such(emitted: Emitted) -> None:
    emitted.emitter.emit(report(verdict(), revision=2))
    assert (emitted.logs[0].log_record.attributes or {})["toolcall_eval.revision"] == 2
    assert (emitted.spans[0].attributes or {})["toolcall_eval.revision"] == 2


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param(ExplainValues.OFF, False, id="off"),
        pytest.param(ExplainValues.TRUNCATE, True, id="truncate"),
        pytest.param(ExplainValues.FULL, True, id="full"),
    ],
)
def test_values_leave_only_on_request(values: ExplainValues, shown: bool) -> None:  # noqa: FBT001 - a table's column
    emitted = Emitted(explain_values=values)
    emitted.emitter.emit(report(verdict(), inconclusive(criteria="other"), verdict(Label.INCONCLUSIVE, failed=True, criteria="third")))
    logs = "".join(log.to_json() for log in emitted.logs)
    spans = "".join(span.to_json() for span in emitted.spans)
    assert (CANARY in logs, CANARY in spans) == (shown, shown)


class Witness(SpanProcessor):
    """Notes whether instrumentation is suppressed while a span of ours starts and ends."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        del span, parent_context
        self.seen.append(otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))

    def on_end(self, span: ReadableSpan) -> None:
        del span
        self.seen.append(otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY))


def test_emitting_suppresses_instrumentation(emitted: Emitted) -> None:
    witness = Witness()
    emitted.tracer_provider.add_span_processor(witness)
    emitted.emitter.emit(report(verdict()))
    assert witness.seen == [True, True]


@pytest.mark.parametrize(
    ("logs", "spans"),
    [pytest.param(True, False, id="logs-only"), pytest.param(False, True, id="spans-only"), pytest.param(False, False, id="none")],
)
def test_forms_can_be_left_out(logs: bool, spans: bool) -> None:  # noqa: FBT001 - a table's columns
    emitted = Emitted()
    emitter = EventsEmitter(emitted.logger_provider if logs else None, emitted.tracer_provider if spans else None)
    emitter.emit(report(verdict()))
    assert (bool(emitted.logs), bool(emitted.spans)) == (logs, spans)
    assert emitter.flush(PATIENCE_SECONDS)


def test_providers_that_do_nothing_will_do() -> None:
    emitter = EventsEmitter(NoOpLoggerProvider(), NoOpTracerProvider())
    emitter.emit(report(verdict()))
    assert emitter.flush(0)
    emitter.shutdown(0)


def test_shutdown_leaves_the_callers_providers_running(emitted: Emitted) -> None:
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    emitted.emitter.emit(report(verdict()))
    assert len(emitted.logs) == len(emitted.spans) == 1


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
