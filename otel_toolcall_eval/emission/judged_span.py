"""The judged span as OpenTelemetry context, so that what we emit points at it although it ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

if TYPE_CHECKING:
    from otel_toolcall_eval.model.score import TraceReport

_W3C_FLAGS: Final = 0xFF  # the upper bits of OTLP's span flags are OTLP's own


def judged_span_context(report: TraceReport, *, is_remote: bool) -> SpanContext:
    """Return the span context of the judged span; an invalid one if the report has none, or its IDs are none.

    It is always sampled: only sampled spans are exported, so only they come to be judged, although old SDKs leave the flag out.
    """
    span = report.judged_span
    if span is None:
        return INVALID_SPAN_CONTEXT
    return SpanContext(
        trace_id=int.from_bytes(span.trace_id),
        span_id=int.from_bytes(span.span_id),
        is_remote=is_remote,
        trace_flags=TraceFlags(span.flags & _W3C_FLAGS | TraceFlags.SAMPLED),
    )


def context_of(span_context: SpanContext) -> Context:
    """Return a context that holds this span and nothing else: no baggage, and nothing of the thread that happens to emit.

    Never empty: the SDK takes the *current* context instead of an empty one, and that of a worker thread may be any.
    """
    return set_span_in_context(NonRecordingSpan(span_context), Context())
