"""What open traces take: a sidecar that is sent 100,000 of them and may not judge any, beside the Collector holding fewer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.bench.agent_traces import request_of
from tests.bench.loads import LOADS
from tests.bench.results import Goal, Result
from tests.bench.servers import Dialogue, collector, memory_mib, sidecar
from tests.sidecar_process import metric_sums

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.bench.servers import Server

TRACES: Final = 100_000
FEWER: Final = 10_000
"""The Collector holds whole spans: 100,000 traces would take more than a machine may have to spare."""
SECONDS: Final = 150.0
PAYLOADS: Final = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
LOAD: Final = "bound-grpc"


def payload_kib() -> float:
    """Return how much of one trace of the standard load are tool payloads."""
    request = ExportTraceServiceRequest.FromString(request_of(1, 1))
    found = (
        len(attribute.value.string_value)
        for span in request.resource_spans[0].scope_spans[0].spans
        for attribute in span.attributes
        if attribute.key in PAYLOADS
    )
    return sum(found) / 1024


def held(server: Server, traces: int) -> tuple[float, float]:
    """Fill a server; return KiB of RAM for each trace, and all of it in MiB."""
    before = memory_mib(server.pid, "VmRSS")
    with Dialogue("tests.bench.sending", LOAD, server.grpc) as sender:
        sent = sender.ask(f"{SECONDS} {traces // LOADS[LOAD].traces}")
        server.wait_until_idle(time.time())
    after = memory_mib(server.pid, "VmRSS")
    return (after - before) * 1024 / (sent["requests"] * LOADS[LOAD].traces), after


def results() -> Iterator[Result]:
    settings = {
        "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": "1h",
        "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_MAX": "1h",
        "OTEL_TOOLCALL_EVAL_COMPLETION_TRACE_TIMEOUT": "2h",
        "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": "1s",
    }
    with sidecar(service="weather-agent", sink=None, more=settings) as server:
        ours, whole = held(server, TRACES)
        peak = memory_mib(server.pid)
        sums = metric_sums(server.http)
    with collector(quiet_seconds=3600) as server:
        theirs, _ = held(server, FEWER)
    payload = payload_kib()
    active, estimate = (sums.get(f"toolcall_eval_traces_{name}", 0.0) for name in ("active", "memory_bytes"))
    yield Result(
        name="open traces",
        load=f"{TRACES:,} of ten spans",
        ours=ours,
        yardstick=f"Collector, {FEWER:,}",
        theirs=theirs,
        unit="KiB/trace",
        goals=(Goal(limit=4.0, of="beyond payloads KiB"), Goal(limit=400.0, of="process MiB")),
        more={
            "beyond payloads KiB": ours - payload,
            "payloads KiB": payload,
            "process MiB": whole,
            "peak MiB": peak,
            "open": active,
            "by our own estimate MiB": estimate / 2**20,
        },
    )
