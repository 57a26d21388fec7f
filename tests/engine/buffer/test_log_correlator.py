"""What goes over the desk is counted, and costs nothing where there are no log records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.log_correlator import LogCorrelator
from otel_toolcall_eval.model.log_record import JoinedLogs, LogRecord
from otel_toolcall_eval.model.trace import Trace, Trigger
from tests.fakes import span

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from otel_toolcall_eval.model.trace import Span

ROOT = span(1)


class EveryJoiner:
    """Joins every record; one call is there."""

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def call_ids(self, spans: Sequence[Span]) -> Collection[str]:
        return ["call"] if spans else []

    def join(self, spans: Sequence[Span], records: Sequence[LogRecord], *, is_whole: bool = True) -> JoinedLogs:
        self.asked.append(is_whole)
        return JoinedLogs(spans=(*spans, *(span(9) for _ in records)), used=frozenset(range(len(records))))


def trace(unit: bytes | None = None) -> Trace:
    return Trace(trace_id=ROOT.trace_id, spans=(ROOT,), root=ROOT, trigger=Trigger.ROOT_SPAN, unit_span_id=unit)


def record(*, traced: bool = True) -> LogRecord:
    return LogRecord(
        trace_id=ROOT.trace_id if traced else None, span_id=None, event_name="e", attributes={"call_id": "call"}, size_bytes=10
    )


def counts(desk: LogCorrelator) -> dict[str, int]:
    return {" ".join([what, *(value for _, value in attributes)]): number for (what, attributes), number in desk.counts.items()}


def test_records_come_with_the_spans_of_their_trace_and_are_counted() -> None:
    desk = LogCorrelator(EveryJoiner())
    desk.add([record(), record(traced=False)], received=5, transport="grpc", now_ns=0)
    assert desk.size_bytes == 20
    assert len(desk.spans_of(trace())) == len(desk.spans_of(trace())) == 3
    assert counts(desk) == {"received grpc": 5, "ignored grpc": 3, "correlated": 2}
    desk.decide(trace(), unbound=False)
    desk.expire(now_ns=10**12)
    assert desk.spans_of(trace()) == (ROOT,)
    assert counts(desk) == {"received grpc": 5, "ignored grpc": 3, "correlated": 2, "dropped unmatched": 0}


def test_without_a_joiner_every_record_is_ignored() -> None:
    desk = LogCorrelator()
    desk.add([record()], received=1, transport="grpc", now_ns=0)
    assert desk.spans_of(trace()) == (ROOT,)
    assert counts(desk) == {"received grpc": 1, "ignored grpc": 1, "correlated": 0}


def test_records_of_what_nothing_judges_are_dropped() -> None:
    desk = LogCorrelator(EveryJoiner())
    desk.add([record()], received=1, transport="grpc", now_ns=0)
    desk.decide(trace(), unbound=True)
    assert counts(desk)["dropped unbound"] == 1


def test_a_part_of_a_trace_does_not_end_the_wait_of_the_others() -> None:
    joiner = EveryJoiner()
    desk = LogCorrelator(joiner)
    desk.add([record()], received=1, transport="grpc", now_ns=0)
    desk.spans_of(trace(unit=ROOT.span_id))
    desk.decide(trace(unit=ROOT.span_id), unbound=True)
    assert (joiner.asked, desk.size_bytes) == ([False], 10)
    desk.clear()
    assert desk.size_bytes == 0


def test_shed_records_are_counted_as_dropped_and_nothing_else_changes() -> None:
    desk = LogCorrelator(EveryJoiner())
    desk.shed(received=5, asked=2, transport="grpc")
    desk.shed(received=1, asked=0, transport="grpc")
    by_transport = (("transport", "grpc"),)
    assert {key: number for key, number in desk.counts.items() if number} == {
        ("received", by_transport): 6,
        ("ignored", by_transport): 4,
        ("dropped", (("reason", "overload"),)): 2,
    }
    assert desk.size_bytes == 0
