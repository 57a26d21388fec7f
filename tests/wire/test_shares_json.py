"""Requests in JSON that are shared out: the same law as for protobuf."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_toolcall_eval.errors import DecodeError, TooLargeError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.wire.limits import Limits
from otel_toolcall_eval.wire.otlp_json import decode_traces
from otel_toolcall_eval.wire.otlp_logs_json import decode_logs
from otel_toolcall_eval.wire.replies import Signal
from otel_toolcall_eval.wire.shares import part_of, share_spans
from otel_toolcall_eval.wire.shares_json import share_json
from tests.wire.otlp_requests import to_json
from tests.wire.test_shares import IDS, NOTHING_KEPT, request_of, told

APART = next(parts for parts in range(2, 50) if part_of(IDS[0], parts) != part_of(IDS[1], parts))


@given(
    st.lists(st.lists(st.lists(st.sampled_from([*IDS, b"", b"short", bytes(16)]), max_size=6), max_size=3), max_size=4),
    st.integers(1, 5),
)
@settings(max_examples=200)
def test_the_shares_are_those_of_the_same_request_in_protobuf(blocks: list[list[list[bytes]]], parts: int) -> None:
    request = request_of(*blocks)
    body = to_json(request)
    shares = share_json(body, parts, Signal.TRACES)
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
    assert {part: (share.body, share.items) for part, share in share_json(body, 4, Signal.TRACES).items()} == {
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
    assert {part: share.body for part, share in share_json(body, 3, Signal.TRACES).items()} == {0: body}


def test_what_is_no_json_or_too_much_is_refused() -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        share_json(b"{", 2, Signal.TRACES)
    with pytest.raises(TooLargeError):
        share_json(to_json(request_of([IDS])), 2, Signal.TRACES, limits=Limits(elements=10))
    request = json.loads(to_json(request_of([IDS[:2]])))
    request["resourceSpans"][0]["resource"]["attributes"].append({"key": "k", "value": {"stringValue": "x" * 4_000_000}})
    assert len(share_json(json.dumps(request).encode(), APART, Signal.TRACES)) == 2
    request["resourceSpans"][0]["scopeSpans"] = json.loads(to_json(request_of([IDS])))["resourceSpans"][0]["scopeSpans"]
    with pytest.raises(TooLargeError, match="too large to be copied"):
        share_json(json.dumps(request).encode(), 8, Signal.TRACES)


def test_an_error_in_a_share_names_the_block_by_its_place_in_the_request() -> None:
    request = json.loads(to_json(request_of([[IDS[0]]], [[IDS[1]]])))
    request["resourceSpans"][1]["scopeSpans"][0]["spans"][0]["name"] = 5
    share = share_json(json.dumps(request).encode(), APART, Signal.TRACES)[part_of(IDS[1], APART)]
    with pytest.raises(DecodeError, match=r"resourceSpans\[1\]"):
        decode_traces(share.body, NOTHING_KEPT)


def test_log_records_go_with_their_trace_and_those_in_none_go_everywhere() -> None:
    records = [{"traceId": trace_id.hex(), "eventName": "wanted"} for trace_id in (IDS[0], IDS[1], b"", bytes(16))]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    shares = share_json(body, APART, Signal.LOGS)
    wanted = Projection(event_names=frozenset({"wanted"}))
    assert sorted(shares) == list(range(APART))
    for part, share in shares.items():
        own = [trace_id for trace_id in IDS[:2] if part_of(trace_id, APART) == part]
        assert [record.trace_id for record in decode_logs(share.body, wanted).records] == [*own, None, None]
        assert share.items == len(own) + 2
