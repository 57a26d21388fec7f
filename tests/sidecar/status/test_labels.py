"""What pages say in words."""

from __future__ import annotations

import pytest

from otel_toolcall_eval.model.criteria import (
    ArgsCriteria,
    ArgsExpectation,
    CountCriteria,
    CountExpectation,
    Criteria,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
    Selector,
    SelectorScope,
)
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger
from otel_toolcall_eval.sidecar.admin.status import labels


def test_every_trigger_doubt_and_reach_has_its_words() -> None:
    assert set(labels.TRIGGERS) == set(Trigger)
    assert set(labels.DOUBTS) == set(IncompletenessReason)
    assert all(labels.selects(Selector(reach=reach), values=True) for reach in SelectorScope)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "unknown"),
        (0.0, "0 µs"),
        (0.0000021, "2.1 µs"),
        (0.42, "420 ms"),
        (59.94, "59.9 s"),
        (60.0, "1 min 0 s"),
        (125.4, "2 min 5 s"),
        (3600.0, "1 h 0 min"),
        (90_000.0, "25 h 0 min"),
        (-5.0, "5 s ago"),
    ],
)
def test_durations_are_in_the_unit_that_suits_them(seconds: float | None, said: str) -> None:
    assert labels.duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"), [(0, "0 B"), (1010, "1010 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3 GiB")]
)
def test_sizes_are_in_the_unit_that_suits_them(number: int, said: str) -> None:
    assert labels.size(number) == said


@pytest.mark.parametrize(
    ("value", "said"), [(None, "-"), (0.0, "0.00"), (2 / 3, "0.67"), (0.994, "0.99"), (0.99999, "0.99…"), (1.0, "1.00")]
)
def test_a_score_is_never_shown_as_perfect_when_it_is_not(value: float | None, said: str) -> None:
    assert labels.score(value) == said


def test_times_are_in_utc() -> None:
    assert (labels.moment(1_700_000_000 * 10**9), labels.machine_moment(1_700_000_000 * 10**9)) == (
        "2023-11-14 22:13:20",
        "2023-11-14T22:13:20Z",
    )


@pytest.mark.parametrize(
    ("criteria", "number"),
    [
        (CountCriteria(expectations=(CountExpectation(tool="a", operator=Operator.EQUAL, count=1),) * 3), 3),
        (OrderCriteria(expected=("a", "b")), 2),
        (ArgsCriteria(expectations=(ArgsExpectation(tool="a", arguments={}),)), 1),
        (OutputCriteria(expectations=(OutputExpectation(tool="a", output=1),) * 4), 4),
    ],
)
def test_expectations_are_counted(criteria: Criteria, number: int) -> None:
    assert labels.expectations(criteria) == number


def test_a_selector_is_told_with_or_without_values() -> None:
    selector = Selector(
        reach=SelectorScope.MATCHED,
        services=frozenset({"b", "a"}),
        root_span_name="run",
        agent_name="main",
        resource={"deployment.environment.name": "secret"},
        attributes={"kind": "secret"},
        inputs={"city": "secret"},
    )
    told = "traces whose service.name is a or b and root span is 'run' and agent is 'main' and "
    assert labels.selects(selector, values=False) == (
        f"{told}resource has a certain deployment.environment.name and a span has a certain kind and input has a certain city"
    )
    assert labels.selects(selector, values=True) == (
        f"{told}resource has deployment.environment.name='secret' and a span has kind='secret' and input has city='secret'"
    )


def test_names_can_neither_break_nor_turn_their_line() -> None:
    assert labels.shown("a\nb\u202ec\u2066d") == r"a\nb\u202ec\u2066d"
