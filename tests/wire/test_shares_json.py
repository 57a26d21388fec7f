"""Requests in JSON that are shared out: the same law as for protobuf."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.errors import DecodeError, TooLargeError
from otel_toolcall_eval.wire.limits import Limits
from otel_toolcall_eval.wire.otlp_json import decode_traces
from otel_toolcall_eval.wire.otlp_logs_json import decode_logs
from otel_toolcall_eval.wire.replies import Signal
from otel_toolcall_eval.wire.shares import part_of, share_spans
from otel_toolcall_eval.wire.shares_json import share_json
from tests.wire.otlp_requests import to_json
from tests.wire.test_shares import IDS, NOTHING_KEPT, WANTED, request_of, told

APART = next(parts for parts in range(2, 50) if part_of(IDS[0], parts) != part_of(IDS[1], parts))


@given(
    st.lists(st.lists(st.lists(st.sampled_from([*IDS, b"", b"short", bytes(16)]), max_size=6), max_size=3), max_size=4),
    st.integers(1, 5),
)
@settings(max_examples=200)
def test_the_shares_are_those_of_the_same_request_in_protobuf(blocks: list[list[list[bytes]]], parts: int) -> None:
    request = request_of(*blocks)
    body = to_json(request)
    shares = share_json(body, parts, Signal.TRACES, NOTHING_KEPT)
    found = {part: decode_traces(share.body, NOTHING_KEPT) for part, share in shares.items()}
    whole = decode_traces(body, NOTHING_KEPT)
    assert told(whole.spans) == told([span for one in found.values() for span in one.spans])
    assert sum(one.rejected for one in found.values()) == whole.rejected
    in_protobuf = share_spans(request.SerializeToString(), parts)
    assert {part: share.items for part, share in shares.items() if share.items} == {
        part: share.items for part, share in in_protobuf.items()
    }


def test_what_belongs_to_one_part_goes_there_as_it_came() -> None:
    body = to_json(request_of([[IDS[0], IDS[0]], [IDS[0]]]))
    assert {part: (share.body, share.items) for part, share in share_json(body, 4, Signal.TRACES, NOTHING_KEPT).items()} == {
        part_of(IDS[0], 4): (body, 3)
    }


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"resourceLogs": []}',
        b'{"resourceSpans": 1}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [1]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 1}]}]}]}',
    ],
)
def test_what_has_another_form_goes_to_the_first_whose_decoder_says_what_is_wrong(body: bytes) -> None:
    assert {part: share.body for part, share in share_json(body, 3, Signal.TRACES, NOTHING_KEPT).items()} == {0: body}


def test_what_is_no_json_or_too_much_is_refused() -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        share_json(b"{", 2, Signal.TRACES, NOTHING_KEPT)
    with pytest.raises(TooLargeError):
        share_json(to_json(request_of([IDS])), 2, Signal.TRACES, NOTHING_KEPT, limits=Limits(elements=10))


def test_copies_of_what_is_huge_are_bounded_before_they_are_made() -> None:
    request = json.loads(to_json(request_of([IDS])))
    request["resourceSpans"][0]["resource"]["attributes"].append({"key": "k", "value": {"stringValue": "x" * 12_000_000}})
    body = json.dumps(request).encode()
    assert len(share_json(body, 3, Signal.TRACES, NOTHING_KEPT)) == 3
    tracemalloc.start()
    with pytest.raises(TooLargeError, match="a copy of its resources and scopes"):
        share_json(body, 8, Signal.TRACES, NOTHING_KEPT)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5 * len(body)  # as bytes, as text, parsed, and written once


@pytest.mark.parametrize("text", ["Погода в Москве хорошая", "晴れのち曇り", "\U0001f327\ufe0f", "\\"])
def test_text_takes_no_more_room_written_anew(text: str) -> None:
    request = request_of([IDS])
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.name = text * 1_000
    body = json.dumps(json.loads(to_json(request)), ensure_ascii=False).encode()
    shares = share_json(body, 2, Signal.TRACES, NOTHING_KEPT)
    assert sum(len(share.body) for share in shares.values()) < 1.01 * len(body)
    assert {span.name for share in shares.values() for span in decode_traces(share.body, NOTHING_KEPT).spans} == {text * 1_000}


def test_half_a_pair_stays_what_it_is() -> None:
    body = to_json(request_of([IDS[:2]])).replace(b"span-1", b"\\ud83d").replace(b"span-2", b"\\uD83D")
    names = {span.name for span in decode_traces(body, NOTHING_KEPT).spans}
    shares = share_json(body, APART, Signal.TRACES, NOTHING_KEPT)
    assert len(shares) == 2
    assert {span.name for share in shares.values() for span in decode_traces(share.body, NOTHING_KEPT).spans} == names


def test_many_groups_take_time_in_proportion() -> None:
    spans = ",".join(f'{{"spans":[{{"traceId":"{trace_id.hex()}"}}]}}' for trace_id in IDS[:2])

    def seconds(number: int) -> float:
        body = f'{{"resourceSpans":[{{"scopeSpans":[{",".join([spans] * number)}]}}]}}'.encode()
        began = time.process_time()
        assert len(share_json(body, APART, Signal.TRACES, NOTHING_KEPT)) == 2
        return time.process_time() - began

    seconds(10)
    assert min(seconds(40_000) for _ in range(2)) < 40 * min(seconds(4_000) for _ in range(3))  # it was a hundred times as long


def test_a_log_record_that_nobody_asks_for_may_be_odd_and_goes_to_the_first() -> None:
    asked = [{"traceId": trace_id.hex(), "eventName": "wanted"} for trace_id in IDS]

    def shares(*odd: object) -> dict[int, int]:
        body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [*asked, *odd]}]}]}).encode()
        return {part: share.items for part, share in share_json(body, 2, Signal.LOGS, WANTED).items()}

    usual = shares()
    assert sum(usual.values()) == len(IDS)
    assert shares({"traceId": 0}, {"traceId": ""}) == {0: usual[0] + 2, 1: usual[1]}
    assert shares({"traceId": 0, "eventName": "wanted"}) == {0: 0}  # whose decoder says what is wrong


def test_an_error_in_a_share_names_the_block_by_its_place_in_the_request() -> None:
    request = json.loads(to_json(request_of([[IDS[0]]], [[IDS[1]]])))
    request["resourceSpans"][1]["scopeSpans"][0]["spans"][0]["name"] = 5
    share = share_json(json.dumps(request).encode(), APART, Signal.TRACES, NOTHING_KEPT)[part_of(IDS[1], APART)]
    with pytest.raises(DecodeError, match=r"resourceSpans\[1\]"):
        decode_traces(share.body, NOTHING_KEPT)


def test_log_records_go_with_their_trace_and_those_in_none_go_everywhere() -> None:
    records = [{"traceId": trace_id.hex(), "eventName": "wanted"} for trace_id in (IDS[0], IDS[1], b"", bytes(16))]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    shares = share_json(body, APART, Signal.LOGS, WANTED)

    assert sorted(shares) == list(range(APART))
    for part, share in shares.items():
        own = [trace_id for trace_id in IDS[:2] if part_of(trace_id, APART) == part]
        assert [record.trace_id for record in decode_logs(share.body, WANTED).records] == [*own, None, None]
        assert share.items == len(own) + 2
