"""Times decoding: `make bench`. Each figure stands beside what parsing alone takes, with the generated classes, in the same run."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.settings.dialect_file import default_extractor
from otel_toolcall_eval.wire import otlp_json, otlp_protobuf
from tests.wire.otlp_requests import START_NS, to_json

if TYPE_CHECKING:
    from collections.abc import Callable

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
PROJECTIONS = {
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
    """Return the least time of several rounds, in microseconds for each span."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / spans * 1e6


@pytest.mark.parametrize("kept", PROJECTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_decoding_beside_parsing_alone(kind: str, kept: str) -> None:
    request, projection = request_of(KINDS[kind]), PROJECTIONS[kept]()
    body, text = request.SerializeToString(), to_json(request)
    parsing = best(lambda: ExportTraceServiceRequest.FromString(body))
    loading = best(lambda: json.loads(text))
    protobuf = best(lambda: otlp_protobuf.decode_traces(body, projection))
    from_json = best(lambda: otlp_json.decode_traces(text, projection))
    print(  # noqa: T201 - the report is the point
        f"\n{kind}, {kept}: {len(body) // SPANS} bytes a span; parsing alone {parsing:.2f} us, decoding {protobuf:.1f} us"
        f" ({protobuf / parsing:.1f} x); JSON: loading alone {loading:.1f} us, decoding {from_json:.1f} us ({from_json / loading:.1f} x,"
        f" {from_json / protobuf:.1f} x protobuf)"
    )


def test_ten_times_the_spans_take_about_ten_times_as_long() -> None:
    projection = PROJECTIONS["all dialects"]()
    few, many = (request_of(KINDS["agent trace"], spans).SerializeToString() for spans in (SPANS, 10 * SPANS))
    ratio = best(lambda: otlp_protobuf.decode_traces(many, projection)) / best(lambda: otlp_protobuf.decode_traces(few, projection))
    print(f"\n{10 * SPANS} spans against {SPANS}: {ratio:.1f} times as long")  # noqa: T201 - the report is the point
