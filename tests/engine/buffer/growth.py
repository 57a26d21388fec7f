"""Measures what the buffer really takes, in a process of its own: ``python -m tests.engine.buffer.growth SHAPE TRACES``.

Prints JSON: the buffer's own estimate, and the growth that tracemalloc and the operating system saw meanwhile, in bytes.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.otlp.attribute_reader import reader_for
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from otel_toolcall_eval.extraction.extractor import Extractor

WIRE_BYTES = 1_200
WORDS = [
    "the",
    "weather",
    "in",
    "city",
    "is",
    "cloudy",
    "with",
    "light",
    "rain",
    "and",
    "wind",
    "from",
    "north",
    "expected",
    "during",
    "afternoon",
    "temperature",
    "humidity",
    "alert",
    "severe",
    "none",
    "moderate",
    "sunny",
    "forecast",
    "tomorrow",
    "evening",
    "pressure",
    "low",
    "high",
    "visibility",
    "kilometres",
    "station",
    "reading",
]
CITIES = ("Tokyo", "Paris", "San Francisco", "London", "Reykjavik", "Buenos Aires", "Nairobi", "Auckland")
RESOURCE = {"service.name": "weather-agent", "telemetry.sdk.name": "opentelemetry", "host.name": "h1", "service.instance.id": "abc"}


class Agents:
    """Makes requests of agents that do not exist; the same ones each time."""

    def __init__(self) -> None:
        """Start from a fixed seed."""
        self._random = random.Random(4)  # noqa: S311 - repeatable, and no secret

    def text(self, size: int) -> str:
        """Return words."""
        words: list[str] = []
        length = 0
        while length < size:
            words.append(self._random.choice(WORDS))
            length += len(words[-1]) + 1
        return " ".join(words)[:size]

    def request(self, *, spans: int, tools: int, payload: int = 300) -> bytes:
        """Return one trace of an agent, its tools and its model calls; a span has 1,200 bytes or as many as its payload needs."""
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        block.resource.attributes.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in RESOURCE.items())
        group = block.scope_spans.add()
        group.scope.name = "openinference.instrumentation"
        trace_id, root_id = self._random.randbytes(16), self._random.randbytes(8)
        start = 1_790_000_000_000_000_000 + self._random.getrandbits(50)
        for number in range(spans):
            span = group.spans.add(trace_id=trace_id, span_id=self._random.randbytes(8), flags=0x101, kind=1)
            span.start_time_unix_nano = start + number * self._random.getrandbits(28)
            span.end_time_unix_nano = span.start_time_unix_nano + self._random.getrandbits(29)
            attributes: dict[str, str]
            if number == 0:
                span.span_id, span.name = root_id, "invoke_agent weather"
                attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather"}
            else:
                span.parent_span_id = root_id
                span.name, attributes = self._tool(payload) if number <= tools else ("chat gpt", {"request.model": "gpt"})
            span.attributes.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items())
            missing = WIRE_BYTES - span.ByteSize()
            if missing > 0:
                span.attributes.add(key="not.kept", value=AnyValue(string_value=self.text(missing)))
        return request.SerializeToString()

    def _tool(self, payload: int) -> tuple[str, dict[str, str]]:
        tool = self._random.choice(("get_temperature", "get_humidity", "get_forecast"))
        return f"execute_tool {tool}", {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.id": f"call_{self._random.getrandbits(64):016x}",
            "gen_ai.tool.call.arguments": json.dumps({"city": self._random.choice(CITIES), "days": self._random.randint(1, 9)}),
            "gen_ai.tool.call.result": json.dumps({"content": self.text(payload), "temperature": self._random.random() * 40}),
        }


SHAPES = {
    "ten_spans": {"spans": 10, "tools": 4},
    "small_spans": {"spans": 20, "tools": 0},
    "large_payloads": {"spans": 5, "tools": 4, "payload": 10_000},
    "tiny_traces": {"spans": 1, "tools": 0},
    "wide_traces": {"spans": 2_000, "tools": 500},
}


def rss_bytes() -> int:
    """Return the memory that the operating system sees."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file of the kernel
        return int(file.read().split()[1]) * resource.getpagesize()


def measure(shape: str, traces: int, *, packed: bool, trace_memory: bool) -> dict[str, float]:
    """Fill a buffer with open traces and compare."""
    reader: Extractor = default_extractor()
    limit = traces * 2_684 if packed else 2**40  # 100,000 traces in 256 MiB
    buffer = TraceBuffer(is_relevant=reader.is_relevant, limits=BufferLimits(limit_bytes=limit, num_traces=10**6))
    agents = Agents()
    for _ in range(20):  # what is made once and for all, in caches above all, is not the traces'
        decode_traces(agents.request(**SHAPES[shape]), reader.projection)
    gc.collect()
    if trace_memory:
        tracemalloc.start()
    before_rss, before = rss_bytes(), tracemalloc.get_traced_memory()[0] if trace_memory else 0
    began, busy = time.perf_counter(), 0.0
    for number in range(traces):
        spans = decode_traces(agents.request(**SHAPES[shape]), reader.projection).spans
        began = time.perf_counter()
        buffer.add(spans, now_ns=number)
        busy += time.perf_counter() - began
    del spans
    reader_for.cache_clear()  # its memo of values is bounded, and no trace's
    gc.collect()
    return {
        "open": len(buffer),
        "estimate": buffer.size_bytes,
        "traced": tracemalloc.get_traced_memory()[0] - before if trace_memory else 0,
        "rss": rss_bytes() - before_rss,
        "rss_total": rss_bytes(),
        "seconds": busy,
    }


if __name__ == "__main__":
    _, shape_, traces_, how = sys.argv
    print(json.dumps(measure(shape_, int(traces_), packed="packed" in how, trace_memory="traced" in how)))  # noqa: T201 - the answer
