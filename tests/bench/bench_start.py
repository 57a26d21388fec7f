"""What comes before the first span: importing the package, and a sidecar's start until it is ready."""

from __future__ import annotations

import compileall
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from tests.bench.results import Goal, Result, middle
from tests.bench.servers import ROOT, collector, cpu_seconds, environment, sidecar

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS: Final = 9
STARTS: Final = 5


def run_ms(code: str) -> float:
    """Return milliseconds of CPU of an interpreter that runs some code, its own start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, env=environment({}), cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


def results() -> Iterator[Result]:
    """Measure both; whichever is first fills the caches, and does not count."""
    # An installer does so, too. Where Python may write no bytecode (PYTHONDONTWRITEBYTECODE) each start would compile our sources anew.
    compileall.compile_dir(ROOT / "otel_toolcall_eval", quiet=1)
    # The package imports what it offers when it is asked for, so its name alone says little.
    codes = {
        "pass": "",
        "import opentelemetry.sdk.trace": "",
        "import otel_toolcall_eval": "import opentelemetry.sdk.trace",
        "from otel_toolcall_eval import ToolCallEvalSpanProcessor": "import opentelemetry.sdk.trace",
    }
    taken: dict[str, list[float]] = {code: [] for code in codes}
    for number in range(ROUNDS + 1):
        for code in codes:
            found = run_ms(code)
            if number:
                taken[code].append(found)
    bare = middle(taken["pass"])
    for code, yardstick in codes.items():
        if yardstick:
            yield Result(
                name="import",
                load=code,
                ours=middle(taken[code]) - bare,
                yardstick=yardstick,
                theirs=middle(taken[yardstick]) - bare,
                unit="ms",
                goals=(Goal(limit=1.3),) if code == "import otel_toolcall_eval" else (),
                more={"interpreter alone ms": bare},
            )
    ready: dict[str, list[float]] = {"sidecar": [], "Collector": []}
    used: dict[str, list[float]] = {"sidecar": [], "Collector": []}
    for _ in range(STARTS):
        for start in (sidecar(service="weather-agent", sink=None), collector()):
            with start as server:
                ready[server.name].append(server.ready_seconds * 1e3)
                used[server.name].append(cpu_seconds(server.pid) * 1e3)
    yield Result(
        name="start to ready",
        load="sidecar with criteria",
        ours=middle(used["sidecar"]),
        yardstick="Collector",
        theirs=middle(used["Collector"]),
        unit="ms",
        # The clock runs on while others use the machine, so the CPU time is what holds; both are shown.
        goals=(Goal(limit=1_000.0, of="ours"),),
        more={"by the clock ms": middle(ready["sidecar"]), "of the Collector": middle(ready["Collector"])},
    )
