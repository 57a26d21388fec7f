"""A sidecar in a process of its own, on ports of its own, ended by its ID."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.patience import PATIENCE_SECONDS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SERVE = ("-m", "otel_toolcall_eval", "serve")


@dataclass(kw_only=True)
class RunningSidecar:
    """What a test needs to know of it."""

    process: subprocess.Popen[str]
    grpc: str = ""
    http: str = ""
    control: str = ""
    verdicts: queue.Queue[dict[str, Any]] = field(default_factory=queue.Queue)
    log: list[str] = field(default_factory=list)

    def wait_until(self, event: str) -> None:
        """Wait until it says that it is ``ready``, or what else it says before."""
        early = []  # verdicts that a journal held may be emitted again before
        while "event" not in (said := self.verdicts.get(timeout=PATIENCE_SECONDS)):
            early.append(said)
        for verdict in early:
            self.verdicts.put(verdict)
        assert said["event"] == event, f"the sidecar did not start: {''.join(self.log)}"
        self.grpc, self.http, self.control = (said.get(listener, "") for listener in ("grpc", "http", "control"))

    def until_ready(self) -> None:
        """Wait until ``/readyz`` says so: it listens before it has taken up its journal."""
        wait_for(lambda: get(self.http, "/readyz") == (200, b"ok\n"), "readiness")

    def terminate(self) -> int:
        """Send SIGTERM and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def drained(self) -> list[dict[str, Any]]:
        """Return the verdicts that have not been taken yet; complete once the process has ended."""
        found = []
        while (record := self.verdicts.get(timeout=PATIENCE_SECONDS)).get("event") != "ended":
            found.append(record)
        return found


@contextmanager
def running_sidecar(
    *options: str,
    environ: Mapping[str, str] | None = None,
    quiet: str = "300ms",
    program: Sequence[str] = SERVE,
    first: str = "ready",
) -> Iterator[RunningSidecar]:
    """Run ``serve`` with JSON verdicts until the end of the block; or ``program``, which takes its options, and says ``first`` first."""
    command = [sys.executable, *program, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]
    command += ["--verdicts", "json", *options]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    wait = {
        "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": quiet,
        # On a busy machine the ten seconds of the default may be over before everything is judged and sent.
        "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": f"{PATIENCE_SECONDS:g}s",
    }
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**inherited, **wait, **(environ or {})}
    )
    sidecar = RunningSidecar(process=process)

    def read() -> None:
        for line in process.stdout or ():
            sidecar.verdicts.put(json.loads(line))
        sidecar.verdicts.put({"event": "ended"})

    readers = [threading.Thread(target=read), threading.Thread(target=lambda: sidecar.log.extend(process.stderr or ()))]
    for reader in readers:
        reader.start()
    try:
        sidecar.wait_until(first)
        yield sidecar
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for reader in readers:
            reader.join(PATIENCE_SECONDS)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def send_json(address: str, request: Mapping[str, object]) -> None:
    """Send an OTLP/JSON request and expect success."""
    status, body = post(address, json.dumps(request).encode(), content_type="application/json")
    assert status == 200, body


def post(address: str, body: bytes, *, content_type: str, path: str = "/v1/traces") -> tuple[int, bytes]:
    connection = HTTPConnection(address, timeout=PATIENCE_SECONDS)
    try:
        connection.request("POST", path, body=body, headers={"Content-Type": content_type})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def get(address: str, path: str, *, accept: str = "*/*") -> tuple[int, bytes]:
    connection = HTTPConnection(address, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def metric_samples(address: str) -> list[tuple[str, dict[str, str], float]]:
    """Return name, labels and value of each sample on /metrics, in OpenMetrics form."""
    status, body = get(address, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    families = text_string_to_metric_families(body.decode())  # type: ignore[no-untyped-call]  # the library's parser has no types
    return [(sample.name, dict(sample.labels), sample.value) for family in families for sample in family.samples]


def metric_sums(address: str) -> dict[str, float]:
    """Return the sums of all series of each sample on /metrics."""
    sums: dict[str, float] = {}
    for name, _, value in metric_samples(address):
        sums[name] = sums.get(name, 0.0) + value
    return sums
