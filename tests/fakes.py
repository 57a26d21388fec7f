"""Stand-ins for clocks, readers, emitters and spans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.score import Score
from otel_toolcall_eval.model.tool_call import Content, ContentState, Extraction, Payload, ToolCall
from otel_toolcall_eval.model.trace import Projection, Resource, Scope, Span
from otel_toolcall_eval.otlp.decoded import DecodedTraces, FaultTally

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.score import Comparison, TraceReport
    from otel_toolcall_eval.model.tool_call import CallLog
    from otel_toolcall_eval.model.trace import Attributes, Value

SECOND_NS = 1_000_000_000
NOTHING = Payload.of(Content(state=ContentState.FULL, value={}, nothing=True))


def span(
    number: int,
    *,
    trace: int = 1,
    parent: int | None = None,
    tool: str | None = None,
    start: int | None = None,
    end: int | None = None,
    flags: int = 0x100,
    attributes: Attributes | None = None,
    resource: Mapping[str, Value] | None = None,
    scope: str = "test",
    name: str | None = None,
    size: int = 500,
) -> Span:
    """Build a span: number ``n`` is span ID ``n``, starts at ``10 n`` and lasts 5 unless told otherwise."""
    start = 10 * number if start is None else start
    return Span(
        trace_id=trace.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        parent_span_id=None if parent is None else parent.to_bytes(8, "big"),
        name=name if name is not None else (tool or f"span-{number}"),
        start_unix_ns=start,
        end_unix_ns=start + 5 if end is None else end,
        flags=flags,
        attributes={**({"tool.name": tool} if tool else {}), **(attributes or {})},
        resource=Resource(attributes=dict(resource or {})),
        scope=Scope(name=scope),
        size_bytes=size,
    )


def decoded(spans: Sequence[Span]) -> DecodedTraces:
    """Return spans as a decoder does that had nothing to reject."""
    return DecodedTraces.of(spans, FaultTally())


class PlainReader:
    """Reads ``tool.name`` and nothing else."""

    projection = Projection(keys=frozenset({"tool.name", "agent"}))

    def is_relevant(self, span: Span) -> bool:
        """Tell whether the span is a tool or an agent span."""
        return "tool.name" in span.attributes or "agent" in span.attributes

    def is_agent(self, span: Span) -> bool:
        """Tell whether the span is an agent span."""
        return "agent" in span.attributes

    def extract(self, spans: Sequence[Span]) -> Extraction:
        """Read one call out of each tool span."""
        tools = sorted((s for s in spans if "tool.name" in s.attributes), key=lambda s: (s.start_unix_ns, s.span_id))
        return Extraction(
            calls=tuple(
                ToolCall(name=str(s.attributes["tool.name"]), arguments=NOTHING, output=NOTHING, start_unix_ns=s.start_unix_ns)
                for s in tools
            )
        )

    def survey(self, spans: Sequence[Span]) -> PlainSurvey:
        return PlainSurvey(self, spans)


@dataclass(frozen=True)
class PlainSurvey:
    """Spans, and who reads them."""

    reader: PlainReader
    spans: Sequence[Span]

    @property
    def top_agent(self) -> str | None:
        return next((str(s.attributes["agent"]) for s in self.spans if "agent" in s.attributes), None)

    def extract(self) -> Extraction:
        return self.reader.extract(self.spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainJustification:
    """Says what it was told."""

    text: str = "because"

    def details(self) -> Mapping[str, object]:
        return {"text": self.text}

    def explain(self) -> str:
        return self.text

    def comparisons(self) -> Iterator[Comparison]:
        return iter(())


class NamesEvaluator:
    """Scores 1.0; remembers the names that it was given."""

    def __init__(self) -> None:
        self.seen: list[tuple[list[str], bool]] = []

    def evaluate(self, criteria: Criteria, log: CallLog) -> Score:  # noqa: ARG002 - the protocol's signature
        self.seen.append(([call.name for call in log.calls], log.open_ended))
        return Score(value=1.0, lowest=0.0 if log.open_ended else 1.0, highest=1.0, justification=PlainJustification())


class FailingEvaluator:
    """Raises."""

    def evaluate(self, criteria: Criteria, log: CallLog) -> Score:  # noqa: ARG002 - the protocol's signature
        """Fail with a message that holds a user's data."""
        message = "secret value"
        raise RuntimeError(message)


class ManualClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.ns = 0

    def now_ns(self) -> int:
        return self.ns


@dataclass
class ListEmitter:
    """Keeps reports in a list."""

    reports: list[TraceReport] = field(default_factory=list)
    flushed: int = 0
    stopped: int = 0

    def emit(self, report: TraceReport) -> None:
        self.reports.append(report)

    def flush(self, timeout_seconds: float) -> bool:  # noqa: ARG002 - the protocol's signature
        self.flushed += 1
        return True

    def shutdown(self, timeout_seconds: float) -> None:  # noqa: ARG002 - the protocol's signature
        self.stopped += 1
