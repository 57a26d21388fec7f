"""Looks at how a span processor was registered, and says once what will not work as it stands.

A processor is not told where it was registered. A span knows its provider's processors, though; they are looked at when a root starts and
they are not those of the last look. The SDK keeps them on private attributes: where it keeps them elsewhere, nothing is said, and the spans
with verdicts go to the global TracerProvider instead of the one that the evaluated spans come from.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

_logger = logging.getLogger(__name__)


class Registration:
    """Watches over the registration of one processor."""

    def __init__(
        self,
        processor: SpanProcessor,
        *,
        criteria: frozenset[str],
        wrapped: SpanProcessor | None,
        meter_provider: object,
        on_provider: Callable[[trace.TracerProvider], None] | None = None,
    ) -> None:
        """Start.

        Args:
            processor: is watched, and not kept alive.
            criteria: versions of the criteria that it evaluates by, to tell it from another one.
            wrapped: the next processor, if it wraps one.
            meter_provider: that it was given; None if it uses the global one, which has to be there by then.
            on_provider: is told once of the provider that spans come from, if that can be found out.
        """
        self._processor = weakref.ref(processor)
        self._wrapped = wrapped
        self.criteria = criteria
        self.ended = False  # the processor was shut down; the SDK takes none back, so it stays among the others
        self._on_provider = on_provider
        self._seen: object = None
        self._said: set[str] = set()
        self._early = meter_provider is None and _is_proxy(metrics.get_meter_provider())

    def look(self, span: ReadableSpan) -> None:
        """Look at the processors of the provider that a span came from, if they are others than before; never raises."""
        try:
            processors = getattr(getattr(span, "_span_processor", None), "_span_processors", None)
            if processors is None or processors is self._seen:
                return
            self._seen = processors
            self._judge(tuple(processors))
            tell, self._on_provider = self._on_provider, None
            if tell is not None:
                tell(_provider_of(span))
        except Exception as error:
            _logger.debug("the registration could not be looked at", exc_info=error)

    def _judge(self, processors: tuple[SpanProcessor, ...]) -> None:
        own = self._processor()
        places = [place for place, processor in enumerate(processors) if processor is own]
        if len(places) > 1:
            self._say("a ToolCallEvalSpanProcessor is registered twice, so its work is done twice; register it once")
        twins = [found for found in processors if found is not own and self._judges_the_same(found)]
        if twins:
            self._say("two ToolCallEvalSpanProcessors judge by the same criteria, so each verdict is given twice; register one")
        if self._wrapped is not None and self._wrapped in processors:
            self._say("the processor that ToolCallEvalSpanProcessor wraps is registered, too, so spans are exported twice; register one")
        if self._wrapped is None and any(_exports(processor) for processor in processors[: min(places, default=0)]):
            self._say(
                "ToolCallEvalSpanProcessor is registered after a processor that exports and is shut down first, so verdicts that are given"
                " at shutdown are lost; register it before, or wrap the other: ToolCallEvalSpanProcessor(next=...)"
            )
        if self._early and not _is_proxy(metrics.get_meter_provider()):
            self._say(
                "the MeterProvider was set after ToolCallEvalSpanProcessor was made, and is shut down before it, so scores that are given"
                " at shutdown are lost; set it before the TracerProvider is made"
            )

    def _judges_the_same(self, processor: SpanProcessor) -> bool:
        other = getattr(processor, "_registration", None)
        return isinstance(other, Registration) and other.criteria == self.criteria and not other.ended

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            _logger.warning(text)


def _provider_of(span: ReadableSpan) -> trace.TracerProvider:
    """Return the provider that a span comes from, or one with its processors, resource and limits: a span does not know its provider.

    Asked for the first span that comes: with one processor on two providers, the verdicts of both go where that span goes.
    """
    processor: Any = getattr(span, "_span_processor", None)
    known = trace.get_tracer_provider()
    if getattr(known, "_active_span_processor", None) is processor:
        return known  # its sampler and its limits hold, too
    return TracerProvider(
        active_span_processor=processor,
        resource=span.resource,
        sampler=ALWAYS_ON,
        span_limits=getattr(span, "_limits", None),  # a bound on the length of values may be there to keep secrets
        shutdown_on_exit=False,
    )


def _exports(processor: SpanProcessor) -> bool:
    return isinstance(processor, BatchSpanProcessor | SimpleSpanProcessor)


def _is_proxy(provider: object) -> bool:
    return type(provider).__name__ == "_ProxyMeterProvider"
