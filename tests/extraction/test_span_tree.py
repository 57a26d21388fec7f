from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.extraction.span_tree import SpanTree, _moved_in_order
from tests.extraction.spans import make, number_of, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Span


def _nested_value(depth: int) -> dict[str, object]:
    value: dict[str, object] = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_parents_and_children() -> None:
    top, middle, low = make(1), make(2, parent=1, start=2), make(3, parent=2, start=3)
    tree = tree_of(low, top, middle)
    assert tree.parent(low) == middle
    assert tree.parent(top) is None
    assert tree.children(top) == [middle]
    assert list(tree.children(low)) == []
    assert [tree.placed.depth[span.span_id] for span in (top, middle, low)] == [0, 1, 2]
    assert tree.parents_first == tree.placed.top_down == [top, middle, low]
    assert [tree.has_children(span) for span in (top, middle, low)] == [True, True, False]


@pytest.mark.parametrize("parent", [1, 9], ids=["itself", "a span that is not there"])
def test_a_span_without_a_parent_in_the_trace_is_a_root(parent: int) -> None:
    (span,) = (tree := tree_of(make(1, parent=parent))).spans
    assert tree.parent(span) is None
    assert tree.placed.depth[span.span_id] == 0
    assert not tree.has_children(span)


def test_a_ring_is_cut_at_its_earliest_span() -> None:
    tree = tree_of(make(1, parent=3, start=5), make(2, parent=1, start=4), make(3, parent=2, start=6), make(4, parent=3, start=7))
    assert [number_of(span.span_id) for span in tree.spans if tree.parent_id(span) is None] == [2]
    assert [number_of(span.span_id) for span in tree.parents_first] == [2, 3, 1, 4]


def test_a_child_with_a_skewed_clock_counts_as_starting_with_its_parent() -> None:
    parent, child = make(1, start=100), make(2, parent=1, start=10)
    tree = tree_of(child, parent)
    assert tree.start(child) == 100


def test_children_of_another_process_are_moved_together_until_none_starts_before_the_parent() -> None:
    here, there, elsewhere = {"host.name": "a"}, {"host.name": "b"}, {"host.name": "c"}
    parent = make(1, start=100, resource=here)
    own = make(2, parent=1, start=110, resource=here)
    skewed = [make(3, parent=1, start=40, resource=there), make(4, parent=1, start=60, resource=there)]
    ahead = make(5, parent=1, start=130, resource=elsewhere)
    tree = tree_of(ahead, *skewed, own, parent)
    assert [tree.start(span) for span in (own, *skewed, ahead)] == [110, 100, 120, 130]


def test_children_of_a_thousand_processes_are_moved_in_linear_time() -> None:
    children = [make(n, parent=1, start=n, resource={"host.name": str(n)}) for n in range(2, 3_000)]
    tree = tree_of(make(1, start=10_000, resource={"host.name": "a"}), *children)
    assert {tree.start(child) for child in children} == {10_000}


def test_of_a_parent_and_a_child_that_start_together_the_parent_stands_first() -> None:
    parent, child = make(1, start=0, end=9), make(2, parent=1, start=0, end=5)
    placed = tree_of(child, parent).placed
    assert (placed.start[parent.span_id], placed.tie[parent.span_id]) == (placed.start[child.span_id], placed.tie[child.span_id])
    assert placed.depth[parent.span_id] < placed.depth[child.span_id]


@given(st.lists(st.integers(0, 6), max_size=12))
def test_spans_stand_in_order_of_time_however_they_come(starts: list[int]) -> None:
    spans = [make(number, start=start) for number, start in enumerate(starts, 1)]
    assert tree_of(*spans).spans == sorted(spans, key=lambda span: (span.start_unix_ns, span.span_id))
    moved = list(spans)
    if _moved_in_order(moved):
        assert moved == sorted(spans, key=lambda span: span.start_unix_ns)
    assert {span.span_id for span in moved} == {span.span_id for span in spans}


@pytest.mark.parametrize(
    ("starts", "few"),
    [
        pytest.param(range(100), True, id="as-they-start"),
        pytest.param([*range(1, 100), 0], True, id="as-they-end"),
        pytest.param([number // 10 * 10 + 9 - number % 10 for number in range(1_000)], False, id="backwards-by-ten"),
        pytest.param(range(1_000, 0, -1), False, id="backwards"),
    ],
)
def test_spans_are_moved_only_if_that_takes_few_moves(starts: Sequence[int], few: bool) -> None:  # noqa: FBT001 - a column of the table
    spans = [make(number, start=start) for number, start in enumerate(starts, 1)]
    assert tree_of(*spans).spans == sorted(spans, key=lambda span: span.start_unix_ns)
    assert _moved_in_order(spans) is few


def test_spans_that_start_together_stand_by_their_end_then_by_their_id() -> None:
    spans = [make(3, end=9), make(2, end=9), make(4, end=7), make(5, start=1)]
    assert [number_of(span.span_id) for span in tree_of(*spans).spans] == [4, 2, 3, 5]


def test_of_copies_the_one_that_ends_last_counts_in_any_order() -> None:
    early, late = make(1, end=5, name="early"), make(1, end=6, name="late")
    assert SpanTree([early, late]).spans == SpanTree([late, early]).spans == [late]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(make(1, attributes={"a": "x"}), make(1, attributes={"a": "y"}), id="value"),
        pytest.param(make(1, scope="x"), make(1, scope="y"), id="scope"),
        pytest.param(make(1, resource={"service.name": "x"}), make(1, resource={"service.name": "y"}), id="resource"),
        pytest.param(make(1), replace(make(1), flags=1), id="flags"),
        pytest.param(make(1), replace(make(1), dropped_attributes=1), id="dropped-attributes"),
        pytest.param(make(1), replace(make(1), linked=True), id="linked"),
    ],
)
def test_copies_that_differ_in_one_thing_only_are_told_apart_in_any_order(one: Span, other: Span) -> None:
    assert SpanTree([one, other]).spans == SpanTree([other, one]).spans


def test_copies_with_values_too_deep_to_print_are_no_crash() -> None:
    one, other = make(1, attributes={"a": _nested_value(5000)}), make(1, attributes={"a": _nested_value(5000)})  # type: ignore[dict-item] # as it is
    assert len(SpanTree([one, other]).spans) == 1
