"""Span events that are offered to whoever keeps roots, before they go on a span of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_toolcall_eval.exporters.events.events import EventsEmitter
from tests.exporters.reports import CANARY, END_UNIX_NS, report, verdict

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Attributes, SpanEvent


class Keeper:
    """Keeps roots, or has none."""

    def __init__(self, *, has_root: bool) -> None:
        self.has_root = has_root
        self.settled: list[tuple[Attributes, tuple[SpanEvent, ...]]] = []

    def settle(self, report: TraceReport, *, attributes: Attributes, events: tuple[SpanEvent, ...]) -> bool:
        del report
        self.settled.append((attributes, events))
        return self.has_root and bool(events)


def emitted(keeper: Keeper, *reports: TraceReport) -> int:
    """Emit, and return how many spans of ours came out."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    emitter = EventsEmitter(None, provider, roots=keeper, clock=lambda: 7)
    for each in reports:
        emitter.emit(each)
    provider.shutdown()
    return len(spans.get_finished_spans())


@pytest.mark.parametrize("has_root", [True, False])
def test_what_is_on_the_root_is_not_on_a_span_of_ours(has_root: bool) -> None:  # noqa: FBT001 - parametrized
    keeper = Keeper(has_root=has_root)
    assert emitted(keeper, report(verdict(), verdict())) == (0 if has_root else 1)
    ((attributes, events),) = keeper.settled
    assert [(event.name, event.time_unix_ns) for event in events] == [("gen_ai.evaluation.result", END_UNIX_NS)] * 2
    assert attributes["toolcall_eval.verdict_time_unix_ns"] == 7
    assert attributes["toolcall_eval.completeness"]
    assert CANARY not in repr(events)


def test_at_most_sixteen_verdicts_and_a_summary_go_on_a_root() -> None:
    keeper = Keeper(has_root=True)
    emitted(keeper, report(*(verdict() for _ in range(20))))
    events = keeper.settled[0][1]
    assert [event.name for event in events] == ["gen_ai.evaluation.result"] * 16 + ["toolcall_eval.omitted_results"]
    assert events[16].attributes["toolcall_eval.omitted"] == 4


def test_a_trace_that_nothing_judges_is_told_too() -> None:
    keeper = Keeper(has_root=True)
    assert emitted(keeper, report()) == 0
    assert keeper.settled == [({}, ())]


def test_roots_get_their_events_also_where_a_log_processor_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, provider = Keeper(has_root=True), LoggerProvider(shutdown_on_exit=False)
    emitter = EventsEmitter(provider, None, roots=keeper)
    monkeypatch.setattr("otel_toolcall_eval.exporters.events.events._emit_logs", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        emitter.emit(report(verdict()))
    assert len(keeper.settled[0][1]) == 1


def test_roots_get_their_events_where_no_span_of_ours_is_wanted() -> None:
    keeper = Keeper(has_root=True)
    EventsEmitter(None, None, roots=keeper).emit(report(verdict()))
    assert len(keeper.settled[0][1]) == 1
