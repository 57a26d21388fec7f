"""The way from a trace's spans to its tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.dialect_cache import DialectCache
from otel_toolcall_eval.extraction.dialect_parser import sorted_by_priority
from otel_toolcall_eval.extraction.projection import projection_of
from otel_toolcall_eval.extraction.trace_view import TraceView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.dialect import Dialect
    from otel_toolcall_eval.model.tool_call import Extraction
    from otel_toolcall_eval.model.trace import Projection, Span


class Extractor:
    """Reads tool calls by a fixed set of dialects. Of the traces that it reads it remembers how spans look, and nothing else."""

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        """Compile ``dialects``, in any order."""
        self.dialects: Sequence[Dialect] = sorted_by_priority(dialects)
        self.projection: Projection = projection_of(self.dialects)
        self._cache = DialectCache(self.dialects)

    def is_relevant(self, span: Span) -> bool:
        """Tell whether a span could matter to extraction. Cost: a look-up for each attribute that a dialect asks for."""
        return self._cache.classify(span).is_relevant

    def is_agent(self, span: Span) -> bool:
        """Tell whether an agent ran in a span, by what the span itself says. Cost: as ``is_relevant``."""
        return self._cache.classify(span).is_agent

    def survey(self, spans: Sequence[Span]) -> TraceView:
        """Lay out the spans of one trace, in any order; the answer does not depend on it.

        Of several with one ID, the one that ends last counts. What came as a log record is handed over as an event on its span.
        """
        return TraceView(spans, self._cache)

    def extract(self, spans: Sequence[Span]) -> Extraction:
        """Return the tool calls of one trace; see ``TraceView.extract``."""
        return self.survey(spans).extract()

    def asked(self, span: Span) -> Sequence[Dialect]:
        """Return the dialects that read a span: those that match, without those that a higher one supersedes."""
        return self._cache.classify(span).dialects
