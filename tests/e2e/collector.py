"""The real OpenTelemetry Collector, between a sender and the sidecar, or behind the sidecar."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.e2e.ports import held_ports
from tests.e2e.processes import logged
from tests.e2e.toolchain import COLLECTOR, built
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.sidecar_process import get

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Config = Mapping[str, object]

DROPS = ("Dropping data", "Rejecting data")
"""In its log, when it gives something up."""


@dataclass(kw_only=True)
class Collecting:
    """A running Collector."""

    process: subprocess.Popen[str]
    grpc: str
    http: str
    log: list[str] = field(default_factory=list)

    def stop(self) -> None:
        """Let it send what it has, and end."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_SECONDS) == 0, "".join(self.log)


@contextmanager
def collecting(
    folder: Path, *, exporters: Mapping[str, Config], traces: Sequence[str] = (), of_metrics: Mapping[str, Config] | None = None
) -> Iterator[Collecting]:
    """Run a Collector that takes OTLP and hands it on.

    Args:
        folder: for its configuration.
        exporters: to which everything goes.
        traces: processors of its pipeline of traces; those of logs and metrics have none.
        of_metrics: exporters that take metrics alone.
    """
    with held_ports(3) as (grpc, http, health):
        pipeline = {"receivers": ["otlp"], "exporters": list(exporters)}
        metrics = {"receivers": ["otlp"], "exporters": [*exporters, *(of_metrics or {})]}
        config = {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc}, "http": {"endpoint": http}}}},
            # Short waits: the tests wait for what comes of them. A trace is handed on whole.
            "processors": {
                "groupbytrace": {"wait_duration": "100ms", "num_traces": 10_000},
                "batch": {"timeout": "50ms", "send_batch_size": 64},
            },
            "exporters": {**exporters, **(of_metrics or {})},
            "extensions": {"health_check": {"endpoint": health}},
            "service": {
                "extensions": ["health_check"],
                "telemetry": {"logs": {"encoding": "json", "level": "info", "sampling": {"enabled": False}}, "metrics": {"level": "none"}},
                "pipelines": {"traces": {**pipeline, "processors": list(traces)}, "logs": pipeline, "metrics": metrics},
            },
        }
        file = folder / "collector.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        program = [str(built(COLLECTOR) / "otelcol"), "--config", str(file)]
        process = subprocess.Popen(program, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        found = Collecting(process=process, grpc=grpc, http=http)
        with logged(process, found.log):
            wait_for(lambda: process.poll() is not None or _healthy(health), "the Collector")
            assert process.poll() is None, "".join(found.log)
            yield found


def _healthy(address: str) -> bool:
    try:
        return get(address, "/")[0] == 200
    except OSError:
        return False


def patient_exporter(kind: str, protocol: str, target: str) -> Config:
    """Return the settings of an exporter that never gives up, and whose own intervals are far below what a refusal asks for."""
    settings: dict[str, object] = {
        "endpoint": target,
        "retry_on_failure": {"enabled": True, "initial_interval": "50ms", "max_interval": "200ms", "max_elapsed_time": "0s"},
        # Full, it holds up whoever sends to it, instead of dropping.
        "sending_queue": {"enabled": True, "queue_size": 20, "num_consumers": 4, "block_on_overflow": True},
    }
    if kind == "otlp_grpc":
        return {**settings, "tls": {"insecure": True}}
    return {**settings, "encoding": "json" if protocol == "http/json" else "proto"}
