"""Roots that wait: they leave with their verdict, and without one in any case, and no other span waits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.forwarding.delivery import Parcel
from otel_toolcall_eval.forwarding.held_roots import HeldRoot, HeldRoots, Leaving
from otel_toolcall_eval.model.trace import Projection, SpanEvent
from otel_toolcall_eval.wire import otlp_json, otlp_protobuf
from otel_toolcall_eval.wire.cut_roots import Additions
from otel_toolcall_eval.wire.replies import Encoding, Signal
from tests.fakes import SECOND_NS, ManualClock
from tests.wire.otlp_requests import attribute, numbered, request_of, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

PARENT = (1).to_bytes(8)
VERDICT = Additions(attributes={}, events=(SpanEvent(name="gen_ai.evaluation.result", time_unix_ns=1),))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def holder(clock: ManualClock, *, limit_bytes: int = 1 << 20, by_unit: bool = False) -> HeldRoots:
    return HeldRoots(limit_bytes=limit_bytes, longest_ns=90 * SECOND_NS, by_unit=by_unit, own_scope="ours", clock=clock.now_ns)


def cut(made: HeldRoots, *spans: ProtoSpan, encoding: Encoding = Encoding.PROTOBUF, scope: str = "") -> tuple[bytes, Sequence[HeldRoot]]:
    request = request_of(*spans, attributes=[attribute("service.name", "a")])
    request.resource_spans[0].scope_spans[0].scope.name = scope
    body = request.SerializeToString() if encoding is Encoding.PROTOBUF else to_json(request)
    decode = otlp_protobuf.decode_traces if encoding is Encoding.PROTOBUF else otlp_json.decode_traces
    left, roots = made.cut(Parcel(signal=Signal.TRACES, encoding=encoding, body=body), decode(body, Projection()).spans)
    return left.body, roots


def hold(made: HeldRoots, *spans: ProtoSpan) -> Sequence[Leaving]:
    _, roots = cut(made, *spans)
    return [*made.admit(roots), *made.commit(roots, judged=True)]


def shown(leaving: Sequence[Leaving]) -> list[tuple[str, int]]:
    """Return the names of the spans that leave, and how many events each has."""
    requests = [ExportTraceServiceRequest.FromString(each.parcel.body) for each in leaving]
    spans = [span for request in requests for block in request.resource_spans for group in block.scope_spans for span in group.spans]
    return [(span.name, len(span.events)) for span in spans]


def trace(number: int) -> bytes:
    return number.to_bytes(16)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_only_roots_wait_and_leave_with_the_verdict_on_them(clock: ManualClock, encoding: Encoding) -> None:
    made = holder(clock)
    remote, local = numbered(2, parent_span_id=PARENT, flags=0x300), numbered(3, parent_span_id=PARENT, flags=0x100)
    left, roots = cut(made, numbered(1), remote, local, numbered(4, parent_span_id=PARENT), encoding=encoding)
    decode = otlp_protobuf.decode_traces if encoding is Encoding.PROTOBUF else otlp_json.decode_traces
    assert [span.name for span in decode(left, Projection()).spans] == ["span 3", "span 4"]
    assert made.admit(roots) == []
    assert made.commit(roots, judged=True) == []
    attached, leaving = made.settle(trace(1), PARENT, VERDICT)
    assert attached
    assert all(each.parcel.encoding is encoding for each in leaving)
    events = [
        len(span.get("events", []))
        for each in leaving
        for block in (json.loads(each.parcel.body)["resourceSpans"] if encoding is Encoding.JSON else ())
        for group in block["scopeSpans"]
        for span in group["spans"]
    ]
    assert (events if encoding is Encoding.JSON else [number for _, number in shown(leaving)]) == [1, 0]
    assert made.counts == {"attached": 1, "no_verdict": 1}


@pytest.mark.parametrize("scope", ["", "ours"])
def test_nothing_waits_where_nothing_is_a_root_or_all_is_our_own(clock: ManualClock, scope: str) -> None:
    made = holder(clock)
    spans = [numbered(1)] if scope else [numbered(2, parent_span_id=PARENT), numbered(3, start_time_unix_nano=0)]
    body, roots = cut(made, *spans, scope=scope)
    assert roots == ()
    assert len(ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans) == len(spans)


def test_a_trace_that_nothing_judges_lets_its_roots_go(clock: ManualClock) -> None:
    made = holder(clock)
    hold(made, numbered(1), numbered(2))
    attached, leaving = made.settle(trace(1), PARENT, None)
    assert not attached
    assert shown(leaving) == [("span 1", 0), ("span 2", 0)]
    assert made.settle(trace(9), None, VERDICT) == (False, [])


def test_a_verdict_that_falls_before_the_request_is_taken_waits_for_it(clock: ManualClock) -> None:
    made = holder(clock)
    _, roots = cut(made, numbered(1))
    made.admit(roots)
    assert made.settle(trace(1), PARENT, VERDICT) == (True, [])
    assert shown(made.commit(roots, judged=True)) == [("span 1", 1)]


def test_a_root_that_comes_late_does_not_wait_and_one_that_comes_again_has_its_verdict(clock: ManualClock) -> None:
    made = holder(clock)
    hold(made, numbered(1))
    made.settle(trace(1), PARENT, VERDICT)
    assert shown(hold(made, numbered(1))) == [("span 1", 1)]  # sent again: the answer got lost
    assert shown(hold(made, numbered(5))) == [("span 5", 0)]
    assert made.settle(trace(1), PARENT, VERDICT) == (False, [])  # a revision
    assert shown(hold(made, numbered(1))) == [("span 1", 1)]
    assert made.settle(trace(2), PARENT, VERDICT)[0] is False  # judged without its root
    assert shown(hold(made, numbered(1, trace=2))) == [("span 1", 0)]


def test_where_agent_runs_are_judged_one_by_one_the_next_root_waits_again(clock: ManualClock) -> None:
    made = holder(clock, by_unit=True)
    hold(made, numbered(1))
    assert made.settle(trace(1), PARENT, VERDICT)[0]
    assert hold(made, numbered(2)) == []
    assert made.settle(trace(1), (2).to_bytes(8), VERDICT)[0]


def test_too_much_lets_the_oldest_go_and_everything_is_counted(clock: ManualClock) -> None:
    made = holder(clock, limit_bytes=2000)
    leaving = [each for number in range(1, 8) for each in hold(made, numbered(1, trace=number))]
    assert len(leaving) == 7 - 2000 // leaving[0].room_bytes
    assert made.counts == {"evicted": len(leaving)}
    assert made.settle(trace(1), PARENT, VERDICT)[0] is False
    assert made.settle(trace(7), PARENT, VERDICT)[0] is True


def test_a_verdict_that_does_not_come_is_not_waited_for(clock: ManualClock) -> None:
    made = holder(clock)
    hold(made, numbered(1))
    clock.ns = 60 * SECOND_NS
    hold(made, numbered(1, trace=2))
    assert made.expire() == []
    clock.ns = 90 * SECOND_NS
    assert shown(made.expire()) == [("span 1", 0)]
    assert shown(made.clear()) == [("span 1", 0)]
    assert made.counts == {"expired": 1, "shutdown": 1}


def test_what_is_refused_is_forgotten_and_what_is_shed_does_not_wait(clock: ManualClock) -> None:
    made = holder(clock)
    _, roots = cut(made, numbered(1))
    made.admit(roots)
    made.cancel(roots)
    _, roots = cut(made, numbered(1))
    made.admit(roots)
    assert shown(made.commit(roots, judged=False)) == [("span 1", 0)]
    assert made.clear() == []
    assert made.counts == {"overload": 1}


def test_a_request_whose_roots_would_multiply_it_goes_on_whole(clock: ManualClock) -> None:
    made = holder(clock)
    request = request_of(*(numbered(number) for number in range(1, 60)), attributes=[attribute("k", "v" * 100_000)])
    body = request.SerializeToString()
    spans = otlp_protobuf.decode_traces(body, Projection()).spans
    parcel = Parcel(signal=Signal.TRACES, encoding=Encoding.PROTOBUF, body=body)
    assert made.cut(parcel, spans) == (parcel, ())
    assert made.counts == {"evicted": 59}


def test_what_is_remembered_of_verdicts_is_bounded(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.forwarding.held_roots._SAID_TRACES", 2)
    made = holder(clock)
    for number in (1, 2, 3):
        made.settle(trace(number), PARENT, None)
    assert hold(made, numbered(1)) == []
    assert shown(hold(made, numbered(1, trace=2))) == [("span 1", 0)]
