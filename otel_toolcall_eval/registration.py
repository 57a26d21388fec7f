"""Looks at how a span processor was registered, and says once what will not work as it stands.

A processor is not told where it was registered. A span knows its provider's processors, though; they are looked at when a root starts and
they are not those of the last look. The SDK keeps them on private attributes: where it keeps them elsewhere, nothing is said.
"""

from __future__ import annotations

import logging
import weakref
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor

if TYPE_CHECKING:
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
        spans_go_to_global: bool = False,
    ) -> None:
        """Start.

        Args:
            processor: is watched, and not kept alive.
            criteria: versions of the criteria that it judges by, to tell it from another one.
            wrapped: the next processor, if it wraps one.
            meter_provider: that it was given; None if it uses the global one, which has to be there by then.
            spans_go_to_global: the spans with its verdicts go to the global TracerProvider, for want of another one.
        """
        self._processor = weakref.ref(processor)
        self._wrapped = wrapped
        self.criteria = criteria
        self.ended = False  # the processor was shut down; the SDK takes none back, so it stays among the others
        self._spans_go_to_global = spans_go_to_global
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
            elsewhere = getattr(trace.get_tracer_provider(), "_active_span_processor", None) if self._spans_go_to_global else None
            if elsewhere is not None and elsewhere is not getattr(span, "_span_processor", None):
                self._say(
                    "ToolCallEvalSpanProcessor is registered with another TracerProvider than the global one, where the spans with its"
                    " verdicts go; give it its own: ToolCallEvalSpanProcessor(tracer_provider=...)"
                )
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


def _exports(processor: SpanProcessor) -> bool:
    return isinstance(processor, BatchSpanProcessor | SimpleSpanProcessor)


def _is_proxy(provider: object) -> bool:
    return type(provider).__name__ == "_ProxyMeterProvider"
