"""What ``count``, ``order``, ``args`` and ``output`` return: objects whose comparisons are judged by the evaluators.

A comparison holds if its verdict is ``pass``; ``!=`` holds if nothing unrecorded could make the two equal. Python asks the same of an
object for ``in`` and for ``not in``, so where the answer is not known these raise: ``not in`` would hold otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NoReturn, Protocol

from otel_toolcall_eval.judging import included
from otel_toolcall_eval.model.criteria import (
    EVERY_TOOL,
    ArgsCriteria,
    Check,
    CountCriteria,
    CountExpectation,
    Include,
    Operator,
    OrderCriteria,
    OutputCriteria,
)
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import CallLog
from otel_toolcall_eval.pytest_plugin.telling import order_lines
from otel_toolcall_eval.values.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from otel_toolcall_eval.api import EvaluationResult
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.tool_call import Extraction, ToolCall

_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_OPERATORS = {
    "==": Operator.EQUAL,
    "!=": Operator.NOT_EQUAL,
    "<": Operator.LESS,
    ">": Operator.GREATER,
    "<=": Operator.LESS_EQUAL,
    ">=": Operator.GREATER_EQUAL,
}
SHOWN_CHARACTERS = 200
_IDS = {CountCriteria: "count", OrderCriteria: "order", ArgsCriteria: "args", OutputCriteria: "output"}


class Calls(Protocol):
    """Where the calls come from: ``ToolCalls``."""

    @property
    def extraction(self) -> Extraction:
        """Return the calls recorded so far."""
        ...

    def judge(self, check: Check) -> EvaluationResult:
        """Hold them against one check."""
        ...

    def explained(self) -> Sequence[str]:
        """Return them for a message."""
        ...


class Comparable:
    """What the four have in common."""

    __hash__ = None  # type: ignore[assignment]  # equal by verdict, which may change

    def __init__(self, calls: Calls) -> None:
        """Compare these calls."""
        self._calls = calls

    def __bool__(self) -> NoReturn:
        """Refuse: ``not tool_calls.count(...)`` would hold where nothing was recorded."""
        __tracebackhide__ = True
        message = f"compare it with what you expect, as in {self._advice}; by itself it is neither true nor false"
        raise TypeError(message)

    _advice = ""

    def __eq__(self, expected: object) -> bool:
        """Tell whether exactly this was recorded."""
        return self._holds("==", expected)

    def __ne__(self, expected: object) -> bool:
        """Tell whether something else was recorded for certain."""
        if not self._fits("!=", expected):
            return NotImplemented
        return self._verdict(self._results("==", expected)) is Label.FAIL

    def _holds(self, operator: str, expected: object) -> bool:
        if not self._fits(operator, expected):
            return NotImplemented  # type: ignore[no-any-return]  # what Python expects for "not my business"
        return self._verdict(self._results(operator, expected)) is Label.PASS

    def _contains(self, expected: object) -> bool:
        __tracebackhide__ = True
        if not self._fits("in", expected):
            return False
        verdict = self._verdict(self._results("in", expected))
        if verdict is Label.INCONCLUSIVE:
            raise AssertionError("\n".join(self.explanation("in", expected, mirrored=True) or ()))
        return verdict is Label.PASS

    @staticmethod
    def _verdict(results: Sequence[EvaluationResult]) -> Label:
        labels = {result.label for result in results}
        return next((label for label in (Label.FAIL, Label.INCONCLUSIVE) if label in labels), Label.PASS)

    def explanation(self, operator: str, expected: object, *, mirrored: bool) -> list[str] | None:
        """Return why a comparison failed, the most important line first: pytest cuts after eight; None if it can't be said.

        Args:
            operator: as written in the test.
            expected: the other side.
            mirrored: True if this object stood on the right.
        """
        negated = operator == "not in" or (operator == "!=" and not isinstance(self, CallCount))
        asked = "in" if operator == "not in" else "==" if negated else _MIRRORED.get(operator, operator) if mirrored else operator
        if not self._fits(asked, expected):
            return None
        left, right = (_show(expected), str(self)) if mirrored else (str(self), _show(expected))
        results = self._results(asked, expected)
        told = [f"{self._label(result)}{result.explanation}" for result in results if result.label is not Label.PASS]
        if negated and not told:
            told = ["this is what was called"]
        return [f"{left} {operator} {right}", *told, *([] if negated else self._details(asked, expected)), *self._calls.explained()]

    @staticmethod
    def _label(result: EvaluationResult) -> str:
        if result.label is not Label.INCONCLUSIVE:
            return ""
        return f"inconclusive ({', '.join(doubt.value.replace('_', ' ') for doubt in result.doubts)}); of what was recorded, "

    def _judge(self, criteria: Criteria) -> EvaluationResult:
        kind = _IDS[type(criteria)]
        return self._calls.judge(Check(evaluator=f"ToolCall{kind.title()}Evaluator", evaluator_id=f"tool-call-{kind}", criteria=criteria))

    def _judge_count(self, tool: str | None, operator: Operator, count: int) -> EvaluationResult:
        expectation = CountExpectation(tool=EVERY_TOOL if tool is None else tool, operator=operator, count=count)
        return self._judge(CountCriteria(expectations=(expectation,)))

    def _included(self, tool: str | None = None) -> Sequence[ToolCall]:
        calls = included(self._calls.extraction, Include())
        if tool is None:
            return calls
        return [calls[position] for position in CallLog(calls=calls).by_name.get(tool, ())]

    @abstractmethod
    def _fits(self, operator: str, expected: object) -> bool:
        """Tell whether this can be compared so."""

    @abstractmethod
    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        """Return the verdicts that all have to pass for the comparison to hold; ``operator`` is ``==``, ``in`` or an inequality."""

    def _details(self, operator: str, expected: object) -> Iterable[str]:  # noqa: ARG002 - for those who have some
        return ()


class CallCount(Comparable):
    """How often a tool was called; compares with numbers."""

    _advice = "tool_calls.count('search') == 0"

    def __init__(self, calls: Calls, tool: str | None) -> None:
        """Count the calls of a tool; None counts all."""
        super().__init__(calls)
        self._tool = tool

    def __int__(self) -> int:
        """Return the number of recorded calls, whatever may be missing."""
        return len(self._included(self._tool))

    __index__ = __int__

    def __str__(self) -> str:
        """Return what stands in the test."""
        return f"tool_calls.count({'' if self._tool is None else repr(self._tool)})"

    def __repr__(self) -> str:
        """Return the number of recorded calls."""
        return str(int(self))

    def __ne__(self, expected: object) -> bool:
        """Tell whether the number is another one for certain."""
        return self._holds("!=", expected)

    def __lt__(self, expected: int) -> bool:
        """Tell whether there were fewer for certain; the others likewise."""
        return self._holds("<", expected)

    def __le__(self, expected: int) -> bool:
        """See ``__lt__``."""
        return self._holds("<=", expected)

    def __gt__(self, expected: int) -> bool:
        """See ``__lt__``."""
        return self._holds(">", expected)

    def __ge__(self, expected: int) -> bool:
        """See ``__lt__``."""
        return self._holds(">=", expected)

    def _fits(self, operator: str, expected: object) -> bool:
        return operator in _OPERATORS and isinstance(expected, int) and not isinstance(expected, bool)

    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        assert isinstance(expected, int)  # noqa: S101 - ``_fits`` looked; this tells mypy
        return [self._judge_count(self._tool, _OPERATORS[operator], expected)]


class CallOrder(Comparable):
    """The names of the called tools in order; compares with a list of names.

    No ``Sequence[str]``, or type checkers would refuse ``["search", "book"] in tool_calls.order``.
    """

    _advice = "tool_calls.order == ['search', 'book']"

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return (call.name for call in self._included())

    def __len__(self) -> int:
        """Return how many calls were recorded."""
        return len(self._included())

    def __str__(self) -> str:
        """Return what stands in the test."""
        return "tool_calls.order"

    def __repr__(self) -> str:
        """Return the names."""
        return repr(list(self))

    def __contains__(self, expected: object) -> bool:
        """Tell whether a tool was called, or whether several were called in this order, with others between or not."""
        return self._contains(expected)

    def _fits(self, operator: str, expected: object) -> bool:
        if operator == "in" and isinstance(expected, str):
            return True
        return operator in ("==", "!=", "in") and isinstance(expected, list | tuple) and all(isinstance(name, str) for name in expected)

    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        names = (expected,) if isinstance(expected, str) else tuple(str(name) for name in expected)  # type: ignore[attr-defined]
        if not names:  # no criteria are that empty; what is meant is clear
            return [self._judge_count(None, Operator.EQUAL if operator == "==" else Operator.GREATER_EQUAL, 0)]
        return [self._judge(OrderCriteria(expected=names, strict=operator == "=="))]

    def _details(self, operator: str, expected: object) -> Iterable[str]:
        if operator == "==" and isinstance(expected, list | tuple):
            return order_lines(expected, list(self))
        return ()


def _show(expected: object) -> str:
    return repr(expected) if isinstance(expected, str | int) else render(expected, limit=SHOWN_CHARACTERS)
