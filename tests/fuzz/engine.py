"""Runs one target over mutated inputs: with atheris, which follows coverage, or with a plain mutator where atheris can't be had.

A process of its own for each target, since libFuzzer ends its process: ``python -m tests.fuzz.engine TARGET FOLDER SECONDS RUNS``.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_BYTES = {"criteria_yaml": 1024}
"""Longest inputs; YAML is read at 140 KB a second."""

INPUT_SECONDS = 10
"""Longest that one input may take; they take milliseconds, so this is for what grows without bound."""

MEMORY_MIB = 1024
"""Most that the process may take, engine and coverage included."""


def main(target: str, folder: Path, *, seconds: int, runs: int) -> None:
    """Run ``target`` until ``seconds`` have passed or ``runs`` inputs were tried; whichever is 0 bounds nothing."""
    try:
        atheris: Any = importlib.import_module("atheris")
    except ImportError:
        atheris = None
    if atheris is None:
        run_plainly(target, folder, seconds=seconds, runs=runs)
    else:
        _run_atheris(atheris, target, folder, seconds=seconds, runs=runs)


def _run_atheris(atheris: Any, target: str, folder: Path, *, seconds: int, runs: int) -> None:  # noqa: ANN401 - it has no types
    with atheris.instrument_imports(include=["otel_toolcall_eval"]):
        from tests.fuzz.oracles import TARGETS  # noqa: PLC0415 - instrumented as it is imported
        from tests.fuzz.seeds import write  # noqa: PLC0415
    write(target, folder / "seeds")
    corpus, crashes = folder / "corpus", folder / "crashes"
    for needed in (corpus, crashes):
        needed.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}",
        f"-runs={runs or -1}",
        f"-max_len={MOST_BYTES.get(target, 4096)}",
        f"-timeout={INPUT_SECONDS}",
        f"-rss_limit_mb={MEMORY_MIB}",
        f"-artifact_prefix={crashes}/",
        "-print_final_stats=1",
        "-verbosity=1",
    ]
    atheris.Setup([sys.argv[0], str(corpus), str(folder / "seeds"), *options], TARGETS[target])
    atheris.Fuzz()


def run_plainly(target: str, folder: Path, *, seconds: int, runs: int, seed: int = 1) -> int:
    """Try mutations of the seeds, without an eye on coverage, and return how many; what breaks is kept in ``folder/crashes``."""
    from tests.fuzz.oracles import TARGETS  # noqa: PLC0415 - not before the other engine could instrument it
    from tests.fuzz.seeds import seeds  # noqa: PLC0415

    known = list(seeds(target))
    draw = random.Random(seed)  # noqa: S311 - no secret, and the same on every machine
    tried, ends = 0, time.monotonic() + seconds
    while (not runs or tried < runs) and (not seconds or time.monotonic() < ends):
        data = known[tried] if tried < len(known) else mutated(draw, known)
        tried += 1
        _try(TARGETS[target], data, folder / "crashes")
    print(f"stat::number_of_executed_units: {tried}")  # noqa: T201 - as libFuzzer says it
    return tried


def _try(target: Callable[[bytes], None], data: bytes, crashes: Path) -> None:
    begun = time.process_time()
    try:
        target(data)
        assert time.process_time() - begun < INPUT_SECONDS, "it takes too long"
    except Exception:
        crashes.mkdir(parents=True, exist_ok=True)
        crashes.joinpath("crash").write_bytes(data)
        raise


def mutated(draw: random.Random, known: Sequence[bytes]) -> bytes:
    """Return a seed with one to four changes: a byte, a cut, a repeated or borrowed piece."""
    data = bytearray(draw.choice(known))
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randint(0, len(data)), draw.randint(1, 16)
        match draw.randint(0, 4):
            case 0:
                data[at : at + 1] = bytes([draw.randint(0, 255)])
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[max(0, at - length) : at]
            case 3:
                other = draw.choice(known)
                start = draw.randint(0, len(other))
                data[at:at] = other[start : start + length]
            case _:
                data[at : at + 1] = draw.choice(
                    (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x80", b"9" * 30, b'"', b"{", b"[", b"\0", b"-")
                )
    return bytes(data)


if __name__ == "__main__":
    name, place, most_seconds, most_runs = sys.argv[1:]
    main(name, Path(place), seconds=int(most_seconds), runs=int(most_runs))
