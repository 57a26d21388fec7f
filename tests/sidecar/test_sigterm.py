"""SIGTERM under load, again and again: exit 0 in time, not ready while draining, and nothing that was acknowledged is lost.

A few rounds at a time; more with SIGTERM_ROUNDS=50.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

import grpc
import pytest

from otel_toolcall_eval.cli.demo_agent.weather_agent import EVALUATIONS
from tests.otlp.otlp_requests import attribute, numbered, request_of
from tests.patience import PATIENCE_SECONDS, wait_for
from tests.receivers.receivers import PROTOBUF, TRACES
from tests.sidecar_process import RunningSidecar, post, running_sidecar

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("SIGTERM_ROUNDS", "3"))
SENDERS = 2
NEVER = True  # what no wait returns before it is told


class Load:
    """Sends one trace after another over both transports until it is refused, and remembers what was acknowledged."""

    def __init__(self, sidecar: RunningSidecar) -> None:
        self.acknowledged: set[str] = set()
        self._sidecar = sidecar
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=send, args=(number,)) for number in range(SENDERS) for send in (self._over_http, self._over_grpc)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)

    def _took(self, trace: int) -> None:
        with self._lock:
            self.acknowledged.add(f"{trace:032x}")

    def _over_http(self, sender: int) -> None:
        trace = (sender + 1) << 32
        connection = HTTPConnection(self._sidecar.http, timeout=PATIENCE_SECONDS)
        try:
            while True:
                trace += 1
                body = request_of(numbered(1, trace=trace)).SerializeToString()
                connection.request("POST", "/v1/traces", body=body, headers={"Content-Type": "application/x-protobuf"})
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    return
                self._took(trace)
        except (OSError, HTTPException):
            return
        finally:
            connection.close()

    def _over_grpc(self, sender: int) -> None:
        trace = (sender + 1) << 64
        with grpc.insecure_channel(self._sidecar.grpc) as channel:
            export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(TRACES, None, None)
            try:
                while True:
                    trace += 1
                    export(request_of(numbered(1, trace=trace)).SerializeToString(), timeout=PATIENCE_SECONDS)
                    self._took(trace)
            except grpc.RpcError:
                return


@pytest.mark.slow
def test_every_acknowledged_trace_gets_a_verdict_whenever_the_signal_comes() -> None:
    for round_ in range(ROUNDS):
        with running_sidecar(quiet="1h" if round_ % 2 else "0s") as sidecar:
            load = Load(sidecar)
            wait_for(lambda load=load, least=50 * (round_ % 7 + 1): len(load.acknowledged) >= least)  # type: ignore[misc]
            assert sidecar.terminate() == 0
            load.join()
            judged = {verdict["trace_id"] for verdict in sidecar.drained()}
        assert load.acknowledged <= judged


@pytest.mark.slow
def test_what_is_whole_only_since_nobody_listens_is_not_judged_as_whole() -> None:
    whole = numbered(1, trace=1)
    whole.attributes.append(attribute("toolcall_eval.criteria", "tokyo_forecast"))
    criteria = ("--criteria", str(EVALUATIONS))
    with running_sidecar(*criteria, quiet="4s") as sidecar, grpc.insecure_channel(sidecar.grpc) as channel:
        sidecar.until_ready()
        stalled = threading.Event()  # a call that is under way keeps the sidecar draining, for longer than the quiet period
        pending = channel.stream_unary(TRACES, None, None).future(iter(stalled.wait, NEVER))
        assert post(sidecar.http, request_of(whole).SerializeToString(), content_type=PROTOBUF)[0] == 200
        sidecar.process.send_signal(signal.SIGTERM)
        time.sleep(5)  # the quiet period, and some: what is asked is what happens when it is over
        stalled.set()
        del pending
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0
        assert {verdict["trigger"] for verdict in sidecar.drained()} == {"shutdown"}


@pytest.mark.slow
def test_what_there_is_no_time_for_is_counted_and_with_a_journal_left_to_the_next_start(tmp_path: Path) -> None:
    environ = {"OTEL_TOOLCALL_EVAL_JOURNAL_PATH": str(tmp_path / "journal")}
    short = {**environ, "OTEL_TOOLCALL_EVAL_COMPLETION_SHUTDOWN_TIMEOUT": "2s"}
    sent = 0
    with running_sidecar("--criteria", str(EVALUATIONS), environ=short, quiet="1h") as sidecar:
        for first in range(1, 20_001, 500):
            spans = [numbered(1, trace=trace) for trace in range(first, first + 500)]
            for span in spans:
                span.attributes.append(attribute("toolcall_eval.criteria", "tokyo_forecast"))
            sent += len(spans)
            assert post(sidecar.http, request_of(*spans).SerializeToString(), content_type=PROTOBUF)[0] == 200
        assert sidecar.terminate() == 0
        judged = {verdict["id"]: verdict["trace_id"] for verdict in sidecar.drained()}
    left = re.search(r"(\d+) traces were left open, which the next start evaluates", "".join(sidecar.log))
    assert left is not None
    assert 0 < len(set(judged.values())) == sent - int(left[1])
    with running_sidecar("--criteria", str(EVALUATIONS), environ=environ, quiet="1h") as sidecar:
        sidecar.until_ready()
        assert sidecar.terminate() == 0
        later = {verdict["id"]: verdict["trace_id"] for verdict in sidecar.drained()}
    assert len({*judged.values(), *later.values()}) == sent
    assert judged.keys().isdisjoint(later)


def test_it_is_not_ready_while_it_drains() -> None:
    """A probe on a connection that is open is told; one that comes anew is refused once intake is closed, which counts as not ready."""
    with running_sidecar() as sidecar:
        sidecar.until_ready()
        connection = HTTPConnection(sidecar.http, timeout=PATIENCE_SECONDS)
        connection.request("GET", "/readyz")
        assert connection.getresponse().read() == b"ok\n"
        # A call that is under way keeps the sidecar draining.
        with grpc.insecure_channel(sidecar.grpc) as channel:
            stalled = threading.Event()
            pending = channel.stream_unary(TRACES, None, None).future(iter(stalled.wait, NEVER))
            assert json.loads(_get(sidecar, "/debug/traces"))
            sidecar.process.send_signal(signal.SIGTERM)
            answers: list[tuple[int, bytes]] = []

            def drains() -> bool:
                try:
                    connection.request("GET", "/readyz")
                    answer = connection.getresponse()
                    answers.append((answer.status, answer.read()))
                except (OSError, HTTPException):
                    answers.append((0, b"refused"))
                return answers[-1][0] != 200

            wait_for(drains)
            stalled.set()
            del pending
        connection.close()
        assert sidecar.process.wait(PATIENCE_SECONDS) == 0
    assert answers[-1] in {(503, b"draining\n"), (0, b"refused")}


def _get(sidecar: RunningSidecar, path: str) -> bytes:
    connection = HTTPConnection(sidecar.http, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()
