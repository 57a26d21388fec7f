"""The least that receiving can cost us: a gRPC server in Python that reads nothing of what it is sent, beside the Collector's whole path.

What is above the Collector here can't be reached with this server, whatever is done behind it.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from tests.bench.bench_sidecar import MOST_REQUESTS, WARM_SECONDS, Rounds, one_round
from tests.bench.loads import LOADS
from tests.bench.results import Result, middle
from tests.bench.servers import Dialogue, Server, collector

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADS_OF_GRPC: Final = {
    "unbound-grpc": "510 spans a request",
    "senders-100": "10 spans a request, 100 senders",
    "one-span-grpc": "1 span a request",
}
SECONDS: Final = 3.0
ROUNDS: Final = 3


def results() -> Iterator[Result]:
    """Measure requests of each size."""
    for name, words in LOADS_OF_GRPC.items():
        load = LOADS[name]
        with ExitStack() as stack:
            sink = stack.enter_context(Dialogue("tests.bench.sink"))
            floor = Server(name="floor", pid=sink.pid, grpc=sink.ready["address"], http="", ready_seconds=0.0)
            sides = []
            for server in (floor, stack.enter_context(collector())):
                sender = stack.enter_context(Dialogue("tests.bench.sending", name, server.grpc))
                one_round(server, sender, None, load, Rounds(), seconds=WARM_SECONDS, most=MOST_REQUESTS)
                sides.append((server, sender, Rounds()))
            for _ in range(ROUNDS):
                for server, sender, found in sides:
                    one_round(server, sender, None, load, found, seconds=SECONDS, most=MOST_REQUESTS)
        ours, theirs = (found for _, _, found in sides)
        yield Result(
            name="gRPC server that reads nothing",
            load=words,
            ours=middle(ours.us),
            yardstick="Collector, groupbytrace",
            theirs=middle(theirs.us),
            more={"answer p50 ms": middle(ours.p50), "answer p99 ms": middle(ours.p99), "sender us/span": middle(ours.sender_us)},
        )
