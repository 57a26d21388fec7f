"""The requests that servers are measured with: encoded once, and given trace IDs of their own by writing into their bytes."""

from __future__ import annotations

import gzip
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.agent_traces import SPANS_OF_TRACE, request_of
from tests.otlp.otlp_requests import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

TRACES_OF_BATCH: Final = 51
"""Whole traces in a request of 510 spans: the SDK's batch processor sends 512, and what it cuts off would only come later."""


LIFELIKE_REQUESTS: Final = 100
"""Of other traces each, 60 MB: more than anything remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent, and how.

    Attributes:
        traces: in a request, of ten spans each; 0 for requests of one span.
        transport: grpc or http.
        senders: each with a connection of its own.
        in_flight: requests of each sender that are not answered yet.
        json: OTLP/JSON in place of protobuf.
        gzip: bodies are packed.
        bound: the traces are judged by four evaluators; else by none, although there are criteria.
        lifelike: no two traces within some thousands say the same.
    """

    traces: int = TRACES_OF_BATCH
    transport: str = "grpc"
    senders: int = 1
    in_flight: int = 4
    json: bool = False
    gzip: bool = False
    bound: bool = True
    lifelike: bool = False

    @property
    def spans(self) -> int:
        """Return how many spans a request has."""
        return self.traces * SPANS_OF_TRACE or 1


LOADS: Mapping[str, Load] = {
    "bound-grpc": Load(),
    "unbound-grpc": Load(bound=False),
    "lifelike-grpc": Load(lifelike=True),
    "bound-http": Load(transport="http"),
    "unbound-http": Load(transport="http", bound=False),
    "bound-json": Load(transport="http", json=True),
    "unbound-json": Load(transport="http", json=True, bound=False),
    "bound-gzip": Load(transport="http", gzip=True),
    "one-span-grpc": Load(traces=0, senders=4, in_flight=8),
    "one-span-http": Load(traces=0, senders=16, in_flight=1, transport="http"),
    "senders-100": Load(traces=1, senders=100, in_flight=1),
}


class Requests:
    """Bodies without end, no two traces of which have one ID.

    The first half of an ID is the same in all of them, the second counts. Requests of one span are those of a trace in order of their end.
    """

    def __init__(self, load: Load) -> None:
        """Encode one request, or one for each span of a trace, and find the IDs in them."""
        self.prefix = os.urandom(8)
        self._load = load
        traces = max(1, load.traces)
        self._number = traces * (LIFELIKE_REQUESTS if load.lifelike else 1)
        marks = [bytes((0xFE, 0xFD)) + os.urandom(6) + number.to_bytes(8, "big") for number in range(traces)]
        texts = [mark.hex().encode() if load.json else mark for mark in marks]
        self._bodies = []
        for first in range(0, self._number, traces):
            whole = ExportTraceServiceRequest.FromString(request_of(first, traces, lifelike=load.lifelike))
            for span in whole.resource_spans[0].scope_spans[0].spans:
                span.trace_id = marks[int.from_bytes(span.trace_id, "big") - first]
            for request in [whole] if load.traces else _single(whole):
                body = bytearray(to_json(request) if load.json else request.SerializeToString())
                self._bodies.append((body, first, [tuple(_places(body, text)) for text in texts]))

    def __iter__(self) -> Iterator[bytes]:
        """Yield bodies, the traces in which are numbered in the order in which they come."""
        first = 0
        while True:
            for body, later, marks in self._bodies:
                for number, places in enumerate(marks, first + later):
                    trace_id = self.prefix + number.to_bytes(8, "big")
                    text = trace_id.hex().encode() if self._load.json else trace_id
                    for place in places:
                        body[place : place + len(text)] = text
                yield gzip.compress(body, compresslevel=1) if self._load.gzip else bytes(body)
            first += self._number

    @staticmethod
    def numbering(load: Load, prefix: bytes) -> Callable[[bytes], int | None]:
        """Return what tells in which body, from 0, the last span of a trace was; None for a stranger's trace."""

        def number_of(trace_id: bytes) -> int | None:
            if trace_id[:8] != prefix:
                return None
            number = int.from_bytes(trace_id[8:], "big")
            return number // load.traces if load.traces else number * SPANS_OF_TRACE + SPANS_OF_TRACE - 1

        return number_of


def _single(whole: ExportTraceServiceRequest) -> Iterator[ExportTraceServiceRequest]:
    for number in range(SPANS_OF_TRACE):
        request = ExportTraceServiceRequest.FromString(whole.SerializeToString())
        spans = request.resource_spans[0].scope_spans[0].spans
        kept = spans[number]
        del spans[:]
        spans.append(kept)
        yield request


def _places(body: bytearray, text: bytes) -> Iterator[int]:
    place = body.find(text)
    while place >= 0:
        yield place
        place = body.find(text, place + len(text))


def criteria(service: str) -> str:
    """Return a criteria file by which all four evaluators judge each trace of a service; of the standard load all pass."""
    tools = ("get_current_weather", "get_forecast", "convert_units", "send_message")
    request = ExportTraceServiceRequest.FromString(request_of(1, 1))
    outputs = [
        attribute.value.string_value
        for span in request.resource_spans[0].scope_spans[0].spans
        for attribute in span.attributes
        if attribute.key == "gen_ai.tool.call.result"
    ]
    judged = {
        "ToolCallCountEvaluator": {"tool_calls_count": {**{tool: [">=", 1] for tool in tools}, "delete_account": ["=", 0]}},
        "ToolCallOrderEvaluator": {"tool_calls_order": tools},
        "ToolCallArgsEvaluator": {
            "tool_calls": [{"name": tool, "args": {"city": "Paris", "unit": "c", "days": day}} for day, tool in enumerate(tools)]
        },
        "ToolCallOutputEvaluator": {
            "tool_outputs": [{"name": tool, "output": json.loads(output)} for tool, output in zip(tools, outputs, strict=True)]
        },
    }
    evaluation = {"id": "standard_load", "match": {"service": service}, "evaluation_criterias": judged}
    return json.dumps({"evaluations": [evaluation]}, indent=1)
