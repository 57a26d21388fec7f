"""Times the evaluators: `make bench`. Payloads are decoded anew each time, as for a new trace; criteria are known already."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.evaluators.args import ArgsEvaluator
from otel_toolcall_eval.evaluators.count import CountEvaluator
from otel_toolcall_eval.evaluators.order import OrderEvaluator
from otel_toolcall_eval.evaluators.output import OutputEvaluator
from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CountCriteria,
    CountExpectation,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
)
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall
from otel_toolcall_eval.values.text import read_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

    from otel_toolcall_eval.model.score import Score
    from otel_toolcall_eval.model.trace import Value

SIZES = (4, 20, 100, 1_000)
TOOLS = 4  # different names in a typical trace
COUNT, ORDER, ARGS, OUTPUT = CountEvaluator(), OrderEvaluator(), ArgsEvaluator(), OutputEvaluator()


def decode(recorded: Value) -> Content:
    text = str(recorded)
    return Content(state=ContentState.FULL, value=read_text(text), text=text)


def make_log(size: int, tools: int) -> CallLog:
    return CallLog(
        calls=tuple(
            ToolCall(
                name=f"tool_{number % tools}",
                arguments=Payload(f'{{"city": "Tokyo", "day": {number}}}', decode),
                output=Payload(f'{{"content": {{"temperature": {number}, "unit": "celsius"}}}}', decode),
            )
            for number in range(size)
        )
    )


def make_judge(evaluator: str, size: int, tools: int) -> Callable[[CallLog], Score]:
    """Criteria with an expectation for each call; those for arguments and outputs stand in reverse."""
    names = [f"tool_{number % tools}" for number in range(size)]
    backwards = [(number, names[number]) for number in reversed(range(size))]
    if evaluator == "count":
        counted = CountCriteria(
            expectations=tuple(CountExpectation(tool=name, operator=Operator.GREATER_EQUAL, count=1) for name in dict.fromkeys(names))
        )
        return lambda log: COUNT.evaluate(counted, log)
    if evaluator == "order":
        ordered = OrderCriteria(expected=tuple(names))
        return lambda log: ORDER.evaluate(ordered, log)
    if evaluator == "output":
        returned = OutputCriteria(
            expectations=tuple(
                OutputExpectation(tool=name, output=f"{{'temperature': {number}, 'unit': 'celsius'}}") for number, name in backwards
            )
        )
        return lambda log: OUTPUT.evaluate(returned, log)
    called = ArgsCriteria(
        # each second one fits any call of its tool, so that the first candidate is often the wrong one
        expectations=tuple(
            ArgsExpectation(tool=name, arguments={"city": "Tokyo", "day": number} if number % 2 or evaluator == "args" else {})
            for number, name in backwards
        ),
        subset=evaluator == "args-subset",
    )
    return lambda log: ARGS.evaluate(called, log)


EVALUATORS = ("count", "order", "args", "args-subset", "output")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_time_of_one_evaluation(benchmark: BenchmarkFixture, evaluator: str, size: int) -> None:
    judge = make_judge(evaluator, size, TOOLS)
    benchmark.group = f"{size} calls"
    score = benchmark.pedantic(  # type: ignore[no-untyped-call]  # the plugin's own
        judge, setup=lambda: ((make_log(size, TOOLS),), {}), rounds=max(10, 8_000 // size)
    )
    assert score.value > 0


def test_time_of_all_four_for_a_typical_trace(benchmark: BenchmarkFixture) -> None:
    judges = [make_judge(evaluator, 4, TOOLS) for evaluator in ("count", "order", "args", "output")]
    benchmark.group = "4 calls"
    scores = benchmark.pedantic(  # type: ignore[no-untyped-call]  # the plugin's own
        lambda log: [judge(log) for judge in judges], setup=lambda: ((make_log(4, TOOLS),), {}), rounds=2_000
    )
    assert [score.value for score in scores] == [1.0] * 4


@pytest.mark.parametrize("evaluator", EVALUATORS)
def test_twice_the_calls_and_expectations_take_about_twice_the_time(evaluator: str) -> None:
    times: dict[int, list[float]] = {500: [], 1_000: []}
    judges = {size: make_judge(evaluator, size, 1) for size in times}
    for _ in range(30):
        for size, taken in times.items():
            log = make_log(size, 1)
            gc.collect()
            started = time.thread_time()  # the machine's other work must not count
            judges[size](log)
            taken.append(time.thread_time() - started)
    half, whole = (min(taken) for taken in times.values())
    print(f"\n{evaluator}: 500 calls of one tool {half * 1e3:.2f} ms, 1,000 {whole * 1e3:.2f} ms, ratio {whole / half:.2f}")  # noqa: T201 - for who asked
    assert whole / half <= 2.2
