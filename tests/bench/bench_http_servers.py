"""Measures the HTTP server that we chose against two others: CPU of the server's process for each request, and what slow headers do.

The others are in an environment of their own, which the product does not need:

    python3 -m venv .build/bench && .build/bench/bin/pip install hypercorn starlette granian -e '.[sidecar]'
    .build/bench/bin/python -m tests.bench.bench_http_servers

Each server runs in a process of its own and decodes the same bodies with the same decoder; one client keeps one connection.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS = 3
REQUESTS = {1: 3000, 512: 150}  # by spans in a request
SLOW_SECONDS = 15.0
TICKS = os.sysconf("SC_CLK_TCK")


def aiohttp_server(port: int) -> None:
    """Run ours, as built, with a sink that takes everything."""
    from otel_toolcall_eval.receivers.http.receiver import HttpReceiver  # noqa: PLC0415 - each server alone in its process
    from otel_toolcall_eval.receivers.intake import OtlpIntake  # noqa: PLC0415
    from otel_toolcall_eval.receivers.listening import ListenOptions  # noqa: PLC0415

    class Sink:
        def offer(self, decoded: object, *, transport: str) -> None:
            """Take it."""

    listen = ListenOptions(port=port, port_option="--http")
    receiver = HttpReceiver(intake=OtlpIntake(sink=Sink(), projection=_projection), refused=lambda *_: None, listen=listen)
    receiver.start()
    while True:
        time.sleep(3600)


def _projection() -> Any:  # noqa: ANN401 - the others run without our types, too
    from otel_toolcall_eval.model.trace import Projection  # noqa: PLC0415

    return Projection(keys=frozenset({"tool.name", "input.value"}))


def _application() -> Any:  # noqa: ANN401 - starlette is not installed where types are checked
    from starlette.applications import Starlette  # type: ignore[import-not-found]  # noqa: PLC0415
    from starlette.responses import Response  # type: ignore[import-not-found]  # noqa: PLC0415
    from starlette.routing import Route  # type: ignore[import-not-found]  # noqa: PLC0415

    from otel_toolcall_eval.otlp.protobuf_traces import decode_traces  # noqa: PLC0415

    projection = _projection()

    async def export(request: Any) -> Any:  # noqa: ANN401
        decode_traces(await request.body(), projection)
        return Response(b"", media_type="application/x-protobuf")

    return Starlette(routes=[Route("/v1/traces", export, methods=["POST"])])


def hypercorn_server(port: int) -> None:
    import asyncio  # noqa: PLC0415

    from hypercorn.asyncio import serve  # type: ignore[import-not-found]  # noqa: PLC0415
    from hypercorn.config import Config  # type: ignore[import-not-found]  # noqa: PLC0415

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.accesslog = config.errorlog = None
    asyncio.run(serve(_application(), config))


def granian_server(port: int) -> None:
    import asyncio  # noqa: PLC0415

    from granian.constants import Interfaces  # type: ignore[import-not-found]  # noqa: PLC0415
    from granian.server.embed import Server  # type: ignore[import-not-found]  # noqa: PLC0415

    server = Server(_application(), address="127.0.0.1", port=port, interface=Interfaces.ASGINL, log_enabled=False)
    asyncio.run(server.serve())


SERVERS: dict[str, Callable[[int], None]] = {"aiohttp": aiohttp_server, "hypercorn": hypercorn_server, "granian": granian_server}


def body_of(spans: int) -> bytes:
    from tests.bench.bench_wire import KINDS, request_of  # noqa: PLC0415 - needs more than the servers do

    return request_of(KINDS["agent trace"], spans).SerializeToString()


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def measure(pid: int, port: int, body: bytes, requests: int) -> float:
    """Return the least CPU microseconds of the server for each request."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def send(count: int) -> None:
        for _ in range(count):
            connection.request("POST", "/v1/traces", body=body, headers={"Content-Type": "application/x-protobuf"})
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b""), answer.status

    send(requests // 10)
    costs = []
    for _ in range(ROUNDS):
        before = cpu_seconds(pid)
        send(requests)
        costs.append((cpu_seconds(pid) - before) / requests * 1e6)
    connection.close()
    return min(costs)


def slow_headers(port: int) -> str:
    """Return what becomes of a client that does not finish its headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=SLOW_SECONDS) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-A: ")
        begun = time.monotonic()
        try:
            connection.recv(1000)
        except TimeoutError:
            return f"open after {SLOW_SECONDS:.0f} s"
        return f"cut after {time.monotonic() - begun:.0f} s"


def main() -> None:
    """Measure all servers that are installed here."""
    bodies = {spans: body_of(spans) for spans in REQUESTS}
    for name in sys.argv[1:] or SERVERS:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen([sys.executable, "-m", "tests.bench.bench_http_servers", name, str(port)])
        try:
            for _ in range(200):
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            found = ", ".join(
                f"{spans} spans {measure(process.pid, port, bodies[spans], count):.0f} us" for spans, count in REQUESTS.items()
            )
            print(f"{name}: {found} of CPU a request; slow headers: {slow_headers(port)}", flush=True)  # noqa: T201 - the report is the point
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[2].isdigit():
        SERVERS[sys.argv[1]](int(sys.argv[2]))
    else:
        main()
