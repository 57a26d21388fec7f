"""ToolCallOutputEvaluator: what tools returned. Source: output evaluator guide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_toolcall_eval.evaluators.caching import MatchCache, PrecomputedCriteria
from otel_toolcall_eval.evaluators.comparison import CONTENT, asked, compared, is_container, offered, offered_by, plainly_answers, spelled
from otel_toolcall_eval.evaluators.pairing import Candidates, Expectations, ObjectIndex, pair_in_order, spread
from otel_toolcall_eval.evaluators.pairing_score import UNKNOWN_WORDS, PairingJustification, full_score, score_candidates
from otel_toolcall_eval.model.payload.difference import differences, likeness
from otel_toolcall_eval.model.payload.equality import identity
from otel_toolcall_eval.model.payload.rendering import render
from otel_toolcall_eval.model.score import Outcome, Score

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from otel_toolcall_eval.evaluators.pairing import Pairing
    from otel_toolcall_eval.model.criteria import OutputCriteria, OutputExpectation
    from otel_toolcall_eval.model.tool_call import CallLog, Content, Json, ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputPlan:
    """What follows from criteria alone.

    Attributes:
        values: the expected outputs; of text what it spells.
        tokens: what each expectation asks for.
        known: all tokens that are asked for.
        never: for each expectation False, since none is met by whatever a call returns.
        index: the expected objects by their members.
        everyone: the set of all expectations.
        wrapped: True if one expects a content wrapper as a whole.
        accepted: texts that were found to be the expected outputs.
    """

    wanted: Expectations
    values: list[Json]
    tokens: Sequence[Sequence[Hashable]]
    known: frozenset[Hashable]
    never: Sequence[bool]
    index: ObjectIndex
    everyone: int
    wrapped: bool
    accepted: MatchCache


def _plan(criteria: OutputCriteria) -> _OutputPlan:
    outputs = [wanted.output for wanted in criteria.expectations]
    values = [spelled(output) if isinstance(output, str) else output for output in outputs]
    tokens = [asked(output) for output in outputs]
    return _OutputPlan(
        wanted=Expectations.of(criteria.expectations),
        values=values,
        tokens=tokens,
        known=frozenset(token for asked_for in tokens for token in asked_for),
        never=[False] * len(outputs),
        index=ObjectIndex(map(identity, values)),
        everyone=(1 << len(outputs)) - 1,
        wrapped=any(isinstance(value, Mapping) and CONTENT in value for value in values),
        accepted=MatchCache(len(outputs)),
    )


class OutputJustification(PairingJustification):
    """The outputs behind a score."""

    __slots__ = ("_expectations",)

    key = "explained_tool_calls_outputs"
    noun = "outputs"

    def __init__(self, criteria: OutputCriteria, wanted: Expectations, candidates: Candidates, pairing: Pairing) -> None:
        """Keep what the score was computed from."""
        super().__init__(criteria, wanted, candidates, pairing)
        self._expectations: Sequence[OutputExpectation] = criteria.expectations

    @property
    def explained_tool_calls_outputs(self) -> dict[str, str]:
        """Return one entry for each expectation, such as ``Actual: {'total': 99.99}, Expected: {'total': 99.99}, Score: 1.0``."""
        return self.entries

    def _render_expected(self, position: int) -> str:
        expected = self._expectations[position].output
        value = spelled(expected) if isinstance(expected, str) else expected
        return render(value if is_container(value) else expected)

    def _render_actual(self, position: int, call: ToolCall) -> str:
        content = call.output.content
        if content.nothing:
            return "None"
        if content.state not in UNKNOWN_WORDS:
            return render(compared(self._expectations[position].output, content)[1])
        known = f"{render(content.partial)} " if content.partial else ""
        return f"{known}({UNKNOWN_WORDS[content.state]})"

    def _asked_for(self, position: int) -> str:  # noqa: ARG002 - what tells one output from another is its value
        return "this output"

    def _nearness(self, position: int, call: ToolCall) -> int:
        content = call.output.content
        if content.state in UNKNOWN_WORDS:
            expected = self._expectations[position].output
            return likeness(spelled(expected) if isinstance(expected, str) else expected, content.partial)
        return likeness(*compared(self._expectations[position].output, content))

    def _reasons(self, position: int, call: ToolCall) -> Sequence[str]:
        content = call.output.content
        if content.nothing:
            return ("no output was recorded",)
        if content.state in UNKNOWN_WORDS:
            return (f"the output is {UNKNOWN_WORDS[content.state]}",)
        expected, actual = compared(self._expectations[position].output, content)
        return differences(expected, actual) or ("$ differs",)


class OutputEvaluator:
    """Scores what tools returned. It keeps what it worked out from criteria; several threads may use one."""

    def __init__(self) -> None:
        """Know no criteria yet."""
        self._plans: PrecomputedCriteria[OutputCriteria, _OutputPlan] = PrecomputedCriteria(_plan)

    def evaluate(self, criteria: OutputCriteria, log: CallLog) -> Score:
        """Return the share of expected outputs that were returned; with ``criteria.strict``, 1.0 if all were, else 0.0.

        A call of that name (or alias, and ID if one is expected) returned it if the two have a token in common, see
        ``answers``. A call counts for one expectation only.

        Bounds: an output that was not recorded or redacted may be any expected one. Of one that was cut off, its whole members
        are known, and what follows them is taken to be well-formed. If the wrapper's content is among them, it decides, save
        that the object as a whole may still be one that was expected and has all the whole members. Without the content,
        anything may be in it. See ``pair`` for what follows for the number of pairs.

        Cost: each payload is decoded and looked up once; see ``pair`` for the matching, which is spared where the calls are those
        that are expected, name by name, in their order. Decoding is spared, too, where such a text has come before; see ``MatchCache``.
        """
        plan = self._plans.of(criteria)
        calls = pair_in_order(plan.wanted, log, criteria.matching)
        if calls is not None and _as_expected(criteria, plan, calls):
            found, full = Candidates.paired(calls), plan.wanted.full
            return full_score(plan.wanted, OutputJustification(criteria, plan.wanted, found, full))
        candidates = Candidates.of(plan.wanted, log)
        contents = [call.output.content for call in candidates.calls]
        certain, possible = _answering(plan, contents)
        fits = candidates.fits(plan.wanted, certain=certain, possible=possible, always=plan.never)
        return score_candidates(
            criteria,
            plan.wanted,
            log,
            candidates=candidates,
            contents=contents,
            fits=fits,
            wrong=Outcome.WRONG_OUTPUT,
            justify=OutputJustification,
        )


def _as_expected(criteria: OutputCriteria, plan: _OutputPlan, calls: list[ToolCall]) -> bool:
    """Tell whether each call plainly returned what the expectation at its place asks for."""
    accepted = plan.accepted
    for place, wanted in enumerate(criteria.expectations):
        output = calls[place].output
        if accepted.knows(place, output):
            continue
        if not plainly_answers(wanted.output, plan.values[place], output.content):
            return False
        accepted.add(place, output)
    return True


def _answering(plan: _OutputPlan, contents: Sequence[Content]) -> tuple[list[int], list[int]]:
    """Return for each expectation the calls whose output it is for certain, and those whose output it may be."""
    calls_by_token = dict.fromkeys(plan.known, 0)
    calls_by_expectations: dict[int, int] = {}
    for place, content in enumerate(contents):
        if content.state in UNKNOWN_WORDS:
            fitting, tokens = _open_answers(plan, content.partial)
            calls_by_expectations[fitting] = calls_by_expectations.get(fitting, 0) | 1 << place
        else:
            tokens = offered(content, wrapped=plan.wrapped)
        for token in tokens:
            if token in calls_by_token:
                calls_by_token[token] |= 1 << place
    certain = []
    for tokens_asked in plan.tokens:
        calls = 0
        for token in tokens_asked:
            calls |= calls_by_token[token]
        certain.append(calls)
    return certain, spread(calls_by_expectations, len(certain))


def _open_answers(plan: _OutputPlan, partial: Mapping[str, Json] | None) -> tuple[int, list[Hashable]]:
    """Return the set of expectations that an output may meet which is known in parts, and the tokens that it offers for certain."""
    if partial is None or CONTENT not in partial:
        return plan.everyone, []
    return plan.index.having(partial), offered_by(partial[CONTENT])
