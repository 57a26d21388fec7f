"""What ``count``, ``order``, ``args`` and ``output`` return: objects whose comparisons the evaluators decide.

A comparison holds if its verdict is ``pass``; ``!=`` holds if nothing unrecorded could make the two equal. Python asks the same of an
object for ``in`` and for ``not in``, so where the answer is not known these raise: ``not in`` would hold otherwise.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn, Protocol, cast

from otel_toolcall_eval.engine.evaluation import included
from otel_toolcall_eval.evaluators.comparison import compared
from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching
from otel_toolcall_eval.inprocess.pytest_plugin.failure_messages import difference_lines, is_json, order_lines, returned, shown
from otel_toolcall_eval.model.criteria import (
    EVERY_TOOL,
    ArgsCriteria,
    ArgsExpectation,
    CallFilter,
    Check,
    CountCriteria,
    CountExpectation,
    Matching,
    Operator,
    OrderCriteria,
    OutputCriteria,
    OutputExpectation,
)
from otel_toolcall_eval.model.payload.difference import differences, likeness
from otel_toolcall_eval.model.payload.rendering import render
from otel_toolcall_eval.model.score import Label
from otel_toolcall_eval.model.tool_call import CallLog, ContentState
from otel_toolcall_eval.settings.criteria_models import type_of_criteria

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.inprocess.library import EvaluationResult
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.tool_call import Extraction, Json, ToolCall

_MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
SHOWN_CHARACTERS = 200


class RecordedCalls(Protocol):
    """Where the calls come from: ``ToolCalls``."""

    @property
    def extraction(self) -> Extraction:
        """Return the calls recorded so far."""
        ...

    def evaluate_check(self, check: Check) -> EvaluationResult:
        """Evaluate them by one check."""
        ...

    def explained(self) -> Sequence[str]:
        """Return them for a message."""
        ...


class Comparable:
    """What the four have in common."""

    __hash__ = None  # type: ignore[assignment]  # equal by verdict, which may change

    def __init__(self, calls: RecordedCalls) -> None:
        """Compare these calls."""
        self._calls = calls

    def __bool__(self) -> NoReturn:
        """Refuse: ``not tool_calls.count(...)`` would hold where nothing was recorded."""
        __tracebackhide__ = True
        message = f"compare it with what you expect, as in {self._advice}; by itself it is neither true nor false"
        raise TypeError(message)

    _advice = ""

    def __eq__(self, expected: object) -> bool:
        """Return whether exactly this was recorded."""
        return self._holds("==", expected)

    def __ne__(self, expected: object) -> bool:
        """Return whether something else was recorded for certain."""
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
        left, right = (
            (shown(expected, limit=SHOWN_CHARACTERS), str(self)) if mirrored else (str(self), shown(expected, limit=SHOWN_CHARACTERS))
        )
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
        kind = type_of_criteria(criteria)
        return self._calls.evaluate_check(Check(evaluator=kind.class_name, evaluator_id=kind.evaluator_id, criteria=criteria))

    def _judge_count(self, tool: str | None, operator: Operator, count: int) -> EvaluationResult:
        expectation = CountExpectation(tool=EVERY_TOOL if tool is None else tool, operator=operator, count=count)
        return self._judge(CountCriteria(expectations=(expectation,)))

    def _included(self, tool: str | None = None) -> Sequence[ToolCall]:
        calls = included(self._calls.extraction, CallFilter())
        if tool is None:
            return calls
        return [calls[position] for position in CallLog(calls=calls).by_name.get(tool, ())]

    @abstractmethod
    def _fits(self, operator: str, expected: object) -> bool:
        """Return whether this can be compared so."""

    @abstractmethod
    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        """Return the verdicts that all have to pass for the comparison to hold; ``operator`` is ``==``, ``in`` or an inequality."""

    def _details(self, operator: str, expected: object) -> Iterable[str]:  # noqa: ARG002 - for those who have some
        return ()


class CallCount(Comparable):
    """How often a tool was called; compares with numbers."""

    _advice = "tool_calls.count('search') == 0"

    def __init__(self, calls: RecordedCalls, tool: str | None) -> None:
        """Count the calls of a tool; None counts all."""
        super().__init__(calls)
        self._tool = tool

    def __str__(self) -> str:
        """Return what stands in the test."""
        return f"tool_calls.count({'' if self._tool is None else repr(self._tool)})"

    def __repr__(self) -> str:
        """Return the number of recorded calls."""
        return str(len(self._included(self._tool)))

    def __ne__(self, expected: object) -> bool:
        """Return whether the number is another one for certain."""
        return self._holds("!=", expected)

    def __lt__(self, expected: int) -> bool:
        """Return whether there were fewer for certain; the others likewise."""
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
        return operator in _MIRRORED and isinstance(expected, int) and not isinstance(expected, bool)

    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        assert isinstance(expected, int)  # noqa: S101 - ``_fits`` looked; this tells mypy
        return [self._judge_count(self._tool, Operator("=" if operator == "==" else operator), expected)]


class CallOrder(Comparable):
    """The names of the called tools in order; compares with a list of names.

    No ``Sequence[str]``, or type checkers would refuse ``["search", "book"] in tool_calls.order``.
    """

    _advice = "tool_calls.order == ['search', 'book']"

    def __str__(self) -> str:
        """Return what stands in the test."""
        return "tool_calls.order"

    def __repr__(self) -> str:
        """Return the names."""
        return repr(self._names())

    def __contains__(self, expected: object) -> bool:
        """Return whether a tool was called, or whether several were called in this order, with others between or not."""
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

    def _names(self) -> list[str]:
        return [call.name for call in self._included()]

    def _details(self, operator: str, expected: object) -> Iterable[str]:
        if operator == "==" and isinstance(expected, list | tuple):
            return order_lines(expected, self._names())
        return ()


class _CallValues(Comparable):
    """What one tool was called with, or returned: one value for each call, None where it was not recorded in full."""

    method = ""

    def __init__(self, calls: RecordedCalls, tool: str) -> None:
        """Look at the calls of one tool."""
        super().__init__(calls)
        self._tool = tool

    def __str__(self) -> str:
        """Return what stands in the test."""
        return f"tool_calls.{self.method}({self._tool!r})"

    def __repr__(self) -> str:
        """Return the value of each call."""
        return render([self._value(call) for call in self._included(self._tool)], limit=SHOWN_CHARACTERS)

    def __contains__(self, expected: object) -> bool:
        """Return whether a call had this value, whatever other calls there were."""
        return self._contains(expected)

    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        wanted = self._filled(operator, self._wanted(operator, expected))
        counts = [self._judge_count(self._tool, Operator.EQUAL, len(wanted))] if operator == "==" else []
        return [*counts, *([self._judge(self._criteria(operator, wanted))] if wanted else [])]

    def _details(self, operator: str, expected: object) -> Iterable[str]:
        wanted = self._filled(operator, self._wanted(operator, expected))
        return difference_lines(wanted, self._included(self._tool), self._beside, in_order=operator == "==", subset=operator == ">=")

    def _filled(self, operator: str, wanted: Sequence[Json]) -> Sequence[Json]:
        """Put recorded values in place of what is equal to them in its own way, such as ``pytest.approx(3)``: evaluators compare JSON.

        What is not equal stays, and the evaluators find that nothing equals it.
        """
        calls = self._included(self._tool)
        if not calls or all(map(is_json, wanted)):
            return wanted
        rows = [[_fill(one, self._known(one, call)) for call in calls] for one in wanted]
        if operator == "==":
            return [row[place] if place < len(row) else wanted[place] for place, row in enumerate(rows)]
        pairs = [[self._beside(one, call) for one, call in zip(row, calls, strict=True)] for row in rows]
        nearest = [max(range(len(calls)), key=[2**64 if pair is None else likeness(*pair) for pair in row].__getitem__) for row in pairs]
        subset = operator == ">="
        options = [
            sum(1 << place for place, pair in enumerate(row) if pair is not None and not differences(*pair, extra_allowed=subset))
            for row in pairs
        ]
        places = zip(maximum_matching(options), nearest, strict=True)
        return [row[near if place == UNMATCHED else place] for row, (place, near) in zip(rows, places, strict=True)]

    def _value(self, call: ToolCall) -> Json:
        """Return the value of a call; None if it was not recorded in full."""
        pair = self._beside(None, call)
        return None if pair is None else pair[1]

    @abstractmethod
    def _known(self, wanted: Json, call: ToolCall) -> object:
        """Return the value of a call in the form to be compared with an expected one; if it was recorded in part, that."""

    @abstractmethod
    def _beside(self, wanted: Json, call: ToolCall) -> tuple[Json, Json] | None:
        """Return an expected value and that of a call in the forms to be compared; None if the call's was not recorded in full."""

    @abstractmethod
    def _wanted(self, operator: str, expected: object) -> Sequence[Json]: ...

    @abstractmethod
    def _criteria(self, operator: str, wanted: Sequence[Json]) -> Criteria: ...


