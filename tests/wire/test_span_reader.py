"""The two ways from the bytes of a span to a span come to the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue

from otel_toolcall_eval.errors import DecodeError
from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span
from otel_toolcall_eval.wire.attribute_reader import reader_for
from otel_toolcall_eval.wire.decoded import SpanFault
from otel_toolcall_eval.wire.limits import DEFAULT_LIMITS, Limits, MemberBudget
from otel_toolcall_eval.wire.otlp_protobuf import decode_traces
from otel_toolcall_eval.wire.span_factory import origin_of
from otel_toolcall_eval.wire.span_reader import SpanReader
from tests.wire.otlp_requests import KEEP, attribute, field, nested, nested_bytes, numbered, request_of, requests
from tests.wire.test_encodings_agree import scrambled

if TYPE_CHECKING:
    import random

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

ORIGIN = origin_of(Resource(), Scope(), spans=1)
PLAIN = numbered(1, kind=3, flags=0x301, parent_span_id=b"p" * 8, dropped_attributes_count=300)
FEWER = settings(max_examples=100)


def scanned(data: bytes, projection: Projection = KEEP) -> Span | SpanFault | None:
    return SpanReader(reader_for(projection), MemberBudget(DEFAULT_LIMITS)).scan(data, ORIGIN)


def read(data: bytes, projection: Projection = KEEP) -> Span | SpanFault:
    return SpanReader(reader_for(projection), MemberBudget(DEFAULT_LIMITS)).read(data, ORIGIN)


@FEWER
@given(request=requests(), seed=st.randoms(use_true_random=False))
def test_both_ways_come_to_the_same_whatever_the_order_of_fields(request: ExportTraceServiceRequest, seed: random.Random) -> None:
    for body in (request.SerializeToString(), scrambled(request, seed)):
        for projection in (KEEP, Projection(prefixes=("",)), Projection()):
            assert decode_traces(body, projection, scans=True) == decode_traces(body, projection, scans=False)


def outcome(body: bytes, projection: Projection = KEEP, *, scans: bool) -> object:
    try:
        return decode_traces(body, projection, scans=scans)
    except DecodeError:
        return None


@FEWER
@given(request=requests(), data=st.data())
def test_damaged_bytes_are_refused_in_both_ways_or_read_equally(request: ExportTraceServiceRequest, data: st.DataObject) -> None:
    body = bytearray(request.SerializeToString()) or bytearray(1)
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for damaged in (bytes(body), cut):
        every = Projection(prefixes=("",))
        assert outcome(damaged, every, scans=True) == outcome(damaged, every, scans=False)
        # Where not all are kept, a scan may pass over what is broken in an attribute of no interest, and the other way read on.
        parsed, scanned = outcome(damaged, scans=False), outcome(damaged, scans=True)
        assert scanned == parsed or parsed is None


@FEWER
@given(name=st.text(max_size=200), key=st.text(max_size=200), text=st.text(max_size=20_000) | st.integers(0, 100_000).map("x".__mul__))
def test_lengths_of_any_size_are_read(name: str, key: str, text: str) -> None:
    span = numbered(1, name=name)
    span.attributes.extend([attribute("tool.name", text), attribute(f"x{key}", text)])
    found = scanned(span.SerializeToString())
    assert isinstance(found, Span)
    assert (found.name, found.attributes) == (name, {"tool.name": text, f"x{key}": text})


def test_a_plain_span_is_scanned() -> None:
    found = scanned(PLAIN.SerializeToString())
    assert isinstance(found, Span)
    assert (found.span_id, found.parent_span_id, found.name) == (PLAIN.span_id, b"p" * 8, "span 1")
    assert (found.kind, found.flags, found.dropped_attributes) == (3, 0x301, 300)
    assert (found.start_unix_ns, found.end_unix_ns) == (PLAIN.start_time_unix_nano, PLAIN.end_time_unix_nano)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(b"\x00", id="field-0"),
        pytest.param(b"\x30", id="tag-alone"),
        pytest.param(b"\x30\x80", id="varint-cut"),
        pytest.param(b"\x30\x80\x80\x80\x80\x01", id="varint-of-five-bytes"),
        pytest.param(b"\x2a\x05x", id="text-cut"),
        pytest.param(b"\x39\x01", id="time-cut"),
        pytest.param(b"\x39" + b"\xff" * 8, id="time-beyond-2262"),
        pytest.param(b"\x2b\x2c", id="group"),
        pytest.param(b"\x1d\x00\x00\x00\x00", id="fixed32"),
        pytest.param(b"\x85\x01\x01", id="flags-cut"),
        pytest.param(b"\x85\x02\x01\x00\x00\x00", id="another-field-of-two-bytes"),
        pytest.param(b"\xa2\x38\x03new", id="field-of-the-future"),
        pytest.param(field(9, b"") + field(1, b"T" * 16), id="trace-id-behind-attributes"),
        pytest.param(field(9, b"") + field(2, b"S" * 8), id="span-id-behind-attributes"),
        pytest.param(field(9, b"") + b"\x41" + b"\x01" * 8, id="time-behind-attributes"),
    ],
)
def test_what_is_not_written_as_usual_is_left_to_the_parser(odd: bytes) -> None:
    data = PLAIN.SerializeToString() + odd
    assert scanned(data) is None
    for_parser = outcome(field(1, field(2, field(2, data))), scans=False)
    assert outcome(field(1, field(2, field(2, data))), scans=True) == for_parser


def test_attributes_before_the_ids_are_left_to_the_parser() -> None:
    data = PLAIN.SerializeToString()
    first = attribute("tool.name", "t").SerializeToString()
    assert scanned(field(9, first) + data) is None
    found = read(field(9, first) + data)
    assert isinstance(found, Span)
    assert found.attributes == {"tool.name": "t"}


def test_fields_of_another_type_and_those_nobody_reads_are_passed_over() -> None:
    odd = b"\x08\x01" + b"\x49" + bytes(8) + field(3, b"state") + b"\x60\x05\x70\x05" + field(6, b"no kind")
    assert scanned(odd + PLAIN.SerializeToString()) == read(PLAIN.SerializeToString())


def test_why_a_span_cannot_be_used_is_said_and_its_attributes_are_not_looked_at() -> None:
    for fault, changed in (
        (SpanFault.TRACE_ID, {"trace_id": b"t"}),
        (SpanFault.SPAN_ID, {"span_id": bytes(8)}),
        (SpanFault.START, {"start_time_unix_nano": 0}),
        (SpanFault.END, {"end_time_unix_nano": 0}),
    ):
        span = numbered(1, **changed)
        assert scanned(span.SerializeToString()) is fault
        broken = span.SerializeToString() + field(9, b"\x0a\x09tool.name\x12\x7f")
        assert scanned(broken) is None
        assert read(broken) is fault


def test_events_links_and_status_are_read_and_of_equal_fields_the_last_one_counts() -> None:
    span = numbered(1)
    span.events.add(name="exception", time_unix_nano=7).attributes.append(attribute("anything", nested(2)))
    span.links.add(trace_id=b"o" * 16)
    span.status.code, span.status.message = 2, "failed"  # type: ignore[assignment] # a number is a member, too
    found = scanned(span.SerializeToString() + field(5, b"later"))
    assert isinstance(found, Span)
    assert [event.name for event in found.events] == ["exception"]
    assert (found.linked, found.status_message, found.name) == (True, "failed", "later")
    unasked = scanned(span.SerializeToString(), Projection())
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
def test_attributes_of_any_form_are_read_in_both_ways(data: bytes, kept: dict[str, object]) -> None:
    span = PLAIN.SerializeToString() + field(9, data)
    body = field(1, field(2, field(2, span)))
    if data == b"\x0a":  # its one byte may be the tag of a kept key, so it is looked at, and broken
        assert outcome(body, scans=True) is outcome(body, scans=False) is None
        return
    for scans in (True, False):
        (found,) = decode_traces(body, KEEP, scans=scans).spans
        assert found.attributes == kept


def test_a_length_that_does_not_end_is_left_to_the_parser_which_refuses_it() -> None:
    for value in (b"\x12" + b"\xff" * 5 + b"\x01" + b"x" * 80, b"\x12\xff\xff", b"\x12\x80"):
        body = field(1, field(2, field(2, PLAIN.SerializeToString() + field(9, field(1, b"tool.name") + value.rjust(70, b"\x12")))))
        assert outcome(body, scans=True) is outcome(body, scans=False) is None


def test_spans_of_one_trace_share_its_id_and_their_parents() -> None:
    spans = [numbered(number, parent_span_id=b"p" * 8) for number in (1, 2)]
    other = numbered(3, trace=2, parent_span_id=b"q" * 8)
    for scans in (True, False):
        first, second, third = decode_traces(request_of(*spans, other).SerializeToString(), KEEP, scans=scans).spans
        assert first.trace_id is second.trace_id
        assert first.parent_span_id is second.parent_span_id
        assert third.trace_id == other.trace_id
        assert first.size_bytes > second.size_bytes
        assert third.size_bytes == first.size_bytes


def test_keys_without_end_are_forgotten_again() -> None:
    reader = reader_for(Projection(keys=frozenset({"only.here"})))
    for number in range(0, 10_000, 100):
        span = numbered(1)
        span.attributes.extend(attribute(f"{each:08d}.made.up", "x") for each in range(number, number + 100))
        SpanReader(reader, MemberBudget(DEFAULT_LIMITS)).scan(span.SerializeToString(), ORIGIN)
    assert len(reader._known) <= 4096  # noqa: SLF001 - the bound is not visible otherwise


def test_a_scan_that_gives_up_has_spent_and_charged_nothing() -> None:
    span = numbered(1)
    span.attributes.append(attribute("tool.name", "made up for this test"))
    span.attributes.append(attribute("id", AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1)] * 60))))
    body = field(1, field(2, field(2, span.SerializeToString() + b"\x88\x01\x05")))
    limits = Limits(members=100)
    sizes = []
    for scans in (True, False):
        reader_for.cache_clear()  # else the text would be remembered from the first time
        sizes.append(decode_traces(body, KEEP, limits=limits, scans=scans).size_bytes)
    assert sizes[0] == sizes[1] > 0
