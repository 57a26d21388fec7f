"""Times the reading of tool calls. Each figure stands beside what decoding the same spans from OTLP/JSON takes."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from otel_toolcall_eval.otlp.json_traces import decode_traces
from otel_toolcall_eval.settings.dialect_file import default_extractor
from tests.bench.results import Goal, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall
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
    """Return the least CPU time of several rounds, in microseconds for each span."""
    times = []
    for _ in range(ROUNDS):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return min(times) / SPANS * 1e6


def results() -> Iterator[Result]:
    """Measure every kind of span, and twice as many spans."""
    extractor = default_extractor()
    for kind, attributes in KINDS.items():
        body = _request(attributes)
        spans: Sequence[Span] = decode_traces(body, extractor.projection).spans
        yield Result(
            name="extraction",
            load=f"{kind}, payloads read",
            ours=_best(lambda: _read_payloads(extractor.extract(spans).calls)),  # noqa: B023 - called at once
            yardstick="decoding OTLP/JSON",
            theirs=_best(lambda: decode_traces(body, extractor.projection)),  # noqa: B023
            more={
                "marker test us": _best(lambda: [extractor.is_relevant(span) for span in spans]),  # noqa: B023
                "payloads not read us": _best(lambda: extractor.extract(spans)),  # noqa: B023
            },
        )
    whole = decode_traces(_request(KINDS["tool, GenAI"]), extractor.projection).spans
    half = whole[: SPANS // 2]
    yield Result(
        name="extraction",
        load=f"{SPANS} spans",
        ours=_best(lambda: extractor.extract(whole)) * SPANS,
        yardstick=f"{SPANS // 2} spans",
        theirs=_best(lambda: extractor.extract(half)) * SPANS,
        unit="us",
        goals=(Goal(limit=2.2),),
    )


def _read_payloads(calls: Iterable[ToolCall]) -> None:
    for call in calls:
        _ = call.arguments.state, call.output.state
