"""What is passed on unjudged is noted in little, and adds up."""

from __future__ import annotations

from collections import Counter

from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.model.log_record import LogRecord
from tests.fakes import span


def test_spans_are_noted_by_their_traces_but_for_our_own() -> None:
    spans = [span(1), span(2), span(1, trace=2), span(1, trace=3, scope="ours")]
    shed = SkippedRequest.of_spans(spans, {"end": 2}, transport="grpc", but_scope="ours")
    assert shed == SkippedRequest(transport="grpc", trace_ids={(1).to_bytes(16), (2).to_bytes(16)}, spans=3, rejected=Counter(end=2))


def test_records_are_noted_by_the_traces_they_name() -> None:
    asked = [LogRecord(trace_id=bytes(15) + b"a", span_id=None, event_name="e"), LogRecord(trace_id=None, span_id=None, event_name="e")]
    shed = SkippedRequest.of_records(asked, received=5, transport="grpc")
    assert shed == SkippedRequest(transport="grpc", trace_ids={bytes(15) + b"a"}, records=5, records_asked=2)


def test_notes_add_up() -> None:
    shed = SkippedRequest(transport="grpc", trace_ids={b"a"}, spans=1, rejected=Counter(end=1), records=1, records_asked=1)
    shed.add(
        SkippedRequest(transport="grpc", trace_ids={b"a", b"b"}, spans=2, rejected=Counter(end=1, start=1), records=3, records_asked=2)
    )
    assert shed == SkippedRequest(
        transport="grpc", trace_ids={b"a", b"b"}, spans=3, rejected=Counter(end=2, start=1), records=4, records_asked=3
    )
