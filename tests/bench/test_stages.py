"""Holds how the whole way is measured: that each stage is told, and that all of them together are the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bench import bench_stages
from tests.bench.bench_stages import PARSE, SERVICES, STAGES, WHOLE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", SERVICES)
def test_each_stage_of_each_pass_is_measured(kind: str, tmp_path: Path) -> None:
    found = bench_stages.measure(kind, tmp_path, passes=2)
    assert list(found) == [*STAGES, PARSE]
    assert all(len(taken) == 2 and min(taken) >= 0 for taken in found.values())


def test_the_whole_way_is_all_stages_together() -> None:
    found = {stage: [1.0, 2.0, 9.0] for stage in STAGES} | {PARSE: [4.0, 4.0, 4.0]}
    told = {result.load: result for result in bench_stages.told("bound", found)}
    assert list(told) == [*STAGES, WHOLE]
    assert (told["decode"].ours, told["decode"].ratio) == (2.0, 0.5)
    assert (told[WHOLE].ours, told[WHOLE].ratio) == (2.0 * len(STAGES), 0.5 * len(STAGES))
