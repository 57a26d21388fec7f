"""The wrapping form: every span goes to the next processor at once and as it is, but for the roots that verdicts may fall on."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
    from opentelemetry.sdk.trace import Span as SdkSpan

    from otel_toolcall_eval.sources.root_keeper import RootKeeper
    from otel_toolcall_eval.sources.span_processor import SpanSource

_logger = logging.getLogger(__name__)


class SafeNext:
    """Calls the next processor. What it throws is logged once, since from a hook it would replace the application's own exception."""

    def __init__(self, processor: SpanProcessor) -> None:
        """Keep the processor."""
        self.processor = processor
        self._complained = False

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Pass a start on."""
        try:
            self.processor.on_start(span, parent_context=parent_context)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)

    def on_ending(self, span: SdkSpan) -> None:
        """Pass on that a span is ending; older processors don't want to know."""
        try:
            ending: Callable[[SdkSpan], None] | None = getattr(self.processor, "_on_ending", None)
            if ending is not None:
                ending(span)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass an end on."""
        try:
            self.processor.on_end(span)
        except Exception as error:  # noqa: BLE001 - see above
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        if not self._complained:
            self._complained = True
            _logger.error("the next span processor failed; the application is not affected", exc_info=error)


class WrappedNext:
    """The hooks of the wrapping form."""

    def __init__(self, source: SpanSource, keeper: RootKeeper | None, following: SafeNext) -> None:
        """Put a source before the next processor; without a keeper roots are passed on like all else."""
        self._source = source
        self._keeper = keeper
        self._next = following

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Note that the span is open, and pass it on."""
        self._source.on_start(span, parent_context)
        self._next.on_start(span, parent_context)

    def on_ending(self, span: SdkSpan) -> None:
        """Pass it on."""
        self._next.on_ending(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass a span on, a root once there is a verdict or can't be one in time."""
        keeper = self._keeper
        held = keeper.hold(span) if keeper is not None and _is_local_root(span) and self._source.is_judged(span) else None
        if keeper is None or held is None:
            self._next.on_end(span)
            self._source.keep(span)
        elif self._source.keep(span):
            keeper.wait(held)
        else:
            keeper.release(span)


def _is_local_root(span: ReadableSpan) -> bool:
    return span.context is not None and (span.parent is None or span.parent.is_remote)
