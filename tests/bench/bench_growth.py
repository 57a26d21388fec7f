"""The whole way of a trace, from bytes to events, with twice as many of one thing: spans, traces, expectations."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

from otel_toolcall_eval.exporters.events.batched_events import BatchedEvents
from otel_toolcall_eval.otlp import protobuf_traces
from otel_toolcall_eval.sidecar.process_limits import collect_garbage_seldom
from tests.bench.agent_traces import request_of as traces_of
from tests.bench.bench_judging import calls_of, criteria_of, judging, request_of
from tests.bench.loads import TRACES_OF_BATCH, criteria
from tests.bench.results import Goal, Result, middle
from tests.fakes import SECOND_NS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.engine.pipeline import Pipeline

ROUNDS: Final = 5
MOST: Final = 2.2
TRACES: Final = 20 * TRACES_OF_BATCH
CALLS: Final = 2_000
EXPECTATIONS: Final = 2_000
LATER_NS: Final = 1_000 * SECOND_NS


class Nowhere:
    """Takes events away, and forgets them."""

    def __init__(self) -> None:
        self.taken = 0

    def send(self, body: bytes, *, items: int) -> None:
        assert body
        self.taken += items

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002 - the outlets' common signature
        return True


def seconds(pipe: Pipeline, bodies: Sequence[bytes], *, traces: int) -> float:
    """Return the CPU time from the bytes of some requests to the events of all that is in them."""
    logs = Nowhere()
    events = BatchedEvents(logs, Nowhere(), resource={"service.name": "bench"})
    began = time.thread_time()
    for body in bodies:
        pipe.add(protobuf_traces.decode_traces(body, pipe.projection).spans, now_ns=SECOND_NS, transport="grpc")
    reports = pipe.pop_due(now_ns=LATER_NS)
    for report in reports:
        events.emit(report)
    events.flush(1.0)
    taken = time.thread_time() - began
    events.shutdown(1.0)
    assert (len(reports), logs.taken) == (traces, 4 * traces)
    return taken


def standard(traces: int) -> float:
    """Measure so many traces of ten spans."""
    judged: Mapping[str, dict[str, Any]] = json.loads(criteria("weather-agent"))["evaluations"][0]["evaluation_criterias"]
    bodies = [traces_of(first, TRACES_OF_BATCH) for first in range(1, traces, TRACES_OF_BATCH)]
    return seconds(judging(judged), bodies, traces=traces)


def one_trace(*, calls: int, expectations: int) -> float:
    """Measure a trace of so many calls, the first of which are expected."""
    made = calls_of(calls)
    return seconds(judging(criteria_of(made[:expectations])), [request_of(made)], traces=1)


def results() -> Iterator[Result]:
    """Measure once as many and twice as many by turns, with the garbage collector as a sidecar has it."""
    collect_garbage_seldom()
    pairs: tuple[tuple[str, str, Callable[[int], float]], ...] = (
        ("traces", f"{TRACES:,} traces of ten spans", lambda part: standard(TRACES // part)),
        ("spans", f"a trace of {CALLS:,} calls, 20 expectations", lambda part: one_trace(calls=CALLS // part, expectations=20)),
        ("expectations", f"{EXPECTATIONS:,} expectations", lambda part: one_trace(calls=EXPECTATIONS, expectations=EXPECTATIONS // part)),
    )
    for name, load, measure in pairs:
        rounds = [(measure(2), measure(1)) for _ in range(ROUNDS)]
        yield Result(
            name="growth",
            load=load,
            ours=middle(whole for _, whole in rounds) * 1e3,
            yardstick=f"half the {name}",
            theirs=middle(half for half, _ in rounds) * 1e3,
            unit="ms",
            goals=(Goal(limit=MOST),),
        )
