"""ToolCallOrderEvaluator: whether tools were called in sequence. Source: order evaluator guide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.evaluators.caching import PrecomputedCriteria
from otel_toolcall_eval.evaluators.clocks import common_in_any_order
from otel_toolcall_eval.evaluators.lcs import align
from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching
from otel_toolcall_eval.evaluators.parallel import best_order, find_runs
from otel_toolcall_eval.model.criteria import OrderCriteria, Parallel
from otel_toolcall_eval.model.score import Comparison, ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.model.trace import IncompletenessReason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import CallLog, ToolCall

MAX_NOTED: Final = 50_000
"""Calls times names up to which another order of overlapping calls is looked for, only to say that there is one: 20 ms."""

_MAX_TOLD: Final = 5  # names that the explanation lists


@dataclass(frozen=True, slots=True, kw_only=True)
class _OrderPlan:
    """What follows from criteria alone.

    Attributes:
        names: for each expected name a bit for each of its places.
        matched: the outcomes if all names are matched.
        pairs: the pairs if the calls are those that are expected, and no others.
    """

    names: dict[str, int]
    matched: tuple[ExpectationOutcome, ...]
    pairs: Sequence[tuple[int, int]]


class OrderJustification:
    """The sequences behind a score."""

    __slots__ = ("_calls", "_criteria", "_fits", "_note", "_outcomes", "_pairs")

    def __init__(
        self,
        *,
        criteria: OrderCriteria,
        calls: Sequence[ToolCall],
        fits: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        outcomes: Sequence[ExpectationOutcome],
    ) -> None:
        """Keep what the score was computed from."""
        self._criteria = criteria
        self._calls = calls
        self._fits = fits
        self._pairs = pairs
        self._outcomes = outcomes
        self._note: str | None = None

    @property
    def actual_tool_calls_order(self) -> list[str]:
        """Return the names of all calls in order of their start."""
        return [call.name for call in self._calls]

    @property
    def expected_tool_calls_order(self) -> list[str]:
        """Return the expected names."""
        return list(self._criteria.expected)

    @property
    def lcs(self) -> list[str]:
        """Return the expected names that stand in order, as ``align`` chooses them; in strict mode too."""
        return [self._criteria.expected[name] for _, name in self._pairs]

    @property
    def parallel_note(self) -> str:
        """Say whether another order of overlapping calls would score better; empty if none would, or if none is looked for.

        None is looked for above MAX_NOTED; the score does not depend on it.
        """
        if self._note is None:
            self._note = self._find_note()
        return self._note

    def __repr__(self) -> str:
        """Return the details, so that printing a result shows what the guides show."""
        return f"{type(self).__name__}({self.details()})"

    def details(self) -> Mapping[str, object]:
        """Return the three sequences under the guide's names, and the note, if there is one, as ``parallel_note``."""
        details: dict[str, object] = {
            "actual_tool_calls_order": self.actual_tool_calls_order,
            "expected_tool_calls_order": self.expected_tool_calls_order,
            "lcs": self.lcs,
        }
        if self.parallel_note:
            details["parallel_note"] = self.parallel_note
        return details

    def explain(self) -> str:
        """Return, for instance, ``3 of 4 expected calls are in order; missing: sort``."""
        told = [f"{len(self._pairs)} of {len(self._criteria.expected)} expected calls are in order"]
        if len(self._pairs) < len(self._criteria.expected):  # else there is nothing to look for, as nearly always
            for outcome, words in ((Outcome.MISSING, "missing"), (Outcome.WRONG_ORDER, "out of order")):
                tools = list(dict.fromkeys(entry.tool for entry in self._outcomes if entry.outcome is outcome))
                if tools:
                    more = f" and {len(tools) - _MAX_TOLD} more" if len(tools) > _MAX_TOLD else ""
                    told.append(f"{words}: {', '.join(tools[:_MAX_TOLD])}{more}")
        if self._criteria.strict:
            others = len(self._calls) - sum(entry.outcome is not Outcome.MISSING for entry in self._outcomes)
            if others:
                told.append(f"{others} further call{'' if others == 1 else 's'}, which strict mode does not allow")
        if self.parallel_note:
            told.append(self.parallel_note)
        return "; ".join(told)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield, for instance, ``sort``, ``place 3``, ``call 2``; calls are numbered in the order of their start."""
        places = {name: call for call, name in self._pairs}
        words = {Outcome.MISSING: "not called", Outcome.WRONG_ORDER: "called out of order"}
        for name, entry in enumerate(self._outcomes):
            place = places.get(name)
            yield Comparison(
                label=entry.tool,
                expected=f"place {name + 1}",
                actual=words[entry.outcome] if place is None else f"call {place + 1}",
                matched=place is not None,
                span_id=None if place is None else self._calls[place].span_id,
            )

    def _find_note(self) -> str:
        """Look for a better order of overlapping calls."""
        total, calls = len(self._criteria.expected), len(self._calls)
        if self._criteria.parallel is Parallel.ANY or len(self._pairs) == total or calls * total > MAX_NOTED:
            return ""
        best = _best_pairs(self._calls, self._fits, total)
        better = _share(best, calls, self._criteria)
        if better <= _share(self._pairs, calls, self._criteria):
            return ""
        return f"in another order of the calls that overlap in time the score would be {better:g} (parallel: any)"


class OrderEvaluator:
    """Scores whether tools were called in sequence. It keeps what it worked out from criteria; several threads may use one."""

    def __init__(self) -> None:
        """Know no criteria yet."""
        self._plans: PrecomputedCriteria[OrderCriteria, _OrderPlan] = PrecomputedCriteria(_plan)

    def evaluate(self, criteria: OrderCriteria, log: CallLog) -> Score:
        """Return the share of the expected sequence that was kept.

        Args:
            criteria: n names; n >= 1.
            log: m calls in order of their start; m = 0 scores 0.0. A call answers to its name and its aliases.

        Returns:
            Length of the longest common subsequence over n; with ``criteria.strict``, 1.0 for equal sequences, else 0.0. With
            ``Parallel.ANY``, the best of these over all orders that ``parallel`` allows; in strict mode that is 1.0 exactly if
            the runs of overlapping calls, one after the other, hold the expected names in any order inside each.

        Bounds, if the log may lack calls; else both are the value, since arguments and outputs do not matter:

        - Not strict: adding calls takes no common subsequence away, and with all expected calls added the score is 1.0. A lower
          bound is the length in start order, even with ``Parallel.ANY``: a missing call of another agent may part a run.
        - Strict: one added call too many makes it 0.0. It can become 1.0 only if all recorded calls stand in the expected
          sequence, with the missing ones between them, that is if the longest common subsequence holds all m calls; with m = n
          nothing may be missing, and it stays what it is. With ``Parallel.ANY`` and m < n a missing call may overlap any
          recorded ones and so join them to one run: it is enough that each of them answers to an expected name of its own.

        Where clocks disagree (``log.clocks``), the bounds span all orders that the calls may have had; see ``clocks``.

        Cost: see ``align``, and ``best_order`` with ``Parallel.ANY``; both are spared where the calls are just those that are expected.
        """
        plan = self._plans.of(criteria)
        calls = log.calls
        total = len(criteria.expected)
        if criteria.parallel is not Parallel.ANY and _as_expected(criteria.expected, log):
            justification = OrderJustification(criteria=criteria, calls=calls, fits=(), pairs=plan.pairs, outcomes=plan.matched)
            lowest = 0.0 if log.open_ended and criteria.strict else 1.0
            return Score(value=1.0, lowest=lowest, highest=1.0, justification=justification, outcomes=plan.matched)
        fits = [_fit(plan.names, call) for call in calls]
        in_runs = criteria.parallel is Parallel.ANY and any(call.parallel_group is not None for call in calls)
        pairs = _best_pairs(calls, fits, total) if in_runs else align(fits, total)
        value = lowest = highest = _share(pairs, len(calls), criteria)
        if log.open_ended and criteria.strict:
            lowest = 0.0
            if len(calls) < total:
                may_join = criteria.parallel is Parallel.ANY
                highest = float(UNMATCHED not in maximum_matching(fits) if may_join else len(pairs) == len(calls))
        elif log.open_ended:
            lowest = _share(align(fits, total), len(calls), criteria) if in_runs else value
            highest = 1.0
        outcomes = plan.matched if len(pairs) == total else _outcomes(criteria.expected, fits, pairs)
        doubts: tuple[IncompletenessReason, ...] = ()
        if log.clocks:
            before = lowest, highest
            lowest, highest = _bounds_without_order(log, criteria, fits, (lowest, highest))
            doubts = (IncompletenessReason.CLOCK_SKEW,) if (lowest, highest) != before else ()
        return Score(
            value=value,
            lowest=lowest,
            highest=highest,
            justification=OrderJustification(criteria=criteria, calls=calls, fits=fits, pairs=pairs, outcomes=outcomes),
            outcomes=outcomes,
            doubts=doubts,
        )


def _as_expected(expected: Sequence[str], log: CallLog) -> bool:
    """Tell whether the n-th call has the n-th expected name, and there are no others: so no other pairs are as many, whatever aliases say.

    Where clocks disagree, nobody knows which call is the n-th.
    """
    if len(log.calls) != len(expected) or log.clocks:
        return False
    return all(call.name == name for call, name in zip(log.calls, expected, strict=True))


def _bounds_without_order(log: CallLog, criteria: OrderCriteria, fits: Sequence[int], bounds: tuple[float, float]) -> tuple[float, float]:
    """Return the bounds where the clocks of the calls disagree; never narrower than ``bounds``, which hold if they agreed."""
    total, calls = len(criteria.expected), len(fits)
    least, greatest = common_in_any_order(log, fits, total, free=criteria.parallel is Parallel.ANY)
    if criteria.strict:
        if log.open_ended:
            return 0.0, max(bounds[1], float(calls < total and greatest == calls))
        return float(least == total == calls), float(greatest == total == calls)
    return min(bounds[0], least / total), max(bounds[1], greatest / total)


def _plan(criteria: OrderCriteria) -> _OrderPlan:
    names: dict[str, int] = {}
    for place, name in enumerate(criteria.expected):
        names[name] = names.get(name, 0) | 1 << place
    matched = tuple([_told(name, Outcome.MATCHED) for name in criteria.expected])
    return _OrderPlan(names=names, matched=matched, pairs=[(place, place) for place in range(len(criteria.expected))])


def _fit(names: dict[str, int], call: ToolCall) -> int:
    """Return a bit for each expected place whose name a call answers to."""
    fit = names.get(call.name, 0)
    for alias in call.aliases:
        fit |= names.get(alias, 0)
    return fit


def _best_pairs(calls: Sequence[ToolCall], fits: Sequence[int], total: int) -> list[tuple[int, int]]:
    """Return the pairs for the best order of overlapping calls, ascending by name."""
    order = best_order(fits, find_runs(calls), total)
    return [(order[call], name) for call, name in align([fits[call] for call in order], total)]


def _share(pairs: Sequence[tuple[int, int]], calls: int, criteria: OrderCriteria) -> float:
    total = len(criteria.expected)
    if criteria.strict:
        return float(len(pairs) == total == calls)
    return len(pairs) / total


def _outcomes(expected: Sequence[str], fits: Sequence[int], pairs: Sequence[tuple[int, int]]) -> tuple[ExpectationOutcome, ...]:
    """Return what became of each name: out of order if a call that is not needed elsewhere answers to it, else missing."""
    outcomes = [Outcome.MISSING] * len(expected)
    open_names = (1 << len(expected)) - 1
    for _, name in pairs:
        outcomes[name] = Outcome.MATCHED
        open_names ^= 1 << name
    used = {call for call, _ in pairs}
    for call, fit in enumerate(fits):
        left = fit & open_names
        if left and call not in used:
            name = (left & -left).bit_length() - 1
            outcomes[name] = Outcome.WRONG_ORDER
            open_names ^= 1 << name
    return tuple(map(_told, expected, outcomes))


@lru_cache(maxsize=4096)
def _told(tool: str, outcome: Outcome) -> ExpectationOutcome:
    return ExpectationOutcome(tool=tool, outcome=outcome)
