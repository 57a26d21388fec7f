"""Small servers with the options and the number of threads of ours: ``python -m tests.bench.floor_server KIND [SINK]``.

Kinds: ``nothing`` reads nothing of what it is sent; ``receiver`` is our receiver with nothing behind it; those of ``WAYS`` judge what
they are sent at the least, and send what comes of it to the sink. It says where it listens, and ends when nobody writes any more.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, cast

import grpc

from otel_toolcall_eval.process_limits import collect_garbage_seldom, raise_file_limit, return_large_blocks
from otel_toolcall_eval.sources.grpc_calls import MOST_CALLS
from otel_toolcall_eval.sources.otlp_grpc import GrpcReceiver
from otel_toolcall_eval.wire.replies import Signal
from otel_toolcall_eval.wire.services import GRPC_SERVICES
from tests.bench.counted_floor import expected_of_load
from tests.bench.least_slices import WAYS
from tests.bench.servers import QUIET_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.sources.otlp_intake import OtlpIntake
    from otel_toolcall_eval.wire.replies import Encoding
    from otel_toolcall_eval.work_items import Receipt
    from tests.bench.least_ways import Judged, Read

NOTHING: Final = "nothing"
RECEIVER: Final = "receiver"
TRACES_OF_EXPORT: Final = 250
"""Some 500 KiB of log records, as in the batches of ours."""
LOOK_SECONDS: Final = 0.02


class NoIntake:
    """Reads nothing."""

    def wants(self, signal: Signal) -> bool:
        """Have the body unpacked, as a sidecar does."""
        return signal is Signal.TRACES

    def take(self, body: bytes, encoding: Encoding, signal: Signal, *, transport: str) -> tuple[bytes, Receipt | None]:  # noqa: ARG002
        """Answer with success."""
        return b"", None


class Least:
    """Reads on the threads that receive, and judges on one of its own, as long after as a sidecar and the Collector wait for more.

    Without the wait what is judged would still be in the processor's caches, which no program has that waits.
    """

    def __init__(self, name: str, sink: str) -> None:
        """Connect to the sink, and start the thread."""
        self._way = WAYS[name](expected_of_load())
        channel = grpc.insecure_channel(sink)
        self._exports = [channel.unary_unary(f"/{GRPC_SERVICES[signal]}/Export", None, None) for signal in (Signal.LOGS, Signal.TRACES)]
        self._held: deque[tuple[float, list[Read]]] = deque()  # filled by those that receive, emptied by the thread
        self._waiting: list[Judged] = []
        self._under_way: list[grpc.Future[bytes]] = []  # gRPC ends a call whose future nobody holds
        self._lock = threading.Lock()
        threading.Thread(target=self._judge, daemon=True).start()

    def take(self, body: bytes, _: grpc.ServicerContext) -> bytes:
        """Read."""
        with self._lock:
            found = self._way.read(body)
        self._held.append((time.monotonic() + QUIET_SECONDS, found))
        return b""

    def _judge(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            while self._held and self._held[0][0] <= now:
                judged = self._way.judge(self._held.popleft()[1])
                self._way.record(judged)
                self._waiting += judged
                if len(self._waiting) >= TRACES_OF_EXPORT:
                    self._send()

    def _send(self) -> None:
        """Send without waiting for the answer; a failure ends the process, so that none is lost unseen."""
        waiting, self._waiting = self._waiting, []
        if any(sent.done() and sent.exception() is not None for sent in self._under_way):
            os._exit(1)
        self._under_way = [sent for sent in self._under_way if not sent.done()]
        requests = self._way.emit(waiting, time.time_ns())
        self._under_way += [export.future(request) for export, request in zip(self._exports, requests, strict=True)]


def take_nothing(_: bytes, __: grpc.ServicerContext) -> bytes:
    """Answer with success."""
    return b""


def receiver() -> GrpcReceiver:
    """Return ours, with nothing behind it."""
    return GrpcReceiver(intake=cast("OtlpIntake", NoIntake()), refused=lambda *_: None, port=0)


def smallest(take: Callable[[bytes, grpc.ServicerContext], bytes]) -> tuple[grpc.Server, str]:
    """Start the smallest server with the options of ours, and return where it listens."""
    options = receiver()._options()  # noqa: SLF001 - they are nowhere else, and a copy of them would not follow
    server = grpc.server(ThreadPoolExecutor(MOST_CALLS), options=options)
    export = {"Export": grpc.unary_unary_rpc_method_handler(take)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GRPC_SERVICES[Signal.TRACES], export),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, f"127.0.0.1:{port}"


def main(kind: str, sink: str = "") -> None:
    """Serve until nobody asks any more."""
    raise_file_limit()
    return_large_blocks()
    collect_garbage_seldom()
    if kind == RECEIVER:
        ours = receiver()
        ours.start()
        _serve(f"127.0.0.1:{ours.port}")
        ours.stop(grace_seconds=0.0)
        return
    server, address = smallest(take_nothing if kind == NOTHING else Least(kind, sink).take)
    _serve(address)
    server.stop(None).wait()


def _serve(address: str) -> None:
    sys.stdout.write(json.dumps({"event": "ready", "address": address}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
