"""The law: order, batching, repetition and transport of a trace's spans never change its verdict. Real receivers, virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias, cast

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_toolcall_eval.engine.pipeline import OWN_SCOPE, Pipeline
from otel_toolcall_eval.engine.worker import Worker
from otel_toolcall_eval.inprocess.span_processor import SpanSource
from otel_toolcall_eval.inprocess.verdict_listeners import WatchedTraces
from otel_toolcall_eval.model.criteria import CriteriaSet, Selector, SelectorScope
from otel_toolcall_eval.receivers.grpc.receiver import GrpcReceiver
from otel_toolcall_eval.receivers.http.receiver import HttpReceiver
from otel_toolcall_eval.receivers.intake import OtlpIntake
from otel_toolcall_eval.settings.criteria_check import build_check
from otel_toolcall_eval.settings.criteria_models import evaluators_by_criteria
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.fakes import SECOND_NS, ListEmitter, ManualClock, decoded
from tests.patience import PATIENCE_SECONDS
from tests.sidecar_process import post

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import Span as SdkSpan

    from otel_toolcall_eval.model.score import TraceReport

START_NS = 1_790_000_000_000_000_000
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

CHECKS = (
    build_check("tool-call-count", None, {"tool_calls_count": {"a": ["=", 2], "b": [">=", 1], "c": ["=", 0], "*": ["<=", 4]}}),
    build_check("tool-call-order", None, {"tool_calls_order": ["a", "b", "a", "c"]}),
    build_check("tool-call-args", {"subset": True}, {"tool_calls": [{"name": "a", "args": {"n": 1}}, {"name": "b", "args": {}}]}),
    build_check("tool-call-output", None, {"tool_outputs": [{"name": "a", "output": "1"}, {"name": "c", "output": {"n": 2}}]}),
)


@dataclass(frozen=True)
class Call:
    """A tool span to be: what is called with what, when it starts and how long it takes."""

    tool: str
    number: int
    start: int
    length: int

    @property
    def attributes(self) -> dict[str, str]:
        """Return the span's attributes in the guides' convention."""
        return {"tool.name": self.tool, "input.value": f'{{"n": {self.number}}}', "output.value": f'{{"content": {self.number}}}'}


Said: TypeAlias = "list[tuple[str, float | None, str, object]]"
Send: TypeAlias = Callable[[int, Sequence[Call], Sequence[Sequence[int]]], None]

calls_strategy = st.lists(st.builds(Call, st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 30), st.integers(0, 9)), max_size=7)


class Rig:
    """A worker under virtual time behind all receivers."""

    def __init__(self) -> None:
        """Start everything on ports of its own."""
        self.clock = ManualClock()
        self.emitter = ListEmitter()
        sets = [CriteriaSet(name="law", checks=CHECKS, version="1", selector=Selector(reach=SelectorScope.EVERY))]
        pipeline = Pipeline(reader=default_extractor(), evaluators=evaluators_by_criteria(), criteria=sets)
        self.worker = Worker(pipeline, [self.emitter], clock=self.clock)
        worker = self.worker
        intake = OtlpIntake(sink=worker, projection=lambda: pipeline.projection)
        self.grpc = GrpcReceiver(intake=intake, refused=worker.refuse)
        self.http = HttpReceiver(intake=intake, refused=worker.refuse)
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.source = SpanSource(
            self.worker,
            projection=lambda: pipeline.projection,
            shutdown_seconds=1.0,
            own_scope=OWN_SCOPE,
            baggage_key="x",
            watched=WatchedTraces(lambda: ()),
        )
        self.worker.attach(self.source)
        for part in (self.worker, self.grpc, self.http):
            part.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.grpc.port}")
        self.provider.add_span_processor(self.source)
        self.traces = 0

    def stop(self) -> None:
        self.channel.close()
        self.grpc.stop(grace_seconds=1.0)
        self.http.stop(grace_seconds=1.0)
        self.worker.shutdown(PATIENCE_SECONDS)

    def verdict(self, send: Send, calls: Sequence[Call], batches: Sequence[Sequence[int]]) -> Said:
        """Send a trace, let its quiet period pass, and return what was said of it."""
        self.traces += 1
        self.emitter.reports.clear()
        send(self.traces, calls, batches)
        assert self.worker.flush(PATIENCE_SECONDS)
        assert self.emitter.reports == []
        self.clock.ns += 10 * SECOND_NS
        self.worker.offer(decoded([]), transport="wake-up")
        assert self.worker.flush(PATIENCE_SECONDS)
        (report,) = self.emitter.reports
        self.clock.ns += 3600 * SECOND_NS
        return said(report)

    def over_grpc(self, trace: int, calls: Sequence[Call], batches: Sequence[Sequence[int]]) -> None:
        export = self.channel.unary_unary(EXPORT, request_serializer=bytes, response_deserializer=bytes)
        for batch in batches:
            export(protobuf(trace, calls, batch), timeout=PATIENCE_SECONDS)

    def over_http_protobuf(self, trace: int, calls: Sequence[Call], batches: Sequence[Sequence[int]]) -> None:
        self._post([protobuf(trace, calls, batch) for batch in batches], "application/x-protobuf")

    def over_http_json(self, trace: int, calls: Sequence[Call], batches: Sequence[Sequence[int]]) -> None:
        self._post([otlp_json(trace, calls, batch) for batch in batches], "application/json")

    def in_process(self, _trace: int, calls: Sequence[Call], batches: Sequence[Sequence[int]]) -> None:
        """End real spans in the given order; a repeated one is handed to the hook again."""
        tracer = self.provider.get_tracer("agent")
        root = tracer.start_span("root", start_time=START_NS)
        context = set_span_in_context(root)
        spans = [
            root,
            *(
                tracer.start_span(call.tool, context=context, attributes=call.attributes, start_time=START_NS + call.start)
                for call in calls
            ),
        ]
        ended: set[int] = set()
        for number in (number for batch in batches for number in batch):
            if number in ended:
                again = cast("SdkSpan", spans[number])
                self.source.on_start(again)
                self.source.on_end(again)
            else:
                ended.add(number)
                spans[number].end(end_time=START_NS + (100 if number == 0 else calls[number - 1].start + calls[number - 1].length))

    def _post(self, bodies: Sequence[bytes], content_type: str) -> None:
        for body in bodies:
            status, answer = post(f"127.0.0.1:{self.http.port}", body, content_type=content_type)
            assert status == 200, answer


def said(report: TraceReport) -> Said:
    """Return all of a report that a user could see and that does not name a span."""
    return [(v.evaluator, v.emitted_score, v.label.value, v.score and v.score.justification.details()) for v in report.verdicts]


def protobuf(trace: int, calls: Sequence[Call], batch: Sequence[int]) -> bytes:
    """Encode some spans of a trace: number 0 is the root, number n the n-th call."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in batch:
        span = ProtoSpan(trace_id=trace.to_bytes(16, "big"), span_id=(number + 1).to_bytes(8, "big"), flags=0x100)
        if number == 0:
            span.name, span.start_time_unix_nano, span.end_time_unix_nano = "root", START_NS, START_NS + 100
        else:
            call = calls[number - 1]
            span.parent_span_id, span.name = (1).to_bytes(8, "big"), call.tool
            span.start_time_unix_nano, span.end_time_unix_nano = START_NS + call.start, START_NS + call.start + call.length
            span.attributes.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in call.attributes.items())
        spans.append(span)
    return request.SerializeToString()


