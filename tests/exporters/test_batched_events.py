from __future__ import annotations

import gc
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given as drawn
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval.exporters.events import batched_events as module
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy
from otel_toolcall_eval.exporters.events.batched_events import Batch, BatchedEvents, span_id_of
from otel_toolcall_eval.exporters.events.events import EventsEmitter
from otel_toolcall_eval.model.score import ExpectationOutcome, Label, Outcome
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from otel_toolcall_eval.otlp.writing import Envelope
from tests.exporters.reports import BrokenJustification, FakeJustification, evaluated_span, inconclusive, report, score, verdict
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from otel_toolcall_eval.model.score import TraceReport, Verdict

NOW_UNIX_NS = 1_790_000_000_000_000_000
RESOURCE = {"service.name": "s", "telemetry.sdk.name": "opentelemetry"}

REPORTS = {
    "plain": report(verdict(given=score(0.75))),
    "pass": report(verdict(Label.PASS, given=score(1.0)), verdict(Label.FAIL, criteria="other", given=score(0.0))),
    "inconclusive": report(inconclusive(), verdict(Label.INCONCLUSIVE, failed=True, criteria="third")),
    "revision": report(verdict(doubts=(IncompletenessReason.ORPHAN, IncompletenessReason.NO_ROOT)), revision=2),
    "many": report(*(verdict(Label.PASS if number % 2 else Label.FAIL, criteria=f"c{number}") for number in range(40))),
    "conversation": replace(report(verdict()), conversation_id="thread-7"),
    "hostile": report(replace(verdict(criteria="\ud800", evaluator="\udfff" * 300), evaluation_id="f" * 32), agent="\ud83d"),
    "explanation-fails": report(verdict(given=score(justification=BrokenJustification()))),
    "no-span": report(verdict(), span=None),
    "late-clock": report(verdict(), span=evaluated_span(end_unix_ns=2**64 - 1)),
}


class EventSender:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.items = 0
        self.came = threading.Event()
        self.delivers = True

    def send(self, body: bytes, *, items: int) -> None:
        self.bodies.append(body)
        self.items += items
        self.came.set()

    def flush(self, timeout_seconds: float) -> bool:
        assert timeout_seconds >= 0
        return self.delivers

    def logs(self) -> object:
        return _comparable(MessageToDict(ExportLogsServiceRequest.FromString(b"".join(self.bodies))))

    def spans(self) -> object:
        return _comparable(MessageToDict(ExportTraceServiceRequest.FromString(b"".join(self.bodies))))


def _comparable(value: object) -> object:
    """Leave out what is no promise: the order of attributes, the IDs of our own spans, what is empty, and that we say they are sampled."""
    if isinstance(value, dict):
        cleaned = {key: _comparable(member) for key, member in value.items() if member != {}}
        if "parentSpanId" in cleaned:
            cleaned = {**cleaned, "spanId": None, "flags": int(str(cleaned["flags"])) & ~1}
        return cleaned
    if isinstance(value, list):
        members = [_comparable(member) for member in value]
        is_attributes = bool(members) and all(isinstance(member, dict) and "key" in member for member in members)
        return sorted(members, key=lambda member: str(member["key"])) if is_attributes else members  # type: ignore[index]
    return value


class Emitted:
    def __init__(
        self, *, logs: bool = True, spans: bool = True, values: ExplainValues = ExplainValues.OFF, delay_seconds: float = 3600
    ) -> None:
        self.logs, self.spans = EventSender(), EventSender()
        self.emitter = BatchedEvents(
            self.logs if logs else None,
            self.spans if spans else None,
            resource=RESOURCE,
            explain=ExplanationPolicy(values=values),
            clock=lambda: NOW_UNIX_NS,
            delay_seconds=delay_seconds,
        )


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before  # those of another test may have ended meanwhile


def by_the_sdk(given: TraceReport, values: ExplainValues) -> tuple[object, object]:
    logs, spans = InMemoryLogRecordExporter(), InMemorySpanExporter()  # type: ignore[no-untyped-call]
    resource = Resource(dict(RESOURCE))
    logger_provider, tracer_provider = (
        LoggerProvider(resource, shutdown_on_exit=False),
        TracerProvider(resource=resource, shutdown_on_exit=False),
    )
    logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
    tracer_provider.add_span_processor(SimpleSpanProcessor(spans))
    EventsEmitter(logger_provider, tracer_provider, explain=ExplanationPolicy(values=values), clock=lambda: NOW_UNIX_NS).emit(given)
    found = (
        _comparable(MessageToDict(encode_logs(logs.get_finished_logs()))),
        _comparable(MessageToDict(encode_spans(spans.get_finished_spans()))),
    )
    logger_provider.shutdown()
    tracer_provider.shutdown()
    return found


