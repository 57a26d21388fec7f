"""Holds how floors are told, and the small servers: one that sent nothing would make what is built seem worse than it is."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from otel_toolcall_eval.sources.grpc_calls import MOST_CALLS
from tests.bench import bench_floor, counted_floor, floor_server
from tests.bench.agent_traces import request_of
from tests.bench.bench_floor import Found
from tests.bench.counted import COMPILED, SETS, TRACES
from tests.bench.counted_floor import SIZES, STAGES
from tests.bench.floor_server import TRACES_OF_EXPORT
from tests.bench.least_slices import WAYS
from tests.bench.sending import METHOD
from tests.bench.servers import Dialogue
from tests.patience import PATIENCE_SECONDS, wait_for


def found_of(*, counted: bool) -> Found:
    sets = {f"{size} {part}" for size in SIZES for part in ("judge", "parsed", "remembered")}
    figures = {name: 1_000 * (SETS if name in sets else TRACES) for name in counted_floor.names()}
    real = {name: 3 * figure if name.startswith("bound") or name.endswith("judge") else figure for name, figure in figures.items()}
    return Found(real if counted else None, figures, COMPILED)


def test_what_is_real_is_told_beside_the_floor_that_does_as_much() -> None:
    told = {(result.name, result.load, result.yardstick): result for result in bench_floor.told(found_of(counted=True))}
    assert len(told) == len(WAYS) * (len(STAGES) + 1) + 2 * len(SIZES)
    read = told["bound trace, read", "ten spans, four calls", "floor, slices"]
    assert (read.ours, read.theirs, read.ratio, read.unit) == (6.0, 1.0, 6.0, "k/trace")  # decoding and grouping
    whole = told["bound trace, the whole way", "ten spans, four calls", "floor, slices"]
    assert (whole.ours, whole.theirs) == (15.0, 4.0 + 2.0)  # of five stages and of four, one of which is called as ours is
    assert (whole.more["us/trace"], whole.more["us/trace of the floor"]) == (5.0, 4.0)
    judged = told["judging", "1,000 calls, 4 evaluators", "floor, four functions"]
    assert (judged.ours, judged.theirs) == (3.0, 1.0)


def test_without_valgrind_microseconds_take_the_place_of_instructions() -> None:
    result = next(bench_floor.told(found_of(counted=False)))
    assert (result.ours, result.theirs, result.unit) == (2.0, 1.0, "us/trace")


def test_the_smallest_server_has_the_options_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {}

    class Server:
        def __init__(self, pool: Any, options: Any) -> None:  # noqa: ANN401 - whatever it is given
            given["workers"], given["options"] = pool._max_workers, dict(options)  # noqa: SLF001 - the pool does not tell

        def add_generic_rpc_handlers(self, handlers: object) -> None:
            assert handlers

        def add_insecure_port(self, address: str) -> int:
            assert address == "127.0.0.1:0"
            return 1

        def start(self) -> None:
            pass

    monkeypatch.setattr(grpc, "server", Server)
    assert floor_server.smallest(floor_server.take_nothing)[1] == "127.0.0.1:1"
    assert given == {"workers": MOST_CALLS, "options": dict(floor_server.receiver()._options())}  # noqa: SLF001 - gRPC does not tell
    assert given["options"]


@pytest.mark.parametrize("kind", ["nothing", "receiver", *WAYS])
def test_each_server_takes_requests_and_those_that_judge_send_what_comes_of_them(kind: str) -> None:
    with Dialogue("tests.bench.sink") as sink, Dialogue("tests.bench.floor_server", kind, sink.ready["address"]) as served:
        with grpc.insecure_channel(served.ready["address"]) as channel:
            export = channel.unary_unary(METHOD, None, None)
            assert export(request_of(1, TRACES_OF_EXPORT), timeout=PATIENCE_SECONDS) == b""
            assert export(request_of(1_000, 1), timeout=PATIENCE_SECONDS) == b""
        expected = {"logs requests", "logs bytes", "trace requests", "trace bytes"} if kind in WAYS else set()
        counts: dict[str, int] = {}
        wait_for(lambda: (counts.update(sink.ask()["counts"]), counts.keys() >= expected)[1], "what is sent")
        assert counts.keys() == expected
