"""Takes what a sidecar exports, in a process of its own, and looks at next to nothing of it: ``python -m tests.bench.sink``.

It says where it listens. For each line that it reads it says, as a line of JSON, what came since, and of a sample of the log events
which trace they judge, when the verdict fell and when it came here.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

if TYPE_CHECKING:
    from collections.abc import Callable

EACH: Final = 5
"""Of so many requests with log events one is kept."""
MOST_BYTES: Final = 64 * 2**20
LABEL: Final = "gen_ai.evaluation.score.label"


class Sink(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in its stub alone
    """Answers every call with an empty message, which is a success for all signals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._kept: list[tuple[float, bytes]] = []
        self._kept_bytes = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        signal = handler_call_details.method.rpartition(".")[2].removesuffix("Service/Export").lower()
        return grpc.unary_unary_rpc_method_handler(self._taking(signal))

    def _taking(self, signal: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def take(body: bytes, _: grpc.ServicerContext) -> bytes:
            now = time.time()
            with self._lock:
                self._counts[f"{signal} requests"] += 1
                self._counts[f"{signal} bytes"] += len(body)
                if signal == "logs" and self._counts["logs requests"] % EACH == 1 and self._kept_bytes < MOST_BYTES:
                    self._kept.append((now, body))
                    self._kept_bytes += len(body)
            return b""

        return take

    def taken(self) -> dict[str, object]:
        """Return what came since the last time."""
        with self._lock:
            counts, kept = self._counts, self._kept
            self._counts, self._kept, self._kept_bytes = Counter(), [], 0
        labels: Counter[str] = Counter()
        verdicts = {}
        for arrived, body in kept:
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                for scope in resource.scope_logs:
                    for record in scope.log_records:
                        fell = (record.observed_time_unix_nano or record.time_unix_nano) / 1e9
                        verdicts[record.trace_id.hex()] = (fell, arrived)
                        labels.update(attribute.value.string_value for attribute in record.attributes if attribute.key == LABEL)
        return {"counts": counts, "labels": labels, "verdicts": verdicts}


def main() -> None:
    sink = Sink()
    server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((sink,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    _say({"event": "ready", "address": f"127.0.0.1:{port}"})
    for _ in sys.stdin:
        _say(sink.taken())
    server.stop(None)


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
