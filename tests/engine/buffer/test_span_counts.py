"""Counts of one moment, that add up."""

from __future__ import annotations

from otel_toolcall_eval.engine.buffer.span_counts import AddResult, SpanCounts

WHERE_TO = ("relevant", "ignored", "duplicate", "conflict", "skipped", "rejected")


def test_counts_are_replaced_never_changed_and_add_up_for_each_transport() -> None:
    none = SpanCounts()
    one = none.plus("grpc", AddResult(received=4, relevant=1, ignored=1, duplicate=1, conflict=1, late=1), rejected={"trace_id": 2})
    one = one.plus("grpc", AddResult(received=2, skipped=2), rejected={})
    two = one.plus("http", AddResult(received=1, ignored=1), rejected={"trace_id": 1, "end": 3})
    assert (none.total("received"), one.total("received"), two.total("received")) == (0, 8, 13)
    for counts in (one, two):
        assert counts.total("received") == sum(counts.total(what) for what in WHERE_TO)
    grpc, http = (("transport", "grpc"),), (("transport", "http"),)
    assert {attributes: number for (what, attributes), number in two.by.items() if what == "rejected"} == {
        (*grpc, ("reason", "trace_id")): 2,
        (*http, ("reason", "trace_id")): 1,
        (*http, ("reason", "end")): 3,
    }
    assert two.plus("grpc", AddResult(), rejected={"trace_id": 5}).by["rejected", (*grpc, ("reason", "trace_id"))] == 7
    assert (two.by["received", http], two.by["late", grpc]) == (5, 1)
