"""Requests that are shared out by trace ID: nothing is lost, nothing is doubled, and each trace stays whole."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.errors import DecodeError, TooLargeError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.wire.limits import Limits
from otel_toolcall_eval.wire.otlp_logs import decode_logs
from otel_toolcall_eval.wire.otlp_protobuf import decode_traces
from otel_toolcall_eval.wire.shares import Growth, Share, part_of, share_logs, share_spans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.trace import Span

NOTHING_KEPT = Projection()
WANTED = Projection(event_names=frozenset({"wanted"}))
IDS = [number.to_bytes(16, "big") for number in range(1, 40)]
NOW = 1_700_000_000_000_000_000


def request_of(*blocks: Sequence[Sequence[bytes]]) -> ExportTraceServiceRequest:
    """Return a request: blocks of groups of spans, by their trace IDs."""
    request, number = ExportTraceServiceRequest(), 0
    for place, groups in enumerate(blocks):
        block = request.resource_spans.add()
        block.resource.attributes.add(key="service.name").value.string_value = f"service-{place}"
        for position, trace_ids in enumerate(groups):
            group = block.scope_spans.add()
            group.scope.name = f"scope-{position}"
            for trace_id in trace_ids:
                number += 1
                group.spans.add(
                    trace_id=trace_id,
                    span_id=number.to_bytes(8, "big"),
                    name=f"span-{number}",
                    start_time_unix_nano=NOW,
                    end_time_unix_nano=NOW + number,
                )
    return request


def told(spans: Sequence[Span]) -> list[tuple[object, ...]]:
    return sorted((span.trace_id, span.span_id, span.name, span.resource.attributes["service.name"], span.scope.name) for span in spans)


@given(
    st.lists(st.lists(st.lists(st.sampled_from([*IDS, b"", b"short", bytes(16)]), max_size=6), max_size=3), max_size=4),
    st.integers(1, 5),
)
@settings(max_examples=200)
def test_the_shares_together_are_the_request_and_each_trace_is_in_one(blocks: list[list[list[bytes]]], parts: int) -> None:
    body = request_of(*blocks).SerializeToString()
    whole = decode_traces(body, NOTHING_KEPT)
    shares = share_spans(body, parts)
    found = {part: decode_traces(share.body, NOTHING_KEPT) for part, share in shares.items()}
    assert told(whole.spans) == told([span for one in found.values() for span in one.spans])
    assert all(part_of(span.trace_id, parts) == part for part, one in found.items() for span in one.spans)
    assert sum(one.rejected for one in found.values()) == whole.rejected
    assert {part: one.received for part, one in found.items()} == {part: share.items for part, share in shares.items()}
    assert all(share.items for share in shares.values())


def test_what_belongs_to_one_part_goes_there_as_it_came() -> None:
    body = request_of([[IDS[0], IDS[0]], [IDS[0]]]).SerializeToString()
    (share,) = share_spans(body, 4).values()
    assert (share.body, share.items) == (body, 3)
    assert share_spans(b"", 4) == {}


def test_traces_spread_over_the_parts() -> None:
    parts = [part_of(number.to_bytes(16, "big"), 4) for number in range(1, 4001)]
    assert all(900 < parts.count(part) < 1100 for part in range(4))
    assert [part_of(wrong, 4) for wrong in (b"", bytes(16), b"1")] == [0, 0, 0]


def test_a_span_that_is_written_in_another_order_goes_where_its_trace_does() -> None:
    usual = request_of([[IDS[0], IDS[1]]]).resource_spans[0].scope_spans[0].spans
    parts = next(parts for parts in range(2, 50) if part_of(IDS[0], parts) != part_of(IDS[1], parts))
    turned = [span.SerializeToString()[18:] + span.SerializeToString()[:18] for span in usual]
    group = b"".join(b"\x12" + bytes([len(span)]) + span for span in turned)
    block = b"\x12" + bytes([len(group)]) + group
    found = share_spans(b"\x0a" + bytes([len(block)]) + block, parts)
    assert sorted(found) == sorted({part_of(IDS[0], parts), part_of(IDS[1], parts)})
    assert {decode_traces(share.body, NOTHING_KEPT).spans[0].trace_id for share in found.values()} == {IDS[0], IDS[1]}


def test_an_error_in_a_share_names_the_block_by_its_place_in_the_request() -> None:
    request = request_of([[IDS[0]]], [[IDS[1]]])
    parts = next(parts for parts in range(2, 50) if part_of(IDS[0], parts) != part_of(IDS[1], parts))
    request.resource_spans[1].scope_spans[0].spans[0].attributes.add(key="key").value.string_value = "v"
    broken = request.SerializeToString().replace(b"\x12\x03\x0a\x01v", b"\x12\x03\x0a\x7fv")
    share = share_spans(broken, parts)[part_of(IDS[1], parts)]
    with pytest.raises(DecodeError, match=r"resource_spans\[1\]"):
        decode_traces(share.body, Projection(keys=frozenset({"key"})))


def test_what_is_no_request_is_refused() -> None:
    with pytest.raises(DecodeError, match=r"not a request of spans in protobuf; send an Export"):
        share_spans(b"\x0a\x7f", 2)
    with pytest.raises(DecodeError, match=r"not a request of log records in protobuf; send an Export"):
        share_logs(b"\x0a\x7f", 2, WANTED)


def test_a_request_is_held_to_the_limits_as_a_whole() -> None:
    body = request_of([[IDS[number % 5] for number in range(2_000)]]).SerializeToString()
    with pytest.raises(TooLargeError):
        share_spans(body, 2, limits=Limits(spans=1_000))


def test_shares_may_take_as_much_more_as_the_largest_request_or_the_request_itself() -> None:
    for size, room in ((10, (64 << 20) + 10), (100 << 20, 200 << 20)):
        growth = Growth(size)
        growth.add(room)
        with pytest.raises(TooLargeError, match="gets a copy of its resources and scopes; send smaller batches, or set workers: 1"):
            growth.add(1)


@pytest.mark.parametrize("in_scope", [False, True])
def test_copies_of_what_is_huge_are_bounded_before_they_are_made(in_scope: bool) -> None:  # noqa: FBT001 - one of two places
    request = request_of([IDS])
    block = request.resource_spans[0]
    (block.scope_spans[0].scope if in_scope else block.resource).attributes.add(key="k").value.string_value = "x" * 12_000_000
    body = request.SerializeToString()
    assert len(share_spans(body, 3)) == 3
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        share_spans(body, 8)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * len(body)


def test_a_batch_of_many_resources_is_shared_out() -> None:
    request = request_of(*[[[IDS[(place + n) % len(IDS)] for n in range(16)]] for place in range(500)])
    for block in request.resource_spans:
        block.resource.attributes.add(key="k").value.string_value = "x" * 4_000
    shares = share_spans(request.SerializeToString(), 8)
    assert (len(shares), sum(share.items for share in shares.values())) == (8, 8_000)


def test_empty_blocks_hold_the_places_of_those_that_others_got_and_no_more() -> None:
    empty = b"\x0a\x00" * 1_000
    body = empty + request_of([[IDS[0]]], [[IDS[1]]]).SerializeToString() + empty
    parts = next(parts for parts in range(40, 64) if part_of(IDS[0], parts) != part_of(IDS[1], parts))
    shares = share_spans(body, parts)
    assert {len(share.body) for share in shares.values()} <= set(range(2_000, len(body)))


def test_log_records_that_nobody_asks_for_go_to_one_part() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for _ in range(3_000):
        records.add(time_unix_nano=1).body.string_value = "ordinary application log line " * 10
    body = request.SerializeToString()
    assert share_logs(body, 8, WANTED) == {0: Share(body=body, items=3_000)}


def test_log_records_go_with_their_trace_and_those_in_none_go_everywhere() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    parts = next(parts for parts in range(2, 50) if part_of(IDS[0], parts) != part_of(IDS[1], parts))
    for trace_id in (IDS[0], IDS[1], b"", bytes(16)):
        records.add(trace_id=trace_id, event_name="wanted")
    shares = share_logs(request.SerializeToString(), parts, WANTED)

    found = {part: [record.trace_id for record in decode_logs(share.body, WANTED).records] for part, share in shares.items()}
    assert sorted(found) == list(range(parts))
    for part, trace_ids in found.items():
        own = [trace_id for trace_id in IDS[:2] if part_of(trace_id, parts) == part]
        assert trace_ids == [*own, None, None]
        assert shares[part].items == len(trace_ids)


def test_a_log_record_that_is_not_protobuf_is_refused() -> None:
    record = b"\x12\x02\x4a\x7f"
    group = b"\x12" + bytes([len(record)]) + record
    with pytest.raises(DecodeError):
        share_logs(b"\x0a" + bytes([len(group)]) + group, 2, WANTED)
