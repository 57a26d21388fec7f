"""What an agent pays for being judged in its own process, beside what the SDK's batch processor costs it in the same run.

The hooks are timed by CPU time of their own thread, in small parts between
which the judging thread catches up, so that it does not compete for the interpreter; the best twentieth of the parts counts. Whole agents
are timed by the process's CPU time, judging included, and by the clock.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.bench.results import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opentelemetry.sdk.trace import ReadableSpan, Span

PLAIN: Mapping[str, str | int] = {"http.request.method": "GET", "http.response.status_code": 200, "url.full": "http://example.com/items"}
TOOL: Mapping[str, str | int] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "search",
    "gen_ai.tool.call.id": "call_1",
    "gen_ai.tool.call.arguments": '{"query": "weather in Tokyo"}',
    "gen_ai.tool.call.result": '{"temperature": 21, "text": "' + "x" * 200 + '"}',
}
PART = 100
PARTS = 200
QUARTERS = 4


class NullExporter(SpanExporter):
    """Throws spans away."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        del spans
        return SpanExportResult.SUCCESS


def batch() -> SpanProcessor:
    return BatchSpanProcessor(NullExporter())


def ours() -> SpanProcessor:
    return ToolCallEvalSpanProcessor(EVALUATIONS)


def wrapping() -> SpanProcessor:
    return ToolCallEvalSpanProcessor(EVALUATIONS, next=batch())


MORE_TIME: Final = "more time by the clock %"
SHARE, LEAST_NS = 0.01, 50_000.0
"""A span may cost so much of the agent's own time, or so many nanoseconds, whichever is more."""


def spans_of(attributes: Mapping[str, str | int], root: Span, provider: TracerProvider, count: int) -> Iterator[tuple[Span, ReadableSpan]]:
    tracer, context = provider.get_tracer("agent"), set_span_in_context(root)
    for _ in range(count):
        span = tracer.start_span("step", context=context, attributes=dict(attributes))
        span.end()
        yield span, span._readable_span()  # type: ignore[attr-defined, misc]  # noqa: SLF001 - what the SDK hands to on_end


def hook_ns(processors: Sequence[SpanProcessor], attributes: Mapping[str, str | int]) -> list[float]:
    """Return nanoseconds that a span's two hooks take in the application's thread, for each processor; they take turns."""
    provider = TracerProvider(shutdown_on_exit=False)
    root = provider.get_tracer("agent").start_span("root")
    for processor in processors:
        processor.on_start(root)  # type: ignore[arg-type]  # the SDK's tracer makes the SDK's spans
    spans = list(spans_of(attributes, root, provider, PART * PARTS))  # type: ignore[arg-type]
    found: list[list[float]] = [[] for _ in processors]
    for first in range(0, len(spans), PART):
        part = spans[first : first + PART]
        for processor, parts in zip(processors, found, strict=True):
            began = time.thread_time_ns()
            for span, ended in part:
                processor.on_start(span, parent_context=None)
                processor.on_end(ended)
            parts.append((time.thread_time_ns() - began) / PART)
            processor.force_flush(60_000)
    for processor in processors:
        processor.shutdown()
    return [sorted(parts)[len(parts) // 20] for parts in found]


def agent_us(make: Callable[[], SpanProcessor] | None, *, work_ns: int = 0, runs: int = 40) -> tuple[float, float]:
    """Return microseconds of CPU and of time that each span of a 100-span agent takes, judging included; ``work_ns`` is its own work."""
    provider = TracerProvider(shutdown_on_exit=False)
    if make is not None:
        provider.add_span_processor(make())
    tracer = provider.get_tracer("agent")
    cpu, clock = time.process_time_ns(), time.perf_counter_ns()
    for _ in range(runs):
        with tracer.start_as_current_span("invoke_agent", attributes={"toolcall_eval.criteria": "tokyo_forecast"}):
            for number in range(99):
                with tracer.start_as_current_span("step", attributes=dict(TOOL if number % 3 == 0 else PLAIN)):
                    if work_ns:
                        time.sleep(work_ns / 1e9)
    provider.force_flush()
    used = (time.process_time_ns() - cpu) / (100 * runs * 1000), (time.perf_counter_ns() - clock) / (100 * runs * 1000)
    provider.shutdown()
    return used


def memory_mb(spans: int, *, parts: int = QUARTERS) -> tuple[list[float], int]:
    """Return the process's memory after each part of so many spans, ended without a pause, and how many were too many to be judged.

    Of a million, in ten parts: python -c 'from tests.bench.bench_processor import memory_mb; print(memory_mb(1_000_000, parts=10))'
    """
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ours()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    kept = []
    for number in range(spans // 100):
        with tracer.start_as_current_span("invoke_agent"):
            for _ in range(99):
                tracer.start_span("step").end()
        if number % (spans // (100 * parts)) == spans // (100 * parts) - 1:
            processor.force_flush(60_000)
            kept.append(int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6)
    dropped: int = processor._source.dropped  # type: ignore[attr-defined]  # noqa: SLF001 - the count leaves with metrics only
    provider.shutdown()
    return kept, dropped


def results() -> Iterator[Result]:
    """Measure the hooks, whole agents, and memory."""
    for attributes, load, most in ((PLAIN, "no tool call", 1.0), (TOOL, "tool call", 2.0)):
        runs = [hook_ns((batch(), ours()), attributes) for _ in range(3)]
        theirs, mine = (min(run[side] for run in runs) for side in (0, 1))
        yield Result(
            name="hooks",
            load=load,
            ours=mine,
            yardstick="BatchSpanProcessor",
            theirs=theirs,
            unit="ns/span",
            goals=(Goal(limit=most),),
        )
    for work_ns, runs_of, load in ((0, 40, "an agent that does nothing else"), (10_000_000, 1, "an agent, 10 ms a step")):
        yield from agents(work_ns, runs_of, load)
    kept, dropped = memory_mb(100_000)
    more = {f"quarter {number + 1}": size for number, size in enumerate(kept)}
    yield Result(name="memory", load="100,000 spans", ours=kept[-1], yardstick="first quarter", theirs=kept[0], unit="MB", more=more)
    yield Result(name="memory", load="100,000 spans", ours=float(dropped), yardstick="", unit="spans dropped")


def agents(work_ns: int, runs: int, load: str) -> Iterator[Result]:
    """Measure what an agent of 100 spans costs with us, and with us around its batch processor, beyond what it costs with neither."""
    kinds: Mapping[str, Callable[[], SpanProcessor] | None] = {
        "no processor": None,
        "batch": batch,
        "ours": ours,
        "ours around batch": wrapping,
    }
    found = {name: min(agent_us(make, work_ns=work_ns, runs=runs) for _ in range(3)) for name, make in kinds.items()}
    base_cpu, base_clock = found["no processor"]
    for name in ("ours", "ours around batch"):
        cpu, clock = found[name]
        yield Result(
            name=name,
            load=load,
            ours=cpu - base_cpu,
            yardstick="BatchSpanProcessor",
            theirs=found["batch"][0] - base_cpu,
            goals=(Goal(limit=1.0, of=MORE_TIME) if work_ns * SHARE > LEAST_NS else Goal(limit=LEAST_NS / 1e3, of="ours"),),
            more={MORE_TIME: 100 * (clock / base_clock - 1), "no processor us/span": base_cpu},
        )
