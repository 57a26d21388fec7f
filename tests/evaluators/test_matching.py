from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching

GRAPHS = st.lists(st.integers(0, 2**6 - 1), max_size=6)


def best_size(options: list[int], taken: int = 0) -> int:
    """Try everything."""
    if not options:
        return 0
    free = options[0] & ~taken
    choices = [1 + best_size(options[1:], taken | 1 << candidate) for candidate in range(6) if free >> candidate & 1]
    return max([best_size(options[1:], taken), *choices])


def is_matching(partners: list[int], options: list[int]) -> bool:
    pairs = [(position, partner) for position, partner in enumerate(partners) if partner != UNMATCHED]
    return len({partner for _, partner in pairs}) == len(pairs) and all(options[position] >> partner & 1 for position, partner in pairs)


def size(partners: list[int]) -> int:
    return len(partners) - partners.count(UNMATCHED)


@given(GRAPHS)
def test_matching_is_as_large_as_can_be(options: list[int]) -> None:
    partners = maximum_matching(options)
    assert is_matching(partners, options)
    assert size(partners) == best_size(options)


@given(GRAPHS, st.data())
def test_start_is_extended(options: list[int], data: st.DataObject) -> None:
    start = maximum_matching([choices & data.draw(st.integers(0, 2**6 - 1)) for choices in options])
    partners = maximum_matching(options, start)
    assert is_matching(partners, options)
    assert size(partners) == best_size(options)
    assert all(partner != UNMATCHED for partner, before in zip(partners, start, strict=True) if before != UNMATCHED)


@pytest.mark.parametrize(
    ("options", "matched"),
    [
        pytest.param([], 0, id="nobody"),
        pytest.param([0, 0], 0, id="no-candidates"),
        pytest.param([0b11, 0b01], 2, id="greedy-fails"),
        pytest.param([0b1, 0b1, 0b1], 1, id="one-candidate"),
        # everyone has the candidate that the next one needs: a single path through all of them
        pytest.param([*(0b11 << place for place in range(2_000)), 0b1], 2_001, id="long-path"),
        # the first half takes what the second half needs, each by a path of its own
        pytest.param(
            [(1 << place) | 1 << (place + 500) for place in range(500)] + [1 << place for place in range(500)], 1_000, id="many-paths"
        ),
        # dead ends: many compete for too little
        pytest.param([(1 << 50) - 1] * 100 + [(1 << 100) - 1] * 70, 100, id="crowd"),
    ],
)
def test_matching_size(options: list[int], matched: int) -> None:
    partners = maximum_matching(options)
    assert is_matching(partners, options)
    assert size(partners) == matched


def test_first_candidates_go_to_the_first() -> None:
    partners = maximum_matching([0b1111] * 4)
    assert all(one < next_one for one, next_one in pairwise(partners))
