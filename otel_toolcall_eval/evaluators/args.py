"""ToolCallArgsEvaluator: what tools were called with. Source: args evaluator guide.

The guide's two tables disagree on the direction of subset mode; we follow its modes table, the sample and the example: the
expected arguments are a subset of the actual ones (golden case ``args-missing-actual-subset``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.evaluators.caching import MatchCache, PrecomputedCriteria
from otel_toolcall_eval.evaluators.pairing import Candidates, Expectations, ObjectIndex, pair_in_order, spread
from otel_toolcall_eval.evaluators.pairing_score import UNKNOWN_WORDS, PairingJustification, full_score, score_candidates
from otel_toolcall_eval.model.payload.difference import differences, likeness
from otel_toolcall_eval.model.payload.equality import contains, identity, member_identities, same
from otel_toolcall_eval.model.payload.rendering import render
from otel_toolcall_eval.model.score import Outcome, Score
from otel_toolcall_eval.model.tool_call import Content, ContentState, Json

if TYPE_CHECKING:
    from otel_toolcall_eval.evaluators.pairing import Pairing
    from otel_toolcall_eval.model.criteria import ArgsCriteria, ArgsExpectation
    from otel_toolcall_eval.model.tool_call import CallLog, ToolCall

_MAX_NAMED: Final = 8  # arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArgsPlan:
    """What follows from criteria alone. One entry for each expectation, save ``keys`` and ``members``.

    Attributes:
        identities: of the expected arguments.
        needs: the (key, identity) pairs of the expected members.
        always: True if any call of the tool matches.
        keys: all expected keys.
        members: all expected (key, identity) pairs.
        index: the expected arguments by their members.
        accepted: texts that were found to be the expected arguments.
    """

    wanted: Expectations
    identities: Sequence[Hashable]
    needs: Sequence[Sequence[tuple[str, Hashable]]]
    always: Sequence[bool]
    keys: frozenset[str]
    members: frozenset[tuple[str, Hashable]]
    index: ObjectIndex
    accepted: MatchCache


def _plan(criteria: ArgsCriteria) -> _ArgsPlan:
    expectations = criteria.expectations
    needs = [[(key, identity(member)) for key, member in wanted.arguments.items()] for wanted in expectations]
    identities = [member_identities(wanted.arguments) for wanted in expectations]
    return _ArgsPlan(
        wanted=Expectations.of(expectations),
        identities=identities,
        needs=needs,
        always=[criteria.subset and not wanted.arguments and wanted.call_id is None for wanted in expectations],
        keys=frozenset(key for need in needs for key, _ in need),
        members=frozenset(member for need in needs for member in need),
        index=ObjectIndex(identities),
        accepted=MatchCache(len(expectations)),
    )


class ArgsJustification(PairingJustification):
    """The arguments behind a score."""

    __slots__ = ("_expectations", "_subset")

    key = "explained_tool_calls_args"
    noun = "arguments"

    def __init__(self, criteria: ArgsCriteria, wanted: Expectations, candidates: Candidates, pairing: Pairing) -> None:
        """Keep what the score was computed from."""
        super().__init__(criteria, wanted, candidates, pairing)
        self._expectations: Sequence[ArgsExpectation] = criteria.expectations
        self._subset = criteria.subset

    @property
    def explained_tool_calls_args(self) -> dict[str, str]:
        """Return one entry for each expectation, such as ``Actual: {'city': 'Tokyo'}, Expected: {...}, Score: 1.0``."""
        return self.entries

    def _render_expected(self, position: int) -> str:
        return render(self._expectations[position].arguments)

    def _render_actual(self, position: int, call: ToolCall) -> str:  # noqa: ARG002 - arguments look the same beside each expectation
        content = call.arguments.content
        if content.state is ContentState.FULL:
            return render(_members(content) or {})
        if content.state not in UNKNOWN_WORDS:
            return "(no object)" if content.text is None else render(content.text)
        known = f"{render(content.partial)} " if content.partial else ""
        return f"{known}({UNKNOWN_WORDS[content.state]})"

    def _asked_for(self, position: int) -> str:
        names = list(self._expectations[position].arguments)
        if not names:
            return "any arguments" if self._subset else "no arguments"
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        return f"{self.noun} {', '.join(names[:_MAX_NAMED])}{more}{' among others' if self._subset else ''}"

    def _nearness(self, position: int, call: ToolCall) -> int:
        content = call.arguments.content
        return likeness(self._expectations[position].arguments, content.partial if content.partial is not None else _members(content))

    def _reasons(self, position: int, call: ToolCall) -> Sequence[str]:
        content = call.arguments.content
        expected = self._expectations[position].arguments
        members = _members(content)
        if members is not None:
            return differences(expected, members, extra_allowed=self._subset)
        if content.state not in UNKNOWN_WORDS:
            return ("the arguments are no object",)
        known = content.partial or {}
        told = differences({key: member for key, member in expected.items() if key in known}, known, extra_allowed=self._subset)
        return told or (f"the arguments are {UNKNOWN_WORDS[content.state]}",)


class ArgsEvaluator:
    """Scores what tools were called with. It keeps what it worked out from criteria; several threads may use one."""

    def __init__(self) -> None:
        """Know no criteria yet."""
        self._plans: PrecomputedCriteria[ArgsCriteria, _ArgsPlan] = PrecomputedCriteria(_plan)

    def evaluate(self, criteria: ArgsCriteria, log: CallLog) -> Score:
        """Return the share of expected calls that were made; with ``criteria.strict``, 1.0 if all were, else 0.0.

        A call is made if a call of that name (or alias, and ID if one is expected) has the same keys and equal values; in
        subset mode it may have more keys. A call counts for one expectation only. Arguments that are no object equal nothing,
        and contain only ``{}``; so does, for all that is known, what was not recorded.

        Bounds: a call whose arguments were not recorded or redacted may match any expectation of its tool. One that was cut
        off may match where its whole members do not speak against it: in exact mode every whole member has to be expected, in
        subset mode no expected key may have another value. In subset mode it matches for certain once all expected members
        are among the whole ones. See ``pair`` for what follows for the number of pairs.

        Cost: each payload is decoded and looked up once; see ``pair`` for the matching, which is spared where the calls are those
        that are expected, name by name, in their order. Decoding is spared, too, where such a text has come before; see ``MatchCache``.
        """
        plan = self._plans.of(criteria)
        calls = pair_in_order(plan.wanted, log, criteria.matching)
        if calls is not None and _as_expected(criteria, plan, calls):
            found, full = Candidates.paired(calls), plan.wanted.full
            return full_score(plan.wanted, ArgsJustification(criteria, plan.wanted, found, full))
        candidates = Candidates.of(plan.wanted, log)
        contents = [call.arguments.content for call in candidates.calls]
        certain, possible = _contained(plan, contents) if criteria.subset else _equal(plan, contents)
        fits = candidates.fits(plan.wanted, certain=certain, possible=possible, always=plan.always)
        return score_candidates(
            criteria,
            plan.wanted,
            log,
            candidates=candidates,
            contents=contents,
            fits=fits,
            wrong=Outcome.WRONG_ARGUMENTS,
            justify=ArgsJustification,
        )


def _as_expected(criteria: ArgsCriteria, plan: _ArgsPlan, calls: list[ToolCall]) -> bool:
    """Tell whether each call has the arguments that the expectation at its place asks for, as ``_equal`` and ``_contained`` find out."""
    accepted = plan.accepted
    for place, wanted in enumerate(criteria.expectations):
        arguments = calls[place].arguments
        if accepted.knows(place, arguments):
            continue
        members = _members(arguments.content)
        if members is None or not (contains(members, wanted.arguments) if criteria.subset else same(wanted.arguments, members)):
            return False
        accepted.add(place, arguments)
    return True


def _members(content: Content) -> Mapping[str, Json] | None:
    """Return the arguments; None if they were not recorded in full or are no object."""
    if content.nothing:
        return {}
    value = content.value
    if content.state is ContentState.FULL and (type(value) is dict or isinstance(value, Mapping)):  # dict first: see ``offered``
        return value  # type: ignore[return-value]  # a key that is no text equals none that is expected
    return None


def _equal(plan: _ArgsPlan, contents: Sequence[Content]) -> tuple[list[int], list[int]]:
    """Return for each expectation the calls whose arguments equal it for certain, and those whose may, in exact mode."""
    calls_by_identity = dict.fromkeys(plan.identities, 0)
    calls_by_expectations: dict[int, int] = {}
    for place, content in enumerate(contents):
        members = _members(content)
        if members is not None:
            key = member_identities(members)
            if key in calls_by_identity:
                calls_by_identity[key] |= 1 << place
        elif content.state in UNKNOWN_WORDS:
            fitting = plan.index.having(content.partial or {})
            calls_by_expectations[fitting] = calls_by_expectations.get(fitting, 0) | 1 << place
    return [calls_by_identity[key] for key in plan.identities], spread(calls_by_expectations, len(plan.identities))


def _contained(plan: _ArgsPlan, contents: Sequence[Content]) -> tuple[list[int], list[int]]:
    """Return for each expectation the calls whose arguments contain it for certain, and those whose may, in subset mode."""
    holding = dict.fromkeys(plan.members, 0)
    deciding = dict.fromkeys(plan.keys, 0)  # calls of which it is known what they have under a key
    unknown = 0
    for place, content in enumerate(contents):
        members = _members(content)
        if members is None:
            if content.state not in UNKNOWN_WORDS:
                continue
            unknown |= 1 << place
            members = content.partial or {}
        for key in members if len(members) < len(plan.keys) else plan.keys:
            if key in deciding and key in members:
                deciding[key] |= 1 << place
                member = (key, identity(members[key]))
                if member in holding:
                    holding[member] |= 1 << place
    certain, possible = [], []
    for need in plan.needs:
        sure, open_ = (1 << len(contents)) - 1, unknown
        for member in need:
            sure &= holding[member]
            open_ &= holding[member] | ~deciding[member[0]]
        certain.append(sure)
        possible.append(open_)
    return certain, possible
