"""``kill -9`` at any moment, under load: what was acknowledged is judged, and judged once."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from http.client import HTTPException
from itertools import count
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.patience import PATIENCE_SECONDS
from tests.receivers.receivers import TRACES
from tests.sidecar.journal.lives import holds_open
from tests.sidecar_process import RunningSidecar, post, running_sidecar

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CALLS = 3
POLICY = f"""
evaluations:
  - id: all
    name: all
    match: all
    evaluation_criterias:
      ToolCallCountEvaluator: {{tool_calls_count: {{search: ["=", {CALLS}]}}}}
"""


def requests_of(trace: int) -> list[bytes]:
    """Return one trace in two requests, its calls and its root."""
    requests = []
    for numbers in (range(2, CALLS + 2), range(1, 2)):
        made = ExportTraceServiceRequest()
        spans = made.resource_spans.add().scope_spans.add().spans
        for number in numbers:
            span = spans.add(trace_id=trace.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="s", flags=0x100)
            span.start_time_unix_nano = 1_790_000_000_000_000_000 + number
            span.end_time_unix_nano = span.start_time_unix_nano + 5
            if number > 1:
                span.parent_span_id = (1).to_bytes(8, "big")
                for key, value in (("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "search")):
                    span.attributes.add(key=key).value.string_value = value
        requests.append(made.SerializeToString())
    return requests


@dataclass
class Senders:
    """Threads that send trace after trace, each request until it is acknowledged."""

    sidecar: RunningSidecar | None = None
    acknowledged: set[int] = field(default_factory=set)
    resent: int = 0

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self._stop, self._abandon = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(send,)) for send in (self._by_http, self._by_grpc)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self, *, abandon: bool = False) -> None:
        """Let each finish the trace that it is at, or give it up."""
        self._stop.set()
        if abandon:
            self._abandon.set()
        for thread in self._threads:
            thread.join()

    def _run(self, send: Any) -> None:  # noqa: ANN401 - one of the two below
        while not self._stop.is_set():
            trace = next(self._numbers)
            for body in requests_of(trace):
                while not send(body):
                    if self._abandon.is_set():
                        return
                    self.resent += 1
                    time.sleep(0.05)
            self.acknowledged.add(trace)
            time.sleep(0.01)

    def _by_http(self, body: bytes) -> bool:
        sidecar = self.sidecar
        try:
            return sidecar is not None and post(sidecar.http, body, content_type="application/x-protobuf")[0] == 200
        except (OSError, HTTPException):
            return False

    def _by_grpc(self, body: bytes) -> bool:
        sidecar = self.sidecar
        if sidecar is None:
            return False
        with grpc.insecure_channel(sidecar.grpc) as channel:
            try:
                channel.unary_unary(TRACES, None, None)(body, timeout=PATIENCE_SECONDS)
            except grpc.RpcError:
                return False
        return True


def judged_once(said: Sequence[dict[str, Any]], acknowledged: set[int], log: Sequence[str]) -> int:
    """Hold that each acknowledged trace has one verdict; returns how many were emitted again. The log is shown if that does not hold."""
    by_id: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    finals: dict[int, dict[str, Any]] = {}
    revisions: dict[tuple[int, int], set[str]] = defaultdict(set)
    for record in said:
        trace = int(record["trace_id"], 16)
        by_id[record["id"]].add((trace, record["revision"], record["label"], record["score"], record["trigger"], *record["reasons"]))
        revisions[trace, record["revision"]].add(record["id"])
        if trace not in finals or record["revision"] >= finals[trace]["revision"]:
            finals[trace] = record
    assert set(finals) == acknowledged, f"without a verdict: {sorted(acknowledged - set(finals))}; the log: {''.join(log[-60:])}"
    assert all(len(records) == 1 for records in by_id.values()), "a verdict was given twice, and differently"
    assert all(len(ids) == 1 for ids in revisions.values()), "a revision was given under two IDs"
    assert {record["score"] for record in finals.values() if record["label"] != "inconclusive"} == {1.0}
    undecided = [record for record in finals.values() if record["label"] == "inconclusive"]
    assert all(record["trigger"] == "shutdown" for record in undecided)  # the last ones, at the end
    return len(said) - len(by_id)


def killed_again_and_again(folder: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - no secret: when to kill
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    environ = {"OTEL_TOOLCALL_EVAL_JOURNAL_PATH": str(folder / "journal"), "OTEL_TOOLCALL_EVAL_JOURNAL_SYNC": "ack"}
    senders, said, log = Senders(), [], list[str]()
    senders.start()
    try:
        for life in range(kills + 1):
            with running_sidecar("--criteria", str(policy), environ=environ, quiet="300ms") as sidecar:
                senders.sidecar = sidecar
                if life < kills:
                    time.sleep(chance.uniform(0, 1))  # the moment of the kill is what is drawn, so nothing can be waited for
                    sidecar.process.kill()
                    sidecar.process.wait()
                else:
                    senders.stop()
                    assert sidecar.terminate() == 0
                said += sidecar.drained()
            log += [f"life {life}:\n", *sidecar.log]
    finally:
        senders.stop(abandon=True)
    assert not holds_open(folder / "journal")  # the last one ended cleanly
    repeats = judged_once(said, senders.acknowledged, log)
    print(f"{kills} kills, {len(senders.acknowledged)} traces, {senders.resent} requests sent again, {repeats} verdicts emitted again")  # noqa: T201 - figures


@pytest.mark.slow
def test_eight_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 8, seed=8)


@pytest.mark.kills
def test_two_hundred_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    killed_again_and_again(tmp_path, 200, seed=200)
