"""The spans of a trace as bars: below their parents, in their place in time, whatever was recorded."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from otel_toolcall_eval.sidecar.admin.status.site import LEAST_BAR, MAX_DEPTH, WIDTH, lay_out, whole_seconds

Json = dict[str, Any]


def span(name: str, parent: str | None, start: int, end: int, *, error: bool = False) -> Json:
    return {"id": name, "parent": parent, "name": name, "start": start, "end": end, "error": error}


def document(*spans: Json, calls: tuple[Json, ...] = (), ignored: tuple[Json, ...] = ()) -> Json:
    return {"spans": list(spans), "calls": list(calls), "ignored": list(ignored)}


def call(span_id: str | None, *merged: str) -> Json:
    return {"span": span_id, "merged": list(merged), "dialects": ["otel_genai"]}


def test_spans_stand_below_their_parents_in_order_of_their_start() -> None:
    found = lay_out(
        document(span("a", None, 0, 100), span("c", "a", 50, 60), span("b", "a", 10, 40), span("d", "b", 20, 30)), evaluated="a"
    )
    assert [(bar.name, bar.depth, bar.left, bar.width) for bar in found] == [
        ("a", 0, 0, WIDTH),
        ("c", 1, 500, 100),
        ("b", 1, 100, 300),
        ("d", 2, 200, 100),
    ]
    assert [bar.evaluated for bar in found] == [True, False, False, False]


def test_what_was_read_out_of_a_span_stands_beside_it() -> None:
    ignored = {"span": "d", "name": "d", "reason": "a model span", "dialect": "openinference"}
    unread = {"span": "e", "name": "e", "reason": "no dialect reads it", "dialect": None}
    spans = (span(name, None, 0, 10) for name in "abcdef")
    found = lay_out(document(*spans, calls=(call("a", "b"), call("c"), call("c"), call(None)), ignored=(ignored, unread)), evaluated="")
    assert [(bar.calls, bar.merged, bar.reason, bar.dialects) for bar in found] == [
        ((1,), (), "", ("otel_genai",)),
        ((), (1,), "", ("otel_genai",)),
        ((2, 3), (), "", ("otel_genai",)),
        ((), (), "a model span", ("openinference",)),
        ((), (), "no dialect reads it", ()),
        ((), (), "", ()),
    ]


def test_a_span_that_ends_before_it_begins_has_no_duration() -> None:
    found = lay_out(document(span("a", None, 0, 100), span("b", "a", 50, 40)), evaluated="")
    assert [bar.seconds for bar in found] == [1e-7, None]
    assert found[1].width == LEAST_BAR


def test_no_spans_are_no_bars() -> None:
    assert lay_out(document(), evaluated="") == []
    assert whole_seconds(document()) == 0.0
    assert whole_seconds(document(span("a", None, 5, 10**9 + 5))) == 1.0


NAMES = st.sampled_from("abcdefgh")
TIMES = st.integers(0, 2**62)


@given(st.lists(st.tuples(NAMES, st.none() | NAMES, TIMES, TIMES), unique_by=lambda row: row[0]))
def test_every_span_is_shown_once_and_within_bounds(rows: list[tuple[str, str | None, int, int]]) -> None:
    found = lay_out(document(*(span(*row) for row in rows)), evaluated="")
    assert sorted(bar.name for bar in found) == sorted(row[0] for row in rows)
    for bar in found:
        assert 0 <= bar.depth <= MAX_DEPTH
        assert LEAST_BAR <= bar.width <= WIDTH
        assert 0 <= bar.left <= WIDTH - bar.width + 1e-6