class CallArgs(_CallValues):
    """What a tool was called with; compares with an object of arguments, or a list of them."""

    _advice = "tool_calls.args('search') == {'city': 'Tokyo'}"
    method = "args"

    def __ge__(self, expected: Mapping[str, object] | Sequence[Mapping[str, object]]) -> bool:
        """Return whether there is a call with at least these arguments; for a list, one call for each of its entries."""
        return self._holds(">=", expected)

    def _fits(self, operator: str, expected: object) -> bool:
        entries = expected if isinstance(expected, list | tuple) else (expected,)
        if any(not isinstance(one, Mapping) and not is_json(one) for one in entries):  # Python would ask it, and ANY equals anything
            message = f"arguments are an object, so {expected!r} can't be compared with them; write it inside one, as in {{'city': ANY}}"
            raise TypeError(message)
        several = isinstance(expected, list | tuple) and all(isinstance(one, Mapping) for one in expected)
        return operator in ("==", "!=", ">=", "in") and (isinstance(expected, Mapping) or several)

    def _known(self, wanted: Json, call: ToolCall) -> object:
        pair = self._beside(wanted, call)
        return call.arguments.content.partial if pair is None else pair[1]

    def _beside(self, wanted: Json, call: ToolCall) -> tuple[Json, Json] | None:
        content = call.arguments.content
        return (wanted, {} if content.nothing else content.value) if content.state is ContentState.FULL else None

    def _wanted(self, operator: str, expected: object) -> Sequence[Json]:  # noqa: ARG002 - outputs need it
        return [expected] if isinstance(expected, Mapping) else list(expected)  # type: ignore[call-overload]

    def _criteria(self, operator: str, wanted: Sequence[Json]) -> Criteria:
        expectations = tuple(ArgsExpectation(tool=self._tool, arguments=one) for one in wanted)  # type: ignore[arg-type]
        in_order = Matching.POSITIONAL if operator == "==" else Matching.MAXIMUM
        return ArgsCriteria(expectations=expectations, strict=True, subset=operator == ">=", matching=in_order)


