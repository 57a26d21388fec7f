"""Holds a trace's calls against one check, and puts the answer into a word. Says what it asks of readers and evaluators."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Never, Protocol, TypeAlias, TypeVar, cast

from otel_toolcall_eval.model.score import Completeness, EvaluatorFailure, Label, Verdict
from otel_toolcall_eval.model.tool_call import CallLog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.criteria import Check, Criteria, CriteriaSet, Include
    from otel_toolcall_eval.model.score import Score
    from otel_toolcall_eval.model.tool_call import Extraction, ToolCall
    from otel_toolcall_eval.model.trace import Doubt, Projection, Span, Trace

_hash: Final = blake2b  # spared a look-up among the module's names; a third of what SHA-256 takes, which is OpenSSL's
C_contra = TypeVar("C_contra", contravariant=True)


class Survey(Protocol):
    """A trace laid out for reading."""

    @property
    def top_agent(self) -> str | None:
        """Return the name of the top-most agent."""
        ...

    def extract(self) -> Extraction:
        """Read the calls."""
        ...


class CallReader(Protocol):
    """Reads tool calls out of spans."""

    @property
    def projection(self) -> Projection:
        """Return the attributes that it reads."""
        ...

    def is_relevant(self, span: Span) -> bool:
        """Tell whether the span could matter; cheap."""
        ...

    def is_agent(self, span: Span) -> bool:
        """Tell whether an agent ran in the span; cheap."""
        ...

    def survey(self, spans: Sequence[Span]) -> Survey:
        """Lay out a trace's spans, whatever their order."""
        ...


class Evaluator(Protocol[C_contra]):
    """Holds calls against one kind of criteria."""

    def evaluate(self, criteria: C_contra, log: CallLog) -> Score:
        """Return the score; never raises for anything that a trace or valid criteria can hold."""
        ...


Evaluators: TypeAlias = "Mapping[type, Evaluator[Never]]"
"""Evaluators by class of the criteria that they take."""


def evaluate(evaluators: Evaluators, criteria: Criteria, log: CallLog) -> Score:
    """Hold calls against criteria of any kind."""
    evaluator = cast("Evaluator[Criteria]", evaluators[type(criteria)])
    return evaluator.evaluate(criteria, log)


class JudgedCalls:
    """A trace's calls, as criteria of different reach see them; each view is made once, however many criteria share it.

    Attributes:
        doubts: why calls may be missing.
        failure: why there are no calls at all, if reading them failed.
    """

    def __init__(
        self,
        extraction: Extraction,
        *,
        doubts: tuple[Doubt, ...] = (),
        failure: EvaluatorFailure | None = None,
        clocks: Mapping[bytes, int] | None = None,
    ) -> None:
        """Take what was read; ``clocks`` holds the number of each span's clock, where clocks disagree."""
        self.doubts = doubts
        self.failure = failure
        self._extraction = extraction
        self._clocks = clocks
        self._logs: list[tuple[Include, CallLog]] = []

    def seen_by(self, include: Include) -> CallLog:
        """Return the calls that criteria of this reach judge."""
        for known, log in self._logs:  # one or two, and mostly the same object: spared the hash of two sets
            if known is include or known == include:
                return log
        calls = included(self._extraction, include)
        numbers: tuple[int, ...] = ()
        if self._clocks:
            numbers = tuple([self._clocks.get(call.span_id, -1) for call in calls])
        log = CallLog(calls=calls, open_ended=bool(self.doubts), clocks=numbers if numbers and len(set(numbers)) > 1 else ())
        self._logs.append((include, log))
        return log


def judge_check(evaluators: Evaluators, trace: Trace, criteria_set: CriteriaSet, check: Check, calls: JudgedCalls) -> Verdict:
    """Return what one check says of a trace.

    Args:
        evaluators: by class of criteria.
        trace: identified in the verdict.
        criteria_set: the set that the check belongs to.
        check: evaluator, criteria and threshold.
        calls: the trace's calls.
    """
    score, failure = None, calls.failure
    if failure is None:
        try:
            score = evaluate(evaluators, check.criteria, calls.seen_by(check.include))
        except Exception as error:  # noqa: BLE001 - an evaluator's bug is kept from the other verdicts
            failure = failure_of(error)
    doubts = calls.doubts
    if score is not None and score.doubts:
        doubts = tuple(dict.fromkeys((*doubts, *score.doubts)))
    return Verdict(
        evaluation_id=evaluation_id(trace, criteria_set, check),
        criteria=criteria_set.name,
        criteria_version=criteria_set.version,
        evaluator=check.evaluator,
        evaluator_id=check.evaluator_id,
        label=label(score, check.pass_threshold),
        score=score,
        pass_threshold=check.pass_threshold,
        completeness=Completeness.PARTIAL if doubts else Completeness.COMPLETE,
        doubts=doubts,
        failure=failure,
    )


def failure_of(error: Exception) -> EvaluatorFailure:
    """Return what a verdict keeps of an exception that should never have been raised."""
    return EvaluatorFailure(error_type=type(error).__qualname__, message=str(error))


def label(score: Score | None, pass_threshold: float) -> Label:
    """Return the verdict in a word: inconclusive if anything unrecorded could change the score, or there is none."""
    if score is None or not score.certain:
        return Label.INCONCLUSIVE
    return Label.PASS if score.value >= pass_threshold else Label.FAIL


def included(extraction: Extraction, include: Include) -> tuple[ToolCall, ...]:
    """Return the calls that criteria of this reach judge."""
    return tuple([call for call in extraction.calls if call.kind in include.kinds and call.phase in include.phases])


def evaluation_id(trace: Trace, criteria_set: CriteriaSet, check: Check) -> str:
    """Return 32 hex digits: the same for the same trace or unit of it, criteria version, evaluator and revision."""
    text = f"{trace.key.hex()}\x1f{criteria_set.name}\x1f{criteria_set.version}\x1f{check.evaluator}\x1f{trace.revision}"
    return _hash(text.encode("utf-8", "surrogatepass"), digest_size=16, usedforsecurity=False).hexdigest()
