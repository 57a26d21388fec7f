from __future__ import annotations

import pytest

from otel_toolcall_eval.evaluators.matching import UNMATCHED
from otel_toolcall_eval.evaluators.pairing import Candidates, Expectations, MatchSets, Pairing, pair
from otel_toolcall_eval.model.criteria import ArgsExpectation, Matching
from tests.evaluators.calls import call, log


def wanted(*tools: str, ids: tuple[str | None, ...] | None = None) -> Expectations:
    return Expectations.of(
        [
            ArgsExpectation(tool=tool, arguments={}, call_id=call_id)
            for tool, call_id in zip(tools, ids or (None,) * len(tools), strict=True)
        ]
    )


def pair_up(
    expected: Expectations,
    candidates: Candidates,
    certain: list[int],
    possible: list[int] | None = None,
    *,
    matching: Matching = Matching.MAXIMUM,
    open_ended: bool = False,
    always: list[bool] | None = None,
) -> Pairing:
    nothing = [0] * len(certain)
    fits = MatchSets(certain=certain, possible=possible or nothing, always=always or [False] * len(certain))
    return pair(expected, candidates, fits, matching=matching, open_ended=open_ended)


def test_expectations_are_numbered_by_tool() -> None:
    expected = wanted("f", "g", "f")
    assert (expected.tools, expected.call_ids, expected.turns) == (("f", "g", "f"), None, (0, 0, 1))
    assert (expected.labels, expected.names) == (("f_0", "g_0", "f_1"), ("f", "g"))
    assert [entry.tool for entry in expected.matched] == ["f", "g", "f"]
    assert wanted("f", "g", ids=(None, "")).call_ids == (None, "")


def test_candidates_are_the_calls_of_expected_names() -> None:
    calls = log("f", "x", "g", "f")
    found = Candidates.of(wanted("g", "f", "h"), calls)
    assert list(found.calls) == [calls.calls[2], calls.calls[0], calls.calls[3]]
    assert found.turns == {"g": [0], "f": [1, 2], "h": []}
    assert found.by_tool == {"g": 0b001, "f": 0b110, "h": 0}
    assert not found.shared


def test_call_with_an_alias_is_one_candidate() -> None:
    found = Candidates.of(wanted("f", "g"), log("g", call("f", aliases=("g",))))
    assert found.by_tool == {"f": 0b01, "g": 0b11}
    assert found.turns == {"f": [0], "g": [1, 0]}
    assert found.shared


@pytest.mark.parametrize(
    ("ids", "eligible"),
    [
        pytest.param((None, None), [0b111, 0b111], id="any"),
        pytest.param(("1", None), [0b101, 0b111], id="one-id"),
        pytest.param(("2", "3"), [0b010, 0], id="unknown-id"),
        pytest.param(("", None), [0, 0b111], id="empty-id-is-an-id"),
    ],
)
def test_expected_id_narrows_the_candidates(ids: tuple[str | None, ...], eligible: list[int]) -> None:
    expected = wanted("f", "f", ids=ids)
    found = Candidates.of(expected, log(call("f", call_id="1"), call("f", call_id="2"), call("f", call_id="1")))
    assert found.eligible(expected) == eligible


def test_unmatched_expectations_have_strays_of_their_own() -> None:
    expected = wanted("f", "f", "g", "f", "f")
    pairing = pair_up(expected, Candidates.of(expected, log("f", "f", "f", "g")), [0b0010, 0, 0, 0, 0])
    assert list(pairing.partners) == [1, UNMATCHED, UNMATCHED, UNMATCHED, UNMATCHED]
    assert list(pairing.strays) == [UNMATCHED, 0, 3, 2, UNMATCHED]
    assert (pairing.matched, pairing.lowest, pairing.highest) == (1, 1, 1)


@pytest.mark.parametrize(
    ("open_ended", "highest"), [pytest.param(False, 2, id="contents-only"), pytest.param(True, 3, id="and-missing-calls")]
)
def test_possible_pairs_raise_the_upper_bound(open_ended: bool, highest: int) -> None:  # noqa: FBT001 - a column of the table
    expected = wanted("f", "f", "f")
    pairing = pair_up(expected, Candidates.of(expected, log("f", "f")), [0b01, 0b01, 0], [0, 0b10, 0b10], open_ended=open_ended)
    assert (pairing.matched, pairing.lowest, pairing.highest, pairing.highest_by_content) == (1, 1, highest, 2)


def test_position_decides_who_is_paired() -> None:
    expected = wanted("f", "g", "f", "f")
    candidates = Candidates.of(expected, log("f", "f", "g"))
    pairing = pair_up(expected, candidates, [0b001, 0, 0b001, 0b001], [0, 0b100, 0, 0], matching=Matching.POSITIONAL)
    assert list(pairing.partners) == [0, UNMATCHED, UNMATCHED, UNMATCHED]
    assert list(pairing.strays) == [UNMATCHED, 2, 1, UNMATCHED]
    assert (pairing.matched, pairing.lowest, pairing.highest, pairing.highest_by_content) == (1, 1, 2, 2)


def test_call_of_two_names_is_the_first_one_s_only() -> None:
    expected = wanted("g", "f")
    candidates = Candidates.of(expected, log(call("f", aliases=("g",))))
    pairing = pair_up(expected, candidates, [0b1, 0b1], matching=Matching.POSITIONAL)
    assert list(pairing.partners) == [0, UNMATCHED]
    assert list(pairing.strays) == [UNMATCHED, UNMATCHED]


@pytest.mark.parametrize(
    ("aliases", "lowest"),
    [pytest.param((), 1, id="what-any-call-matches-stays"), pytest.param(("g",), 0, id="nothing-stays-where-calls-have-two-names")],
)
def test_missing_calls_may_push_all_others_back(aliases: tuple[str, ...], lowest: int) -> None:
    expected = wanted("f", "f", "g")
    candidates = Candidates.of(expected, log(call("f", aliases=aliases), "f"))
    pairing = pair_up(expected, candidates, [0b01, 0b11, 0], matching=Matching.POSITIONAL, open_ended=True, always=[False, True, True])
    assert (pairing.matched, pairing.lowest, pairing.highest, pairing.highest_by_content) == (2, lowest, 3, 2)
