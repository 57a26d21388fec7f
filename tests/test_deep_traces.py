"""Traces that are deep, long or wide: each goes the whole way, gets the right verdict, and twice as many spans take twice the time."""

from __future__ import annotations

import gc
import json
import random
import time
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from otel_toolcall_eval import Label, evaluate
from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.packing import StoredSpanReader, StoredSpanWriter
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits
from otel_toolcall_eval.exporters.events.attributes import ExplainValues, ExplanationPolicy, event_attributes
from otel_toolcall_eval.extraction.explaining import SpanOutcome, explain
from otel_toolcall_eval.otlp import protobuf_traces
from otel_toolcall_eval.otlp.any_value import MAX_NESTING
from tests.engine.buffer.judged import READER, args, count, order, pipeline
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.proto.common.v1.common_pb2 import AnyValue

    from otel_toolcall_eval.engine.pipeline import Pipeline
    from otel_toolcall_eval.model.criteria import Check
    from otel_toolcall_eval.model.score import TraceReport

TRACE: Final = bytes(15) + b"\1"
OF_A_REQUEST: Final = 2_000
BOUNDLESS: Final = BufferLimits(span_limit=10**7, maximum_trace_size_bytes=10**12, limit_bytes=10**13)
UNITS: Final = CompletionPolicy(unit=Unit.AGENT_INVOCATION)
SMALL, LEVELS, MANY = 1_200, 10_000, 100_000
IN_CRITERIA: Final = MAX_NESTING - 3
"""How deep arguments may be in criteria, which nest the calls, too."""
MOST_GROWTH: Final = 2.6
ARGUMENTS: Final = '{"q": "x"}'
ORDERS: Final[Mapping[str, Callable[[list[Row]], object]]] = {
    "as they start": lambda _: None,
    "as they end": lambda rows: rows.reverse(),
    "in any order": lambda rows: random.Random(7).shuffle(rows),  # noqa: S311 - the same order each time
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A span to be sent."""

    number: int
    parent: int = 0
    start: int
    end: int
    attributes: Mapping[str, str] = field(default_factory=dict)
    links: int = 0


def call(number: int, *, arguments: str | None = ARGUMENTS, call_id: str | None = None, tool: str = "search", **fields: int) -> Row:
    texts = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.id": call_id, "gen_ai.tool.call.result": "[1]"}
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    return Row(number=number, attributes={**named, **{key: text for key, text in texts.items() if text is not None}}, **fields)


def wide(size: int, *, arguments: str | None = ARGUMENTS, call_id: str | None = None) -> list[Row]:
    below = [call(n, parent=1, start=10 * n, end=10 * n + 5, arguments=arguments, call_id=call_id) for n in range(2, size + 1)]
    return [Row(number=1, start=1, end=10 * size + 9), *below]


def renamed(size: int) -> list[Row]:
    below = [
        call(n, parent=1, start=10 * n, end=10 * n + 5, call_id="1", tool=f"s{n}__search" if n % 2 and n != size else "search")
        for n in range(2, size + 1)
    ]
    return [Row(number=1, start=1, end=10 * size + 9), *below]


def levels(size: int, *, arguments: str | None = ARGUMENTS, call_id: str | None = None) -> list[Row]:
    return [call(n, parent=n - 1, start=n, end=10 * size - n, arguments=arguments, call_id=call_id) for n in range(1, size + 1)]


def recursion(size: int) -> list[Row]:
    return [call(n, parent=n - 1, start=n, end=10 * size - n, arguments=f'{{"q": "x", "n": {n}}}') for n in range(1, size + 1)]


def plain_levels(size: int) -> list[Row]:
    above = [Row(number=n, parent=n - 1, start=n, end=10 * size - n) for n in range(1, size)]
    return [*above, call(size, parent=size - 1, start=size, end=size + 1)]


def skewed(size: int) -> list[Row]:
    above = [Row(number=n, parent=n - 1, start=2 * size - n, end=2 * size) for n in range(1, size)]
    return [*above, call(size, parent=size - 1, start=1, end=2)]


def agents(size: int) -> list[Row]:
    rows = []
    for n in range(1, size, 2):
        named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": f"agent {n}"}
        rows.append(Row(number=n, parent=max(0, n - 2), start=n, end=10 * size - n, attributes=named))
        rows.append(call(n + 1, parent=n, start=n + 1, end=10 * size - n - 1))
    return rows


def linked(size: int) -> list[Row]:
    return [Row(number=1, start=1, end=10 * size), *(call(n, parent=1, start=n, end=n, links=n - 1) for n in range(2, size + 1))]


def beside(size: int) -> list[Row]:
    """Below a call that stands beside its agent, as where streaming lost the context, so many spans inside each other."""
    named = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "one"}
    first = [Row(number=1, start=1, end=20 * size), Row(number=2, parent=1, start=2, end=9, attributes=named)]
    below = [Row(number=n, parent=n - 1, start=n, end=10 * size - n) for n in range(4, size + 1)]
    return [*first, call(3, parent=1, start=3, end=10 * size), *below]


def history(size: int) -> list[Row]:
    messages: list[object] = [{"role": "user", "parts": [{"type": "text", "content": "tool"}]}] * (size - 3)
    messages.append({"role": "tool", "parts": [{"type": "tool_call_response", "id": "1", "response": "r"}]})
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    asked = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "search", "arguments": {"q": "x"}}]}]
    first = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(asked)}
    return [
        Row(number=1, start=1, end=99),
        Row(number=2, parent=1, start=2, end=3, attributes=first),
        Row(number=3, parent=1, start=5, end=6, attributes=chat),
    ]


def asked(size: int) -> list[Row]:
    """So many models, each of which asks for a call that nobody answers."""
    rows = [Row(number=1, start=1, end=10 * size)]
    for n in range(2, size + 1):
        part = {"type": "tool_call", "id": f"id {n}", "name": "search", "arguments": {"q": "x"}}
        texts = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}])}
        rows.append(Row(number=n, parent=1, start=n, end=n + 1, attributes=texts))
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A kind of trace.

    Attributes:
        rows: its spans, so many or about so many.
        calls: how many calls of the tool ``search`` so many spans show.
        most: how large it is tried.
        known: its arguments are recorded.
    """

    rows: Callable[[int], list[Row]]
    calls: Callable[[int], int]
    most: int = MANY
    known: bool = True
    requested: bool = False


SHAPES: Final = {
    "siblings": Shape(rows=wide, calls=lambda size: size - 1),
    "attempts": Shape(rows=lambda size: wide(size, call_id="1"), calls=lambda _: 1),
    "attempts without arguments": Shape(rows=lambda size: wide(size, call_id="1", arguments=None), calls=lambda _: 1, known=False),
    "attempts with hidden arguments": Shape(
        rows=lambda size: wide(size, call_id="1", arguments="__REDACTED__"), calls=lambda _: 1, known=False
    ),
    "attempts of many names": Shape(rows=renamed, calls=lambda _: 1),
    "observers inside each other": Shape(rows=lambda size: levels(size, call_id="1"), calls=lambda _: 1, most=LEVELS),
    "bare observers inside each other": Shape(
        rows=lambda size: levels(size, call_id="1", arguments=None), calls=lambda _: 1, most=LEVELS, known=False
    ),
    "calls inside each other": Shape(rows=recursion, calls=lambda size: size, most=LEVELS),
    "a call below many levels": Shape(rows=plain_levels, calls=lambda _: 1, most=LEVELS),
    "clocks behind their parents'": Shape(rows=skewed, calls=lambda _: 1, most=LEVELS),
    "agents inside each other": Shape(rows=agents, calls=lambda size: size // 2, most=2 * LEVELS),
    "links": Shape(rows=linked, calls=lambda size: size - 1),
    "levels beside an agent": Shape(rows=beside, calls=lambda _: 1, most=LEVELS),
    "messages": Shape(rows=history, calls=lambda _: 1),
    "requests": Shape(rows=asked, calls=lambda _: 0, most=LEVELS, known=False, requested=True),
}


def requests_of(rows: Sequence[Row]) -> Iterator[bytes]:
    for first in range(0, len(rows), OF_A_REQUEST):
        request = ExportTraceServiceRequest()
        spans = request.resource_spans.add().scope_spans.add().spans
        for row in rows[first : first + OF_A_REQUEST]:
            parent = row.parent.to_bytes(8, "big") if row.parent else b""
            span = spans.add(trace_id=TRACE, span_id=row.number.to_bytes(8, "big"), parent_span_id=parent, flags=0x100)
            span.start_time_unix_nano, span.end_time_unix_nano = row.start, row.end
            for key, text in row.attributes.items():
                span.attributes.add(key=key).value.string_value = text
            if row.links:
                span.links.add(trace_id=TRACE, span_id=row.links.to_bytes(8, "big"))
        yield request.SerializeToString()


def checks_of(shape: Shape, size: int) -> list[Check]:
    return [count(search=shape.calls(size)), *([order("search"), args("search", {"q": "x"}, subset=True)] if shape.known else [])]


def piped(shape: Shape, size: int, policy: CompletionPolicy | None = None) -> Pipeline:
    return pipeline(*checks_of(shape, size), policy=policy, limits=BOUNDLESS)


def told(pipe: Pipeline, bodies: Sequence[bytes]) -> TraceReport:
    """Take bytes the whole way: decoded, buffered, read, held against criteria, and put into words."""
    for body in bodies:
        pipe.add(protobuf_traces.decode_traces(body, pipe.projection).spans, now_ns=SECOND_NS, transport="grpc")
    (report,) = pipe.pop_due(now_ns=100_000 * SECOND_NS)
    for verdict in report.verdicts:
        for values in ExplainValues:
            attributes = event_attributes(report, verdict, explain=ExplanationPolicy(values=values))
            assert attributes["gen_ai.evaluation.explanation"]
    return report


def hold(shape: Shape, size: int, arrival: str, policy: CompletionPolicy | None = None) -> None:
    rows = shape.rows(size)
    ORDERS[arrival](rows)
    report = told(piped(shape, size, policy), list(requests_of(rows)))
    wanted = [(Label.PASS, 1.0)] * len(report.verdicts)
    if not shape.requested:  # of calls that only models tell of, nobody knows whether they ran
        assert [(verdict.label, verdict.emitted_score) for verdict in report.verdicts] == wanted, report.verdicts
    assert len([one for one in report.extraction.calls if one.phase.value == "executed"]) == shape.calls(size)


@pytest.mark.parametrize("arrival", ORDERS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_shape_gets_the_right_verdict(shape: Shape, arrival: str) -> None:
    hold(shape, SMALL, arrival)


AT_ITS_LARGEST: Final = [
    pytest.param(shape, arrival, id=f"{name}, {arrival}") for (name, shape), arrival in zip(SHAPES.items(), cycle(ORDERS), strict=False)
]
"""Each shape in one order: the test before has each in all orders."""


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "arrival"), AT_ITS_LARGEST)
def test_each_shape_gets_the_right_verdict_at_its_largest(shape: Shape, arrival: str) -> None:
    hold(shape, shape.most, arrival)


@pytest.mark.parametrize(
    ("arrival", "size"),
    [*((arrival, SMALL) for arrival in ORDERS), pytest.param("in any order", 2 * LEVELS, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", ["agents inside each other", "levels beside an agent"])
def test_an_agent_invocation_holds_all_that_is_nested_in_it(name: str, arrival: str, size: int) -> None:
    hold(SHAPES[name], size, arrival, UNITS)


@pytest.mark.parametrize("size", [SMALL, pytest.param(LEVELS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_each_span_is_explained_and_what_the_journal_holds_of_it_comes_back(shape: Shape, size: int) -> None:
    bodies = list(requests_of(shape.rows(size)))
    spans = [span for body in bodies for span in protobuf_traces.decode_traces(body, READER.projection).spans]
    assert StoredSpanReader().read(TRACE, StoredSpanWriter().write(spans)) == spans
    extraction = READER.extract(spans)
    explained = explain(READER, spans, extraction)
    assert len(explained) == len(spans)
    kept = sum(one.outcome is SpanOutcome.KEPT for one in explained)
    assert kept == (len(spans) - 1 if shape.requested else shape.calls(size))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_twice_as_many_spans_take_about_twice_the_time(shape: Shape) -> None:
    whole = min(LEVELS, shape.most)
    loads = {size: list(requests_of(shape.rows(size))) for size in (whole // 2, whole)}
    least: dict[int, float] = {}
    gc.collect()
    gc.disable()  # its share hangs on all that the other tests left behind
    try:
        for _ in range(5):  # as often as a busy machine makes it necessary
            for size, bodies in loads.items():
                pipe = piped(shape, size)
                began = time.thread_time()
                told(pipe, bodies)
                least[size] = min(time.thread_time() - began, least.get(size, 1e9))
            if least[whole] <= MOST_GROWTH * least[whole // 2]:
                break
    finally:
        gc.enable()
    assert least[whole] <= MOST_GROWTH * least[whole // 2], least


@pytest.mark.parametrize("attempts", [SMALL, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("arguments", [ARGUMENTS, None], ids=["recorded", "not recorded"])
def test_attempts_of_one_call_are_one_call_to_the_library(attempts: int, arguments: str | None) -> None:
    texts = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "gen_ai.tool.call.id": "call_1"}
    texts |= {"gen_ai.tool.call.result": "[1]"} | ({} if arguments is None else {"gen_ai.tool.call.arguments": arguments})
    root = SpanContext(1, 1, is_remote=False)
    ours = Resource({})  # without one, the SDK looks for all that can be told of the process, for each span
    spans = [ReadableSpan(name="root", context=root, resource=ours, start_time=1, end_time=10 * attempts + 99)]
    for n in range(2, attempts + 2):
        context = SpanContext(1, n, is_remote=False)
        start = 10 * n
        spans.append(ReadableSpan("s", context, root, resource=ours, attributes=texts, start_time=start, end_time=start + 5))
    results = evaluate(
        spans,
        {
            "ToolCallCountEvaluator": {"tool_calls_count": {"search": ["=", 1]}},
            "ToolCallOrderEvaluator": {"tool_calls_order": ["search"]},
            "ToolCallOutputEvaluator": {"tool_outputs": [{"name": "search", "output": "[1]"}]},
        },
    )
    assert {name: (result.score, result.label) for name, result in results.items()} == dict.fromkeys(results, (1.0, Label.PASS))


def nested_value(value: AnyValue, depth: int) -> None:
    for _ in range(depth):
        member = value.kvlist_value.values.add(key="q")
        value = member.value
    value.string_value = "x"


@pytest.mark.parametrize(
    ("depth", "label"),
    [(1, Label.PASS), (IN_CRITERIA, Label.PASS), (MAX_NESTING + 1, None), (10 * MAX_NESTING, None)],
)
@pytest.mark.parametrize("as_text", [True, False], ids=["text", "members"])
def test_payloads_nest_up_to_the_bound(depth: int, label: Label | None, *, as_text: bool) -> None:
    expected: Any = "x"
    for _ in range(min(depth, IN_CRITERIA)):
        expected = {"q": expected}
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=TRACE, span_id=bytes(7) + b"\1")
    span.start_time_unix_nano, span.end_time_unix_nano = 1, 2
    for key, text in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "search")):
        span.attributes.add(key=key).value.string_value = text
    value = span.attributes.add(key="gen_ai.tool.call.arguments").value
    if as_text:
        value.string_value = '{"q": ' * depth + '"x"' + "}" * depth
    else:
        nested_value(value, depth)
    report = told(pipeline(args("search", expected)), [request.SerializeToString()])
    assert report.verdicts[0].failure is None
    too_deep = Label.FAIL if as_text else Label.INCONCLUSIVE  # text that can't be read was recorded; such members are left out
    assert report.verdicts[0].label is (label or too_deep)
