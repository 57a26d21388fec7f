"""Four evaluators on a whole trace, reading its calls included, beside the reference evaluators on the same calls.

The reference has an environment of its own, which the product does not need:
``python3 -m venv .build/bench/reference && .build/bench/reference/bin/pip install uipath``.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.trace import Trace, Trigger
from otel_toolcall_eval.otlp import protobuf_traces
from otel_toolcall_eval.settings.criteria_check import build_check
from otel_toolcall_eval.sidecar.process_limits import collect_garbage_seldom
from tests.bench.results import FOLDER, Goal, Result, middle
from tests.engine.buffer.judged import pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from otel_toolcall_eval.engine.pipeline import Pipeline

GOALS: Final = {4: 40.0, 20: 150.0, 100: 700.0, 1_000: 15_000.0}
"""By calls of a trace: microseconds in which it should be judged."""
TIMES_FASTER: Final = 15
TOOLS: Final = 4
SECONDS: Final = 2.0
REFERENCE: Final = FOLDER / "reference" / "bin" / "python"
IDS: Final = {
    "ToolCallCountEvaluator": "tool-call-count",
    "ToolCallOrderEvaluator": "tool-call-order",
    "ToolCallArgsEvaluator": "tool-call-args",
    "ToolCallOutputEvaluator": "tool-call-output",
}


def calls_of(size: int) -> list[dict[str, str]]:
    """Return the attributes of so many tool calls, as the guides have them."""
    return [
        {
            "tool.name": f"tool_{number % TOOLS}",
            "input.value": json.dumps({"city": "Tokyo", "day": number, "units": "metric"}),
            "output.value": json.dumps({"content": json.dumps({"temperature": number, "sky": "clear"})}),
        }
        for number in range(size)
    ]


def criteria_of(calls: list[dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Return criteria with an expectation for each call, all of which are met."""
    names = [call["tool.name"] for call in calls]
    return {
        "ToolCallCountEvaluator": {"tool_calls_count": {name: [">=", 1] for name in dict.fromkeys(names)}},
        "ToolCallOrderEvaluator": {"tool_calls_order": names},
        "ToolCallArgsEvaluator": {"tool_calls": [{"name": call["tool.name"], "args": json.loads(call["input.value"])} for call in calls]},
        "ToolCallOutputEvaluator": {
            "tool_outputs": [{"name": call["tool.name"], "output": json.loads(call["output.value"])["content"]} for call in calls]
        },
    }


def request_of(calls: list[dict[str, str]]) -> bytes:
    """Return the calls as children of an agent's span."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(len(calls) + 1):
        span = spans.add(trace_id=bytes(15) + b"1", span_id=(number + 1).to_bytes(8, "big"), flags=0x100)
        span.start_time_unix_nano, span.end_time_unix_nano = 1_000 + 10 * number, 1_005 + 10 * number
        if number:
            span.parent_span_id = (1).to_bytes(8, "big")
            for key, value in calls[number - 1].items():
                span.attributes.add(key=key).value.string_value = value
    return request.SerializeToString()


def judging(criteria: Mapping[str, dict[str, Any]]) -> Pipeline:
    """Build a pipeline by whose criteria every trace is judged."""
    return pipeline(*(build_check(IDS[name], {"strict": False}, given) for name, given in criteria.items()))


def judge_us(pipe: Pipeline, body: bytes, *, seconds: float = SECONDS) -> float:
    """Return microseconds of CPU for one trace, decoded anew each time; decoding is not in it."""
    times: list[float] = []
    until = time.monotonic() + seconds
    while len(times) < 5 or time.monotonic() < until:
        spans = tuple(protobuf_traces.decode_traces(body, pipe.projection).spans)
        trace = Trace(trace_id=spans[0].trace_id, spans=spans, root=spans[0], trigger=Trigger.ROOT_SPAN)
        began = time.thread_time()
        report = pipe.evaluate(trace)
        times.append(time.thread_time() - began)
        scores = [verdict.emitted_score for verdict in report.verdicts]
        assert scores == [1.0] * 4, scores
    return middle(times) * 1e6


def reference(specs: Mapping[int, object]) -> tuple[str, dict[int, float]]:
    """Return what the reference is, or why it is not there, and its microseconds for one trace by size."""
    if not REFERENCE.exists():
        folder = os.path.relpath(REFERENCE.parent.parent)
        return f"none: python3 -m venv {folder} && {folder}/bin/pip install uipath", {}
    asked = json.dumps({"seconds": SECONDS, "sizes": specs})
    quiet = {**os.environ, "UIPATH_TELEMETRY_ENABLED": "false"}
    script = str(FOLDER.parent.parent / "tests" / "bench" / "reference.py")
    done = subprocess.run([str(REFERENCE), script], input=asked, capture_output=True, text=True, check=False, env=quiet)
    if done.returncode:
        return f"reference failed: {done.stderr.strip().splitlines()[-1]}", {}
    said = json.loads(done.stdout)
    for size, found in said["sizes"].items():
        assert set(found["scores"].values()) == {1.0}, (size, found)
    return f"uipath {said['version']}", {int(size): found["us"] for size, found in said["sizes"].items()}


def results() -> Iterator[Result]:
    """Measure every size, and how time grows with size, with the garbage collector as a sidecar has it."""
    collect_garbage_seldom()
    calls = {size: calls_of(size) for size in GOALS}
    yardstick, theirs = reference({size: {"calls": some, "criteria": criteria_of(some)} for size, some in calls.items()})
    for size, limit in GOALS.items():
        pipe = judging(criteria_of(calls[size]))
        yield Result(
            name="judging",
            load=f"{size:,} calls, 4 evaluators",
            ours=judge_us(pipe, request_of(calls[size])),
            yardstick=yardstick,
            theirs=theirs.get(size),
            unit="us/trace",
            goals=(Goal(limit=limit, of="ours"), Goal(limit=round(1 / TIMES_FASTER, 4))),
        )
    yield from growth()


def growth() -> Iterator[Result]:
    """Measure twice the calls and expectations beside once as many; apart: all calls of one tool, for which all pairs are thinkable."""
    for tools in (TOOLS, 1):
        found = {}
        for size in (500, 1_000):
            calls = [{**call, "tool.name": f"tool_{number % tools}"} for number, call in enumerate(calls_of(size))]
            gc.collect()
            found[size] = judge_us(judging(criteria_of(calls)), request_of(calls))
        yield Result(
            name="judging",
            load=f"1,000 calls of {tools} tools",
            ours=found[1_000],
            yardstick="500 calls",
            theirs=found[500],
            unit="us/trace",
            goals=(Goal(limit=2.2),),
        )
