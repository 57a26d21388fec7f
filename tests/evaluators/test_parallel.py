from __future__ import annotations

from itertools import groupby, permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.lcs import align
from otel_toolcall_eval.evaluators.parallel import Run, best_order, find_runs
from tests.evaluators.calls import grouped


@pytest.mark.parametrize(
    ("groups", "runs"),
    [
        pytest.param([], [], id="no-calls"),
        pytest.param([None, None], [Run(0, 1), Run(1, 2)], id="one-after-the-other"),
        pytest.param([1, 1, None, 2, 2, 2], [Run(0, 2), Run(2, 3), Run(3, 6)], id="two-groups"),
        pytest.param([1, 2, 1, 2], [Run(0, 1), Run(1, 2), Run(2, 3), Run(3, 4)], id="another-agent-between-parts-a-group"),
        pytest.param([1, 1, 2, 1, 1], [Run(0, 2), Run(2, 3), Run(3, 5)], id="both-sides-stay-free"),
    ],
)
def test_calls_of_a_group_that_stand_side_by_side_may_change_places(groups: list[int | None], runs: list[Run]) -> None:
    assert find_runs(grouped([("a", group) for group in groups])) == runs


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], list[Run], int]:
    """Calls that answer to any names at all, as aliases allow, in runs of any length."""
    length = draw(st.integers(1, 6))
    runs, start = [], 0
    for size in draw(st.lists(st.integers(1, 4), max_size=3)):
        runs.append(Run(start, start + size))
        start += size
    if draw(st.booleans()):
        kinds = draw(st.lists(st.integers(0, 2), min_size=length, max_size=length))
        masks = [sum(1 << place for place, kind in enumerate(kinds) if kind == wanted) for wanted in range(4)]
        fits = draw(st.lists(st.sampled_from(masks), min_size=start, max_size=start))
    else:
        fits = draw(st.lists(st.integers(0, 2**length - 1), min_size=start, max_size=start))
    return fits, runs, length


@given(cases())
def test_no_order_within_runs_is_better(case: tuple[list[int], list[Run], int]) -> None:
    fits, runs, length = case
    order = best_order(fits, runs, length)
    for run in runs:
        assert sorted(order[run.start : run.end]) == list(range(run.start, run.end))
    orders = product(*(permutations(range(run.start, run.end)) for run in runs))
    best = max(len(align([fits[call] for run in parts for call in run], length)) for parts in orders)
    assert len(align([fits[call] for call in order], length)) == best


@pytest.mark.parametrize(
    ("calls", "expected", "common"),
    [
        pytest.param([("b", 1), ("a", 1)], "ab", 2, id="swapped"),
        pytest.param([("b", 1), ("a", 2)], "ab", 1, id="two-groups"),
        pytest.param([("b", None), ("a", None)], "ab", 1, id="no-group"),
        pytest.param([("x", None), ("c", 1), ("b", 1), ("a", 1), ("d", None)], "abcd", 4, id="run-in-the-middle"),
        pytest.param([(name, 1) for name in "fedcba"] + [(name, 2) for name in "lkjihg"], "abcdefghijkl", 12, id="two-runs"),
        pytest.param([(name, place // 3) for place, name in enumerate("cbafedihglkj" * 9)], "abcdefghijkl" * 9, 108, id="many-runs"),
        pytest.param([("a", 1)] * 5, "aba", 2, id="more-calls-than-names"),
        pytest.param([("x", 1), ("y", 1)], "ab", 0, id="nothing-in-common"),
    ],
)
def test_best_order_keeps(calls: list[tuple[str, int | None]], expected: str, common: int) -> None:
    fits = [sum(1 << place for place, wanted in enumerate(expected) if wanted == name) for name, _ in calls]
    order = best_order(fits, find_runs(grouped(calls)), len(expected))
    assert len(align([fits[call] for call in order], len(expected))) == common
    assert sorted(order) == list(range(len(calls)))
    assert [len(list(run)) for _, run in groupby(calls[call][1] for call in order)] == [
        len(list(run)) for _, run in groupby(group for _, group in calls)
    ]
