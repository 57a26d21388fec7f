"""Times decoding. Each figure stands beside what parsing alone takes, with the generated classes, in the same run."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp import json_traces, protobuf_traces
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.bench.results import Goal, Result
from tests.otlp.otlp_requests import START_NS, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPANS = 512  # what the SDK's batch processor sends at a time
ROUNDS = 25
MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "What is the weather in Tokyo? " * 10 + "{}"}]}])
GENERAL = {f"http.request.header.{number}": "value" * 4 for number in range(12)}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.id": "call_{}",
    "gen_ai.tool.call.arguments": '{"city": "Tokyo", "days": {}}',
    "gen_ai.tool.call.result": '{"temperature": {}, "condition": "sunny"}',
}
MODEL = {
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.request.model": "gpt-5",
    "gen_ai.response.id": "resp_{}",
    "gen_ai.usage.input_tokens": "{}",
    "gen_ai.usage.output_tokens": "56",
    "gen_ai.input.messages": MESSAGES,
    "gen_ai.output.messages": MESSAGES,
    "server.address": "api.example.com",
}
KINDS = {"general": [GENERAL], "tool": [TOOL], "model": [MODEL], "agent trace": [*[MODEL] * 5, *[TOOL] * 4, GENERAL]}
PROJECTIONS: dict[str, Callable[[], Projection]] = {
    "nothing kept": lambda: Projection(keys=frozenset({f"nobody.writes.this.{number}" for number in range(150)})),
    "all dialects": lambda: default_extractor().projection,
}


def request_of(kinds: list[dict[str, str]], spans: int = SPANS) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    block = request.resource_spans.add()
    for key in ("service.name", "telemetry.sdk.language", "telemetry.sdk.name", "telemetry.sdk.version"):
        block.resource.attributes.add(key=key).value.string_value = "value"
    group = block.scope_spans.add()
    group.scope.name = "agent"
    for number in range(spans):
        span = group.spans.add(
            trace_id=os.urandom(16),
            span_id=os.urandom(8),
            parent_span_id=os.urandom(8),
            name="chat gpt-5",
            kind="SPAN_KIND_INTERNAL",
            start_time_unix_nano=START_NS + number,
            end_time_unix_nano=START_NS + number + 5,
            flags=0x100,
        )
        span.status.code = 1  # type: ignore[assignment] # the stub wants the enum's own type
        for key, value in kinds[number % len(kinds)].items():
            span.attributes.add(key=key).value.string_value = value.replace("{}", str(number))
    return request


def best(work: Callable[[], object], spans: int = SPANS) -> float:
    """Return the least CPU time of several rounds, in microseconds for each span."""
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times) / spans * 1e6


def results() -> Iterator[Result]:
    """Measure every kind of span, with and without anything kept of it, and twice the spans."""
    for kind, attributes in KINDS.items():
        request = request_of(attributes)
        body, text = request.SerializeToString(), to_json(request)
        parsing = best(lambda: ExportTraceServiceRequest.FromString(body))  # noqa: B023 - called at once
        loading = best(lambda: json.loads(text))  # noqa: B023
        for kept, projecting in PROJECTIONS.items():
            projection = projecting()
            more = {"bytes a span": len(body) / SPANS}
            load = f"{kind}, {kept}"
            protobuf = best(lambda: protobuf_traces.decode_traces(body, projection))  # noqa: B023
            from_json = best(lambda: json_traces.decode_traces(text, projection))  # noqa: B023
            yield Result(name="decode protobuf", load=load, ours=protobuf, yardstick="protobuf parser alone", theirs=parsing, more=more)
            yield Result(name="decode JSON", load=load, ours=from_json, yardstick="json.loads alone", theirs=loading)
    projection = PROJECTIONS["all dialects"]()
    few, many = (request_of(KINDS["agent trace"], spans).SerializeToString() for spans in (5 * SPANS, 10 * SPANS))
    taken = [best(lambda: protobuf_traces.decode_traces(body, projection), 1) for body in (few, many)]  # noqa: B023
    load = f"{10 * SPANS:,} spans"
    yield Result(
        name="decode protobuf",
        load=load,
        ours=taken[1],
        yardstick=f"{5 * SPANS:,} spans",
        theirs=taken[0],
        unit="us",
        goals=(Goal(limit=2.2),),
    )
