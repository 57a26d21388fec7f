"""What an agent pays for being judged in its own process, beside what the SDK's batch processor costs it in the same run.

Run with ``make bench``, or alone with ``-s`` to see the lines. The hooks are timed by CPU time of their own thread, in small parts between
which the judging thread catches up, so that it does not compete for the interpreter; the best twentieth of the parts counts. Whole agents
are timed by the process's CPU time, judging included, and by the clock.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import set_span_in_context

from otel_toolcall_eval import ToolCallEvalSpanProcessor
from otel_toolcall_eval.demo.scenarios import EVALUATIONS

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
        """Throw them away."""
        del spans
        return SpanExportResult.SUCCESS


def batch() -> SpanProcessor:
    return BatchSpanProcessor(NullExporter())


def ours() -> SpanProcessor:
    return ToolCallEvalSpanProcessor(EVALUATIONS)


def wrapping() -> SpanProcessor:
    return ToolCallEvalSpanProcessor(EVALUATIONS, next=batch())


def spans_of(attributes: Mapping[str, str | int], root: Span, provider: TracerProvider, count: int) -> Iterator[tuple[Span, ReadableSpan]]:
    tracer, context = provider.get_tracer("agent"), set_span_in_context(root)
    for _ in range(count):
        span = tracer.start_span("step", context=context, attributes=dict(attributes))
        span.end()
        yield span, span._readable_span()  # type: ignore[attr-defined, misc]  # noqa: SLF001 - what the SDK hands to on_end


def hook_ns(processor: SpanProcessor, attributes: Mapping[str, str | int]) -> float:
    """Return nanoseconds that a span's two hooks take in the application's thread."""
    provider = TracerProvider(shutdown_on_exit=False)
    root = provider.get_tracer("agent").start_span("root")
    processor.on_start(root)  # type: ignore[arg-type]  # the SDK's tracer makes the SDK's spans
    spans = list(spans_of(attributes, root, provider, PART * PARTS))  # type: ignore[arg-type]
    found = []
    for first in range(0, len(spans), PART):
        part = spans[first : first + PART]
        began = time.thread_time_ns()
        for span, ended in part:
            processor.on_start(span, parent_context=None)
            processor.on_end(ended)
        found.append((time.thread_time_ns() - began) / PART)
        processor.force_flush(60_000)
    processor.shutdown()
    return sorted(found)[len(found) // 20]


@pytest.mark.parametrize("attributes", [pytest.param(PLAIN, id="no tool call"), pytest.param(TOOL, id="tool call")])
def test_hooks(attributes: Mapping[str, str | int]) -> None:
    """Report both processors' hooks and their ratio: at most 1 is the aim, 2 for a tool call."""
    runs = [(hook_ns(batch(), attributes), hook_ns(ours(), attributes)) for _ in range(3)]
    theirs, mine = (min(run[side] for run in runs) for side in (0, 1))
    sys.stdout.write(f"\n{len(attributes)} attributes: batch processor {theirs:.0f} ns, ours {mine:.0f} ns, ratio {mine / theirs:.2f}")
    assert mine > 0


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


@pytest.mark.parametrize(
    ("work_ns", "runs"), [pytest.param(0, 40, id="an agent that does nothing else"), pytest.param(10_000_000, 1, id="10 ms a step")]
)
def test_agent(work_ns: int, runs: int) -> None:
    """Report what an agent of 100 spans costs without us, with us, and with us around its batch processor: under 50 us a span, or 1 %."""
    kinds: Mapping[str, Callable[[], SpanProcessor] | None] = {
        "no processor": None,
        "batch": batch,
        "ours": ours,
        "ours around batch": wrapping,
    }
    found = {name: min(agent_us(make, work_ns=work_ns, runs=runs) for _ in range(3)) for name, make in kinds.items()}
    base_cpu, base_clock = found["no processor"]
    for name, (cpu, clock) in found.items():
        more = f"{cpu - base_cpu:.1f} us CPU, {100 * (clock / base_clock - 1):.1f} % of time"
        sys.stdout.write(f"\n{name}: {cpu:.1f} us CPU, {clock:.1f} us a span; more than none: {more}")
    assert base_cpu > 0


@pytest.mark.parametrize("spans", [pytest.param(100_000, id="100,000 spans"), pytest.param(1_000_000, id="1,000,000 spans")])
def test_memory(spans: int) -> None:
    """Report the process's memory in the course of so many spans, ended without a pause, and how many were too many to be judged."""
    provider = TracerProvider(shutdown_on_exit=False)
    processor = ours()
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("agent")
    kept = []
    for number in range(spans // 100):
        with tracer.start_as_current_span("invoke_agent"):
            for _ in range(99):
                tracer.start_span("step").end()
        if number % (spans // (100 * QUARTERS)) == spans // (100 * QUARTERS) - 1:
            processor.force_flush(60_000)
            kept.append(int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize())
    dropped = processor._source.dropped  # type: ignore[attr-defined]  # noqa: SLF001 - the count leaves with metrics only
    sys.stdout.write(f"\n{spans} spans: {', '.join(f'{size / 1e6:.1f}' for size in kept)} MB after each quarter, {dropped} dropped")
    provider.shutdown()
    assert len(kept) == QUARTERS