@pytest.mark.parametrize("values", list(ExplainValues))
@pytest.mark.parametrize("given", [pytest.param(given, id=name) for name, given in REPORTS.items()])
def test_what_leaves_is_what_the_sdk_would_send(given: TraceReport, values: ExplainValues) -> None:
    emitted = Emitted(values=values)
    emitted.emitter.emit(given)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    assert (emitted.logs.logs(), emitted.spans.spans()) == by_the_sdk(given, values)
    assert (emitted.logs.items, emitted.spans.items) == (len(given.verdicts), int(given.evaluated_span is not None))


def test_criteria_of_many_names_are_emitted_each_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    given = REPORTS["many"]
    emitted = Emitted()
    for _ in range(2):
        emitted.emitter.emit(given)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    expected, _ = by_the_sdk(given, ExplainValues.OFF)
    records = ExportLogsServiceRequest.FromString(b"".join(emitted.logs.bodies)).resource_logs[0].scope_logs[0].log_records
    assert len(records) == 80
    one = ExportLogsServiceRequest()
    one.CopyFrom(ExportLogsServiceRequest.FromString(b"".join(emitted.logs.bodies)))
    del one.resource_logs[0].scope_logs[0].log_records[40:]
    assert _comparable(MessageToDict(one)) == expected


def test_what_is_remembered_of_scores_and_spans_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    emitted = Emitted()
    for number in (0, 1, 2, 3, 1):
        given = report(verdict(given=score(number / 4)), agent=f"agent {number}")
        emitted.emitter.emit(given)
        assert emitted.emitter.flush(PATIENCE_SECONDS)
        assert (emitted.logs.logs(), emitted.spans.spans()) == by_the_sdk(given, ExplainValues.OFF)
        emitted.logs.bodies.clear()
        emitted.spans.bodies.clear()
    emitted.emitter.shutdown(PATIENCE_SECONDS)


def test_signal_without_an_outlet_is_left_out() -> None:
    for logs, spans in ((True, False), (False, True), (False, False)):
        emitted = Emitted(logs=logs, spans=spans)
        emitted.emitter.emit(REPORTS["plain"])
        emitted.emitter.shutdown(PATIENCE_SECONDS)
        assert (bool(emitted.logs.bodies), bool(emitted.spans.bodies)) == (logs, spans)


def test_unbound_trace_has_no_events() -> None:
    emitted = Emitted()
    emitted.emitter.emit(report())
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    assert (emitted.logs.bodies, emitted.spans.bodies) == ([], [])


def test_batch_leaves_when_it_is_large_or_old(monkeypatch: pytest.MonkeyPatch) -> None:
    emitted = Emitted(delay_seconds=0.01)
    emitted.emitter.emit(REPORTS["plain"])
    assert emitted.logs.came.wait(PATIENCE_SECONDS)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    for one in (module, module):
        monkeypatch.setattr(one, "TAKEN_BYTES", 1_000)
    large = Emitted()
    for _ in range(20):
        large.emitter.emit(REPORTS["plain"])
    assert 1 < len(large.logs.bodies) < 20
    assert all(len(body) > 1_000 for body in large.logs.bodies)  # each anew as large
    large.emitter.shutdown(PATIENCE_SECONDS)
    assert large.logs.items == 20


def test_what_is_put_in_is_taken_away_whole() -> None:
    outlet = EventSender()
    batch = Batch(outlet, Envelope(resource=RESOURCE, scope_name="s"))
    taker = threading.Thread(target=batch.send)

    class Number(int):
        """Lets another thread try to take away what has come, at the moment at which it is half put in."""

        def __radd__(self, other: int) -> int:
            taker.start()
            outlet.came.wait(0.1)  # which it must not
            return other + int(self)

    batch.add(b"field", Number(1))
    taker.join()
    batch.send()
    assert (outlet.items, len(outlet.bodies)) == (1, 1)
    assert b"field" in outlet.bodies[0]


def test_flush_sends_and_tells_whether_it_was_delivered() -> None:
    emitted = Emitted()
    emitted.emitter.emit(REPORTS["plain"])
    assert emitted.emitter.flush(PATIENCE_SECONDS)
    assert (emitted.logs.items, emitted.spans.items) == (1, 1)
    emitted.spans.delivers = False
    assert not emitted.emitter.flush(PATIENCE_SECONDS)
    emitted.emitter.shutdown(PATIENCE_SECONDS)


