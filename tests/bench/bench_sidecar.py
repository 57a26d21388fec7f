"""A sidecar beside the OpenTelemetry Collector, under one load from one sender: CPU for each span, spans a second, memory, answer times.

``python -m tests.bench.bench_sidecar --load bound-grpc --seconds 10`` measures one load; see ``--help``.

The Collector groups by trace (``groupbytrace``), batches and throws away; the sidecar groups, judges and exports what it found to a sink.
Rounds alternate, so that what else the machine does falls on both. CPU time is that of the server's process alone, from the first request
until it has done all that it was sent; those of the sender and the sink are not in it.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.bench.loads import LOADS, Requests
from tests.bench.results import Goal, Result, middle, quantile, show, write
from tests.bench.servers import QUIET_SECONDS, Dialogue, collector, cpu_seconds, memory_mib, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.bench.loads import Load
    from tests.bench.servers import Server

SERVICE: Final = "weather-agent"
WARM_SECONDS: Final = 1.0
MOST_REQUESTS: Final = 1_000_000
VERDICT: Final = "verdict after quiet p99 ms"
RATE: Final = "spans/s"
GOALS: Final = {
    "bound-grpc": (Goal(limit=2.0), Goal(limit=60_000, of=RATE, least=True), Goal(limit=250, of=VERDICT)),
    "unbound-grpc": (Goal(limit=1.0), Goal(limit=200_000, of=RATE, least=True)),
}
# Throughput of at least 0.8 times gRPC's, and 0.25 times: as CPU time for each span, at most 1.25 and 4 times.
WITHIN: Final = (("bound-http", 1.25), ("unbound-http", 1.25), ("bound-json", 4.0), ("unbound-json", 4.0))


@dataclass(kw_only=True)
class Rounds:
    """What the rounds of one server came to."""

    us: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    p50: list[float] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    sender_us: list[float] = field(default_factory=list)
    verdicts: list[float] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    spans: int = 0
    refused: int = 0

    def add(self, sent: dict[str, Any], *, spans_each: int, cpu: float, ended: float) -> None:
        """Note a round; ``ended`` is when the server had done it all."""
        spans = sent["requests"] * spans_each
        assert spans, "nothing was taken"
        taken = max(sent["ended"], ended - QUIET_SECONDS) - sent["began"]
        self.spans += spans
        self.us.append(cpu / spans * 1e6)
        self.rate.append(spans / taken)
        self.p50.append(sent["p50"] * 1e3)
        self.p99.append(sent["p99"] * 1e3)
        self.sender_us.append(sent["cpu"] / spans * 1e6)
        self.refused += sent["refused"]


def one_round(server: Server, sender: Dialogue, sink: Dialogue | None, load: Load, found: Rounds, *, seconds: float, most: int) -> None:
    """Send for so long and wait until all is done."""
    if sink is not None:
        sink.ask()
    before = cpu_seconds(server.pid)
    sent = sender.ask(f"{seconds} {most}")
    ended = server.wait_until_idle(sent["ended"])
    found.add(sent, spans_each=load.spans, cpu=cpu_seconds(server.pid) - before, ended=ended)
    if sink is None:
        return
    taken = sink.ask()
    found.labels.update(taken["labels"])
    number_of = Requests.numbering(load, bytes.fromhex(sender.ready["prefix"]))
    for trace_id, (fell, _) in taken["verdicts"].items():
        at = sent["sent"].get(str(number_of(bytes.fromhex(trace_id))))
        if at is not None:
            found.verdicts.append((fell - at - QUIET_SECONDS) * 1e3)


def measure(name: str, *, seconds: float, rounds: int, alone: bool = False) -> Result:
    """Measure one load; ``alone`` leaves the Collector out."""
    load = LOADS[name]
    with ExitStack() as stack:
        sink = stack.enter_context(Dialogue("tests.bench.sink"))
        service = SERVICE if load.bound else "another-agent"
        servers = [stack.enter_context(sidecar(service=service, sink=sink.ready["address"]))]
        if not alone:
            servers.append(stack.enter_context(collector()))
        sides = []
        for server in servers:
            address = server.grpc if load.transport == "grpc" else server.http
            sides.append((server, stack.enter_context(Dialogue("tests.bench.sending", name, address)), Rounds()))
            one_round(server, sides[-1][1], None, load, Rounds(), seconds=WARM_SECONDS, most=MOST_REQUESTS)
        for _ in range(rounds):
            for server, sender, found in sides:
                asked = sink if server is servers[0] and load.bound else None
                one_round(server, sender, asked, load, found, seconds=seconds, most=MOST_REQUESTS)
        peaks = [memory_mib(server.pid) for server in servers]
    ours = sides[0][2]
    more: dict[str, float | str] = {}
    for (server, _, found), peak in zip(sides, peaks, strict=True):
        of = "" if server is servers[0] else f" of the {server.name}"
        more |= {
            f"spans/s{of}": middle(found.rate),
            f"answer p50 ms{of}": middle(found.p50),
            f"answer p99 ms{of}": middle(found.p99),
            f"peak MiB{of}": peak,
            f"spans{of}": found.spans,
            f"refused{of}": found.refused,
            f"least and most us/span{of}": f"{min(found.us):.2f} to {max(found.us):.2f}",
        }
    if ours.verdicts:
        more |= {VERDICT: quantile(ours.verdicts, 0.99), "p50": quantile(ours.verdicts, 0.5), "labels": " ".join(sorted(ours.labels))}
    more["sender us/span"] = middle(ours.sender_us)
    return Result(
        name="sidecar",
        load=name,
        ours=middle(ours.us),
        yardstick="Collector, groupbytrace" if len(sides) > 1 else "left out",
        theirs=middle(sides[1][2].us) if len(sides) > 1 else None,
        goals=GOALS.get(name, ()),
        more=more,
    )


def results(*, seconds: float = 5.0, rounds: int = 3, loads: Sequence[str] = (), alone: bool = False) -> Iterator[Result]:
    """Measure all loads, and how other transports stand to gRPC."""
    found: dict[str, Result] = {}
    for name in loads or LOADS:
        found[name] = measure(name, seconds=seconds, rounds=rounds, alone=alone)
        yield found[name]
    for name, most in WITHIN:
        base = f"{name.split('-', maxsplit=1)[0]}-grpc"
        if name in found and base in found:
            yield Result(
                name="sidecar", load=name, ours=found[name].ours, yardstick=base, theirs=found[base].ours, goals=(Goal(limit=most),)
            )


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.bench_sidecar", description=__doc__)
    parser.add_argument("--load", action="append", choices=tuple(LOADS), default=[], help="may be given several times; all by default")
    parser.add_argument("--seconds", type=float, default=5.0, help="for which a round sends")
    parser.add_argument("--rounds", type=int, default=3, help="of each server; medians are shown")
    parser.add_argument("--alone", action="store_true", help="leave the Collector out")
    arguments = parser.parse_args()
    found = []
    for result in results(seconds=arguments.seconds, rounds=arguments.rounds, loads=arguments.load, alone=arguments.alone):
        found.append(result)
        show([result])
    sys.stdout.write(f"{write('sidecar', found)}\n")


if __name__ == "__main__":
    main()
