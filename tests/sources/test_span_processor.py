"""The processor in a real tracer provider: it hands on what matters, and the application never notices it."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace as otel_trace
from opentelemetry.baggage import set_baggage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_toolcall_eval.binding import Bound
from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.sources.sdk_spans import MAX_SHARED, SpanConverter
from otel_toolcall_eval.sources.span_processor import TRANSPORT, SpanSource
from otel_toolcall_eval.sources.watching import WatchedTraces

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opentelemetry.trace import Tracer

    from otel_toolcall_eval.model.trace import Span

PROJECTION = Projection(keys=frozenset({"tool.name", "input.value"}), event_names=frozenset({"exception"}))


@dataclass
class ListSink:
    """Keeps what it is offered."""

    spans: list[Span] = field(default_factory=list)
    open_spans: list[int] = field(default_factory=list)
    error: Exception | None = None
    stopped: list[float] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    bound: list[tuple[bytes, Bound]] = field(default_factory=list)

    def offer_spans(self, spans: Sequence[Span], *, transport: str, open_spans: Mapping[bytes, int] | None = None) -> None:
        """Keep, or raise what the test wants."""
        assert transport == TRANSPORT
        if self.error:
            raise self.error
        self.spans.extend(spans)
        self.open_spans.extend((open_spans or {}).values())

    def bind(self, trace_id: bytes, bound: Bound) -> None:
        """Keep."""
        self.bound.append((trace_id, bound))

    def refuse(self, transport: str, reason: str) -> None:
        """Count."""
        assert transport == TRANSPORT
        self.refused.append(reason)

    def flush(self, timeout_seconds: float) -> bool:
        """Raise what the test wants, else succeed."""
        if self.error:
            raise self.error
        return timeout_seconds > 0

    def shutdown(self, timeout_seconds: float) -> bool:
        """Remember the time-out."""
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


def source_for(sink: ListSink) -> SpanSource:
    return SpanSource(
        sink,
        projection=lambda: PROJECTION,
        shutdown_seconds=5.0,
        own_scope="ours",
        baggage_key="criteria",
        watched=WatchedTraces(lambda: ()),
    )


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
    assert (child.parent_span_id, child.parent_is_remote, child.is_root) == (parent.span_id, False, False)
    assert (parent.parent_span_id, parent.is_root) == (None, True)
    assert child.attributes == {"tool.name": "search", "input.value": "{}"}
    assert child.trace_id == root.get_span_context().trace_id.to_bytes(16, "big")
    assert child.start_unix_ns <= child.end_unix_ns
    assert (child.scope.name, child.scope.version, child.resource.attributes["service.name"]) == ("agent", "1.2", "svc")
    assert child.resource is parent.resource
    assert sink.open_spans == [1, 0]


def test_exception_event_and_status_are_kept(sink: ListSink, tracer: Tracer) -> None:
    message = "boom"
    with pytest.raises(ValueError, match="boom"), tracer.start_as_current_span("tool"):
        raise ValueError(message)
    (span,) = sink.spans
    assert (span.status, span.status_message) == (2, "ValueError: boom")
    assert [(event.name, event.attributes["exception.type"]) for event in span.events] == [("exception", "ValueError")]


def test_remote_parent_makes_a_root(sink: ListSink, tracer: Tracer) -> None:
    remote = SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1))
    with tracer.start_as_current_span("server", context=set_span_in_context(NonRecordingSpan(remote))):
        pass
    (span,) = sink.spans
    assert (span.parent_is_remote, span.is_root) == (True, True)


def test_detached_child_keeps_the_trace_open(sink: ListSink, tracer: Tracer) -> None:
    with tracer.start_as_current_span("root"):
        child = tracer.start_span("background")
    assert sink.open_spans == [1]
    child.end()
    assert sink.open_spans == [1, 0]


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


def test_full_queue_drops_and_counts_and_does_not_raise(sink: ListSink, source: SpanSource, tracer: Tracer) -> None:
    sink.error = OverloadedError(where="test", what="full", fix="wait")
    with tracer.start_as_current_span("root"):
        pass
    assert source.dropped == 1


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
    assert source.dropped == 2
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


def test_force_flush_passes_its_time_out_on(source: SpanSource) -> None:
    assert source.force_flush(1000) is True
    assert source.force_flush(0) is False


def test_span_without_a_context_is_passed_over(source: SpanSource, sink: ListSink) -> None:
    source.on_end(ReadableSpan(name="by hand"))
    assert sink.spans == []


def test_last_word_on_open_spans_is_the_newest_whatever_the_threads_do(sink: ListSink, tracer: Tracer) -> None:
    # a stale number would make the trace wait for a span that ended long ago
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
    root.end()
    assert sink.open_spans == list(range(64, -1, -1))


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
    assert sink.bound == [(root.get_span_context().trace_id.to_bytes(16, "big"), Bound(names=tuple(names)))]


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
