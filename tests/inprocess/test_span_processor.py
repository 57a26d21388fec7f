"""The processor in a real tracer provider: it hands on what matters, and the application never notices it."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.baggage import set_baggage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Decision, Sampler, SamplingResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_toolcall_eval import expect_tool_calls
from otel_toolcall_eval.engine.work_items import BindRequest, SpanRequest
from otel_toolcall_eval.inprocess import hook_events, span_processor
from otel_toolcall_eval.inprocess.hook_events import TRANSPORT, OpenSpans
from otel_toolcall_eval.inprocess.pending_roots import PendingRoots
from otel_toolcall_eval.inprocess.sdk_spans import MAX_SHARED, SpanConverter
from otel_toolcall_eval.inprocess.span_processor import LOOK_SECONDS, SpanSource
from otel_toolcall_eval.inprocess.verdict_listeners import WatchedTraces
from otel_toolcall_eval.model.criteria import BoundCriteria
from otel_toolcall_eval.model.trace import Projection, Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import Span as SdkSpan
    from opentelemetry.trace import Link, SpanKind, Tracer, TraceState
    from opentelemetry.util.types import Attributes

    from otel_toolcall_eval.engine.work_items import WorkItem

PROJECTION = Projection(keys=frozenset({"tool.name", "input.value"}), event_names=frozenset({"exception"}))


@dataclass
class ListSink:
    """Comes for the news when it is asked what there is, as the judging thread does."""

    source: SpanSource | None = None
    looks: int = 0
    error: Exception | None = None
    stopped: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    taken: list[WorkItem] = field(default_factory=list)

    def wake(self) -> None:
        """Count, or raise what the test wants."""
        self.looks += 1
        if self.error:
            raise self.error

    def turn(self) -> int:
        """Take what there is, and return how much it was."""
        assert self.source
        count = self.source.mark()
        self.taken.extend(self.source.take(count))
        self.source.on_batch_done()
        return count

    @property
    def requests(self) -> list[SpanRequest]:
        self.turn()
        return [item for item in self.taken if isinstance(item, SpanRequest)]

    @property
    def spans(self) -> list[Span]:
        return [span for request in self.requests for span in request.spans]

    @property
    def open_spans(self) -> list[int]:
        """Return the numbers of open spans that came."""
        return [number for request in self.requests for number in (request.open_spans or {}).values()]

    @property
    def bound(self) -> list[tuple[bytes, BoundCriteria]]:
        self.turn()
        return [(item.trace_id, item.bound) for item in self.taken if isinstance(item, BindRequest)]

    def refuse(self, transport: str, reason: str) -> None:
        assert transport == TRANSPORT
        self.refused.append(reason)

    def flush(self, timeout_seconds: float) -> bool:
        """Raise what the test wants, else succeed."""
        if self.error:
            raise self.error
        return timeout_seconds > 0

    def shutdown(self, timeout_seconds: float) -> bool:
        self.stopped.append(timeout_seconds)
        if self.error:
            raise self.error
        return True


@pytest.fixture
def sink() -> ListSink:
    return ListSink()


@pytest.fixture
def source(sink: ListSink) -> SpanSource:
    return source_for(sink)


def source_for(sink: ListSink, roots: PendingRoots | None = None) -> SpanSource:
    sink.source = SpanSource(
        sink,
        projection=lambda: PROJECTION,
        shutdown_seconds=5.0,
        own_scope="ours",
        baggage_key="criteria",
        watched=WatchedTraces(lambda: ()),
        roots=roots,
    )
    return sink.source


@pytest.fixture
def provider(source: SpanSource, sink: ListSink) -> Iterator[TracerProvider]:
    made = TracerProvider(resource=Resource({"service.name": "svc"}))
    made.add_span_processor(source)
    yield made
    sink.error = None
    made.shutdown()


@pytest.fixture
def tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("agent", "1.2")


def test_ended_spans_arrive_with_their_tree_and_only_the_attributes_that_matter(sink: ListSink, tracer: Tracer) -> None:
    with tracer.start_as_current_span("root") as root, tracer.start_as_current_span("tool") as tool:
        tool.set_attributes({"tool.name": "search", "input.value": "{}", "noise": "x" * 1000, "list": (1, 2)})
    child, parent = sink.spans
    assert parent.span_id == root.get_span_context().span_id.to_bytes(8, "big")
    assert (child.parent_span_id, child.flags, child.is_root) == (parent.span_id, 0x100, False)
    assert (parent.parent_span_id, parent.is_root) == (None, True)
    assert child.attributes == {"tool.name": "search", "input.value": "{}"}
    assert child.trace_id == root.get_span_context().trace_id.to_bytes(16, "big")
    assert child.start_unix_ns <= child.end_unix_ns
    assert (child.scope.name, child.scope.version, child.resource.attributes["service.name"]) == ("agent", "1.2", "svc")
    assert child.resource is parent.resource
    assert sink.open_spans == [0]


def test_exception_event_and_status_are_kept(sink: ListSink, tracer: Tracer) -> None:
    message = "boom"
    with pytest.raises(ValueError, match="boom"), tracer.start_as_current_span("tool"):
        raise ValueError(message)
    (span,) = sink.spans
    assert (span.status, span.status_message) == (2, "ValueError: boom")
    assert [(event.name, event.attributes["exception.type"]) for event in span.events] == [("exception", "ValueError")]


def test_span_that_another_processor_hands_on_as_it_is_has_ended_too(sink: ListSink, source: SpanSource, tracer: Tracer) -> None:
    span = cast("SdkSpan", tracer.start_span("root"))
    span.end()
    for _ in range(2):  # not the readable copy that the SDK makes
        source.on_start(span)
        source.on_end(span)
    assert [found.name for found in sink.spans] == ["root"] * 3
    assert sink.open_spans[-1] == 0


def test_remote_parent_makes_a_root(sink: ListSink, tracer: Tracer) -> None:
    remote = SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1))
    with tracer.start_as_current_span("server", context=set_span_in_context(NonRecordingSpan(remote))):
        pass
    (span,) = sink.spans
    assert (span.flags, span.is_root) == (0x300, True)


def test_detached_child_keeps_the_trace_open(sink: ListSink, tracer: Tracer) -> None:
    with tracer.start_as_current_span("root"):
        child = tracer.start_span("background")
    assert sink.open_spans == [1]
    child.end()
    assert sink.open_spans == [1, 0]


def test_span_that_starts_after_the_root_ended_keeps_the_trace_open(sink: ListSink, tracer: Tracer) -> None:
    root = tracer.start_span("root")
    root.end()
    assert sink.open_spans == [0]
    tracer.start_span("late", context=set_span_in_context(root))
    assert sink.open_spans == [0, 1]


def test_unsampled_spans_are_not_seen(sink: ListSink) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF)
    provider.add_span_processor(source_for(sink))
    with provider.get_tracer("agent").start_as_current_span("root"):
        pass
    assert sink.spans == []


def test_own_spans_are_passed_over(sink: ListSink, provider: TracerProvider) -> None:
    with provider.get_tracer("ours").start_as_current_span("evaluate_tool_calls"):
        pass
    assert (sink.spans, sink.open_spans) == ([], [])


def test_more_news_than_may_wait_is_dropped_and_counted_and_its_trace_is_never_called_complete(
    sink: ListSink, source: SpanSource, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_processor, "MAX_QUEUED_EVENTS", span_processor.LOOK_AT + 2)
    with tracer.start_as_current_span("root"):
        for _ in range(span_processor.LOOK_AT):
            tracer.start_span("child").end()
    assert source.dropped == len(sink.refused) > 0
    assert set(sink.refused) == {"overloaded"}
    assert sink.open_spans[-1] > 0
    with tracer.start_as_current_span("next"):
        pass
    assert [span.name for span in sink.spans][-1] == "next"


def test_root_that_is_dropped_while_it_is_ending_is_counted_too(
    sink: ListSink, source: SpanSource, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_processor, "MAX_QUEUED_EVENTS", span_processor.LOOK_AT)
    roots = [cast("SdkSpan", tracer.start_span("root")) for _ in range(span_processor.LOOK_AT)]
    assert source.keep_ending(roots[0]) is False
    assert (source.dropped, sink.refused) == (1, ["overloaded"])
    assert sink.requests[-1].open_spans is not None
    assert sink.requests[-1].open_spans[roots[0].get_span_context().trace_id.to_bytes(16, "big")] == 2  # itself, and what was dropped
    assert source.keep_ending(roots[0]) is True
    sink.turn()
    source.shutdown()
    assert source.keep_ending(roots[1]) is False
    assert (source.dropped, sink.refused[-1]) == (2, "shutdown")


def test_hook_may_note_a_loss_while_the_judging_thread_takes_the_others(
    sink: ListSink, source: SpanSource, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_processor, "MAX_QUEUED_EVENTS", span_processor.LOOK_AT)
    roots = [tracer.start_span("root") for _ in range(span_processor.LOOK_AT)]
    for root in roots[:2]:
        root.end()
    start, later = OpenSpans.start, roots[2]

    def interrupted(self: OpenSpans, trace_id: int, span_id: int, *, sampled: bool) -> hook_events.LocalTrace:
        if later.is_recording():
            later.end()
        return start(self, trace_id, span_id, sampled=sampled)

    with monkeypatch.context() as patch:
        patch.setattr(OpenSpans, "start", interrupted)
        sink.turn()
    assert source.dropped == 3
    trace_id = later.get_span_context().trace_id.to_bytes(16, "big")
    counts = [(request.open_spans or {}).get(trace_id) for request in sink.requests]
    assert [number for number in counts if number is not None][-1] == 2  # itself, and what was dropped


def test_spans_that_wait_in_great_number_wait_converted(
    sink: ListSink, source: SpanSource, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_processor, "MAX_WHOLE", span_processor.LOOK_AT)
    whole: list[weakref.ref[ReadableSpan]] = []
    keep = source.on_end

    def on_end(span: ReadableSpan) -> None:
        whole.append(weakref.ref(span))
        keep(span)

    monkeypatch.setattr(source, "on_end", on_end)
    with tracer.start_as_current_span("root"):
        for _ in range(span_processor.LOOK_AT):
            tracer.start_span("child", attributes={"tool.name": "a", "noise": "x" * 10_000}).end()
    gc.collect()
    assert any(span() is None for span in whole)
    assert (len(sink.spans), sink.open_spans, source.dropped) == (span_processor.LOOK_AT + 1, [0], 0)


def test_judging_thread_is_asked_when_a_root_ends_or_much_has_gathered_and_not_for_each_span(
    sink: ListSink, source: SpanSource, tracer: Tracer
) -> None:
    with tracer.start_as_current_span("root") as root:
        assert (sink.looks, sink.turn(), source.seconds_to_wait()) == (1, 1, LOOK_SECONDS)
        for _ in range(10):
            tracer.start_span("child").end()
        assert sink.looks == 1
        sink.turn()
        detached = tracer.start_span("detached")
    assert sink.looks == 2
    sink.turn()
    detached.end()
    assert sink.looks == 3
    sink.turn()
    assert (sink.turn(), source.seconds_to_wait()) == (0, None)
    tracer.start_span("after a rest", context=set_span_in_context(root))
    assert sink.looks == 4
    sink.turn()
    for _ in range(span_processor.LOOK_AT):
        with tracer.start_as_current_span("root"):
            pass
    assert sink.looks == 5


def test_nothing_is_left_waiting_when_the_judging_thread_goes_to_rest(sink: ListSink, source: SpanSource, tracer: Tracer) -> None:
    assert source.seconds_to_wait() is None
    tracer.start_span("root")
    assert sink.looks == 1
    assert source.seconds_to_wait() == LOOK_SECONDS


def test_fault_of_ours_is_logged_once_and_never_reaches_the_application(
    sink: ListSink, source: SpanSource, tracer: Tracer, caplog: pytest.LogCaptureFixture
) -> None:
    sink.error = RuntimeError("ours")
    message = "the application's own"
    with (
        caplog.at_level(logging.ERROR),
        pytest.raises(KeyError, match="own"),
        tracer.start_as_current_span("root"),
        tracer.start_as_current_span("a"),
    ):
        raise KeyError(message)
    assert len(caplog.records) == 1
    assert source.dropped >= 1
    assert source.force_flush() is False
    source.shutdown()


def test_start_hook_never_raises(source: SpanSource) -> None:
    source.on_start(None)  # type: ignore[arg-type]
    assert source.dropped == 1


def test_spans_after_shutdown_are_dropped_and_shutdown_happens_once(sink: ListSink, source: SpanSource, tracer: Tracer) -> None:
    late = tracer.start_span("late")
    source.shutdown()
    source.shutdown()
    late.end()
    assert sink.stopped == [5.0]
    assert (sink.spans, source.dropped) == ([], 1)


def test_bindings_take_no_memory_after_shutdown_and_only_so_much_before(
    sink: ListSink, source: SpanSource, tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_processor, "MAX_QUEUED_EVENTS", 5)
    for number in range(7):
        source.bind(number.to_bytes(16, "big"), BoundCriteria(names=("a",)))
    assert (len(sink.bound), source.dropped, sink.refused) == (5, 2, ["overloaded"] * 2)
    source.shutdown()
    source.bind(bytes(16), BoundCriteria(names=("a",)))
    with expect_tool_calls("a") as expectation:
        tracer.start_span("root")
    assert (sink.turn(), source.dropped, sink.refused[-1]) == (0, 3, "shutdown")
    assert expectation.trace_ids == ()


def test_force_flush_passes_its_time_out_on(source: SpanSource) -> None:
    assert source.force_flush(1000) is True
    assert source.force_flush(0) is False


def test_span_without_a_context_is_passed_over(source: SpanSource, sink: ListSink) -> None:
    source.on_end(ReadableSpan(name="by hand"))
    assert sink.spans == []


def test_spans_that_end_in_many_threads_are_all_counted(sink: ListSink, tracer: Tracer) -> None:
    root = tracer.start_span("root")
    context = otel_trace.set_span_in_context(root)
    children = [tracer.start_span(f"child-{number}", context=context) for number in range(64)]
    ready = threading.Barrier(8)

    def end(part: int) -> None:
        ready.wait()
        for child in children[part::8]:
            child.end()

    threads = [threading.Thread(target=end, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sink.open_spans == [1]
    root.end()
    assert (sink.open_spans, len(sink.spans)) == ([1, 0], 65)


def test_recorded_span_that_is_not_sampled_is_a_step_of_a_trace_that_is(sink: ListSink, source: SpanSource) -> None:
    provider = TracerProvider(sampler=NotTools(), shutdown_on_exit=False)
    provider.add_span_processor(source)
    tracer = provider.get_tracer("agent")
    with tracer.start_as_current_span("root"), tracer.start_as_current_span("tool"):
        pass
    assert [span.name for span in sink.spans] == ["tool", "root"]
    with tracer.start_as_current_span("tool"):  # a trace of its own that nobody exports
        pass
    assert [span.name for span in sink.spans] == ["tool", "root"]


class NotTools(Sampler):
    """Only records tools."""

    def should_sample(  # noqa: PLR0917 - the SDK's signature
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        del parent_context, trace_id, kind, attributes, links, trace_state
        return SamplingResult(Decision.RECORD_ONLY if name == "tool" else Decision.RECORD_AND_SAMPLE)

    def get_description(self) -> str:
        return "not-tools"


def test_spans_that_never_end_are_forgotten_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_events, "MAX_TRACES", 3)
    spans = OpenSpans()
    for trace_id in range(1, 6):
        spans.start(trace_id, 1, sampled=True)
    assert [spans.count(trace_id) for trace_id in range(1, 6)] == [0, 0, 1, 1, 1]
    assert spans.end(1, 1) is False
    assert (spans.end(5, 7), spans.count(5), spans.end(5, 1), spans.count(5)) == (True, 1, True, 0)


@pytest.mark.parametrize(
    ("named", "names"),
    [
        pytest.param("a", ["a"], id="one"),
        pytest.param("a, b,", ["a", "b"], id="comma-list"),
        pytest.param(("a", "b"), ["a", "b"], id="list"),
        pytest.param(5, [], id="no-name"),
    ],
)
def test_baggage_names_the_criteria_of_a_trace_once(sink: ListSink, tracer: Tracer, named: object, names: list[str]) -> None:
    context = set_baggage("criteria", named)
    with tracer.start_as_current_span("root", context=context) as root:
        tracer.start_span("child", context=set_baggage("criteria", named, set_span_in_context(root))).end()
    assert sink.bound == [(root.get_span_context().trace_id.to_bytes(16, "big"), BoundCriteria(names=tuple(names)))]


def test_child_process_leaves_the_traces_of_its_parent_alone(sink: ListSink, source: SpanSource, tracer: Tracer) -> None:
    with tracer.start_as_current_span("of the parent"):
        source.restart_in_child()
        with tracer.start_as_current_span("part of it"):
            pass
    with tracer.start_as_current_span("own"):
        pass
    assert [span.name for span in sink.spans] == ["own"]


def test_scopes_and_resources_that_are_made_up_as_it_goes_are_not_kept() -> None:
    converter = SpanConverter()
    for number in range(2 * MAX_SHARED + 10):
        scope = InstrumentationScope(f"scope-{number}")
        converter.convert(ReadableSpan(name="x", resource=Resource({"n": number}), instrumentation_scope=scope), PROJECTION)
    assert len(converter._scopes) <= MAX_SHARED  # noqa: SLF001 - what is kept can't be seen otherwise
    assert len(converter._resources) <= MAX_SHARED  # noqa: SLF001


def test_held_root_of_which_the_judging_thread_has_the_start_alone_stays_held(sink: ListSink) -> None:
    # a turn begins between start and end of a root: when it is over, nothing of the trace is open, but the end has not been looked at
    passed_on: list[ReadableSpan] = []
    keeper = PendingRoots(
        passed_on.append,
        lambda span, _: span,
        is_open=lambda _: False,
        quiet=nullcontext,
        budget_seconds=0.0,
        max_seconds=60.0,
    )
    source = source_for(sink, keeper)
    span = cast("SdkSpan", TracerProvider(shutdown_on_exit=False).get_tracer("agent").start_span("root"))
    source.on_start(span)
    count = source.mark()
    span.end()
    ended = span._readable_span()  # noqa: SLF001 - what the SDK hands to on_end
    assert keeper.hold(ended)
    source.on_end(ended)
    list(source.take(count))
    source.on_batch_done()
    assert passed_on == []
    sink.turn()
    assert passed_on == [ended]


class Own(Mapping[str, str]):
    """A mapping that can do what a mapping has to, and can't be copied."""

    def __init__(self, **members: str) -> None:
        self._members = members

    def __getitem__(self, key: str) -> str:
        return self._members[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


@pytest.mark.parametrize("given", [Own(noise="x", **{"tool.name": "search"}), {"noise": "x", "tool.name": "search"}], ids=["own", "dict"])
def test_attributes_of_a_span_that_was_made_by_hand_are_read_too(given: Mapping[str, str]) -> None:
    found = SpanConverter().convert(ReadableSpan("tool", attributes=given), PROJECTION)
    assert found.attributes == {"tool.name": "search"}
    assert SpanConverter().convert(ReadableSpan("tool"), PROJECTION).attributes == {}


class Markup(str):
    """Text of somebody's own."""

    __slots__ = ()


def test_names_and_times_of_other_types_are_taken_as_what_they_mean() -> None:
    given = ReadableSpan(None, attributes={"tool.name": Markup("x" * 5_000)}, events=[Event("exception", timestamp=12.5)])  # type: ignore[arg-type]
    given._start_time, given._end_time = 10.7, 20.2  # type: ignore[assignment] # noqa: SLF001 - as time.time() * 1e9 gives them
    found = SpanConverter().convert(given, PROJECTION)
    assert (found.name, found.start_unix_ns, found.end_unix_ns) == ("None", 10, 20)
    assert [(type(event.time_unix_ns), event.time_unix_ns) for event in found.events] == [(int, 12)]
    assert found.size_bytes > 5_000


def test_span_that_can_not_be_read_leaves_its_trace_in_doubt(sink: ListSink, tracer: Tracer) -> None:
    with tracer.start_as_current_span("agent"):
        lost = tracer.start_span("execute_tool search")
        lost._instrumentation_scope = InstrumentationScope([])  # type: ignore[attr-defined, arg-type] # noqa: SLF001 - no name
        lost.end()
    assert [span.name for span in sink.spans] == ["agent"]
    assert sink.open_spans == [1]  # as if it had never ended: it must not count as a call that was not made
