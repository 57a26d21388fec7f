"""The wrapping form: the exported root carries its verdicts, all else is passed on as it is, and nothing is ever lost."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, SpanProcessor, SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags, set_span_in_context

from otel_toolcall_eval import ToolCallEvalSpanProcessor, expect_tool_calls
from otel_toolcall_eval.engine.pipeline import Pipeline
from otel_toolcall_eval.exporters.events.attributes import event_attributes
from otel_toolcall_eval.inprocess import build, pending_roots, span_processor, wrapping_hooks
from otel_toolcall_eval.inprocess.hook_events import HookEventReader
from otel_toolcall_eval.inprocess.span_processor import SpanSource
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from opentelemetry.context import Context
    from opentelemetry.sdk._logs import ReadWriteLogRecord
    from opentelemetry.sdk.trace import Span
    from opentelemetry.trace import Tracer

    from otel_toolcall_eval.exporters.events.attributes import EventAttributes, ExplanationPolicy
    from otel_toolcall_eval.model.score import TraceReport, Verdict

RESULT = "gen_ai.evaluation.result"


ONE_SEARCH = {"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", 1)}}}


class Following(SpanProcessor):
    """A next processor that keeps what it is told."""

    def __init__(self) -> None:
        self.started: list[Span] = []
        self.ended: list[ReadableSpan] = []
        self.threads: list[int] = []
        self.said: list[str] = []
        self.came = threading.Condition()
        self.error: Exception | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        del parent_context
        self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Keep, or raise what the test wants."""
        if self.error:
            raise self.error
        with self.came:
            self.ended.append(span)
            self.threads.append(threading.get_ident())
            self.came.notify_all()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        del timeout_millis
        self.said.append(f"flush after {len(self.ended)}")
        return True

    def shutdown(self) -> None:
        self.said.append(f"shutdown after {len(self.ended)}")

    def wait_for(self, count: int) -> list[ReadableSpan]:
        """Wait until so many spans have come."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.ended) >= count, PATIENCE_SECONDS)
            return list(self.ended)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A process in small."""

    provider: TracerProvider
    processor: ToolCallEvalSpanProcessor
    following: Following
    beside: InMemorySpanExporter
    logs: InMemoryLogRecordExporter
    logger_provider: LoggerProvider

    @property
    def tracer(self) -> Tracer:
        return self.provider.get_tracer("agent", "1.2")


def settings(tmp_path: Path, **completion: str) -> Path:
    file = tmp_path / "settings.yaml"
    file.write_text(json.dumps({"completion": completion}), encoding="utf-8")
    return file


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    made: list[TracerProvider] = []

    def build(*, limits: SpanLimits | None = None, **completion: str) -> Agent:
        following, beside = Following(), InMemorySpanExporter()
        logs = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK left it without types
        logger_provider = LoggerProvider(shutdown_on_exit=False)
        logger_provider.add_log_record_processor(SimpleLogRecordProcessor(logs))
        provider = TracerProvider(resource=Resource({"service.name": "svc"}), span_limits=limits, shutdown_on_exit=False)
        # a generous budget, since it is no matter of seconds here whether the verdict is there in time
        file = settings(tmp_path, **{"root_export_timeout": "5m", **completion})
        processor = ToolCallEvalSpanProcessor(next=following, settings_file=file, logger_provider=logger_provider, tracer_provider=provider)
        provider.add_span_processor(processor)
        provider.add_span_processor(SimpleSpanProcessor(beside))
        made.append(provider)
        return Agent(provider=provider, processor=processor, following=following, beside=beside, logs=logs, logger_provider=logger_provider)

    yield build
    for provider in made:
        provider.shutdown()


def own_events(span: ReadableSpan) -> list[str]:
    return [str((event.attributes or {})["gen_ai.evaluation.score.label"]) for event in span.events if event.name == RESULT]


