"""What ``bench_floor`` counts: the way of bound traces, and verdict sets, both as they are and at the least.

Under callgrind: ``python -m tests.bench.counted_floor``. With ``clock`` behind it, it says what each section takes of the CPU's time.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from otel_toolcall_eval import pipeline as pipeline_module
from otel_toolcall_eval.process_limits import collect_garbage_seldom
from tests.bench.agent_traces import request_of as traces_of
from tests.bench.bench_judging import calls_of, criteria_of
from tests.bench.callgrind import Sections
from tests.bench.counted import COMPILED, JUDGE, PASSES, REQUESTS, SETS, WARM, count_sets, count_way
from tests.bench.least import Expected, judge_spans, judge_texts
from tests.bench.least_slices import WAYS
from tests.bench.loads import TRACES_OF_BATCH, criteria

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND: Final = "bound"
SIZES: Final = (4, 20, 100, 1_000)
PARSED: Final = "parsed"
REMEMBERED: Final = "remembered"
"""Floors of judging: payloads are parsed, or compared with texts that passed before."""
STAGES: Final = {"read": ("decode", "group"), JUDGE: (JUDGE,), "record": ("record",), "emit": ("emit",)}
"""What a floor does in a section, and the sections in which ours does that."""
CLOCK: Final = "clock"
ROUNDS: Final = 5


class Stopwatch(Sections):
    """Takes the CPU time of sections in place of counting them."""

    def __init__(self) -> None:
        """Begin outside of all sections."""
        super().__init__()
        self.taken: dict[str, int] = {}
        self._name = ""
        self._began = time.thread_time_ns()

    def begin(self, name: str = "") -> None:
        """End the section before, and begin another; nanoseconds of those of one name are added up."""
        now = time.thread_time_ns()
        self.taken[self._name] = self.taken.get(self._name, 0) + now - self._began
        self._name, self._began = name, time.thread_time_ns()


def expected_of_load() -> Expected:
    """Return what the bench's load is expected to hold; it does."""
    judged: Mapping[str, dict[str, Any]] = json.loads(criteria("weather-agent"))["evaluations"][0]["evaluation_criterias"]
    return Expected.of(judged)


def count_least(sections: Sections, name: str) -> None:
    """Take traces the way of a floor, as many at a time as ``count_way`` does."""
    way = WAYS[name](expected_of_load())
    first = 1
    for number in range(WARM + PASSES):
        told = {stage: f"{name} {stage}" if number >= WARM else "" for stage in STAGES}
        bodies = [traces_of(first + batch * TRACES_OF_BATCH, TRACES_OF_BATCH) for batch in range(REQUESTS)]
        first += REQUESTS * TRACES_OF_BATCH
        sections.begin(told["read"])
        found = [one for body in bodies for one in way.read(body)]
        sections.begin(told[JUDGE])
        judged = way.judge(found)
        sections.begin(told["record"])
        way.record(judged)
        way.settle()
        sections.begin(told["emit"])
        logs, spans = way.emit(judged, time.time_ns())
        sections.begin()
        assert logs, spans
        assert len(judged) == REQUESTS * TRACES_OF_BATCH
        assert all(score == 1.0 for _, _, _, _, verdicts in judged for score, _ in verdicts)


def count_least_sets(sections: Sections, size: int) -> None:
    """Judge so many calls by four plain functions, parsing their payloads included."""
    calls = calls_of(size)
    expected = Expected.of(criteria_of(calls))
    texts = expected.in_texts([(call["tool.name"], call["input.value"], call["output.value"]) for call in calls])
    for name, judge, by in ((PARSED, judge_spans, expected), (REMEMBERED, judge_texts, texts)):
        for counted in (0, 1):
            # Copies, since a text that is compared with itself takes nothing.
            given = [[{key: f" {text}"[1:] for key, text in call.items()} for call in calls] for _ in range(SETS if counted else WARM)]
            sections.begin(f"{size} {name}" if counted else "")
            found = [judge(by, one) for one in given]
            sections.begin()
            assert all([score for score, _ in verdicts] == [1.0] * 4 for verdicts in found)


def count_all(sections: Sections) -> None:
    """Do it all once."""
    with tempfile.TemporaryDirectory() as folder:
        count_way(sections, KIND, Path(folder))
    for name in WAYS:
        count_least(sections, name)
    gc.collect()
    for size in SIZES:
        count_sets(sections, size)
        count_least_sets(sections, size)


def names() -> Iterator[str]:
    """Yield all sections that are told."""
    yield from (f"{KIND} {stage}" for stages in STAGES.values() for stage in stages)
    yield from (f"{name} {stage}" for name in WAYS for stage in STAGES)
    yield from (f"{size} {part}" for size in SIZES for part in (JUDGE, PARSED, REMEMBERED))


def main(how: str = "") -> None:
    """Count once, or take the time of several rounds and tell the least."""
    sections = Sections()
    collect_garbage_seldom()
    taken: dict[str, int] = {}
    for _ in range(ROUNDS if how == CLOCK else 1):
        if how == CLOCK:
            stopwatch = Stopwatch()
            count_all(stopwatch)
            taken = {name: min(each, taken.get(name, each)) for name, each in stopwatch.taken.items()}
        else:
            count_all(sections)
    sections.end(core=COMPILED if not pipeline_module.__file__.endswith(".py") else "interpreted", taken=taken)


if __name__ == "__main__":
    main(*sys.argv[1:])