def otlp_json(trace: int, calls: Sequence[Call], batch: Sequence[int]) -> bytes:
    decoded = ExportTraceServiceRequest.FromString(protobuf(trace, calls, batch))
    spans = [
        {
            "traceId": span.trace_id.hex(),
            "spanId": span.span_id.hex().upper(),
            "parentSpanId": span.parent_span_id.hex(),
            "flags": span.flags,
            "name": span.name,
            "startTimeUnixNano": str(span.start_time_unix_nano),
            "endTimeUnixNano": span.end_time_unix_nano,
            "attributes": [{"key": a.key, "value": {"stringValue": a.value.string_value}} for a in span.attributes],
        }
        for span in decoded.resource_spans[0].scope_spans[0].spans
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@st.composite
def deliveries(draw: st.DrawFn, spans: int) -> list[list[int]]:
    """Draw an order of ``spans`` spans, some repeated, cut into requests."""
    order = draw(st.permutations([*range(spans), *draw(st.lists(st.integers(0, spans - 1), max_size=4))]))
    cuts = sorted({0, len(order), *draw(st.lists(st.integers(0, len(order)), max_size=3))})
    return [order[begin:end] for begin, end in pairwise(cuts)]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.stop()


@given(data=st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_delivery_and_transport_never_change_the_verdict(rig: Rig, data: st.DataObject) -> None:
    calls = data.draw(calls_strategy)
    # Equal start and end leave nothing but the order of IDs, and in process these are random: only there the order of two
    # different calls would be a matter of chance.
    distinct = sorted({(call.start, call.start + call.length): call for call in calls}.values(), key=lambda call: (call.start, call.length))
    plain = [list(range(len(distinct) + 1))]
    expected = rig.verdict(rig.over_grpc, distinct, plain)
    for send in (rig.over_grpc, rig.over_http_protobuf, rig.over_http_json, rig.in_process):
        assert rig.verdict(send, distinct, data.draw(deliveries(len(distinct) + 1))) == expected