def test_span_that_is_emitted_again_has_the_same_id_which_follows_from_its_first_verdict() -> None:
    given = REPORTS["pass"]
    assert span_id_of(given) == span_id_of(given) != span_id_of(REPORTS["hostile"])
    assert span_id_of(given).hex() == given.verdicts[0].evaluation_id[:16]
    emitted = Emitted()
    emitted.emitter.emit(given)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    request = ExportTraceServiceRequest.FromString(b"".join(emitted.spans.bodies))
    assert [span.span_id for span in request.resource_spans[0].scope_spans[0].spans] == [span_id_of(given)]


MET = [tuple(ExpectationOutcome(tool=tool, outcome=Outcome.MATCHED) for tool in tools) for tools in (["a"], ["a"], ["a", "b"])]
"""The first two are equal, as those of criteria that were loaded anew."""

TEXTS = {id(outcomes): f"{number} says the same whenever it is met" for number, outcomes in enumerate(MET)}


def _judged(label: Label, value: float, criteria: str, outcomes: int, doubts: tuple[IncompletenessReason, ...]) -> Verdict:
    is_met = value >= 1.0
    text = TEXTS[id(MET[outcomes])] if is_met else f"{value} of them"
    given = replace(score(value, justification=FakeJustification(line=text)), outcomes=MET[outcomes] if is_met else ())
    return verdict(label, criteria=criteria, given=given, doubts=doubts, failed=label is Label.INCONCLUSIVE and not doubts)


JUDGED = st.builds(
    _judged,
    st.sampled_from([Label.PASS, *Label]),
    st.sampled_from([1.0, 1.0, 0.5]),
    st.sampled_from(["weather", "other"]),
    st.sampled_from(range(len(MET))),
    st.sampled_from([(), (), (IncompletenessReason.ORPHAN,)]),
)
SEEN = st.builds(
    lambda verdicts, agent, trigger, revision, conversation: replace(
        report(*verdicts, agent=agent, trigger=trigger, revision=revision), conversation_id=conversation
    ),
    st.lists(JUDGED, min_size=1, max_size=3),
    st.sampled_from([None, "a", "b" * 300]),
    st.sampled_from([Trigger.ROOT_SPAN, Trigger.EVICTION]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([None, None, "thread-7", "\ud800" * 300]),
)


@drawn(st.lists(SEEN, max_size=6), st.sampled_from(ExplainValues), st.sampled_from([2, 5_000]))
def test_emitter_that_has_seen_much_says_what_fresh_ones_do(reports: list[TraceReport], values: ExplainValues, bound: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_REMEMBERED", bound)
        seasoned, fresh = Emitted(values=values), [Emitted(values=values) for _ in reports]
        for one, emitted in zip(reports, fresh, strict=True):
            seasoned.emitter.emit(one)
            emitted.emitter.emit(one)
            for each in (seasoned, emitted):
                assert each.emitter.flush(PATIENCE_SECONDS)
            assert (seasoned.logs.bodies[-1], seasoned.spans.bodies[-1]) == (emitted.logs.bodies[-1], emitted.spans.bodies[-1])
        for each in (seasoned, *fresh):
            each.emitter.shutdown(PATIENCE_SECONDS)


def test_what_is_remembered_of_verdicts_that_are_met_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    emitted = Emitted()
    before = _remembered()
    for number in range(20):
        emitted.emitter.emit(report(_judged(Label.PASS, 1.0, f"c{number}", 0, ())))
        assert 0 < _remembered() - before <= 3
    emitted.emitter.shutdown(PATIENCE_SECONDS)


def _remembered() -> int:
    return sum(type(one).__name__ == "_EncodedVerdict" for one in gc.get_objects())


def test_report_that_is_larger_than_a_request_is_parted(monkeypatch: pytest.MonkeyPatch) -> None:
    given = REPORTS["many"]
    monkeypatch.setattr(module, "TAKEN_BYTES", 4_000)
    monkeypatch.setattr(module, "TAKEN_BYTES", 4_000)
    emitted = Emitted()
    emitted.emitter.emit(given)
    emitted.emitter.shutdown(PATIENCE_SECONDS)
    assert len(emitted.logs.bodies) > 2
    assert all(len(body) < 5_000 for body in emitted.logs.bodies)
    records = [
        record
        for body in emitted.logs.bodies
        for record in ExportLogsServiceRequest.FromString(body).resource_logs[0].scope_logs[0].log_records
    ]
    ids = [pair.value.string_value for record in records for pair in record.attributes if pair.key == "toolcall_eval.id"]
    assert ids == [each.evaluation_id for each in given.verdicts]
    assert emitted.logs.items == len(given.verdicts)
