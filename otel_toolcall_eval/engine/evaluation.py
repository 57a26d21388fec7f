"""Evaluates a trace's calls by one check, and labels the outcome. Defines what is asked of readers and evaluators."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Never, Protocol, TypeAlias, TypeVar, cast

from otel_toolcall_eval.model.criteria import MARK_BYTES
from otel_toolcall_eval.model.score import Completeness, EvaluatorFailure, Label, Verdict
from otel_toolcall_eval.model.tool_call import CallLog
from otel_toolcall_eval.model.trace import IncompletenessReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.model.criteria import CallFilter, Check, Criteria, CriteriaSet
    from otel_toolcall_eval.model.score import Score
    from otel_toolcall_eval.model.tool_call import Extraction, ToolCall
    from otel_toolcall_eval.model.trace import Projection, Span, Trace

_EMPTY: Final = blake2b(digest_size=MARK_BYTES, usedforsecurity=False)
"""Copied for each trace: to construct a blake2b with parameters costs more than hashing. SHA-256 takes three times as long."""

C_contra = TypeVar("C_contra", contravariant=True)

_PARENTS_MISSING: Final = frozenset({IncompletenessReason.NO_ROOT, IncompletenessReason.ORPHAN})


class ReadableTrace(Protocol):
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

    def survey(self, spans: Sequence[Span]) -> ReadableTrace:
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


class FilteredCalls:
    """A trace's calls, as criteria of different reach see them; each view is made once, however many criteria share it.

    Attributes:
        doubts: why calls may be missing.
        failure: why there are no calls at all, if reading them failed.
    """

    def __init__(
        self,
        extraction: Extraction,
        *,
        doubts: tuple[IncompletenessReason, ...] = (),
        failure: EvaluatorFailure | None = None,
        clocks: Mapping[bytes, int] | None = None,
    ) -> None:
        """Take what was read; ``clocks`` holds the number of each span's clock, where clocks disagree."""
        self.doubts = doubts
        self.failure = failure
        self._extraction = extraction
        self._clocks = clocks
        self._logs: list[tuple[CallFilter, CallLog]] = []

    def seen_by(self, include: CallFilter) -> CallLog:
        """Return the calls that criteria of this reach evaluate."""
        for known, log in self._logs:  # one or two, and mostly the same object: spared the hash of two sets
            if known is include or known == include:
                return log
        calls = included(self._extraction, include)
        numbers: tuple[int, ...] = ()
        if self._clocks:
            numbers = tuple([self._clocks.get(call.span_id, -1) for call in calls])
        elif _PARENTS_MISSING.intersection(self.doubts):
            numbers = _clocks_of_ties(calls)
        log = CallLog(calls=calls, open_ended=bool(self.doubts), clocks=numbers if numbers and len(set(numbers)) > 1 else ())
        self._logs.append((include, log))
        return log


def evaluate_criteria_set(evaluators: Evaluators, trace: Trace, criteria_set: CriteriaSet, calls: FilteredCalls) -> list[Verdict]:
    """Return what each check of a set says of a trace, in their order.

    Args:
        evaluators: by class of criteria.
        trace: identified in the verdicts.
        criteria_set: the checks: evaluator, criteria and threshold.
        calls: the trace's calls.
    """
    mark, marks = trace_hash(trace), criteria_set.marks
    return [
        _evaluate_check(evaluators, criteria_set, check, calls, evaluation_id=evaluation_id(mark, marks[place]))
        for place, check in enumerate(criteria_set.checks)
    ]


def _evaluate_check(
    evaluators: Evaluators, criteria_set: CriteriaSet, check: Check, calls: FilteredCalls, *, evaluation_id: str
) -> Verdict:
    """Return what one check of a set says of a trace."""
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
        evaluation_id=evaluation_id,
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


def _clocks_of_ties(calls: Sequence[ToolCall]) -> tuple[int, ...]:
    """Return a clock of its own for each call that shares its times with another one, and one clock for the rest.

    Calls of equal times are ordered by the spans above them. Where one of these is missing, the order may change when it comes.
    """
    times = Counter((call.start_unix_ns, call.end_unix_ns) for call in calls)
    return tuple([number if times[call.start_unix_ns, call.end_unix_ns] > 1 else 0 for number, call in enumerate(calls, 1)])


def included(extraction: Extraction, include: CallFilter) -> tuple[ToolCall, ...]:
    """Return the calls that criteria of this reach evaluate."""
    return tuple([call for call in extraction.calls if call.kind in include.kinds and call.phase in include.phases])


def trace_hash(trace: Trace) -> int:
    """Return 128 bits that tell a trace, or a unit of it, and its revision from all others."""
    digest = _EMPTY.copy()
    digest.update(b"%b\x1f%d" % (trace.key, trace.revision))
    return int.from_bytes(digest.digest(), "big")


def evaluation_id(trace: int, check: int) -> str:
    """Return 32 hex digits: the same for the same trace or unit of it, criteria version, evaluator and revision.

    Args:
        trace: its mark.
        check: the mark that its set has for it. Both are hashes, so two pairs hardly ever come to the same bits, as with a hash of both,
            which takes six times as long for each verdict.
    """
    return (trace ^ check).to_bytes(MARK_BYTES, "big").hex()
