"""The evaluated span as OpenTelemetry context, so that what we emit points at it although it ended long ago."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from otel_toolcall_eval.model.score import TraceReport

_W3C_FLAGS: Final = 0xFF  # the upper bits of OTLP's span flags are OTLP's own


def evaluated_span_context(report: TraceReport, *, is_remote: bool) -> SpanContext:
    """Return the span context of the evaluated span; an invalid one if the report has none, or its IDs are none.

    It is always sampled: only sampled spans are exported, so only they come to be evaluated, although old SDKs leave the flag out.
    """
    return maker_of_context(report, is_remote=is_remote)()


def maker_of_context(report: TraceReport, *, is_remote: bool) -> Callable[[], SpanContext]:
    """Return what makes the span context of the evaluated span: few are asked for, and neither report nor span is kept for it."""
    span = report.evaluated_span
    if span is None:
        return partial(_context, b"", b"", 0, is_remote)
    return partial(_context, span.trace_id, span.span_id, span.flags, is_remote)


def _context(trace_id: bytes, span_id: bytes, flags: int, is_remote: bool) -> SpanContext:  # noqa: FBT001 - called in place
    if not trace_id:
        return INVALID_SPAN_CONTEXT
    return SpanContext(
        trace_id=int.from_bytes(trace_id),
        span_id=int.from_bytes(span_id),
        is_remote=is_remote,
        trace_flags=TraceFlags(flags & _W3C_FLAGS | TraceFlags.SAMPLED),
    )


def context_of(span_context: SpanContext) -> Context:
    """Return a context that holds this span and nothing else: no baggage, and nothing of the thread that happens to emit.

    Never empty: the SDK takes the *current* context instead of an empty one, and that of a worker thread may be any.
    """
    return set_span_in_context(NonRecordingSpan(span_context), Context())
