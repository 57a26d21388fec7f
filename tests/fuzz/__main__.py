"""``make fuzz``: runs the targets, two at a time, each in a process of its own, and says how many inputs each has tried."""

from __future__ import annotations

import argparse
import base64
import importlib.util
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.fuzz.oracles import TARGETS

_TRIED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
_BROKE = re.compile(r"(?:Uncaught Python exception|Traceback \(most recent call last\)|ERROR: libFuzzer).*", re.DOTALL)
"""What an engine prints once it has found something; before it stand thousands of lines about what it tried."""

_SHOWN = 6000


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"of {', '.join(TARGETS)}; all by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each target; 0: no limit")
    parser.add_argument("--runs", type=int, default=0, help="inputs for each target; 0: no limit")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=Path(".build/fuzz"), help="for the corpus, and for what breaks a target")
    asked = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: no atheris for this Python and machine (it has wheels for Linux on x86-64); mutating without an eye on coverage")  # noqa: T201
    with ThreadPoolExecutor(asked.jobs) as pool:
        held = list(pool.map(lambda target: _run(target, asked), asked.targets))
    return 0 if all(held) else 1


def _run(target: str, asked: argparse.Namespace) -> bool:
    """Run one target and tell whether it held."""
    folder = asked.folder / target
    command = [sys.executable, "-m", "tests.fuzz.engine", target, str(folder), str(asked.seconds), str(asked.runs)]
    ended = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    tried = _TRIED.search(ended.stdout)
    print(f"fuzz: {target}: {tried[1] if tried else 'unknown'} inputs, {'held' if ended.returncode == 0 else 'BROKEN'}")  # noqa: T201
    if ended.returncode != 0:
        broke = _BROKE.search(ended.stdout)
        print(broke[0][:_SHOWN] if broke else ended.stdout[-_SHOWN:])  # noqa: T201
        for found in sorted(folder.glob("crashes/*")):
            # In full, for a machine that keeps its output alone: `base64 -d` makes a file of it.
            print(f"fuzz: {found} is, in base64:\n{base64.b64encode(found.read_bytes()).decode()}")  # noqa: T201
        print(f"fuzz: once mended, keep the input in tests/fuzz/found/{target}/")  # noqa: T201
    return ended.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
