"""Sends a load in a process of its own, so that what sending costs is not counted: ``python -m tests.bench.sending LOAD ADDRESS``.

It says ``ready``, and for each line ``SECONDS REQUESTS`` that it reads it sends for so long, or so many, as fast as it is answered, and
says what came of it as a line of JSON.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

import grpc

from tests.bench.loads import LOADS, Requests
from tests.bench.results import quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.bench.loads import Load

METHOD: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PACKED_AHEAD: Final = 200
"""Packing takes longer than any server does to unpack, so it is done before; so many requests are enough for a round."""
PAUSE_SECONDS: Final = 0.2
"""Of a sender that was refused: below the second that servers ask for, so that an overload is not followed by silence."""


class Answer(Protocol):
    """Sends one body; False if it was refused."""

    def __call__(self, body: bytes, /) -> bool: ...


def _identity(body: bytes) -> bytes:
    return body


def grpc_sender(address: str) -> Callable[[], Answer]:
    """Open a channel that all requests in flight of a sender share."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    channel = grpc.insecure_channel(address, options=options)
    call = channel.unary_unary(METHOD, request_serializer=_identity, response_deserializer=_identity)

    def send(body: bytes) -> bool:
        try:
            call(body, timeout=60)
        except grpc.RpcError as error:
            if error.code() not in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED}:
                raise
            return False
        return True

    return lambda: send


def http_sender(address: str, load: Load) -> Callable[[], Answer]:
    """Open a connection for each request in flight."""
    headers = {"Content-Type": "application/json" if load.json else "application/x-protobuf"}
    if load.gzip:
        headers["Content-Encoding"] = "gzip"

    def connect() -> Answer:
        connection = HTTPConnection(address, timeout=60)

        def send(body: bytes) -> bool:
            try:
                connection.request("POST", "/v1/traces", body=body, headers=headers)
                answer = connection.getresponse()
                answer.read()
            except (HTTPException, ConnectionError):
                connection.close()
                return False
            if answer.status not in {200, 429, 503}:
                message = f"answered {answer.status}"
                raise HTTPException(message)
            return answer.status == 200

        return send

    return connect


class Round:
    """One round; each thread is one request in flight."""

    def __init__(self, bodies: Iterator[tuple[int, bytes]], *, seconds: float, requests: int) -> None:
        """Prepare it; ``bodies`` come with their numbers."""
        self.seconds, self.requests = seconds, requests
        self.refused = 0
        self.sent: dict[int, float] = {}  # when the request was sent that was taken: what an answer waits for is not the server's gain
        self.took: list[float] = []
        self.faults: list[Exception] = []
        self._bodies = bodies
        self._lock = threading.Lock()
        self._until = 0.0

    def run(self, answers: list[Answer]) -> dict[str, object]:
        threads = [threading.Thread(target=self._send, args=(answer,)) for answer in answers]
        cpu, began = _cpu_seconds(), time.time()
        self._until = time.monotonic() + self.seconds
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.faults:
            raise self.faults[0]
        return {
            "began": began,
            "ended": time.time(),
            "requests": len(self.sent),
            "refused": self.refused,
            "cpu": _cpu_seconds() - cpu,
            "p50": quantile(self.took, 0.5),
            "p99": quantile(self.took, 0.99),
            "sent": self.sent,
        }

    def _send(self, answer: Answer) -> None:
        try:
            while time.monotonic() < self._until:
                with self._lock:
                    number, body = next(self._bodies, (0, b"")) if self.requests > 0 else (0, b"")
                    self.requests -= 1
                if not body:
                    return
                self._insist(answer, number, body)
        except Exception as error:  # noqa: BLE001 - told by the round
            self.faults.append(error)

    def _insist(self, answer: Answer, number: int, body: bytes) -> None:
        while True:
            began, at = time.monotonic(), time.time()
            if answer(body):
                self.took.append(time.monotonic() - began)
                self.sent[number] = at
                return
            self.refused += 1
            if time.monotonic() > self._until:
                return
            time.sleep(PAUSE_SECONDS * (0.5 + random.random()))  # noqa: S311 - to spread them, no more


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(name: str, address: str) -> None:
    """Send as often as is asked for."""
    load = LOADS[name]
    requests = Requests(load)
    bodies = enumerate(requests)
    answers: list[Answer] = []
    for _ in range(load.senders):
        connect = grpc_sender(address) if load.transport == "grpc" else http_sender(address, load)
        answers += [connect() for _ in range(load.in_flight)]
    _say({"event": "ready", "prefix": requests.prefix.hex(), "bytes": len(next(iter(Requests(load))))})
    for line in sys.stdin:
        seconds, most = line.split()
        some = iter(list(islice(bodies, min(int(most), PACKED_AHEAD)))) if load.gzip else bodies
        _say({"event": "sent", **Round(some, seconds=float(seconds), requests=int(most)).run(answers)})


def _say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
