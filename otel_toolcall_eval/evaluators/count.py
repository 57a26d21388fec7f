"""ToolCallCountEvaluator: how often each tool was called. Source: count evaluator guide."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.evaluators.caching import PrecomputedCriteria
from otel_toolcall_eval.model.criteria import EVERY_TOOL, CountCriteria, CountExpectation, Operator
from otel_toolcall_eval.model.score import Comparison, ExpectationOutcome, Outcome, Score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import CallLog

_HOLDS: Final[dict[Operator, Callable[[int, int], bool]]] = {
    Operator.EQUAL: operator.eq,
    Operator.NOT_EQUAL: operator.ne,
    Operator.GREATER: operator.gt,
    Operator.LESS: operator.lt,
    Operator.GREATER_EQUAL: operator.ge,
    Operator.LESS_EQUAL: operator.le,
}
_OPPOSITE: Final = {
    Operator.EQUAL: Operator.NOT_EQUAL,
    Operator.NOT_EQUAL: Operator.EQUAL,
    Operator.GREATER: Operator.LESS_EQUAL,
    Operator.LESS_EQUAL: Operator.GREATER,
    Operator.LESS: Operator.GREATER_EQUAL,
    Operator.GREATER_EQUAL: Operator.LESS,
}
_WORDS: Final = {
    Operator.EQUAL: "exactly",
    Operator.NOT_EQUAL: "anything but",
    Operator.GREATER: "more than",
    Operator.LESS: "fewer than",
    Operator.GREATER_EQUAL: "at least",
    Operator.LESS_EQUAL: "at most",
}
_MAX_TOLD: Final = 5  # failed counts that the explanation names


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountPlan:
    """The outcome of each expectation if it holds, and if it does not."""

    matched: tuple[ExpectationOutcome, ...]
    failed: tuple[ExpectationOutcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CountJustification:
    """The counts behind a score. ``actual`` holds one count for each expectation."""

    expectations: Sequence[CountExpectation]
    actual: Sequence[int]

    @property
    def explained_tool_calls_count(self) -> dict[str, str]:
        """Return one entry for each listed tool, such as ``Actual: 3, Expected: 5, Score: 0.0``."""
        return {
            wanted.tool: f"Actual: {count}, Expected: {_sign(wanted.operator)}{wanted.count}, Score: {float(_holds(wanted, count))}"
            for wanted, count in zip(self.expectations, self.actual, strict=True)
        }

    def __repr__(self) -> str:
        """Return the details, so that printing a result shows what the guides show."""
        return f"{type(self).__name__}({self.details()})"

    def details(self) -> Mapping[str, object]:
        """Return the entries under the guide's name."""
        return {"explained_tool_calls_count": self.explained_tool_calls_count}

    def explain(self) -> str:
        """Return, for instance, ``2 of 3 counts hold; process_item: called 3 times, expected exactly 5``."""
        failed = [
            f"{_subject(wanted)}: called {count} time{'' if count == 1 else 's'}, expected {_WORDS[wanted.operator]} {wanted.count}"
            for wanted, count in zip(self.expectations, self.actual, strict=True)
            if not _holds(wanted, count)
        ]
        total = len(self.expectations)
        told = [f"{total - len(failed)} of {total} counts hold", *failed[:_MAX_TOLD]]
        if len(failed) > _MAX_TOLD:
            told.append(f"and {len(failed) - _MAX_TOLD} more")
        return "; ".join(told)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield, for instance, ``process_item``, ``exactly 5 calls``, ``3 calls``."""
        for wanted, count in zip(self.expectations, self.actual, strict=True):
            expected = f"{_WORDS[wanted.operator]} {_calls(wanted.count)}"
            yield Comparison(label=_subject(wanted), expected=expected, actual=_calls(count), matched=_holds(wanted, count))


class CountEvaluator:
    """Scores how often tools were called. It keeps what it worked out from criteria; several threads may use one."""

    def __init__(self) -> None:
        """Know no criteria yet."""
        self._plans: PrecomputedCriteria[CountCriteria, _CountPlan] = PrecomputedCriteria(_plan)

    def evaluate(self, criteria: CountCriteria, log: CallLog) -> Score:
        """Return the share of the expected counts that hold; with ``criteria.strict``, 1.0 if all hold, else 0.0.

        A call counts under its name and under each alias; a tool without calls counts 0, also in a log without any; ``*``
        counts every call once. Calls that no expectation names are ignored.

        Returns:
            ``lowest`` and ``highest`` are the least and greatest score that further calls could lead to if the log is open
            ended, else both are the value: counts do not look at arguments or outputs. See ``_most``.

        Cost: linear in the number of expectations, and in that of calls for the log's index.
        """
        plan = self._plans.of(criteria)
        by_name = log.by_name
        actual: list[int] = []
        holding = 0
        for wanted in criteria.expectations:
            places = by_name.get(wanted.tool)
            count = 0 if places is None else len(places)
            if wanted.tool == EVERY_TOOL:
                count = len(log.calls)
            holding += _holds(wanted, count)
            actual.append(count)
        total = len(actual)
        lowest = highest = holding
        if log.open_ended:
            counted = [
                (wanted.tool == EVERY_TOOL, wanted.operator, wanted.count - count)
                for wanted, count in zip(criteria.expectations, actual, strict=True)
            ]
            highest = _most(counted)
            lowest = total - _most((every, _OPPOSITE[sign], missing) for every, sign, missing in counted)
        return Score(
            value=_share(holding, total, strict=criteria.strict),
            lowest=_share(lowest, total, strict=criteria.strict),
            highest=_share(highest, total, strict=criteria.strict),
            justification=CountJustification(expectations=criteria.expectations, actual=actual),
            outcomes=plan.matched if holding == total else _outcomes(criteria, actual, plan),
        )


def _outcomes(criteria: CountCriteria, actual: Sequence[int], plan: _CountPlan) -> tuple[ExpectationOutcome, ...]:
    return tuple(
        [
            (plan.matched if _holds(wanted, count) else plan.failed)[place]
            for place, (wanted, count) in enumerate(zip(criteria.expectations, actual, strict=True))
        ]
    )


def _plan(criteria: CountCriteria) -> _CountPlan:
    tools = [wanted.tool for wanted in criteria.expectations]
    return _CountPlan(
        matched=tuple([ExpectationOutcome(tool=tool, outcome=Outcome.MATCHED) for tool in tools]),
        failed=tuple([ExpectationOutcome(tool=tool, outcome=Outcome.WRONG_COUNT) for tool in tools]),
    )


def _share(number: int, total: int, *, strict: bool) -> float:
    return float(number == total) if strict else number / total


def _holds(wanted: CountExpectation, count: int) -> bool:
    return _HOLDS[wanted.operator](count, wanted.count)


def _subject(wanted: CountExpectation) -> str:
    return "all tools" if wanted.tool == EVERY_TOOL else wanted.tool


def _calls(count: int) -> str:
    return f"{count} call{'' if count == 1 else 's'}"


def _sign(sign: Operator) -> str:
    """Return what stands before an expected count; the guide writes equality without a sign."""
    return "" if sign is Operator.EQUAL else sign.value


def _most(counted: Iterable[tuple[bool, Operator, int]]) -> int:
    """Return how many expectations can hold at once if calls are added.

    Args:
        counted: for each expectation whether it is the one of ``*``, its operator, and the expected minus the actual count.

    One tool's count can be raised at will and without touching another's, so each expectation holds after some least number
    of added calls, or never. Only ``*`` ties them together: what is added to a tool is added to the total as well. One added
    call may count for several tools, by its aliases, so the total has to grow by the largest of the tools' numbers and not by
    their sum; and it may grow further, by tools that nobody listed. Hence either ``*`` holds, and each tool whose number does
    not exceed what the total may grow by; or ``*`` is given up, and each tool that can hold at all.

    The fewest that can hold follow by symmetry: an expectation fails exactly if the one with the opposite operator holds.
    """
    total: tuple[Operator, int] | None = None
    needs: list[int] = []
    for every, sign, missing in counted:
        need = _need(sign, missing)
        if need is None:
            continue
        if every:
            total = (sign, missing)
        else:
            needs.append(need)
    if total is None:
        return len(needs)
    room = _room(*total)
    return max(len(needs), 1 + sum(room is None or need <= room for need in needs))


def _need(sign: Operator, missing: int) -> int | None:
    """Return the least number of added calls with which an expectation holds; None if it can't hold any more."""
    if sign is Operator.NOT_EQUAL:
        return 0 if missing else 1
    if sign is Operator.GREATER:
        return max(0, missing + 1)
    if sign is Operator.GREATER_EQUAL:
        return max(0, missing)
    if sign is Operator.EQUAL:
        return missing if missing >= 0 else None
    return 0 if _HOLDS[sign](0, missing) else None


def _room(sign: Operator, missing: int) -> int | None:
    """Return the greatest number of added calls with which an expectation that can hold still does; None if there is none."""
    if sign is Operator.LESS:
        return missing - 1
    return missing if sign in {Operator.EQUAL, Operator.LESS_EQUAL} else None
