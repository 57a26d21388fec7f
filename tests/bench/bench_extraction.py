"""Times the reading of tool calls: `make bench`. Each figure stands beside what decoding the same spans from OTLP/JSON takes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.settings.dialect_file import default_extractor
from otel_toolcall_eval.wire.otlp_json import decode_traces

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from otel_toolcall_eval.model.trace import Span

SPANS = 500
ROUNDS = 7
TRACE = "0" * 31 + "1"
GENERAL = {f"http.header.{number}": "value" for number in range(8)}
TOOL = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.type": "function",
    "gen_ai.tool.call.arguments": '{"city": "Paris", "unit": "c"}',
    "gen_ai.tool.call.result": '{"temp_c": 18, "sky": "clear"}',
}
MESSAGES = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Weather?" * 200}]}])
KINDS = {
    "irrelevant": GENERAL,
    "tool, GenAI": {**GENERAL, **TOOL},
    "tool, OpenInference": {
        **GENERAL,
        "openinference.span.kind": "TOOL",
        "tool.name": "f",
        "input.value": "{'a': 1}",
        "output.value": "ok",
    },
    "tool, the guides'": {**GENERAL, "tool.name": "f", "input.value": '{"a": 1}', "output.value": "ok"},
    "model": {**GENERAL, "gen_ai.operation.name": "chat", "gen_ai.input.messages": MESSAGES, "gen_ai.output.messages": MESSAGES},
}


def _request(attributes: dict[str, str]) -> bytes:
    encoded = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    spans = [
        {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "name": "span",
            "startTimeUnixNano": str(number * 10),
            "endTimeUnixNano": str(number * 10 + 5),
            "attributes": encoded,
        }
        for number in range(1, SPANS + 1)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"scope": {"name": "bench"}, "spans": spans}]}]}).encode()


def _best(work: Callable[[], object]) -> float:
    """Return the least time of several rounds, in microseconds for each span."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times) / SPANS * 1e6


@pytest.mark.parametrize("kind", KINDS)
def test_extraction_beside_decoding(kind: str) -> None:
    extractor = default_extractor()
    body = _request(KINDS[kind])
    spans: Sequence[Span] = decode_traces(body, extractor.projection).spans

    def read_payloads() -> None:
        for call in extractor.extract(spans).calls:
            _ = call.arguments.state, call.output.state

    decoding = _best(lambda: decode_traces(body, extractor.projection))
    figures = {
        "marker test": _best(lambda: [extractor.is_relevant(span) for span in spans]),
        "extraction": _best(lambda: extractor.extract(spans)),
        "with payloads": _best(read_payloads),
    }
    shown = ", ".join(f"{name} {figure:.1f} us ({figure / decoding:.2f})" for name, figure in figures.items())
    print(f"\n{kind}: decoding {decoding:.1f} us a span; {shown}")  # noqa: T201 - the report is the point


def test_ten_times_the_spans_take_about_ten_times_as_long() -> None:
    extractor = default_extractor()
    spans = decode_traces(_request(KINDS["tool, GenAI"]), extractor.projection).spans
    few, many = spans[: SPANS // 10], spans
    ratio = _best(lambda: extractor.extract(many)) / _best(lambda: extractor.extract(few))
    print(f"\n{SPANS} spans against {SPANS // 10}: {ratio:.1f} times as long")  # noqa: T201 - the report is the point