def test_exported_root_carries_its_verdicts_and_no_span_of_ours_is_made(make: Callable[..., Agent]) -> None:
    # what is written in _on_ending vanishes; the root that the next processor gets has the event, and no warning is logged
    agent = make()
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("invoke_agent"):
        pass
    (root,) = agent.following.ended
    assert own_events(root) == ["fail"]
    attributes = dict(root.attributes or {})
    assert attributes["toolcall_eval.verdict_time_unix_ns"]
    assert {key: attributes[key] for key in attributes if "verdicts" in key or "score" in key} == {
        "toolcall_eval.verdicts.fail": 1,
        "toolcall_eval.verdicts.inconclusive": 0,
        "toolcall_eval.verdicts.pass": 0,
        "toolcall_eval.score.min": 0.0,
    }
    assert agent.processor.force_flush()
    assert len(agent.logs.get_finished_logs()) == 1
    assert [span.name for span in agent.beside.get_finished_spans()] == ["invoke_agent"]
    assert agent.beside.get_finished_spans()[0].events == ()
    assert agent.following.threads == [threading.get_ident()]


def test_what_is_said_of_a_verdict_is_made_once_for_log_event_and_root(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Verdict] = []

    def counted(report: TraceReport, verdict: Verdict, *, explain: ExplanationPolicy) -> EventAttributes:
        made.append(verdict)
        return event_attributes(report, verdict, explain=explain)

    monkeypatch.setattr("otel_toolcall_eval.exporters.events.events.event_attributes", counted)
    agent = make()
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("invoke_agent"):
        pass
    (root,) = agent.following.ended
    assert agent.processor.force_flush()
    (record,) = agent.logs.get_finished_logs()
    (event,) = root.events
    assert len(made) == 1
    assert dict(event.attributes or {}) == dict(record.log_record.attributes or {})


