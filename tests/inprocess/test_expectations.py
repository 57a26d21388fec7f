"""``expect_tool_calls``: results in code, whatever way the agent runs."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
import weakref
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest
from opentelemetry import context as otel_context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import set_span_in_context

from otel_toolcall_eval import (
    CriteriaError,
    Expectation,
    ExpectationError,
    ExpectationTimeoutError,
    Label,
    ToolCallEvalSpanProcessor,
    expect_tool_calls,
)
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from otel_toolcall_eval.inprocess import verdict_listeners
from otel_toolcall_eval.model.criteria import Check, CountCriteria, CountExpectation, CriteriaSet, Operator, OrderCriteria
from tests.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from opentelemetry.trace import Tracer

ONE_SEARCH = {"ToolCallCountEvaluator": {"tool_calls_count": {"search": ("=", 1)}}}
COUNT = CountCriteria(expectations=(CountExpectation(tool="search", operator=Operator.EQUAL, count=1),))


@pytest.fixture
def provider() -> Iterator[TracerProvider]:
    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(ToolCallEvalSpanProcessor(EVALUATIONS, tracer_provider=made))
    yield made
    made.shutdown()


@pytest.fixture
def tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("agent")


def call(tracer: Tracer, tool: str = "search") -> None:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
        pass


def run(tracer: Tracer, *tools: str) -> None:
    with tracer.start_as_current_span("invoke_agent"):
        for tool in tools:
            call(tracer, tool)


def labels(expectation: Expectation) -> list[dict[str, str]]:
    return [{name: result.label.value for name, result in found.items()} for found in expectation.results(PATIENCE_SECONDS)]


def test_result_is_what_the_evaluator_says_of_the_trace_inside(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(tracer, "search", "search", "fetch")
    result = expectation.result(PATIENCE_SECONDS)["ToolCallCountEvaluator"]
    assert (result.evaluator, result.score, result.label) == ("ToolCallCountEvaluator", 0.0, Label.FAIL)
    assert (result.score_range, result.doubts) == ((0.0, 0.0), ())
    assert "search" in result.explanation
    assert result.details.details()


@pytest.mark.parametrize(
    ("criteria", "names"),
    [
        pytest.param(ONE_SEARCH, ["ToolCallCountEvaluator"], id="guides-form"),
        pytest.param({"tool-call-count": ONE_SEARCH["ToolCallCountEvaluator"]}, ["tool-call-count"], id="guides-form-by-id"),
        pytest.param(COUNT, ["ToolCallCountEvaluator"], id="criteria-of-one-evaluator"),
        pytest.param([COUNT, OrderCriteria(expected=("search",))], ["ToolCallCountEvaluator", "ToolCallOrderEvaluator"], id="several"),
        pytest.param(Check(evaluator="mine", evaluator_id="tool-call-count", criteria=COUNT), ["mine"], id="check"),
        pytest.param(
            CriteriaSet(name="x", checks=(Check(evaluator="mine", evaluator_id="tool-call-count", criteria=COUNT),)), ["mine"], id="set"
        ),
    ],
)
def test_criteria_come_in_several_forms(tracer: Tracer, criteria: object, names: list[str]) -> None:
    with expect_tool_calls(criteria) as expectation:  # type: ignore[arg-type]  # a table of them has no narrower type
        run(tracer, "search")
    assert labels(expectation) == [dict.fromkeys(names, "pass")]


def test_configuration_holds(tracer: Tracer) -> None:
    two = {"tool_calls_count": {"search": ("=", 1), "fetch": ("=", 1)}}
    configured = expect_tool_calls({"ToolCallCountEvaluator": two}, config={"ToolCallCountEvaluator": {"strict": True}})
    with configured as strict, expect_tool_calls({"ToolCallCountEvaluator": two}) as lenient:
        run(tracer, "search")
    assert strict.result(PATIENCE_SECONDS)["ToolCallCountEvaluator"].score == 0.0
    assert lenient.result(PATIENCE_SECONDS)["ToolCallCountEvaluator"].score == 0.5


def test_names_stand_for_what_the_processor_has_loaded(tracer: Tracer) -> None:
    evaluators = [f"ToolCall{kind}Evaluator" for kind in ("Count", "Order", "Args", "Output")]
    with expect_tool_calls("basic_weather") as one:
        run(tracer, "search")
    assert sorted(one.result(PATIENCE_SECONDS)) == sorted(evaluators)
    with expect_tool_calls(["basic_weather", "tokyo_forecast"]) as two:
        run(tracer, "search")
    expected = [f"{name}: {evaluator}" for name in ("basic_weather", "tokyo_forecast") for evaluator in evaluators]
    assert sorted(two.result(PATIENCE_SECONDS)) == sorted(expected)


def test_name_that_is_not_loaded_is_an_error(tracer: Tracer) -> None:
    with expect_tool_calls("basic_wether") as expectation:
        run(tracer, "search")
    with pytest.raises(ExpectationError, match=r"no criteria are called 'basic_wether'; use one of .*basic_weather"):
        expectation.result(PATIENCE_SECONDS)


def test_other_criteria_judge_the_trace_as_they_would_but_are_no_part_of_the_result(tracer: Tracer) -> None:
    with (
        expect_tool_calls(ONE_SEARCH) as expectation,
        tracer.start_as_current_span("a", attributes={"toolcall_eval.criteria": "basic_weather"}),
    ):
        call(tracer)
    assert list(expectation.result(PATIENCE_SECONDS)) == ["ToolCallCountEvaluator"]


def test_every_trace_inside_has_its_result(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(tracer, "search")
        run(tracer)
    assert labels(expectation) == [{"ToolCallCountEvaluator": "pass"}, {"ToolCallCountEvaluator": "fail"}]
    assert len(expectation.trace_ids) == 2
    with pytest.raises(ExpectationError, match=r"2 traces ran inside: [0-9a-f]{32}, .*; call results\(\)"):
        expectation.result(PATIENCE_SECONDS)


def test_block_around_a_server_does_not_keep_the_reports_of_all_its_traces(tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("otel_toolcall_eval.inprocess.expectations.MAX_WATCHED_TRACES", 2)
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(tracer, "search")
        run(tracer)
        assert labels(expectation) == [{"ToolCallCountEvaluator": "pass"}, {"ToolCallCountEvaluator": "fail"}]
        run(tracer)
    assert len(expectation.trace_ids) == 2
    with pytest.raises(ExpectationError, match=r"more than 2 traces ran inside.*; put a block around each"):
        expectation.results(PATIENCE_SECONDS)


def test_nested_blocks_have_each_their_own_and_what_is_outside_counts_for_none(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as outer:
        run(tracer, "search")
        with expect_tool_calls(ONE_SEARCH) as inner:
            run(tracer)
    run(tracer)
    assert [found["ToolCallCountEvaluator"] for found in labels(outer)] == ["pass", "fail"]
    assert [found["ToolCallCountEvaluator"] for found in labels(inner)] == ["fail"]


def test_one_block_can_be_entered_again_inside_itself(tracer: Tracer) -> None:
    expecting = expect_tool_calls(ONE_SEARCH)
    with expecting as outer:
        with expecting as inner:
            run(tracer, "search")
        run(tracer)
    assert (len(labels(outer)), len(labels(inner))) == (2, 1)


def test_block_around_a_part_expects_it_of_the_whole_trace_once_that_has_ended(tracer: Tracer) -> None:
    with tracer.start_as_current_span("invoke_agent"):
        call(tracer)
        with expect_tool_calls(ONE_SEARCH) as expectation:
            call(tracer)
        with pytest.raises(ExpectationError, match="ask after the trace's root span has ended"):
            expectation.result(PATIENCE_SECONDS)
    assert labels(expectation) == [{"ToolCallCountEvaluator": "fail"}]


def test_span_that_is_left_open_is_named_when_time_is_up(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        root = tracer.start_span("invoke_agent")
    with pytest.raises(ExpectationTimeoutError, match=f"no verdict within 0.01 s on {root.get_span_context().trace_id:032x}"):
        expectation.result(0.01)
    with pytest.raises(TimeoutError):
        expectation.result(0)
    root.end()
    assert labels(expectation) == [{"ToolCallCountEvaluator": "fail"}]


def test_no_trace_inside_is_an_error(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        pass
    run(tracer)
    with pytest.raises(ExpectationError, match="no trace was seen inside the block; start a sampled span"):
        expectation.result(PATIENCE_SECONDS)


def test_trace_that_is_not_sampled_was_not_seen() -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(ToolCallEvalSpanProcessor(EVALUATIONS))
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(provider.get_tracer("agent"))
    with pytest.raises(ExpectationError, match="no trace was seen"):
        expectation.result(PATIENCE_SECONDS)
    provider.shutdown()


def test_nobody_waits_for_a_processor_that_was_shut_down(tracer: Tracer, provider: TracerProvider) -> None:
    with expect_tool_calls(ONE_SEARCH) as judged:
        run(tracer, "search")
    assert labels(judged) == [{"ToolCallCountEvaluator": "pass"}]
    with expect_tool_calls(ONE_SEARCH) as late, tracer.start_as_current_span("invoke_agent"):
        provider.shutdown()
    started = time.monotonic()
    with pytest.raises(ExpectationTimeoutError, match=f"was shut down without a verdict on {late.trace_ids[0]}; ask before"):
        late.result(PATIENCE_SECONDS)
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    assert labels(judged) == [{"ToolCallCountEvaluator": "pass"}]  # what was said before still is


def test_who_waits_is_told_when_the_processor_ends_without_a_verdict() -> None:
    watched = verdict_listeners.WatchedTraces(lambda: ())
    with expect_tool_calls(ONE_SEARCH) as expectation:
        watched.add(bytes([7] * 16), expectation)
        expectation.claim(bytes([7] * 16))
    threading.Timer(0.05, watched.shutdown, [0.0]).start()
    with pytest.raises(ExpectationTimeoutError, match="was shut down without a verdict"):
        expectation.result(PATIENCE_SECONDS)


def test_process_without_a_processor_has_seen_no_trace() -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(TracerProvider(shutdown_on_exit=False).get_tracer("agent"))
    with pytest.raises(ExpectationError, match="ToolCallEvalSpanProcessor"):
        expectation.result(PATIENCE_SECONDS)


def test_exception_of_the_agent_goes_through_and_its_trace_is_judged(tracer: Tracer) -> None:
    message = "the agent's own"
    with pytest.raises(ValueError, match="own"), expect_tool_calls(ONE_SEARCH) as expectation, tracer.start_as_current_span("agent"):
        raise ValueError(message)
    assert labels(expectation) == [{"ToolCallCountEvaluator": "fail"}]


def test_tasks_that_run_at_once_have_each_their_own(tracer: Tracer) -> None:
    async def agent(tool: str) -> dict[str, str]:
        with expect_tool_calls(ONE_SEARCH) as expectation, tracer.start_as_current_span("invoke_agent"):
            await asyncio.sleep(0)
            call(tracer, tool)
            await asyncio.gather(asyncio.to_thread(call, tracer, tool), asyncio.sleep(0))
        result = (await asyncio.to_thread(expectation.result, PATIENCE_SECONDS))["ToolCallCountEvaluator"]
        return {tool: result.label.value}

    async def all_agents() -> list[dict[str, str]]:
        return await asyncio.gather(*(agent(tool) for tool in ("search", "fetch")))

    assert asyncio.run(all_agents()) == [{"search": "fail"}, {"fetch": "fail"}]


@pytest.mark.parametrize("handed_over", [True, False], ids=["context-handed-over", "without-context"])
def test_thread_is_inside_if_it_has_the_context(tracer: Tracer, *, handed_over: bool) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        run(tracer, "search")
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run if handed_over else run, args=(run, tracer) if handed_over else (tracer,))
        thread.start()
        thread.join()
    assert len(expectation.trace_ids) == 1 + handed_over


def test_span_with_a_context_of_its_own_making_is_inside_too(tracer: Tracer) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        root = tracer.start_span("invoke_agent", context=otel_context.Context())
        tracer.start_span("x", context=set_span_in_context(root, otel_context.Context())).end()
        root.end()
    assert labels(expectation) == [{"ToolCallCountEvaluator": "fail"}]


def test_decorated_functions_of_both_kinds_are_inside_whenever_they_run(tracer: Tracer, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Expectation] = []
    claim = Expectation.claim

    def noting(self: Expectation, trace_id: bytes) -> bool:
        if claimed := claim(self, trace_id):
            seen.append(self)
        return claimed

    monkeypatch.setattr(Expectation, "claim", noting)

    @expect_tool_calls(ONE_SEARCH)
    def plain(tool: str) -> str:
        run(tracer, tool)
        return tool

    @expect_tool_calls(ONE_SEARCH)
    async def coroutine(tool: str) -> str:
        await asyncio.sleep(0)
        run(tracer, tool)
        return tool

    assert plain("search") == "search"
    assert asyncio.run(coroutine("search")) == "search"
    assert [labels(expectation) for expectation in seen] == [[{"ToolCallCountEvaluator": "pass"}]] * 2
    assert plain.__name__ == "plain"


def test_generator_functions_are_not_decorated_and_the_message_says_what_to_do() -> None:
    def generator() -> Iterator[str]:
        yield "a"

    async def async_generator() -> AsyncIterator[str]:
        yield "a"

    for function in (generator, async_generator):
        with pytest.raises(TypeError, match=f"does not decorate generator functions, such as .*{function.__name__}; write a with block"):
            expect_tool_calls(ONE_SEARCH)(function)


def test_decorated_function_has_an_expectation_for_each_call(tracer: Tracer) -> None:
    @expect_tool_calls(ONE_SEARCH)
    def agent() -> None:
        run(tracer, "search")

    with expect_tool_calls(ONE_SEARCH) as outer:
        agent()
        agent()
    assert labels(outer) == [{"ToolCallCountEvaluator": "pass"}] * 2


def test_block_in_a_stream_that_another_task_closes_leaves_no_error_behind(tracer: Tracer, caplog: pytest.LogCaptureFixture) -> None:
    # the stream is closed in another task, and detaching fails there
    async def stream() -> AsyncIterator[int]:
        with expect_tool_calls(ONE_SEARCH) as expectation:
            expectations.append(expectation)
            run(tracer, "search")
            yield 1
            yield 2

    async def consume() -> None:
        running = stream()
        await asyncio.create_task(anext(running))  # type: ignore[arg-type]  # an awaitable that create_task takes
        async with aclosing(running):  # type: ignore[type-var]
            pass

    expectations: list[Expectation] = []
    asyncio.run(consume())
    assert labels(expectations[0]) == [{"ToolCallCountEvaluator": "pass"}]
    assert verdict_listeners.watchers_in(None) == ()
    assert caplog.records == []


def test_nobody_is_kept_alive_who_no_longer_waits(tracer: Tracer, provider: TracerProvider) -> None:
    with expect_tool_calls(ONE_SEARCH) as expectation:
        root = tracer.start_span("invoke_agent")
    reference = weakref.ref(expectation)
    del expectation
    root.end()
    assert provider.force_flush()
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize(
    ("criteria", "config", "words"),
    [
        pytest.param({}, None, "there are no criteria", id="none"),
        pytest.param([], None, "there are no criteria", id="none-in-a-list"),
        pytest.param("", None, "there are no criteria", id="empty-name"),
        pytest.param({"ToolCallCounter": {}}, None, "is not an evaluator", id="no-evaluator"),
        pytest.param(ONE_SEARCH, {"ToolCallOrderEvaluator": {}}, "has no effect", id="config-for-nothing"),
        pytest.param("basic_weather", {"ToolCallOrderEvaluator": {}}, "guides' form", id="config-for-a-name"),
    ],
)
def test_unusable_criteria_are_refused_at_once(criteria: object, config: dict[str, dict[str, object]] | None, words: str) -> None:
    with pytest.raises(CriteriaError, match=words):
        expect_tool_calls(criteria, config=config)  # type: ignore[arg-type]  # a table of them has no narrower type


@pytest.mark.parametrize("criteria", [5, [5], None])
def test_what_is_no_criteria_is_refused(criteria: object) -> None:
    with pytest.raises(TypeError, match="is no criteria; give"):
        expect_tool_calls(criteria)  # type: ignore[arg-type]  # what is wrong here is what is tested
