from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.evaluators.pairing import ObjectIndex, bits, spread
from otel_toolcall_eval.model.payload.equality import identity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.tool_call import Json

INDEX = ObjectIndex(map(identity, [{"a": 1, "b": 2}, {"a": 1}, [1], {}, "a", {"a": True}]))


@pytest.mark.parametrize(
    ("members", "found"),
    [
        pytest.param({}, [0, 1, 3, 5], id="all-objects"),
        pytest.param({"a": 1.0}, [0, 1], id="equal-in-value"),
        pytest.param({"a": 1, "b": 2}, [0], id="all-members-count"),
        pytest.param({"a": True}, [5], id="true-is-not-one"),
        pytest.param({"c": 1}, [], id="none"),
        pytest.param({"a": float("nan")}, [], id="nan"),
    ],
)
def test_objects_are_found_by_their_members(members: Mapping[str, Json], found: list[int]) -> None:
    assert list(bits(INDEX.having(members))) == found


def test_nothing_is_found_among_none() -> None:
    assert ObjectIndex([]).having({}) == 0


def test_sets_of_calls_are_spread_over_expectations() -> None:
    assert spread({0b101: 0b01, 0b100: 0b10, 0: 0b100}, 3) == [0b01, 0, 0b11]


def test_bits_are_counted_from_the_lowest() -> None:
    assert list(bits(0b10110)) == [1, 2, 4]
    assert list(bits(1 << 1000)) == [1000]
