"""Instructions of a trace and of a verdict set, beside those of protobuf's own parser on the same bytes; and the ten costliest functions.

Unlike seconds they are the same on a busy machine, so a change of one in a hundred can be seen. They need valgrind; see ``callgrind``.
Of the stages ``record`` puts scores and counts into the cells of the metrics, and ``emit`` writes log events and spans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.bench import callgrind
from tests.bench.agent_traces import SPANS_OF_TRACE
from tests.bench.callgrind import Costs
from tests.bench.counted import COMPILED, JUDGE, PARSE, SERVICES, SETS, SIZES, STAGES, TRACES
from tests.bench.results import Result
from tests.bench.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COSTLIEST: Final = 10
YARDSTICK: Final = "protobuf parser on the same bytes"
WHOLE: Final = "the whole way"
UNIT: Final = "k/trace"
LACKING: Final = "valgrind is not installed; Debian, Ubuntu: apt-get install valgrind"


def results() -> Iterator[Result]:
    """Count once; what is counted does not vary."""
    if not callgrind.is_there():
        yield Result(name="instructions", load="none counted", yardstick=LACKING)
        return
    found, said = callgrind.count("tests.bench.counted", cwd=ROOT)
    yield from told(found, core=said["core"])


def told(found: Mapping[str, Costs], *, core: str) -> Iterator[Result]:
    """Turn what was counted, by section, into thousands of instructions for each trace and verdict set."""
    ways = {kind: list(way(found, kind, core)) for kind in SERVICES}
    for rows in ways.values():
        yield from rows
    for size in SIZES:
        ours, theirs = (found[f"{size} {part}"].own.total() / SETS / 1e3 for part in (JUDGE, PARSE))
        yield Result(name="verdict set", load=f"{size} calls, 4 evaluators", ours=ours, yardstick=YARDSTICK, theirs=theirs, unit="k/set")
    yield from costliest(together(found, "bound"), core=core)


def together(found: Mapping[str, Costs], kind: str) -> Costs:
    """Return what the whole way took."""
    whole = Costs()
    for stage in STAGES:
        whole.add(found[f"{kind} {stage}"])
    return whole


def way(found: Mapping[str, Costs], kind: str, core: str) -> Iterator[Result]:
    """Tell what each stage takes, and all of them."""
    theirs = found[f"{kind} {PARSE}"].own.total() / TRACES / 1e3
    parts = {stage: found[f"{kind} {stage}"] for stage in STAGES} | {WHOLE: together(found, kind)}
    for load, costs in parts.items():
        ours = costs.own.total() / TRACES / 1e3
        more: dict[str, float | str] = {"k/span": ours / SPANS_OF_TRACE, "core": core} if load not in STAGES else {}
        yield Result(name=f"{kind} trace", load=load, ours=ours, yardstick=YARDSTICK, theirs=theirs, unit=UNIT, more=more)


def costliest(costs: Costs, *, core: str) -> Iterator[Result]:
    """Name the functions that take the most themselves; and of a compiled core those that do with the C code that they call."""
    theirs = costs.own.total() / TRACES / 1e3
    ranked = {"itself": costs.own}
    if core == COMPILED:  # else the interpreter is all that there is
        ranked["with C"] = costs.charged(callgrind.is_of_mypyc)
    for name, functions in ranked.items():
        for place, (function, taken) in enumerate(functions.most_common(COSTLIEST), 1):
            yield Result(name=f"{name}, {place}", load=function, ours=taken / TRACES / 1e3, yardstick=WHOLE, theirs=theirs, unit=UNIT)
