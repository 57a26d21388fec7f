from __future__ import annotations

import pytest

from otel_toolcall_eval.model.trace import Span
from otel_toolcall_eval.otlp.decoded import DecodedTraces, FaultTally, SpanFault, fault_of, usable_parent

TRACE_ID = bytes(15) + b"\1"
SPAN_ID = bytes(7) + b"\1"


@pytest.mark.parametrize(
    ("trace_id", "span_id", "start", "end", "fault"),
    [
        pytest.param(TRACE_ID, SPAN_ID, 1, 1, None, id="usable"),
        pytest.param(b"", SPAN_ID, 1, 1, SpanFault.TRACE_ID, id="no trace ID"),
        pytest.param(bytes(16), SPAN_ID, 1, 1, SpanFault.TRACE_ID, id="zero trace ID"),
        pytest.param(TRACE_ID[1:], SPAN_ID, 1, 1, SpanFault.TRACE_ID, id="15 bytes of trace ID"),
        pytest.param(TRACE_ID + b"\1", SPAN_ID, 1, 1, SpanFault.TRACE_ID, id="17 bytes of trace ID"),
        pytest.param(TRACE_ID, b"", 1, 1, SpanFault.SPAN_ID, id="no span ID"),
        pytest.param(TRACE_ID, bytes(8), 1, 1, SpanFault.SPAN_ID, id="zero span ID"),
        pytest.param(TRACE_ID, SPAN_ID[1:], 1, 1, SpanFault.SPAN_ID, id="7 bytes of span ID"),
        pytest.param(TRACE_ID, SPAN_ID, 0, 1, SpanFault.START, id="no start"),
        pytest.param(TRACE_ID, SPAN_ID, 1, 0, SpanFault.END, id="no end"),
        pytest.param(TRACE_ID, SPAN_ID, 2, 1, None, id="end before start"),
    ],
)
def test_a_span_needs_two_valid_ids_and_two_times(trace_id: bytes, span_id: bytes, start: int, end: int, fault: SpanFault | None) -> None:
    assert fault_of(trace_id, span_id, start, end) is fault


@pytest.mark.parametrize(
    ("written", "parent"),
    [
        pytest.param(SPAN_ID, SPAN_ID, id="valid"),
        pytest.param(b"", None, id="absent"),
        pytest.param(bytes(8), None, id="zero"),
        pytest.param(SPAN_ID[1:], None, id="short"),
        pytest.param(TRACE_ID, None, id="long"),
    ],
)
def test_a_parent_id_that_is_no_id_counts_as_no_parent(written: bytes, parent: bytes | None) -> None:
    assert usable_parent(written) == parent


def test_faults_are_told_in_words_with_their_numbers() -> None:
    faults = FaultTally()
    assert (faults.total, str(faults)) == (0, "")
    assert faults.by_reason == {}
    for fault in (SpanFault.TRACE_ID, SpanFault.END, SpanFault.TRACE_ID):
        faults.add(fault)
    assert faults.total == 3
    assert faults.by_reason == {"trace_id": 2, "end": 1}
    assert str(faults) == "2 spans without a valid trace_id, 1 span without an end time"


def test_what_a_decoder_found_adds_up() -> None:
    faults = FaultTally()
    faults.add(SpanFault.START)
    spans = [Span(trace_id=TRACE_ID, span_id=SPAN_ID, start_unix_ns=1, end_unix_ns=1, size_bytes=size) for size in (300, 400)]
    decoded = DecodedTraces.of(spans, faults)
    assert (decoded.spans, decoded.received, decoded.rejected, decoded.size_bytes) == (tuple(spans), 3, 1, 700)
    assert decoded.rejected_by == {"start": 1}
    assert decoded.reasons == "1 span without a start time"


def test_reasons_are_told_in_one_order_whatever_was_found_first() -> None:
    faults = FaultTally()
    for fault in reversed(SpanFault):
        faults.add(fault)
    assert str(faults) == ", ".join(f"1 span {fault}" for fault in SpanFault)
