"""Scores, justifications, verdicts, and the report on one trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from otel_toolcall_eval.model.values import value_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import Extraction
    from otel_toolcall_eval.model.trace import IncompletenessReason, Span, Trigger


class Outcome(StrEnum):
    """What became of one expectation; leaves as ``result`` of ``toolcall_eval.expectations``."""

    MATCHED = "matched"
    MISSING = "missing"  # the tool was not called (often enough)
    WRONG_COUNT = "wrong_count"
    WRONG_ORDER = "wrong_order"
    WRONG_ARGUMENTS = "wrong_arguments"
    WRONG_OUTPUT = "wrong_output"


@value_class
class ExpectationOutcome:
    """The outcome of one expectation. ``tool`` comes from the criteria, so its values are bounded."""

    tool: str
    outcome: Outcome


@value_class
class Comparison:
    """One expectation beside what became of it, in words and without argument or output values.

    Attributes:
        label: what is expected of: a tool, or a tool and its turn, as in ``get_user_0``.
        expected: such as ``at least 2 calls`` or ``arguments id, amount``.
        actual: such as ``1 call``, ``not called`` or ``$.amount differs``.
        span_id: of the call that stands beside the expectation; None if there is none, or it counts all of them.
    """

    label: str
    expected: str
    actual: str
    matched: bool
    span_id: bytes | None = None


class Justification(Protocol):
    """Why a score is what it is. Rendered when someone asks, since most are never read."""

    def details(self) -> Mapping[str, object]:
        """Return lists and mappings under the guides' names, values included; enough to recompute the score by hand."""
        ...

    def explain(self) -> str:
        """Return one line that names tools, paths and reasons, and no argument or output values.

        If the score is 1.0 and certain, the text depends on the criteria alone: exporters reuse it for other traces that meet them.
        """
        ...

    def comparisons(self) -> Iterator[Comparison]:
        """Yield each expectation beside what became of it, in the order of the criteria; there may be thousands."""
        ...


@value_class
class Score:
    """The answer of one evaluator.

    Attributes:
        value: in [0.0, 1.0], never rounded, by the rules applied to what was recorded.
        lowest: least value that anything unrecorded could make it.
        highest: greatest value that anything unrecorded could make it; ``lowest <= value <= highest``.
        outcomes: one entry for each expectation.
        doubts: what kept ``lowest`` and ``highest`` apart; empty if they are equal.
    """

    value: float
    lowest: float
    highest: float
    justification: Justification
    outcomes: tuple[ExpectationOutcome, ...] = ()
    doubts: tuple[IncompletenessReason, ...] = ()

    def __post_init__(self) -> None:
        """Reject an impossible score before it enters anyone's average; the error becomes an EvaluatorFailure."""
        if not 0.0 <= self.lowest <= self.value <= self.highest <= 1.0:
            message = f"0 <= {self.lowest} <= {self.value} <= {self.highest} <= 1 does not hold"
            raise ValueError(message)

    @property
    def certain(self) -> bool:
        """True if nothing unrecorded could change the value."""
        return self.lowest == self.highest


class Label(StrEnum):
    """The verdict in a word."""

    PASS = "pass"  # noqa: S105 - no password: the value that gen_ai.evaluation.score.label takes
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Completeness(StrEnum):
    """Whether everything was there to evaluate."""

    COMPLETE = "complete"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFailure:
    """An evaluator raised. It is a bug of ours; the other evaluators' verdicts stand.

    Attributes:
        error_type: qualified name of the exception; leaves as ``error.type``.
        message: its text; it may hold users' data and is never emitted.
    """

    error_type: str
    message: str


@value_class
class Verdict:
    """What one check says of one trace.

    Attributes:
        evaluation_id: 32 hex digits, the same for the same trace, unit, criteria version, evaluator and revision, so that a backend can
            drop repeats.
        criteria: name of the criteria set.
        score: None if the evaluator failed. Use ``label``: only pass and fail are emitted with a score.
        completeness: PARTIAL if spans or contents were missing, whether or not they mattered.
        doubts: what was missing.
    """

    evaluation_id: str
    criteria: str
    criteria_version: str
    evaluator: str
    evaluator_id: str
    label: Label
    score: Score | None
    pass_threshold: float = 1.0
    completeness: Completeness = Completeness.COMPLETE
    doubts: tuple[IncompletenessReason, ...] = ()
    failure: EvaluatorFailure | None = None

    @property
    def emitted_score(self) -> float | None:
        """Return the score, or None where none may be given: the verdict is inconclusive, or the evaluator failed."""
        if self.score is None or self.label is Label.INCONCLUSIVE:
            return None
        return self.score.value

    @property
    def outcomes_if_met(self) -> tuple[ExpectationOutcome, ...] | None:
        """Return the outcomes if all expectations are met and nothing casts doubt on that; None if not, or if there are none.

        Those of criteria that are met are the same object for all traces, and not only equal.
        """
        if self.score is None or self.score.value < 1.0 or self.label is not Label.PASS:
            return None
        if self.completeness is not Completeness.COMPLETE or self.doubts or self.failure is not None:
            return None
        return self.score.outcomes or None


@value_class
class TraceReport:
    """Everything decided about one trace.

    Attributes:
        evaluated_span: the span that the verdicts are attached to; None only for a trace without spans.
        agent: name of the top-most agent, if any span tells.
        conversation_id: of the conversation that the trace belongs to, if any span tells.
        verdicts: in order of criteria set, then of its checks; empty if nothing is bound to the trace.
        spans: of the trace, in order of arrival; empty unless the pipeline was built to report them.
        unknown_criteria: names that the trace asks for and that are not loaded.
        decided_after_ns: from the arrival of the root (of the first span, if there is no root) to the decision.
    """

    trace_id: bytes
    evaluated_span: Span | None
    agent: str | None
    trigger: Trigger
    completeness: Completeness
    doubts: tuple[IncompletenessReason, ...]
    revision: int
    verdicts: Sequence[Verdict]
    extraction: Extraction
    spans: Sequence[Span] = field(default=(), compare=False, repr=False)
    unknown_criteria: tuple[str, ...] = ()
    conversation_id: str | None = None
    decided_after_ns: int = 0
    evaluation_seconds: float = field(default=0.0, compare=False)

    @property
    def unbound(self) -> bool:
        """True if no criteria apply to this trace."""
        return not self.verdicts
