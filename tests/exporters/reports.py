"""Reports to emit, made by hand: emission must work for every report, not only for those that today's evaluators make."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.score import (
    Comparison,
    Completeness,
    EvaluatorFailure,
    ExpectationOutcome,
    Label,
    Outcome,
    Score,
    TraceReport,
    Verdict,
)
from otel_toolcall_eval.model.tool_call import Content, ContentState, Extraction, Payload, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason, Resource, Span, Trigger

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.trace import Attributes

TRACE_ID = bytes.fromhex("0af7651916cd43dd8448eb211c80319c")
SPAN_ID = bytes.fromhex("b7ad6b7169203331")
START_UNIX_NS = 1_700_000_000_000_000_000
END_UNIX_NS = START_UNIX_NS + 2_500_000_000
CANARY = "sk-canary-7f3a9c"
"""A secret that stands in every place where users' data can be. It must not leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeJustification:
    """Explains what it is told to."""

    line: str = "search: called once, expected twice"
    values: Mapping[str, object] = field(
        default_factory=lambda: {"explained_tool_calls_args": {"search_0": f"Actual: {{'q': '{CANARY}'}}"}}
    )

    def details(self) -> Mapping[str, object]:
        return self.values

    def explain(self) -> str:
        return self.line

    def comparisons(self) -> Iterator[Comparison]:
        yield Comparison(label="search", expected="exactly 2 calls", actual="1 call", matched=False, span_id=SPAN_ID)


class BrokenJustification:
    """Raises, with users' data in the message."""

    def details(self) -> Mapping[str, object]:
        raise KeyError(CANARY)

    def explain(self) -> str:
        raise KeyError(CANARY)

    def comparisons(self) -> Iterator[Comparison]:
        raise KeyError(CANARY)


def score(
    value: float = 0.5,
    *,
    outcomes: Sequence[tuple[str, Outcome]] = (("search", Outcome.MATCHED), ("search", Outcome.MISSING)),
    justification: FakeJustification | BrokenJustification | None = None,
) -> Score:
    return Score(
        value=value,
        lowest=value,
        highest=value,
        justification=justification or FakeJustification(),
        outcomes=tuple(ExpectationOutcome(tool=tool, outcome=outcome) for tool, outcome in outcomes),
    )


def verdict(
    label: Label = Label.FAIL,
    *,
    evaluator: str = "ToolCallCountEvaluator",
    criteria: str = "weather",
    given: Score | None = None,
    doubts: Sequence[IncompletenessReason] = (),
    failed: bool = False,
) -> Verdict:
    return Verdict(
        evaluation_id=blake2b(f"{criteria}/{evaluator}".encode(errors="surrogatepass"), digest_size=16).hexdigest(),
        criteria=criteria,
        criteria_version="1",
        evaluator=evaluator,
        evaluator_id="tool-call-count",
        label=label,
        score=None if failed else given or score(),
        completeness=Completeness.PARTIAL if doubts else Completeness.COMPLETE,
        doubts=tuple(doubts),
        failure=EvaluatorFailure(error_type="ZeroDivisionError", message=CANARY) if failed else None,
    )


def inconclusive(*doubts: IncompletenessReason, evaluator: str = "ToolCallCountEvaluator", criteria: str = "weather") -> Verdict:
    return verdict(Label.INCONCLUSIVE, doubts=doubts or (IncompletenessReason.ORPHAN,), evaluator=evaluator, criteria=criteria)


def evaluated_span(
    *,
    trace_id: bytes = TRACE_ID,
    span_id: bytes = SPAN_ID,
    flags: int = 0x101,
    end_unix_ns: int = END_UNIX_NS,
    resource: Attributes | None = None,
) -> Span:
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        name="invoke_agent",
        start_unix_ns=START_UNIX_NS,
        end_unix_ns=end_unix_ns,
        flags=flags,
        status_message=CANARY,
        attributes={"input.value": CANARY, "gen_ai.input.messages": CANARY},
        resource=Resource(attributes=resource or {}),
    )


_UNSET = evaluated_span()


def report(
    *verdicts: Verdict,
    span: Span | None = _UNSET,
    agent: str | None = "weather_agent",
    trigger: Trigger = Trigger.ROOT_SPAN,
    doubts: Sequence[IncompletenessReason] = (),
    revision: int = 0,
    decided_after_ns: int = 10_000_000_000,
) -> TraceReport:
    secret = Payload.of(Content(state=ContentState.FULL, value={"q": CANARY}, text=CANARY))
    return TraceReport(
        trace_id=TRACE_ID if span is None else span.trace_id,
        evaluated_span=span,
        agent=agent,
        trigger=trigger,
        completeness=Completeness.PARTIAL if doubts else Completeness.COMPLETE,
        doubts=tuple(doubts),
        revision=revision,
        verdicts=verdicts,
        extraction=Extraction(calls=(ToolCall(name=f"tool-{CANARY}", arguments=secret, output=secret),)),
        decided_after_ns=decided_after_ns,
        evaluation_seconds=0.0002,
    )
