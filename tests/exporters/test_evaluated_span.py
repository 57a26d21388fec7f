from __future__ import annotations

import pytest
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY

from otel_toolcall_eval.exporters.events.evaluated_span import context_of, evaluated_span_context
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation
from tests.exporters.reports import SPAN_ID, TRACE_ID, evaluated_span, report


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param(0, 0x01, id="old-sdk-sends-none"),
        pytest.param(0x01, 0x01, id="sampled"),
        pytest.param(0x03, 0x03, id="sampled-and-random"),
        pytest.param(0x301, 0x01, id="otlp-bits-are-left-out"),
    ],
)
def test_judged_span_is_pointed_at_as_sampled(flags: int, expected: int) -> None:
    context = evaluated_span_context(report(span=evaluated_span(flags=flags)), is_remote=True)
    assert context.trace_id.to_bytes(16) == TRACE_ID
    assert context.span_id.to_bytes(8) == SPAN_ID
    assert context.trace_flags == expected
    assert context.is_valid
    assert context.is_remote


@pytest.mark.parametrize(
    "span",
    [
        pytest.param(None, id="no-span"),
        pytest.param(evaluated_span(trace_id=b"", span_id=b""), id="execution-without-ids"),
        pytest.param(evaluated_span(trace_id=b"\xff" * 17), id="trace-id-too-long"),
        pytest.param(evaluated_span(span_id=b"\xff" * 9), id="span-id-too-long"),
    ],
)
def test_without_usable_ids_nothing_is_pointed_at(span: object) -> None:
    assert not evaluated_span_context(report(span=span), is_remote=True).is_valid  # type: ignore[arg-type]  # Span or None


def test_context_holds_no_more_than_the_span() -> None:
    span_context = evaluated_span_context(report(), is_remote=False)
    context = context_of(span_context)
    assert len(context) == 1
    assert trace.get_current_span(context).get_span_context() == span_context


def test_context_without_a_span_is_not_empty() -> None:
    assert context_of(evaluated_span_context(report(span=None), is_remote=False))


def test_instrumentation_is_suppressed_inside_only() -> None:
    with suppressed_instrumentation():
        assert otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY) is True
    assert otel_context.get_value(_SUPPRESS_INSTRUMENTATION_KEY) is None
