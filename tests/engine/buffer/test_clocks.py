"""Clocks that provably disagree are found, and only these."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from otel_toolcall_eval.engine.buffer.clocks import clocks_of
from otel_toolcall_eval.model.trace import IncompletenessReason
from tests.engine.buffer.judged import order, pipeline, said
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.trace import Span

BEGIN = 1_790_000_000 * SECOND_NS


def at(number: int, seconds: float, *, host: str | None, parent: int | None = 1, length: float = 1, tool: str | None = None) -> Span:
    start = BEGIN + round(seconds * SECOND_NS)
    resource: Mapping[str, str] = {} if host is None else {"host.name": host}
    return span(number, parent=parent, start=start, end=start + round(length * SECOND_NS), tool=tool, resource=resource)


AGENT = at(1, 0, host="a", parent=None, length=5)


@pytest.mark.parametrize(
    ("spans", "groups"),
    [
        pytest.param([AGENT, at(2, -90, host="a")], [], id="one-host"),
        pytest.param([AGENT, at(2, 1, host="b")], [], id="two-hosts-in-step"),
        pytest.param([AGENT, at(2, -90, host="b")], [{1}, {2}], id="before"),
        pytest.param([AGENT, at(2, 90, host="b")], [{1}, {2}], id="after"),
        pytest.param([AGENT, at(2, -5, host="b")], [], id="as-far-outside-as-the-parent-is-long"),
        pytest.param([AGENT, at(2, -5.01, host="b")], [{1}, {2}], id="a-little-further"),
        pytest.param(
            [at(1, 0, host="a", parent=None, length=0), at(2, -0.1, host="b", length=0)], [], id="a-short-parent-and-small-jitter"
        ),
        pytest.param([AGENT, at(2, -90, host=None)], [{1}, {2}], id="a-host-without-a-name"),
        pytest.param([AGENT, at(2, -90, host="b"), at(3, -89, host="c", parent=2)], [{1}, {2, 3}], id="those-that-agree-are-one"),
        pytest.param([AGENT, at(2, -90, host="b"), at(3, 1, host="b")], [{1}, {2, 3}], id="once-wrong-is-wrong"),
        pytest.param([AGENT, at(2, -90, host="b", parent=99), at(3, 1, host="c")], [], id="no-parent-no-proof"),
        pytest.param([at(1, 0, host="a", parent=None, length=-30), at(2, -90, host="b")], [{1}, {2}], id="negative-duration"),
    ],
)
def test_clocks_are_told_apart_by_what_can_not_be(spans: list[Span], groups: list[set[int]]) -> None:
    found: dict[int, set[int]] = {}
    for span_id, clock in clocks_of(spans).items():
        found.setdefault(clock, set()).add(int.from_bytes(span_id, "big"))
    assert sorted(found.values(), key=min) == groups


def test_queue_between_parent_and_child_excuses_a_late_child_and_not_an_early_one() -> None:
    late, early = at(2, 90, host="b"), at(2, -90, host="b")
    for made, disagree in ((late, False), (early, True)):
        consumer = replace(made, kind=5)
        assert bool(clocks_of([AGENT, consumer])) is disagree


@pytest.mark.parametrize("seconds", [-90, 90], ids=["behind", "ahead"])
@pytest.mark.parametrize(
    ("names", "strict", "expected"),
    [
        pytest.param(["x", "y"], False, ("pass", 1.0), id="one-clock-keeps-its-order"),
        pytest.param(["y", "x"], False, ("fail", 0.5), id="one-clock-keeps-its-wrong-order"),
        pytest.param(["x", "z"], False, ("inconclusive", None), id="order-between-clocks-is-unknowable"),
        pytest.param(["z"], False, ("pass", 1.0), id="no-order-is-needed"),
        pytest.param(["q"], False, ("fail", 0.0), id="never-called"),
        pytest.param(["x", "y", "z"], True, ("inconclusive", None), id="strict-and-possible"),
        pytest.param(["y", "x", "z"], True, ("fail", 0.0), id="strict-and-impossible"),
        pytest.param(["x", "y"], True, ("fail", 0.0), id="strict-and-too-many"),
    ],
)
def test_order_that_hangs_on_clocks_that_disagree_is_inconclusive(
    seconds: float,
    names: list[str],
    strict: bool,  # noqa: FBT001 - a column of the table
    expected: tuple[str, float | None],
) -> None:
    spans = [
        AGENT,
        at(9, seconds + 1, host="b", length=0.1, tool="x"),  # IDs against the order, so that these do not decide
        at(3, seconds + 2, host="b", length=0.1, tool="y"),
        at(4, 1.5, host="a", length=0.1, tool="z"),
    ]
    pipe = pipeline(order(*names, strict=strict))
    pipe.add(spans, now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10 * SECOND_NS)
    assert said(report) == [expected]
    assert (IncompletenessReason.CLOCK_SKEW in report.verdicts[0].doubts) is (expected[1] is None)


@pytest.mark.parametrize("seconds", [-90, 90], ids=["behind", "ahead"])
def test_call_inside_another_one_comes_after_it_whatever_the_clocks_say(seconds: float) -> None:
    pipe = pipeline(order("outer", "inner"))
    outer = at(2, 1, host="a", length=2, tool="outer")
    pipe.add([AGENT, outer, at(3, seconds, host="b", parent=2, length=0.1, tool="inner")], now_ns=0, transport="grpc")
    (report,) = pipe.pop_due(now_ns=10 * SECOND_NS)
    assert said(report) == [("pass", 1.0)]
