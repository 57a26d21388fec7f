"""Traffic that gives the status page something of each kind to show: OTLP/JSON of agents that do well, badly and oddly."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]
Call = tuple[str, "Mapping[str, object] | None", object]

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>\u202ecod.exe'
"""A name that is markup, and turns the direction of what follows it."""

SECRET = "sk-canary-4711"  # noqa: S105 - stands for users' data
"""Recorded as an argument and as an output; it must not be on any page."""

CRITERIA = f"""\
evaluations:
  - id: refund_policy
    name: Refunds are looked up first, and nothing is deleted
    match: {{service: order-desk}}
    evaluation_criterias:
      ToolCallCountEvaluator:
        tool_calls_count: {{get_order: [">=", 1], refund_order: ["=", 1], delete_order: ["=", 0]}}
      ToolCallOrderEvaluator:
        tool_calls_order: [get_order, check_stock, refund_order]
      ToolCallArgsEvaluator:
        tool_calls:
          - {{name: get_order, args: {{order_id: A-7}}}}
          - {{name: refund_order, args: {{order_id: A-7, amount: 20}}}}
      ToolCallOutputEvaluator:
        tool_outputs:
          - {{name: refund_order, output: {{status: refunded}}}}
  - id: forecast_first
    match: {{service: weather}}
    evaluation_criterias:
      ToolCallCountEvaluator:
        tool_calls_count: {{get_forecast: ["=", 1]}}
      ToolCallOrderEvaluator:
        tool_calls_order: [geocode, get_forecast]
  - id: hostile
    match: {{service: {json.dumps(HOSTILE)}}}
    evaluation_criterias:
      ToolCallCountEvaluator:
        tool_calls_count: {{{json.dumps(HOSTILE)}: ["=", 2]}}
"""

SCOPE = "test"


def attribute(key: str, value: str) -> Json:
    return {"key": key, "value": {"stringValue": value}}


def trace(
    number: int,
    *,
    service: str,
    agent: str,
    calls: Sequence[Call],
    root: bool = True,
    more: Mapping[str, str] | None = None,
    failing: bool = False,
) -> Json:
    """Return an OTLP request with one trace: an agent span with a planning span and tool spans below it.

    Args:
        number: makes the IDs.
        service: ``service.name``.
        agent: name of the agent.
        calls: tool, arguments (None if they were not recorded), output.
        root: False leaves the agent span out.
        more: attributes of the agent span.
        failing: the last tool span has an error.
    """
    trace_id = f"{0x5B8EFFF798038103 + number:016x}d269b633813fc60c"
    start = time.time_ns() - 5_000_000_000

    def span(position: int, name: str, times: tuple[int, int], attributes: list[Json]) -> Json:
        above = {"parentSpanId": f"{number + 1:08x}{1:08x}"} if position else {}
        return {
            "traceId": trace_id,
            "spanId": f"{number + 1:08x}{position + 1:08x}",
            **above,
            "name": name,
            "kind": 1,
            "startTimeUnixNano": str(start + times[0] * 1_000_000),
            "endTimeUnixNano": str(start + times[1] * 1_000_000),
            "attributes": attributes,
        }

    spans = []
    if root:
        own = [attribute("gen_ai.operation.name", "invoke_agent"), attribute("gen_ai.agent.name", agent)]
        own += [attribute(key, value) for key, value in (more or {}).items()]
        spans.append(span(0, f"invoke_agent {agent}", (0, 600 * len(calls) + 900), own))
    for position, (tool, arguments, output) in enumerate(calls, start=1):
        own = [attribute("gen_ai.operation.name", "execute_tool"), attribute("gen_ai.tool.name", tool)]
        if arguments is not None:
            own.append(attribute("gen_ai.tool.call.arguments", json.dumps(arguments)))
            own.append(attribute("gen_ai.tool.call.result", json.dumps(output)))
        begin = 600 * position - 300
        spans.append(span(position, f"execute_tool {tool}", (begin, begin + 120 + 70 * position), own))
    if failing:
        spans[-1]["status"] = {"code": 2, "message": SECRET}
    resource = {"attributes": [attribute("service.name", service)]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": SCOPE}, "spans": spans}]}]}


def trace_id_of(request: Json) -> str:
    found: str = request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    return found


_GET = ("get_order", {"order_id": "A-7"}, {"total": 20})
_STOCK = ("check_stock", {"order_id": "A-7"}, {"stock": 3})
_REFUND = ("refund_order", {"order_id": "A-7", "amount": 20}, {"status": "refunded"})
_WRONG_REFUND = ("refund_order", {"order_id": "A-7", "amount": SECRET}, {"status": SECRET})
_DELETE = ("delete_order", {"order_id": "A-7"}, None)
_GEOCODE: Call = ("geocode", {"city": "Tokyo"}, {})
_FORECAST: Call = ("get_forecast", {"city": "Tokyo"}, {})
_SEND = ("send", {"to": SECRET}, "ok")

GOOD = trace(0, service="order-desk", agent="refunds", calls=[_GET, _STOCK, _REFUND])
BAD = trace(1, service="order-desk", agent="refunds", calls=[_WRONG_REFUND, _GET, _DELETE], failing=True)
NOT_CAPTURED = trace(2, service="order-desk", agent="refunds", calls=[("get_order", None, None), _STOCK, ("refund_order", None, None)])
FORECAST = trace(3, service="weather", agent="forecaster", calls=[_GEOCODE, _FORECAST])
NO_FORECAST = trace(4, service="weather", agent="forecaster", calls=[_GEOCODE])
EVIL = trace(5, service=HOSTILE, agent=HOSTILE, calls=[(HOSTILE, {"x": SECRET}, SECRET)])
UNBOUND = trace(6, service="newsletter", agent="writer", calls=[_SEND], more={"toolcall_eval.criteria": "sent_once"})
ROOTLESS = trace(7, service="order-desk", agent="refunds", calls=[_GET], root=False)

JUDGED = [GOOD, BAD, NOT_CAPTURED, FORECAST, NO_FORECAST, EVIL]
VERDICTS = 4 + 4 + 4 + 2 + 2 + 1
"""Of JUDGED: four of each of the first three, and so on."""


def many(first: int, number: int) -> Json:
    """Return a request with many traces that pass, on top of the others."""
    requests = [trace(first + each, service="weather", agent="forecaster", calls=[_GEOCODE, _FORECAST]) for each in range(number)]
    return {"resourceSpans": [resource for request in requests for resource in request["resourceSpans"]]}
