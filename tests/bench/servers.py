"""The servers that are measured, each in a process of its own, and what the system says that they used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from tests.bench.loads import criteria
from tests.e2e.ports import held_ports
from tests.e2e.toolchain import COLLECTOR
from tests.patience import wait_for
from tests.sidecar_process import SERVE, get

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT: Final = Path(__file__).resolve().parent.parent.parent
QUIET_SECONDS: Final = 1.0
"""How long both wait for more of a trace: their defaults, 10 s and 1 s, would compare 10 s of traces in memory with 1 s of them."""
IDLE_SHARE: Final = 0.07
"""Of a core: below it a server has done what it was sent."""
LOOK_SECONDS: Final = 0.3
STOP_SECONDS: Final = 30.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, its threads and its children, also of those that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS + sum(cpu_seconds(child) for child in _children(pid))


def memory_mib(pid: int, line: str = "VmHWM") -> float:
    """Return the most memory that a process and its children had in RAM, each at its time; ``VmRSS`` is what they have now."""
    own = 0.0
    with suppress(OSError):
        for text in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
            if text.startswith(f"{line}:"):
                own = int(text.split()[1]) / 1024
    return own + sum(memory_mib(child, line) for child in _children(pid))


def _wants_to_run(pid: int) -> bool:
    """Tell whether a thread would run if it was let: on a busy machine a server that gets no time looks idle by what it uses."""
    for file in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(OSError):
            if file.read_text(encoding="ascii").rpartition(")")[2].split()[0] != "S":
                return True
    return any(_wants_to_run(child) for child in _children(pid))


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            yield from map(int, task.read_text(encoding="ascii").split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One that is ready.

    Attributes:
        name: for the table.
        pid: of its process.
        grpc: where it takes OTLP over gRPC, as host:port.
        http: the same over HTTP.
        ready_seconds: from the start of the process to the first sign that it is ready.
    """

    name: str
    pid: int
    grpc: str
    http: str
    ready_seconds: float

    def wait_until_idle(self, began: float) -> float:
        """Wait until it has done what it has, and return the time (as ``time.time``) at which it was seen to be busy last."""
        busy, deadline = began, time.monotonic() + 120.0
        before, clock, quiet = cpu_seconds(self.pid), time.monotonic(), 0
        while quiet < 3 and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS)
            now, then = cpu_seconds(self.pid), time.monotonic()
            if now - before > IDLE_SHARE * (then - clock) or _wants_to_run(self.pid):
                busy, quiet = time.time(), 0
            else:
                quiet += time.time() - began > QUIET_SECONDS + LOOK_SECONDS
            before, clock = now, then
        return busy


class Dialogue:
    """A process of ours that reads lines and answers each with a line of JSON."""

    def __init__(self, *program: str) -> None:
        """Start it and wait until it is ready."""
        command = [sys.executable, "-m", *program]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.pid = self._process.pid
        self.ready = self._read()

    def ask(self, line: str = "") -> dict[str, Any]:
        """Write a line and return the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        _end(self._process)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "it ended; see above why"
        found: dict[str, Any] = json.loads(line)
        return found


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Return our environment without what would configure OpenTelemetry, and with ``more``."""
    return {**{key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}, **more}


@contextmanager
def sidecar(*, service: str, sink: str | None, more: Mapping[str, str] | None = None, options: Sequence[str] = ()) -> Iterator[Server]:
    """Run a sidecar as users do, with criteria for a service; all emission is on, to ``sink`` if there is one."""
    variables = {
        "OTEL_TOOLCALL_EVAL_COMPLETION_DECISION_WAIT_AFTER_ROOT_RECEIVED": f"{QUIET_SECONDS}s",
        "OTEL_TOOLCALL_EVAL_LOG_FORMAT": "json",
        **({} if sink is None else {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{sink}"}),
        **(more or {}),
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "criteria.json"
        file.write_text(criteria(service), encoding="utf-8")
        command = [sys.executable, *SERVE, "--criteria", str(file), "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", *options]
        log = (Path(folder) / "log").open("w+", encoding="utf-8")
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=environment(variables), cwd=ROOT)
        try:
            wait_for(lambda: process.poll() is not None or any(map(_says_ready, _lines(Path(log.name)))), "the sidecar")
            taken = time.monotonic() - began
            assert process.poll() is None, Path(log.name).read_text(encoding="utf-8")
            [ready] = filter(_says_ready, _lines(Path(log.name)))
            yield Server(name="sidecar", pid=process.pid, grpc=ready["grpc"], http=ready["http"], ready_seconds=taken)
        finally:
            _end(process)
            said = [line for line in _lines(Path(log.name)) if not _says_ready(line)]
            log.close()
            for line in said[:5]:
                sys.stderr.write(f"the sidecar said: {json.dumps(line)}\n")


@contextmanager
def collector(*, quiet_seconds: float = QUIET_SECONDS) -> Iterator[Server]:
    """Run the Collector, which groups by trace and throws away."""
    COLLECTOR.make()
    with held_ports(3) as (grpc, http, health), tempfile.TemporaryDirectory() as folder:
        config = {
            "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": grpc, "max_recv_msg_size_mib": 64}, "http": {"endpoint": http}}}},
            "processors": {"groupbytrace": {"wait_duration": f"{quiet_seconds}s", "num_traces": 1_000_000}, "batch": {}},
            "exporters": {"nop": {}},
            "extensions": {"health_check": {"endpoint": health}},
            "service": {
                "extensions": ["health_check"],
                "telemetry": {"logs": {"level": "error"}, "metrics": {"level": "none"}},
                "pipelines": {"traces": {"receivers": ["otlp"], "processors": ["groupbytrace", "batch"], "exporters": ["nop"]}},
            },
        }
        file = Path(folder) / "collector.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        began = time.monotonic()
        process = subprocess.Popen([str(COLLECTOR.folder / "otelcol"), "--config", str(file)], stdout=subprocess.DEVNULL)
        try:
            wait_for(lambda: process.poll() is not None or _healthy(health), "the Collector")
            assert process.poll() is None, "the Collector ended; see above why"
            yield Server(name="Collector", pid=process.pid, grpc=grpc, http=http, ready_seconds=time.monotonic() - began)
        finally:
            _end(process)


def _lines(file: Path) -> list[dict[str, Any]]:
    whole = file.read_text(encoding="utf-8").rpartition("\n")[0]
    return [json.loads(line) if line.startswith("{") else {"message": line} for line in whole.splitlines()]


def _says_ready(line: dict[str, Any]) -> bool:
    return "grpc" in line and "http" in line


def _healthy(address: str) -> bool:
    try:
        return get(address, "/")[0] == 200
    except OSError:
        return False


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
