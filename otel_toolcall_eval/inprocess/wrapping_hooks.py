"""The wrapping form: every span goes to the next processor at once and as it is, but for the roots that verdicts may fall on.

The SDK (1.45) closes a span for writing before it tells processors that it is ending, against its own specification (opentelemetry-python
5614). Where one lets them write then, which is found out by trying it on a span of ours, verdicts that are there in time are written on
the root itself, so that it is exported as it is and processors beside this one see them, too.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider

from otel_toolcall_eval.inprocess.pending_roots import MAX_ROOTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace import Span as SdkSpan

    from otel_toolcall_eval.inprocess.pending_roots import PendingRoot, PendingRoots, Said
    from otel_toolcall_eval.inprocess.span_processor import SpanSource

_logger = logging.getLogger(__name__)


class GuardedProcessor:
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


class WrappingHooks:
    """The hooks of the wrapping form."""

    def __init__(
        self, source: SpanSource, keeper: PendingRoots | None, following: GuardedProcessor, *, write: Callable[[SdkSpan, Said], bool]
    ) -> None:
        """Put a source before the next processor; without a keeper roots are passed on like all else.

        Args:
            source: hears of every span.
            keeper: holds roots.
            following: the next processor.
            write: writes verdicts on a span that is ending; False if it has no room for them.
        """
        self._source = source
        self._keeper = keeper
        self._next = following
        self._write = write
        self._ending: dict[int, tuple[PendingRoot, bool]] = {}  # roots between the two hooks, by span ID, and whether verdicts are on them
        self._can_write = endings_can_be_written()

    def reset(self) -> None:
        """Forget what was ending when this process was forked: it ends in the parent."""
        self._ending = {}

    def on_start(self, span: SdkSpan, parent_context: Context | None = None) -> None:
        """Note that the span is open, and pass it on."""
        self._source.on_start(span, parent_context)
        self._next.on_start(span, parent_context)

    def on_ending(self, span: SdkSpan) -> None:
        """Pass it on, and write the verdicts on a root if that can be done and they are there in time."""
        self._next.on_ending(span)
        if not self._can_write or self._keeper is None or span.end_time is None or not _is_local_root(span):
            return
        held = self._hold(self._keeper, span, ending=True)
        if held is None:
            return
        if (
            len(self._ending) >= MAX_ROOTS
        ):  # roots that never ended, for another processor raised; any other is passed on as where none writes
            self._ending.clear()
        span_id = span.get_span_context().span_id
        self._ending[span_id] = held, False  # first of all: from here on the other hook hands it on, whatever happens in this one
        if not self._source.keep_ending(span):
            self._keeper.release(span)
        said = self._keeper.wait_while_ending(held)
        if said is not None:
            self._ending[span_id] = held, self._written(span, said)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass a span on, a root once there is a verdict or can't be one in time."""
        keeper = self._keeper
        if keeper is None or not _is_local_root(span):
            self._next.on_end(span)
            self._source.keep(span)
            return
        if self._ending:
            ending = self._ending.pop(span.context.span_id, None)
            if ending is not None:
                keeper.ended(ending[0], span, written=ending[1])
                return
        held = self._hold(keeper, span)
        if held is None:
            self._next.on_end(span)
            self._source.keep(span)
            return
        if not self._source.keep(span):
            keeper.release(span)
        keeper.wait(held)  # after a release, too: the root may be this thread's to hand on

    # Faults of ours are caught where they may happen, and not around the waits: what a signal handler raises there is the application's.

    def _hold(self, keeper: PendingRoots, span: ReadableSpan, *, ending: bool = False) -> PendingRoot | None:
        """Hold a root if verdicts may fall on it; None if it is to be handed on at once."""
        try:
            return keeper.hold(span, ending=ending) if self._source.is_evaluated(span) else None
        except Exception:  # noqa: BLE001 - an exception here would reach the application, and the span would be lost
            self._source.losses.log_once()
            return None

    def _written(self, span: SdkSpan, said: Said) -> bool:
        try:
            return self._write(span, said)
        except Exception:  # noqa: BLE001 - see above; a copy carries the verdicts then
            self._source.losses.log_once()
            return False


@cache
def endings_can_be_written() -> bool:
    """Try whether the SDK lets a processor write on a span that is ending. Nothing is logged if it doesn't."""
    probe = _Probe()
    provider = TracerProvider(resource=Resource.get_empty(), shutdown_on_exit=False)
    provider.add_span_processor(probe)
    provider.get_tracer(__name__).start_span("probe").end()
    return probe.written


class _Probe(SpanProcessor):
    written = False

    def _on_ending(self, span: SdkSpan) -> None:
        if span.is_recording():
            span.set_attribute("probe", value=True)

    def on_end(self, span: ReadableSpan) -> None:
        self.written = "probe" in (span.attributes or {})


def _is_local_root(span: ReadableSpan) -> bool:
    try:
        parent = span.parent  # asked first, since it settles nearly all spans
        is_root = (parent is None or parent.is_remote) and span.context is not None
    except Exception:  # noqa: BLE001 - a span of somebody's own making, which is passed on as it is
        return False
    return is_root
