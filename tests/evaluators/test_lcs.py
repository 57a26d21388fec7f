from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.evaluators.lcs import align


def plain_align(fits: list[int], length: int) -> list[tuple[int, int]]:
    """The textbook's table and docs/semantics.md's way back, word for word."""
    table = [[0] * (length + 1) for _ in range(len(fits) + 1)]
    for call in range(1, len(fits) + 1):
        for name in range(1, length + 1):
            if fits[call - 1] >> (name - 1) & 1:
                table[call][name] = table[call - 1][name - 1] + 1
            else:
                table[call][name] = max(table[call - 1][name], table[call][name - 1])
    pairs = []
    call, name = len(fits), length
    while call and name:
        if fits[call - 1] >> (name - 1) & 1:
            call, name = call - 1, name - 1
            pairs.append((call, name))
        elif table[call - 1][name] > table[call][name - 1]:
            call -= 1
        else:
            name -= 1
    return pairs[::-1]


def fits_of(actual: str, expected: str) -> list[int]:
    return [sum(1 << place for place, name in enumerate(expected) if name == call) for call in actual]


@given(st.text(alphabet="abcd", max_size=12), st.text(alphabet="abcd", min_size=1, max_size=12))
def test_alignment_is_the_documented_one(actual: str, expected: str) -> None:
    fits = fits_of(actual, expected)
    assert align(fits, len(expected)) == plain_align(fits, len(expected))


@given(st.integers(1, 8).flatmap(lambda length: st.tuples(st.lists(st.integers(0, 2**length - 1), max_size=8), st.just(length))))
def test_alignment_needs_no_equality(case: tuple[list[int], int]) -> None:
    fits, length = case
    assert align(fits, length) == plain_align(fits, length)


@pytest.mark.parametrize(
    ("actual", "expected", "kept"),
    [
        pytest.param("", "abc", "", id="no-calls"),
        pytest.param("xyz", "abc", "", id="disjoint"),
        pytest.param("abc", "abc", "abc", id="equal"),
        pytest.param("acbd", "abcd", "abd", id="tie-in-the-middle"),
        pytest.param("cba", "abc", "a", id="tie-of-all"),
        pytest.param("bcda", "abcd", "bcd", id="rotated"),
        pytest.param("aaaaa", "aaa", "aaa", id="repeated"),
        pytest.param("ab" * 200, "ba" * 200, "ba" * 199 + "b", id="longer-than-a-machine-word"),
    ],
)
def test_kept_names(actual: str, expected: str, kept: str) -> None:
    assert "".join(expected[name] for _, name in align(fits_of(actual, expected), len(expected))) == kept
