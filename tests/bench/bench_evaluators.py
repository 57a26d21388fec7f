"""Times the evaluators. Payloads are decoded anew each time, as for a new trace; criteria are known already."""

from __future__ import annotations

import gc
import json
import time
from typing import TYPE_CHECKING

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
from otel_toolcall_eval.model.payload.text import read_text
from otel_toolcall_eval.model.tool_call import CallLog, Content, ContentState, Payload, ToolCall
from tests.bench.results import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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


def evaluation_us(evaluator: str, size: int, tools: int, *, rounds: int) -> float:
    """Return the least CPU time of one evaluation in microseconds, each of a log whose payloads have not been read."""
    judge, taken = make_judge(evaluator, size, tools), []
    for _ in range(rounds):
        log = make_log(size, tools)
        gc.collect(0)
        started = time.thread_time()
        score = judge(log)
        taken.append(time.thread_time() - started)
    assert score.value > 0
    return min(taken) * 1e6


def loading_us(size: int, *, rounds: int) -> float:
    """Return the least CPU time of loading the payloads of so many calls."""
    texts = [f'{{"city": "Tokyo", "day": {number}}}' for number in range(2 * size)]
    taken = []
    for _ in range(rounds):
        started = time.thread_time()
        for text in texts:
            json.loads(text)
        taken.append(time.thread_time() - started)
    return min(taken) * 1e6


def results() -> Iterator[Result]:
    """Measure each evaluator, and twice the calls and expectations, where all calls are of one tool."""
    for size in SIZES:
        rounds = max(10, 4_000 // size)
        loading = loading_us(size, rounds=rounds)
        for evaluator in EVALUATORS:
            yield Result(
                name=f"evaluator {evaluator}",
                load=f"{size:,} calls",
                ours=evaluation_us(evaluator, size, TOOLS, rounds=rounds),
                yardstick="json.loads of two payloads a call",
                theirs=loading,
                unit="us",
            )
    for evaluator in EVALUATORS:
        half, whole = (evaluation_us(evaluator, size, 1, rounds=30) for size in (500, 1_000))
        yield Result(
            name=f"evaluator {evaluator}",
            load="1,000 calls of one tool",
            ours=whole,
            yardstick="500 calls",
            theirs=half,
            unit="us",
            goals=(Goal(limit=2.2),),
        )