def test_every_other_span_is_passed_on_at_once_and_is_the_same(make: Callable[..., Agent]) -> None:
    agent = make()
    beside: list[ReadableSpan] = []

    class Beside(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            beside.append(span)

    agent.provider.add_span_processor(Beside())
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("root") as root:
        agent.tracer.start_span("child").end()
        assert len(agent.following.ended) == 1
        assert agent.following.ended[0] is beside[0]
    assert agent.following.started[0] is root
    assert [span.name for span in agent.following.ended] == ["child", "root"]


def test_root_that_nothing_judges_is_the_same_too(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.tracer.start_span("root").end()
    assert agent.following.ended[0].events == ()
    assert dict(agent.following.ended[0].attributes or {}) == {}


def test_copy_of_the_root_keeps_everything_and_exporters_read_it(make: Callable[..., Agent]) -> None:
    limits = SpanLimits(max_attributes=3, max_events=20, max_links=1)
    agent = make(limits=limits)
    remote = SpanContext(trace_id=7, span_id=9, is_remote=True, trace_flags=TraceFlags(1))
    link = SpanContext(trace_id=8, span_id=3, is_remote=True, trace_flags=TraceFlags(1))
    with expect_tool_calls(ONE_SEARCH):
        root = agent.tracer.start_span(
            "POST /run",
            context=set_span_in_context(NonRecordingSpan(remote)),
            kind=SpanKind.SERVER,
            links=[Link(link), Link(link, {"a": 1})],
            attributes={"a": 1, "b": "x", "c": (1, 2), "d": 4},
            start_time=5,
        )
        for number in range(25):
            root.add_event(f"e{number}", {"n": number}, timestamp=6)
        root.set_status(Status(StatusCode.ERROR, "no"))
        root.end(end_time=10)
    (plain,) = agent.beside.get_finished_spans()
    (copy,) = agent.following.ended
    assert isinstance(copy, ReadableSpan)
    for name in ("name", "context", "parent", "kind", "resource", "status", "start_time", "end_time", "instrumentation_scope", "links"):
        assert getattr(copy, name) == getattr(plain, name), name
    assert (copy.dropped_attributes, copy.dropped_events, copy.dropped_links) == (1, 5, 1)
    # at the limits, nothing of the user's is lost for ours
    assert dict(copy.attributes or {}) == dict(plain.attributes or {})
    assert [event.name for event in copy.events] == [event.name for event in plain.events]
    (encoded,) = encode_spans([copy]).resource_spans[0].scope_spans[0].spans
    (expected,) = encode_spans([plain]).resource_spans[0].scope_spans[0].spans
    assert encoded == expected
    assert json.loads(copy.to_json())["name"] == "POST /run"


@pytest.mark.parametrize(
    ("own", "ours", "summary"),
    [
        pytest.param(0, 16, True, id="no-event-of-the-user"),
        pytest.param(111, 16, True, id="just-enough-room"),
        pytest.param(118, 9, True, id="some-room"),
        pytest.param(127, 0, True, id="room-for-a-summary"),
        pytest.param(128, 0, False, id="no-room"),
    ],
)
def test_no_event_of_the_user_is_lost_for_ours(make: Callable[..., Agent], own: int, ours: int, *, summary: bool) -> None:
    # spans hold 128 events, and lose the oldest beyond
    agent = make()
    blocks = [expect_tool_calls(ONE_SEARCH, name=f"block-{number}") for number in range(20)]

    def run(left: Sequence[object]) -> None:
        if left:
            with blocks[len(left) - 1]:
                run(left[1:])
            return
        with agent.tracer.start_as_current_span("root") as root:
            for number in range(own):
                root.add_event(f"e{number}")

    run(blocks)
    (root,) = agent.following.ended
    names = [event.name for event in root.events]
    assert names[:own] == [f"e{number}" for number in range(own)]
    assert names[own:] == [RESULT] * ours + ["toolcall_eval.omitted_results"] * summary
    assert (root.attributes or {})["toolcall_eval.verdicts.fail"] == 20
    assert root.dropped_events == 0
    assert root.events[-1].timestamp == root.end_time or not names[own:]


def test_root_waits_for_what_it_left_running_and_then_carries_its_verdict(make: Callable[..., Agent]) -> None:
    agent = make()
    with expect_tool_calls(ONE_SEARCH):
        with agent.tracer.start_as_current_span("root"):
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"}
            tool = agent.tracer.start_span("execute_tool search", attributes=attributes)
        assert agent.following.ended == []
        tool.end()
    child, root = agent.following.wait_for(2)
    assert (child.name, root.name, own_events(root)) == ("execute_tool search", "root", ["pass"])


def test_thread_that_runs_an_event_loop_never_waits(make: Callable[..., Agent]) -> None:
    agent = make()

    async def run() -> None:
        with agent.tracer.start_as_current_span("root"):
            await asyncio.sleep(0)

    with expect_tool_calls(ONE_SEARCH):
        asyncio.run(run())
    (root,) = agent.following.wait_for(1)
    assert own_events(root) == ["fail"]
    assert agent.following.threads != [threading.get_ident()]


def test_without_a_budget_the_judging_thread_passes_the_root_on(make: Callable[..., Agent]) -> None:
    agent = make(root_export_timeout="0s")
    with expect_tool_calls(ONE_SEARCH):
        agent.tracer.start_span("root").end()
    (root,) = agent.following.wait_for(1)
    assert own_events(root) == ["fail"]
    assert agent.following.threads != [threading.get_ident()]


def held(agent: Agent) -> Span:
    """Leave a root behind that waits for its child."""
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("root"):
        return agent.tracer.start_span("child")  # type: ignore[return-value]  # the SDK's tracer makes the SDK's spans


def test_flush_lets_go_of_what_is_held_and_the_verdict_goes_on_a_span_of_ours(make: Callable[..., Agent]) -> None:
    agent = make()
    child = held(agent)
    assert agent.following.ended == []
    assert agent.processor.force_flush()
    assert [(span.name, own_events(span)) for span in agent.following.ended] == [("root", [])]
    assert agent.following.said == ["flush after 1"]
    child.end()
    spans = agent.following.wait_for(3)
    assert [(span.name, own_events(span)) for span in spans[1:]] == [("child", []), ("evaluate_tool_calls", ["fail"])]


def test_without_spans_of_ours_the_root_carries_its_verdicts_all_the_same(
    make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TOOLCALL_EVAL_EMIT_SPANS", "false")
    agent = make()
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("agent"):
        pass
    child = held(agent)
    assert agent.processor.force_flush()
    child.end()
    assert agent.processor.force_flush()
    assert [(span.name, own_events(span)) for span in agent.following.ended] == [("agent", ["fail"]), ("root", []), ("child", [])]
    assert len(agent.logs.get_finished_logs()) == 2


class Flushing(LogRecordProcessor):
    """Flushes a span processor while a verdict goes out, before it is on the root."""

    def __init__(self, processor: ToolCallEvalSpanProcessor) -> None:
        self.processor = processor

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        del log_record
        self.processor.force_flush(1)  # the evaluating thread is here, so this times out

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return timeout_millis >= 0


def test_flush_while_verdicts_go_out_leaves_them_on_a_span_of_ours(make: Callable[..., Agent]) -> None:
    agent = make()
    agent.logger_provider.add_log_record_processor(Flushing(agent.processor))
    with expect_tool_calls(ONE_SEARCH):
        agent.tracer.start_span("root").end()
    found = [(span.name, own_events(span)) for span in agent.following.wait_for(2)]
    assert sorted(found) == [("evaluate_tool_calls", ["fail"]), ("root", [])]


def test_shutdown_judges_then_lets_go_then_shuts_the_next_one_down(make: Callable[..., Agent]) -> None:
    agent = make()
    child = held(agent)
    agent.provider.shutdown()
    agent.processor.shutdown()
    assert [(span.name, own_events(span)) for span in agent.following.ended] == [("root", ["inconclusive"])]
    assert agent.following.said == ["shutdown after 1"]
    child.end()
    assert [span.name for span in agent.following.ended] == ["root", "child"]


def test_too_many_roots_are_not_held(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_roots, "MAX_ROOTS", 2)
    agent = make()
    children = [held(agent) for _ in range(3)]
    assert [own_events(span) for span in agent.following.ended] == [[]]
    for child in children:
        child.end()
    spans = agent.following.wait_for(7)
    assert sorted((span.name, len(own_events(span))) for span in spans) == [
        *[("child", 0)] * 3,
        ("evaluate_tool_calls", 1),
        ("root", 0),
        ("root", 1),
        ("root", 1),
    ]


@pytest.mark.parametrize("act", [pending_roots.PendingRoots.on_batch_done, pending_roots.PendingRoots.flush])
def test_roots_can_be_held_while_others_are_let_go(act: Callable[[pending_roots.PendingRoots], None]) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("agent")
    first, second, *later = [cast("SdkSpan", tracer.start_span(name)) for name in ("a", "b", "c", "d")]
    passed_on: list[str] = []

    def hand_on(span: ReadableSpan) -> None:
        passed_on.append(span.name)
        assert keeper.hold(later.pop()) is not None

    keeper = pending_roots.PendingRoots(
        hand_on, lambda span, _: span, is_open=lambda _: False, quiet=nullcontext, budget_seconds=0.0, max_seconds=PATIENCE_SECONDS
    )
    for span in (first, second):
        keeper.hold(span)
        keeper.taken(span)
    act(keeper)
    assert passed_on == ["a", "b"]


def test_a_root_that_is_held_lets_those_go_that_were_held_for_too_long() -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("agent")
    passed_on: list[str] = []
    keeper = pending_roots.PendingRoots(
        lambda span: passed_on.append(span.name),
        lambda span, _: span,
        is_open=lambda _: False,
        quiet=nullcontext,
        budget_seconds=0.0,
        max_seconds=0.0,
    )
    for name in ("a", "b", "new"):
        keeper.hold(cast("SdkSpan", tracer.start_span(name)))
    assert passed_on == ["a", "b"]


def test_root_is_not_held_longer_than_the_verdict_waits_for_open_spans(make: Callable[..., Agent]) -> None:
    agent = make(decision_wait_after_root_max="50ms")
    held(agent)
    (root,) = agent.following.wait_for(1)
    assert own_events(root) == ["inconclusive"]


def test_late_root_is_passed_on_as_it_is(make: Callable[..., Agent]) -> None:
    agent = make(idle_timeout="20ms")
    with expect_tool_calls(ONE_SEARCH) as expectation:
        root = agent.tracer.start_span("root")
        agent.tracer.start_span("child", context=set_span_in_context(root)).end()
    expectation.result(PATIENCE_SECONDS)  # judged without its root
    root.end()
    names = [span.name for span in agent.following.wait_for(3)]
    assert sorted(names[:3]) == ["child", "evaluate_tool_calls", "root"]


def test_fault_while_judging_costs_the_root_its_verdict_only(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make()

    def fail(*_: object, **__: object) -> None:
        message = "ours"
        raise RuntimeError(message)

    monkeypatch.setattr(Pipeline, "evaluate", fail)  # no trace can make it fail
    agent.tracer.start_span("root").end()
    assert [(span.name, span.events) for span in agent.following.wait_for(1)] == [("root", ())]


def test_fault_while_writing_the_verdicts_costs_the_root_its_verdict_only(
    make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make()
    monkeypatch.setattr(build, "with_verdicts", lambda *_, **__: 1 / 0)
    with caplog.at_level(logging.ERROR), expect_tool_calls(ONE_SEARCH):
        agent.tracer.start_span("root").end()
        agent.tracer.start_span("root").end()
    assert [span.name for span in agent.following.wait_for(2)] == ["root", "root"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_next_processor_that_fails_does_not_reach_the_application(make: Callable[..., Agent], caplog: pytest.LogCaptureFixture) -> None:
    agent = make()
    agent.following.error = RuntimeError("the next one's")
    message = "the application's own"
    with caplog.at_level(logging.ERROR), pytest.raises(ValueError, match="own"), agent.tracer.start_as_current_span("root"):
        raise ValueError(message)
    assert [record.getMessage() for record in caplog.records] == ["the next span processor failed; the application is not affected"]
    assert [span.name for span in agent.beside.get_finished_spans()] == ["root"]


def test_fault_of_ours_in_a_hook_costs_no_span(
    make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = make()
    message = "the application's own"
    for owner, name in ((SpanSource, "is_evaluated"), (pending_roots.PendingRoots, "hold")):  # no span can make them fail
        with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
            patch.setattr(owner, name, lambda *_, **__: 1 / 0)
            with pytest.raises(ValueError, match="own"), agent.tracer.start_as_current_span(name):
                raise ValueError(message)
    assert [span.name for span in agent.following.ended] == ["is_evaluated", "hold"]
    assert len(caplog.records) == 1


def test_root_that_can_not_be_taken_in_is_exported_all_the_same(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(span_processor, "LOOK_AT", 0)
        patch.setattr(span_processor, "MAX_QUEUED_EVENTS", 0)
        agent = make()
        agent.tracer.start_span("dropped").end()
    assert [span.name for span in agent.following.ended] == ["dropped"]
    late = agent.tracer.start_span("late")
    agent.processor.shutdown()
    late.end()
    assert [span.name for span in agent.following.ended] == ["dropped", "late"]


class Hanging(Following):
    """A next processor whose collector is dead."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        del timeout_millis
        return self.over.wait(PATIENCE_SECONDS)

    def shutdown(self) -> None:
        self.over.wait(PATIENCE_SECONDS)


def test_flush_and_shutdown_keep_their_time_outs_whatever_the_next_one_does(tmp_path: Path) -> None:
    following = Hanging()
    processor = ToolCallEvalSpanProcessor(next=following, settings_file=settings(tmp_path, shutdown_timeout="50ms"))
    assert processor.force_flush(50) is False
    processor.shutdown()
    following.over.set()


@pytest.fixture
def later_sdk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let spans be written to while they are ending, as the specification has it and a later SDK may."""
    if not hasattr(SynchronousMultiSpanProcessor, "_on_ending"):
        pytest.skip("this SDK tells no processor that a span is ending")

    def end(self: Span, end_time: int | None = None) -> None:
        vars(self)["pending_end"] = end_time or time.time_ns()
        self._span_processor._on_ending(self)  # noqa: SLF001 - this stands for the SDK
        original(self, vars(self)["pending_end"])

    original = SdkSpan.end
    monkeypatch.setattr(SdkSpan, "end", end)
    monkeypatch.setattr(SdkSpan, "end_time", property(lambda self: self._end_time or vars(self).get("pending_end")))
    monkeypatch.setattr(SynchronousMultiSpanProcessor, "_on_ending", once_each(SynchronousMultiSpanProcessor._on_ending))  # noqa: SLF001
    wrapping_hooks.endings_can_be_written.cache_clear()
    yield
    wrapping_hooks.endings_can_be_written.cache_clear()


def once_each(hook: Callable[[SynchronousMultiSpanProcessor, Span], None]) -> Callable[[SynchronousMultiSpanProcessor, Span], None]:
    """Leave out the call of the present SDK, which comes when the span is closed."""

    def on_ending(self: SynchronousMultiSpanProcessor, span: Span) -> None:
        if span.is_recording():
            hook(self, span)

    return on_ending


def test_this_sdk_lets_nobody_write_on_a_span_that_is_ending_and_finding_out_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    wrapping_hooks.endings_can_be_written.cache_clear()
    assert wrapping_hooks.endings_can_be_written() is False
    assert caplog.records == []


@pytest.mark.usefixtures("later_sdk")
def test_later_sdk_has_the_verdicts_written_on_the_root_itself(make: Callable[..., Agent]) -> None:
    assert wrapping_hooks.endings_can_be_written() is True
    agent = make()
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("root"):
        agent.tracer.start_span("child").end()
    child, root = agent.following.ended
    assert (child.name, own_events(root)) == ("child", ["fail"])
    assert [own_events(span) for span in agent.beside.get_finished_spans()] == [[], ["fail"]]
    assert (root.attributes or {})["toolcall_eval.verdicts.fail"] == 1
    assert agent.processor.force_flush()
    assert len(agent.following.ended) == 2


@pytest.mark.usefixtures("later_sdk")
def test_later_sdk_still_exports_a_copy_where_the_root_has_no_room_or_the_verdict_comes_later(make: Callable[..., Agent]) -> None:
    agent = make()
    with expect_tool_calls(ONE_SEARCH), agent.tracer.start_as_current_span("root") as full:
        for number in range(128):
            full.add_event(f"e{number}")
    (root,) = agent.following.ended
    assert (len(root.events), root.dropped_events) == (128, 0)
    assert (root.attributes or {})["toolcall_eval.verdicts.fail"] == 1
    assert (agent.beside.get_finished_spans()[0].attributes or {}) == {}
    child = held(agent)
    assert len(agent.following.ended) == 1
    child.end()
    assert [own_events(span) for span in agent.following.wait_for(3)[1:]] in ([[], ["fail"]], [["fail"], []])
    agent.tracer.start_span("nothing judges it").end()
    assert agent.following.wait_for(4)[3].events == ()


@pytest.mark.usefixtures("later_sdk")
def test_fault_of_ours_while_a_root_is_ending_costs_no_span(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    agent = make()
    places: list[tuple[object, str]] = [(SpanSource, "is_evaluated"), (HookEventReader, "convert"), (build, "write_verdicts")]
    for owner, name in places:  # no span can make them fail
        with monkeypatch.context() as patch, expect_tool_calls(ONE_SEARCH):
            patch.setattr(owner, name, lambda *_, **__: 1 / 0)
            agent.tracer.start_span(name).end()
    ended = {span.name: own_events(span) for span in agent.following.wait_for(4)}
    assert (len(agent.following.ended), ended) == (
        4,
        {"is_evaluated": [], "evaluate_tool_calls": ["fail"], "convert": [], "write_verdicts": ["fail"]},
    )


@pytest.mark.usefixtures("later_sdk")
def test_roots_whose_end_never_comes_are_forgotten(make: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapping_hooks, "MAX_ROOTS", 2)
    agent = make()

    class Raising(SpanProcessor):
        def _on_ending(self, span: Span) -> None:
            if span.name == "lost":
                raise KeyError(span.name)

    agent.provider.add_span_processor(Raising())
    lost = []
    for _ in range(5):
        span = agent.tracer.start_span("lost")
        lost.append(weakref.ref(span))
        with pytest.raises(KeyError):
            span.end()
        del span
    agent.tracer.start_span("root").end()
    assert [span.name for span in agent.following.wait_for(1)] == ["root"]
    assert agent.processor.force_flush()
    agent.following.started.clear()
    gc.collect()
    assert sum(span() is not None for span in lost) <= 2
    agent.processor.restart_in_child()
    gc.collect()
    assert [span() for span in lost] == [None] * 5
