"""The real Jaeger, in memory: takes OTLP over gRPC, and is asked over its HTTP API what it has."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.e2e.ports import held_ports
from tests.e2e.processes import logged
from tests.e2e.toolchain import JAEGER, built
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JaegerSpan:
    """A span as Jaeger shows it.

    Attributes:
        parent: ID of the span above; None for none.
        events: name and values of each event.
    """

    name: str
    span_id: str
    parent: str | None
    tags: Values
    events: Sequence[tuple[str, Values]]
    start_us: int
    duration_us: int


@dataclass(kw_only=True)
class Tracing:
    """A running Jaeger."""

    process: subprocess.Popen[str]
    grpc: str
    api: str
    log: list[str] = field(default_factory=list)

    def trace(self, trace_id: str) -> Sequence[JaegerSpan]:
        """Return the spans of a trace; none if it does not know it."""
        status, body = get(self.api, f"/api/traces/{trace_id}")
        if status != 200:
            return ()
        return [_shown(span) for trace in json.loads(body)["data"] for span in trace["spans"]]

    def wait_for(self, trace_id: str, *, spans: int) -> Sequence[JaegerSpan]:
        """Return a trace once it has so many spans."""
        wait_for(lambda: len(self.trace(trace_id)) >= spans, f"{spans} spans of {trace_id} in Jaeger")
        return self.trace(trace_id)


def _shown(span: Mapping[str, Any]) -> JaegerSpan:
    above = [reference["spanID"] for reference in span["references"] if reference["refType"] == "CHILD_OF"]
    events = []
    for entry in span["logs"]:
        values = _values(entry["fields"])
        events.append((str(values.pop("event", "")), values))
    return JaegerSpan(
        name=span["operationName"],
        span_id=span["spanID"],
        parent=above[0] if above else None,
        tags=_values(span["tags"]),
        events=events,
        start_us=span["startTime"],
        duration_us=span["duration"],
    )


def _values(pairs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs}


@contextmanager
def tracing(folder: Path) -> Iterator[Tracing]:
    """Run Jaeger; ``folder`` is for its configuration."""
    with held_ports(3) as (grpc, api, query):
        config = {
            "extensions": {
                "jaeger_storage": {"backends": {"memory": {"memory": {"max_traces": 10_000}}}},
                "jaeger_query": {"storage": {"traces": "memory"}, "http": {"endpoint": api}, "grpc": {"endpoint": query}},
            },
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc}}}},
            "exporters": {"jaeger_storage_exporter": {"trace_storage": "memory"}},
            "service": {
                "extensions": ["jaeger_storage", "jaeger_query"],
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["jaeger_storage_exporter"]}},
            },
        }
        file = folder / "jaeger.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        program = [str(built(JAEGER) / "jaeger"), f"--config={file}"]
        process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        found = Tracing(process=process, grpc=grpc, api=api)
        with logged(process, found.log):
            wait_for(lambda: process.poll() is not None or _answers(api), "Jaeger")
            assert process.poll() is None, "".join(found.log)
            yield found
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_SECONDS) == 0, "".join(found.log)


def _answers(api: str) -> bool:
    try:
        return get(api, "/api/services")[0] == 200
    except OSError:
        return False
