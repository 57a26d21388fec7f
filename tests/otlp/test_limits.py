from __future__ import annotations

import pytest

from otel_toolcall_eval.model.errors import DecodeError, TooLargeError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp import json_traces, protobuf_traces
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, Limits, check_json, check_protobuf
from tests.otlp.otlp_requests import attribute, numbered, request_of, varint

FEW = Limits(spans=10, attributes=20, members=1000, elements=20)


def message(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + varint(len(content)) + content


def in_one_block(spans: bytes) -> bytes:
    return message(0x0A, message(0x12, spans))


@pytest.mark.parametrize(
    ("body", "what"),
    [
        pytest.param(in_one_block(b"\x12\x00" * 60), "more than 10 spans", id="empty spans"),
        pytest.param(message(0x0A, b"\x12\x00" * 60), "more than 10 spans", id="empty scopes"),
        pytest.param(b"\x0a\x00" * 60, "more than 10 spans", id="empty resources"),
        pytest.param(in_one_block(message(0x12, b"\x4a\x00" * 60)), "more than 20 attributes", id="empty attributes"),
        pytest.param(in_one_block(message(0x12, b"\x5a\x00" * 60)), "more than 20 attributes", id="empty events"),
        pytest.param(in_one_block(message(0x12, b"\x4a\x00" * 15) * 2), "more than 20 attributes", id="over several spans"),
    ],
)
def test_a_small_body_that_becomes_large_is_refused_before_it_is_parsed(body: bytes, what: str) -> None:
    with pytest.raises(TooLargeError, match=what) as refused:
        check_protobuf(body, FEW)
    assert refused.value.http_status == 413
    with pytest.raises(TooLargeError):
        protobuf_traces.decode_traces(body, Projection(), limits=FEW)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(in_one_block(b"\x12\x00" * 8), id="as many blocks as allowed"),
        pytest.param(request_of(*(numbered(number) for number in range(1, 9))).SerializeToString(), id="as many real spans as allowed"),
        pytest.param(in_one_block(message(0x12, b"\x4a\x00" * 20)), id="as many attributes as allowed"),
        pytest.param(
            request_of(numbered(1), attributes=[attribute("text", "JZ" * 200)]).SerializeToString(), id="text that looks like parts"
        ),
        pytest.param(message(0x0A, message(0x1A, b"?" * 99)), id="unknown fields"),
        pytest.param(b"\x0b" * 100, id="not protobuf: the parser says it better"),
        pytest.param(b"\x0a\x00" * 20, id="too small to hold much"),
    ],
)
def test_everything_within_the_limits_passes(body: bytes) -> None:
    check_protobuf(body, FEW)


@pytest.mark.parametrize(
    ("body", "fits"),
    [
        pytest.param(b"[" + b"1," * 18 + b"1]", True, id="as many elements as allowed"),
        pytest.param(b"[" + b"1," * 20 + b"1]", False, id="one more"),
        pytest.param(b"[" + b"{}," * 11 + b"{}]", False, id="objects"),
        pytest.param(b'["' + b",[{" * 50 + b'"]', True, id="text that looks like elements"),
        pytest.param(b'["\\"' + b",[{" * 50 + b'\\\\", "' + b"," * 50 + b'"]', True, id="text with quotes in it"),
        pytest.param(b'["' + b",[{" * 50, False, id="text without an end"),
    ],
)
def test_json_is_held_to_its_number_of_elements(body: bytes, fits: bool) -> None:  # noqa: FBT001 - a column of the table
    if fits:
        check_json(body, FEW)
    else:
        with pytest.raises(TooLargeError, match="more than 20 elements"):
            check_json(body, FEW)
        with pytest.raises(TooLargeError):
            json_traces.decode_traces(body, Projection(), limits=FEW)


def test_the_default_limits_bound_the_worst_bodies_that_a_receiver_takes() -> None:
    with pytest.raises(TooLargeError):
        check_protobuf(in_one_block(b"\x12\x00" * (1 << 20)), DEFAULT_LIMITS)
    with pytest.raises(TooLargeError):
        check_json(b"[" * (5 << 20), DEFAULT_LIMITS)


def test_a_body_of_garbage_is_no_trace_request() -> None:
    with pytest.raises(DecodeError):
        protobuf_traces.decode_traces(b"\x0b" * 100, Projection(), limits=FEW)
