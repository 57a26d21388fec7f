"""Runs the benchmarks: ``make bench``, or ``make bench ONLY=sidecar``. Nothing asserts a time; see the table and ``.build/bench/*.json``.

Each part runs in a process of its own, so that none finds the caches or the heap of another.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

from tests.bench.results import FOLDER, Goal, Result, show, write

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS: Final = {
    "sidecar": "a sidecar beside the OpenTelemetry Collector, under all loads",
    "judging": "four evaluators on a trace, beside the reference evaluators",
    "wire": "decoding beside protobuf's and json's parsers alone",
    "extraction": "reading tool calls beside decoding them",
    "evaluators": "each evaluator by itself, and twice the calls",
    "stages": "the whole way of a trace, by stage, beside protobuf's parser alone",
    "growth": "the whole way of a trace, and twice the traces, spans, expectations",
    "buffer": "grouping by trace, and twice the traces",
    "packing": "packing a trace that waits beside marshal alone, for traces that are alike and for lifelike ones",
    "processor": "the span processor beside BatchSpanProcessor",
    "journal": "the journal beside no journal",
    "memory": "what open traces take",
    "start": "imports, and start to ready",
}


def run_part(part: str) -> None:
    """Measure one part in this process and write what came of it."""
    found = list(import_module(f"tests.bench.bench_{part}").results())
    write(part, found)


def read_part(part: str) -> list[Result]:
    """Return the results that a part wrote."""
    said = json.loads((FOLDER / f"{part}.json").read_text(encoding="utf-8"))["results"]
    kept = {"name", "load", "ours", "yardstick", "theirs", "unit", "more"}
    return [
        Result(
            **{key: value for key, value in one.items() if key in kept},
            goals=tuple(Goal(limit=goal["limit"], of=goal["of"], least=goal["least"]) for goal in one["goals"]),
        )
        for one in said
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure all parts, or those that are named; 0 if they ran, whatever the figures, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measures; each figure stands beside a yardstick in the same run.",
        epilog="\n".join(f"  {part:<14}{what}" for part, what in PARTS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help="all of them by default")
    parser.add_argument("--here", action="store_true", help="in this process; for one part")
    asked = parser.parse_args(arguments)
    unknown = sorted(set(asked.parts) - PARTS.keys())
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if asked.here:
        run_part(*asked.parts)
        return 0
    failed, everything = [], []
    for part in asked.parts or PARTS:
        sys.stdout.write(f"\n{part}: {PARTS[part]}\n")
        sys.stdout.flush()
        if subprocess.run([sys.executable, "-m", "tests.bench", "--here", part], check=False).returncode:
            failed.append(part)
            continue
        found = read_part(part)
        show(found)
        everything += found
    missed = [result for result in everything if result.all_reached is False]
    sys.stdout.write(f"\n{len(everything)} figures in {FOLDER}; {len(missed)} miss a goal\n")
    for part in failed:
        sys.stderr.write(f"{part}: could not be measured; see above\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