class CallOutputs(_CallValues):
    """What a tool returned; compares with one output, or with a list that has one for each call."""

    _advice = "tool_calls.output('search') == 'sunny'"
    method = "output"

    def _fits(self, operator: str, expected: object) -> bool:
        return operator in ("==", "!=", "in") and not isinstance(expected, Comparable)

    def _known(self, wanted: Json, call: ToolCall) -> object:
        content = call.output.content
        if content.state not in (ContentState.FULL, ContentState.UNPARSED):
            return content.partial
        found = compared(wanted, content)[1]
        return returned(content) if isinstance(found, str) else found

    def _beside(self, wanted: Json, call: ToolCall) -> tuple[Json, Json] | None:
        content = call.output.content
        return compared(wanted, content) if content.state is ContentState.FULL else None

    def _wanted(self, operator: str, expected: object) -> Sequence[Json]:
        return list(expected) if operator == "==" and isinstance(expected, list | tuple) else [expected]  # type: ignore[list-item]

    def _criteria(self, operator: str, wanted: Sequence[Json]) -> Criteria:
        expectations = tuple(OutputExpectation(tool=self._tool, output=one) for one in wanted)
        in_order = Matching.POSITIONAL if operator == "==" else Matching.MAXIMUM
        return OutputCriteria(expectations=expectations, strict=True, matching=in_order)

    def _details(self, operator: str, expected: object) -> Iterable[str]:
        lines = list(super()._details(operator, expected))
        if operator == "==" and isinstance(expected, list | tuple) and len(expected) != len(self._included(self._tool)):
            lines.append("a list stands for one output of each call; for one call that returns a list, write [[...]]")
        return lines


def _fill(wanted: Json, found: object) -> Json:
    """Return an expected value in which whatever is no JSON and equals what was found at its place is replaced by that."""
    if isinstance(wanted, Mapping):
        members = found if isinstance(found, Mapping) else {}
        return {key: _fill(member, members[key]) if key in members else member for key, member in wanted.items()}
    if isinstance(wanted, list | tuple):
        items = found if isinstance(found, list | tuple) and len(found) == len(wanted) else wanted
        return [_fill(item, beside) for item, beside in zip(wanted, items, strict=True)]
    return cast("Json", found) if not is_json(wanted) and wanted == found else wanted
