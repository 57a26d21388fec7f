"""A span is read whatever the order and the form of its fields."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span
from otel_toolcall_eval.otlp.attribute_reader import reader_for
from otel_toolcall_eval.otlp.decoded import SpanFault
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, MemberBudget
from otel_toolcall_eval.otlp.protobuf_traces import decode_traces
from otel_toolcall_eval.otlp.schema import parse_span
from otel_toolcall_eval.otlp.span_factory import origin_of
from otel_toolcall_eval.otlp.span_reader import SpanReader
from tests.otlp.otlp_requests import KEEP, attribute, field, nested, nested_bytes, numbered, request_of

ORIGIN = origin_of(Resource(), Scope(), spans=1)
PLAIN = numbered(1, kind=3, flags=0x301, parent_span_id=b"p" * 8, dropped_attributes_count=300)


def read(data: bytes, projection: Projection = KEEP) -> Span | SpanFault:
    return SpanReader(reader_for(projection), MemberBudget(DEFAULT_LIMITS)).read(parse_span(data), ORIGIN)


@settings(max_examples=100)
@given(name=st.text(max_size=200), key=st.text(max_size=200), text=st.text(max_size=20_000) | st.integers(0, 100_000).map("x".__mul__))
def test_lengths_of_any_size_are_read(name: str, key: str, text: str) -> None:
    span = numbered(1, name=name)
    span.attributes.extend([attribute("tool.name", text), attribute(f"x{key}", text)])
    found = read(span.SerializeToString())
    assert isinstance(found, Span)
    assert (found.name, found.attributes) == (name, {"tool.name": text, f"x{key}": text})


def test_a_plain_span_is_read() -> None:
    found = read(PLAIN.SerializeToString())
    assert isinstance(found, Span)
    assert (found.span_id, found.parent_span_id, found.name) == (PLAIN.span_id, b"p" * 8, "span 1")
    assert (found.kind, found.flags, found.dropped_attributes) == (3, 0x301, 300)
    assert (found.start_unix_ns, found.end_unix_ns) == (PLAIN.start_time_unix_nano, PLAIN.end_time_unix_nano)


def test_attributes_may_stand_before_the_ids() -> None:
    data = PLAIN.SerializeToString()
    first = attribute("tool.name", "t").SerializeToString()
    found = read(field(9, first) + data)
    assert isinstance(found, Span)
    assert found.attributes == {"tool.name": "t"}


def test_fields_of_another_type_and_those_nobody_reads_are_passed_over() -> None:
    odd = b"\x08\x01" + b"\x49" + bytes(8) + field(3, b"state") + b"\x60\x05\x70\x05" + field(6, b"no kind")
    assert read(odd + PLAIN.SerializeToString()) == read(PLAIN.SerializeToString())


def test_why_a_span_cannot_be_used_is_said_and_its_attributes_are_not_looked_at() -> None:
    for fault, changed in (
        (SpanFault.TRACE_ID, {"trace_id": b"t"}),
        (SpanFault.SPAN_ID, {"span_id": bytes(8)}),
        (SpanFault.START, {"start_time_unix_nano": 0}),
        (SpanFault.END, {"end_time_unix_nano": 0}),
    ):
        span = numbered(1, **changed)
        assert read(span.SerializeToString()) is fault
        broken = span.SerializeToString() + field(9, b"\x0a\x09tool.name\x12\x7f")
        assert read(broken) is fault


def test_events_links_and_status_are_read_and_of_equal_fields_the_last_one_counts() -> None:
    span = numbered(1)
    span.events.add(name="exception", time_unix_nano=7).attributes.append(attribute("anything", nested(2)))
    span.links.add(trace_id=b"o" * 16)
    span.status.code, span.status.message = 2, "failed"  # type: ignore[assignment] # a number is a member, too
    found = read(span.SerializeToString() + field(5, b"later"))
    assert isinstance(found, Span)
    assert [event.name for event in found.events] == ["exception"]
    assert (found.linked, found.status_message, found.name) == (True, "failed", "later")
    unasked = read(span.SerializeToString(), Projection())
    assert isinstance(unasked, Span)
    assert unasked.events == ()


LONG = "v" * 100


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        pytest.param(attribute("tool.name", LONG).SerializeToString(), {"tool.name": LONG}, id="long-text"),
        pytest.param(attribute("tool.name", "short").SerializeToString(), {"tool.name": "short"}, id="short-text"),
        pytest.param(attribute("x" + LONG, LONG).SerializeToString(), {"x" + LONG: LONG}, id="made-up-key-under-a-prefix"),
        pytest.param(attribute("tool.other", LONG).SerializeToString(), {}, id="not-kept"),
        pytest.param(attribute("k" * 200, LONG).SerializeToString(), {}, id="long-key-not-kept"),
        pytest.param(attribute("id", AnyValue(int_value=5)).SerializeToString(), {"id": 5}, id="number"),
        pytest.param(attribute("id", AnyValue(bytes_value=b"b" * 100)).SerializeToString(), {"id": b"b" * 100}, id="long-bytes"),
        pytest.param(field(2, field(1, b"first")) + field(1, b"id"), {"id": "first"}, id="value-first"),
        pytest.param(field(1, b"id") + field(2, b""), {"id": None}, id="empty-value"),
        pytest.param(field(1, b"tool.name") + field(2, field(1, b"a" * 80)) + field(1, b"id"), {"id": "a" * 80}, id="two-keys"),
        pytest.param(field(1, b"id") + field(2, field(1, b"a" * 80) + b"\x18\x07"), {"id": 7}, id="two-values-in-one"),
        pytest.param(field(1, b"id") + field(3, b"c" * 80), {"id": None}, id="no-value"),
        pytest.param(field(1, b"id"), {"id": None}, id="key-alone"),
        pytest.param(b"", {}, id="nothing"),
        pytest.param(b"\x0a", {}, id="cut-tag"),
        pytest.param(b"\x0a\x7fno.such.key", {}, id="cut-key-of-no-interest"),
        pytest.param(field(1, b"id") + field(2, nested_bytes(101)), {}, id="nested-too-deep"),
    ],
)
def test_attributes_of_any_form_are_read(data: bytes, kept: dict[str, object]) -> None:
    span = PLAIN.SerializeToString() + field(9, data)
    body = field(1, field(2, field(2, span)))
    if data == b"\x0a":  # its one byte may be the tag of a kept key, so it is looked at, and broken
        with pytest.raises(DecodeError):
            decode_traces(body, KEEP)
        return
    (found,) = decode_traces(body, KEEP).spans
    assert found.attributes == kept


def test_a_length_that_does_not_end_is_refused() -> None:
    for value in (b"\x12" + b"\xff" * 5 + b"\x01" + b"x" * 80, b"\x12\xff\xff", b"\x12\x80"):
        body = field(1, field(2, field(2, PLAIN.SerializeToString() + field(9, field(1, b"tool.name") + value.rjust(70, b"\x12")))))
        with pytest.raises(DecodeError):
            decode_traces(body, KEEP)


def test_spans_of_one_trace_share_its_id_and_their_parents() -> None:
    spans = [numbered(number, parent_span_id=b"p" * 8) for number in (1, 2)]
    other = numbered(3, trace=2, parent_span_id=b"q" * 8)
    first, second, third = decode_traces(request_of(*spans, other).SerializeToString(), KEEP).spans
    assert first.trace_id is second.trace_id
    assert first.parent_span_id is second.parent_span_id
    assert third.trace_id == other.trace_id
    assert first.size_bytes > second.size_bytes
    assert third.size_bytes == first.size_bytes
