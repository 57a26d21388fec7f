"""The least that each part can cost in Python, as smaller programs that do it, beside the real thing; and what is left above the Collector.

Three floors: a gRPC server that reads nothing, with the options and threads of ours; the way of a bound trace with all code of ours left
out (``least_ways``, ``least_slices``); four plain functions in place of the evaluators (``least``). The second is put behind the first,
too, and waits as long for more spans as the Collector does: what is above the Collector there can't be reached with this server and this
interpreter. In its own rows ``ours`` is what is real, ``theirs`` the floor; beside the Collector ``ours`` is the floor, apart from the
rows of the sidecar and of its receiver.

Instructions are the main figure, where valgrind is installed; microseconds of CPU, the least of several rounds, stand below.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from tests.bench import callgrind
from tests.bench.bench_instructions import LACKING, WHOLE
from tests.bench.bench_sidecar import MOST_REQUESTS, SERVICE, WARM_SECONDS, Rounds, one_round
from tests.bench.counted import JUDGE, SETS, TRACES
from tests.bench.counted_floor import CLOCK, KIND, PARSED, REMEMBERED, SIZES, STAGES
from tests.bench.floor_server import NOTHING, RECEIVER
from tests.bench.least_slices import WAYS
from tests.bench.loads import LOADS
from tests.bench.results import Goal, Result, middle
from tests.bench.servers import ROOT, Dialogue, Server, collector, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SIDECAR: Final = "sidecar"
BOUND: Final = "bound-grpc"
WORDS: Final = {
    NOTHING: "gRPC server that reads nothing",
    RECEIVER: "our receiver, nothing behind it",
    "messages": "gRPC server + floor, messages",
    "slices": "gRPC server + floor, slices",
    SIDECAR: "sidecar",
}
SERVED: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "unbound-grpc": ("510 spans a request", (NOTHING, RECEIVER)),
    "senders-100": ("10 spans a request, 100 senders", (NOTHING, RECEIVER)),
    "one-span-grpc": ("1 span a request", (NOTHING, RECEIVER)),
    BOUND: ("510 spans a request, bound", (*WAYS, SIDECAR)),
}
"""By load: what it is, and what stands beside the Collector."""
GOALS: Final = {BOUND: (Goal(limit=2.0),)}
"""Of a sidecar; whether it could be reached at all."""
SECONDS: Final = 3.0
ROUNDS: Final = 3
PROGRAM: Final = "tests.bench.counted_floor"


def results() -> Iterator[Result]:
    """Count, take the time, and measure the servers."""
    command = [sys.executable, "-m", PROGRAM, CLOCK]
    said: dict[str, Any] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT).stdout)
    if callgrind.is_there():
        found, _ = callgrind.count(PROGRAM, cwd=ROOT)
        counts = {name: costs.own.total() for name, costs in found.items()}
    else:
        yield Result(name="instructions", load="none counted", yardstick=LACKING)
        counts = None
    yield from told(Found(counts, said["taken"], said["core"]))
    for name in SERVED:
        yield from beside_collector(name)


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, by section.

    Attributes:
        counts: instructions; None if they were not counted, then microseconds take their place.
        taken: nanoseconds.
        core: whether what is real is compiled.
    """

    counts: Mapping[str, int] | None
    taken: Mapping[str, int]
    core: str

    def beside(self, real: Sequence[str], floor: Sequence[str], *, times: int) -> dict[str, Any]:
        """Return figures of two lists of sections, in which something was done so many times."""
        us = [sum(self.taken[one] for one in some) / times / 1e3 for some in (real, floor)]
        more: dict[str, float | str] = {"core": self.core}
        if self.counts is None:
            return {"ours": us[0], "theirs": us[1], "unit": "us/trace", "more": more}
        k = [sum(self.counts[one] for one in some) / times / 1e3 for some in (real, floor)]
        more |= {"us/trace": us[0], "us/trace of the floor": us[1], "ratio of these": us[0] / us[1]}
        return {"ours": k[0], "theirs": k[1], "unit": "k/trace", "more": more}


def told(found: Found) -> Iterator[Result]:
    """Tell what is real beside its floor."""
    for name in WAYS:
        pairs = {stage: ([f"{KIND} {one}" for one in ours], [f"{name} {stage}"]) for stage, ours in STAGES.items()}
        ours, theirs = zip(*pairs.values(), strict=True)
        pairs[WHOLE] = [*chain(*ours)], [*chain(*theirs)]
        for stage, sections in pairs.items():
            figures = found.beside(*sections, times=TRACES)
            yield Result(name=f"bound trace, {stage}", load="ten spans, four calls", yardstick=f"floor, {name}", **figures)
    for size in SIZES:
        for floor, words in ((PARSED, "floor, four functions"), (REMEMBERED, "floor, texts that passed")):
            figures = found.beside([f"{size} {JUDGE}"], [f"{size} {floor}"], times=SETS)
            yield Result(name="judging", load=f"{size:,} calls, 4 evaluators", yardstick=words, **figures)


def beside_collector(name: str) -> Iterator[Result]:
    """Measure servers by turns, each under the same load."""
    load, (words, kinds) = LOADS[name], SERVED[name]
    with ExitStack() as stack:
        sink = stack.enter_context(Dialogue("tests.bench.sink")).ready["address"]
        servers = [server_of(stack, kind, sink) for kind in kinds]
        sides = []
        for server in (*servers, stack.enter_context(collector())):
            sender = stack.enter_context(Dialogue("tests.bench.sending", name, server.grpc))
            one_round(server, sender, None, load, Rounds(), seconds=WARM_SECONDS, most=MOST_REQUESTS)
            sides.append((server, sender, Rounds()))
        for _ in range(ROUNDS):
            for server, sender, found in sides:
                one_round(server, sender, None, load, found, seconds=SECONDS, most=MOST_REQUESTS)
    *ours, theirs = (found for _, _, found in sides)
    for kind, found in zip(kinds, ours, strict=True):
        yield Result(
            name=WORDS[kind],
            load=words,
            ours=middle(found.us),
            yardstick="Collector, groupbytrace",
            theirs=middle(theirs.us),
            goals=GOALS.get(name, ()),
            more={
                "answer p50 ms": middle(found.p50),
                "answer p99 ms": middle(found.p99),
                "sender us/span": middle(found.sender_us),
                "spans/s": middle(found.rate),
                "least us/span": min(found.us),
                "of the Collector": min(theirs.us),
            },
        )


def server_of(stack: ExitStack, kind: str, sink: str) -> Server:
    """Start one of ``floor_server``, or a sidecar."""
    if kind == SIDECAR:
        return stack.enter_context(sidecar(service=SERVICE, sink=sink))
    served = stack.enter_context(Dialogue("tests.bench.floor_server", kind, sink))
    return Server(name=kind, pid=served.pid, grpc=served.ready["address"], http="", ready_seconds=0.0)
