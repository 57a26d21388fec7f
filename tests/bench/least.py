"""The least that judging takes a program in Python, all code of ours left out: four plain functions over calls.

It could not be used: calls are taken to come in the order in which they are expected, and all to be well-formed; there are no doubts,
limits or errors, and no pairing of what does not stand in order. Payloads are parsed, and every expectation is compared; or, in place of
parsing, payloads are compared as texts, for those that passed before, letter by letter.
"""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Call = tuple[str, Any, Any]
    """Name, arguments and output."""

    Verdict = tuple[float, tuple[bool, ...]]
    """Score, and which expectations hold."""

EVALUATORS: Final = ("ToolCallCountEvaluator", "ToolCallOrderEvaluator", "ToolCallArgsEvaluator", "ToolCallOutputEvaluator")
_OPERATORS: Final = {"=": operator.eq, ">=": operator.ge}
_EQUAL: Final = operator.eq

parse_json: Final[Callable[[str, int], tuple[Any, int]]] = json.JSONDecoder().scan_once  # type: ignore[attr-defined] # not in its stub
"""What is behind ``json.loads``, without what that asks before: value and end of the JSON that begins at a place."""


def count(expected: Sequence[tuple[str, Callable[[int, int], bool], int]], called: list[str]) -> Verdict:
    """Judge how often tools were called."""
    hits = tuple([holds(called.count(tool), number) for tool, holds, number in expected])
    return sum(hits) / len(hits), hits


def order(expected: list[str], called: list[str]) -> Verdict:
    """Judge whether tools were called in order; one after the other, which is all that the loads need."""
    hits = tuple(map(_EQUAL, called, expected))
    return sum(hits) / len(expected), hits


def args(expected: list[Any], given: list[Any]) -> Verdict:
    """Judge what tools were called with; the calls stand as they are expected."""
    hits = tuple(map(_EQUAL, given, expected))
    return sum(hits) / len(expected), hits


def output(expected: list[Any], given: list[Any]) -> Verdict:
    """Judge what tools returned."""
    hits = tuple(map(_EQUAL, given, expected))
    return sum(hits) / len(expected), hits


@dataclass(frozen=True, slots=True)
class Expected:
    """What all four evaluators expect."""

    counts: list[tuple[str, Callable[[int, int], bool], int]]
    order: list[str]
    args: list[Any]
    outputs: list[Any]

    @classmethod
    def of(cls, given: Mapping[str, dict[str, Any]]) -> Expected:
        """Read criteria of the bench, by evaluator."""
        counts, called, calls, outputs = (next(iter(given[name].values())) for name in EVALUATORS)
        return cls(
            counts=[(tool, _OPERATORS[sign], number) for tool, (sign, number) in counts.items()],
            order=list(called),
            args=[call["args"] for call in calls],
            outputs=[call["output"] for call in outputs],
        )

    def in_texts(self, calls: list[tuple[str, str, str]]) -> Expected:
        """Return the same with texts in place of values: those of calls that passed."""
        return Expected(self.counts, self.order, [given for _, given, _ in calls], [returned for _, _, returned in calls])

    def verdicts(self, calls: Sequence[Call]) -> list[Verdict]:
        """Judge calls by all four."""
        called = [name for name, _, _ in calls]
        given, returned = [one for _, one, _ in calls], [one for _, _, one in calls]
        return [count(self.counts, called), order(self.order, called), args(self.args, given), output(self.outputs, returned)]


def judge_spans(expected: Expected, spans: list[dict[str, str]]) -> list[Verdict]:
    """Judge spans of ``bench_judging.calls_of`` that were read already: their payloads are parsed here, as by ours."""
    parse = parse_json
    return expected.verdicts(
        [(span["tool.name"], parse(span["input.value"], 0)[0], parse(span["output.value"], 0)[0]["content"]) for span in spans]
    )


def judge_texts(expected: Expected, spans: list[dict[str, str]]) -> list[Verdict]:
    """Judge the same spans by texts that were found to be as expected before, as ours does: none is parsed again."""
    return expected.verdicts([(span["tool.name"], span["input.value"], span["output.value"]) for span in spans])
