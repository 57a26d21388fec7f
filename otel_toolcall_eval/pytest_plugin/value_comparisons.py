"""What ``args`` and ``output`` return: the values of one tool's calls, compared by the evaluators."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from otel_toolcall_eval.evaluators.answers import compared
from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation, Matching, Operator, OutputCriteria, OutputExpectation
from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.pytest_plugin.comparisons import SHOWN_CHARACTERS, Comparable
from otel_toolcall_eval.pytest_plugin.telling import difference_lines
from otel_toolcall_eval.values.rendering import render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from otel_toolcall_eval.api import EvaluationResult
    from otel_toolcall_eval.model.criteria import Criteria
    from otel_toolcall_eval.model.tool_call import Json, ToolCall
    from otel_toolcall_eval.pytest_plugin.comparisons import Calls


class _CallValues(Comparable):
    """What one tool was called with, or returned: one value for each call, None where it was not recorded in full."""

    noun = ""
    method = ""

    def __init__(self, calls: Calls, tool: str) -> None:
        """Look at the calls of one tool."""
        super().__init__(calls)
        self._tool = tool

    def __iter__(self) -> Iterator[Json]:
        """Yield the value of each call; None where it was not recorded in full."""
        return (self._value(call) for call in self._included(self._tool))

    def __len__(self) -> int:
        """Return how many calls were recorded."""
        return len(self._included(self._tool))

    def __str__(self) -> str:
        """Return what stands in the test."""
        return f"tool_calls.{self.method}({self._tool!r})"

    def __repr__(self) -> str:
        """Return the value of each call."""
        return render(list(self), limit=SHOWN_CHARACTERS)

    def __contains__(self, expected: object) -> bool:
        """Tell whether a call had this value, whatever other calls there were."""
        return self._contains(expected)

    def _results(self, operator: str, expected: object) -> Sequence[EvaluationResult]:
        wanted = self._wanted(operator, expected)
        for value in wanted:
            _refuse_what_is_no_json(value)
        counts = [self._judge_count(self._tool, Operator.EQUAL, len(wanted))] if operator == "==" else []
        return [*counts, *([self._judge(self._criteria(operator, wanted))] if wanted else [])]

    def _details(self, operator: str, expected: object) -> Iterable[str]:
        wanted = self._wanted(operator, expected)
        return difference_lines(wanted, self._included(self._tool), self._beside, in_order=operator == "==", subset=operator == ">=")

    def _value(self, call: ToolCall) -> Json:
        """Return the value of a call; None if it was not recorded in full."""
        pair = self._beside(None, call)
        return None if pair is None else pair[1]

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
    noun = "arguments"
    method = "args"

    def __ge__(self, expected: Mapping[str, object] | Sequence[Mapping[str, object]]) -> bool:
        """Tell whether there is a call with at least these arguments; for a list, one call for each of its entries."""
        return self._holds(">=", expected)

    def _fits(self, operator: str, expected: object) -> bool:
        several = isinstance(expected, list | tuple) and all(isinstance(one, Mapping) for one in expected)
        return operator in ("==", "!=", ">=", "in") and (isinstance(expected, Mapping) or several)

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
    noun = "output"
    method = "output"

    def _fits(self, operator: str, expected: object) -> bool:
        return operator in ("==", "!=", "in") and not isinstance(expected, Comparable)

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
        if operator == "==" and isinstance(expected, list | tuple) and len(expected) != len(self):
            lines.append("a list stands for one output of each call; for one call that returns a list, write [[...]]")
        return lines


def _refuse_what_is_no_json(value: object) -> None:
    """Raise TypeError for what no span can hold, such as ``unittest.mock.ANY``: it would equal nothing, and nobody would know why."""
    __tracebackhide__ = True
    if value is None or isinstance(value, str | int | float):
        return
    if isinstance(value, Mapping):
        for member in value.values():
            _refuse_what_is_no_json(member)
        return
    if isinstance(value, list | tuple):
        for member in value:
            _refuse_what_is_no_json(member)
        return
    message = f"{value!r} is no JSON value, so no recorded one equals it; compare plain values, as in [call.args for call in tool_calls]"
    raise TypeError(message)
