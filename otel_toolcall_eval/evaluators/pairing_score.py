"""Turns a pairing into a score, and explains it, for arguments and outputs alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from otel_toolcall_eval.evaluators.matching import UNMATCHED
from otel_toolcall_eval.evaluators.pairing import UNKNOWN_STATES, pair
from otel_toolcall_eval.model.criteria import ArgsCriteria, Matching, OutputCriteria
from otel_toolcall_eval.model.score import Comparison, ExpectationOutcome, Outcome, Score
from otel_toolcall_eval.model.tool_call import ContentState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.evaluators.pairing import Candidates, Expectations, MatchSets, Pairing
    from otel_toolcall_eval.model.tool_call import CallLog, Content, ToolCall
    from otel_toolcall_eval.model.trace import IncompletenessReason

CriteriaT = TypeVar("CriteriaT", ArgsCriteria, OutputCriteria)

_MAX_COMPARED: Final = 1_000  # calls looked at to find the nearest ones: about 5 ms for small payloads
_MAX_COMPARED_EACH: Final = 32  # of these, for one expectation
_MAX_TOLD: Final = 3  # unmatched expectations that the explanation names

UNKNOWN_WORDS: Final = {
    ContentState.ABSENT: "not recorded",
    ContentState.REDACTED: "redacted",
    ContentState.TRUNCATED: "cut off",
}
"""How contents are called that something was left open in."""


class PairingJustification(ABC):
    """Which call was compared with which expectation, and the outcome. Nothing is rendered before someone asks.

    A matched expectation stands beside its partner. An unmatched one stands beside the nearest call of its name that is not
    used: the one with most members equal to the expected ones, of equally near ones the earliest. Each such call is shown
    once, so that what is missing can be told from what is wrong. With positional matching it stands beside the n-th call.
    """

    __slots__ = ("_candidates", "_counterparts", "_matching", "_pairing", "_wanted")

    key: str
    """The guides' name for the entries."""
    noun: str
    """What was compared, in the plural."""

    def __init__(self, criteria: ArgsCriteria | OutputCriteria, wanted: Expectations, candidates: Candidates, pairing: Pairing) -> None:
        """Keep what the score was computed from."""
        self._wanted = wanted
        self._candidates = candidates
        self._pairing = pairing
        self._matching = criteria.matching
        self._counterparts: Sequence[ToolCall | None] | None = None

    @abstractmethod
    def _render_expected(self, position: int) -> str:
        """Show what an expectation asks for."""

    @abstractmethod
    def _asked_for(self, position: int) -> str:
        """Say what an expectation asks for, without its values."""

    @abstractmethod
    def _render_actual(self, position: int, call: ToolCall) -> str:
        """Show what a call holds, as it is compared with an expectation."""

    @abstractmethod
    def _nearness(self, position: int, call: ToolCall) -> int:
        """Return how near a call that does not match comes to an expectation."""

    @abstractmethod
    def _reasons(self, position: int, call: ToolCall) -> Sequence[str]:
        """Say why a call does not match an expectation; at least one reason, and no values."""

    @property
    def entries(self) -> dict[str, str]:
        """Return for each expectation, under its label, what was expected, what was there, and 1.0 or 0.0."""
        entries = {}
        for position, (label, call) in enumerate(zip(self._wanted.labels, self._calls(), strict=True)):
            actual = "None" if call is None else self._render_actual(position, call)
            score = float(self._pairing.partners[position] != UNMATCHED)
            entries[label] = f"Actual: {actual}, Expected: {self._render_expected(position)}, Score: {score}"
        return entries

    def __repr__(self) -> str:
        """Return the details, so that printing a result shows what the guides show."""
        return f"{type(self).__name__}({self.details()})"

    def details(self) -> Mapping[str, object]:
        """Return the entries under the guide's name."""
        return {self.key: self.entries}

    def explain(self) -> str:
        """Return, for instance, ``2 of 3 expected arguments match; fetch_user_0: $.user_id differs``."""
        partners = self._pairing.partners
        told = [f"{self._pairing.matched} of {len(partners)} expected {self.noun} match"]
        if self._pairing.matched == len(partners):
            return told[0]
        unmatched = [position for position, partner in enumerate(partners) if partner == UNMATCHED]
        calls = self._calls()
        told += [
            f"{self._wanted.labels[position]}: {', '.join(self._why(position, calls[position]))}" for position in unmatched[:_MAX_TOLD]
        ]
        if len(unmatched) > _MAX_TOLD:
            told.append(f"and {len(unmatched) - _MAX_TOLD} more")
        return "; ".join(told)

    def comparisons(self) -> Iterator[Comparison]:
        """Yield, for instance, ``fetch_user_0``, ``arguments user_id``, ``$.user_id differs``."""
        for position, (label, call) in enumerate(zip(self._wanted.labels, self._calls(), strict=True)):
            matched = self._pairing.partners[position] != UNMATCHED
            yield Comparison(
                label=label,
                expected=self._asked_for(position),
                actual="as expected" if matched else ", ".join(self._why(position, call)),
                matched=matched,
                span_id=None if call is None else call.span_id,
            )

    def _why(self, position: int, call: ToolCall | None) -> Sequence[str]:
        if call is None:
            return ["no call left" if self._candidates.by_tool[self._wanted.tools[position]] else "not called"]
        call_ids = self._wanted.call_ids
        if call_ids is not None and call_ids[position] not in {None, call.call_id}:
            return ["the call ID differs"]
        return self._reasons(position, call)

    def _calls(self) -> Sequence[ToolCall | None]:
        """Return the call that stands beside each expectation."""
        if self._counterparts is None:
            self._counterparts = self._find_counterparts()
        return self._counterparts

    def _find_counterparts(self) -> list[ToolCall | None]:
        """Return partners and, for those without one, the nearest strays.

        Which expectations have a stray is settled by the pairing; here strays only change places among those of their tool,
        and with calls of that tool that nobody else has.
        """
        pairing, calls = self._pairing, self._candidates.calls
        places = [stray if partner == UNMATCHED else partner for partner, stray in zip(pairing.partners, pairing.strays, strict=True)]
        if self._matching is Matching.MAXIMUM:
            owners = dict(zip(pairing.strays, self._wanted.tools, strict=True))
            shown = set(pairing.partners)
            budget = _MAX_COMPARED
            for position, (tool, stray) in enumerate(zip(self._wanted.tools, pairing.strays, strict=True)):
                if stray == UNMATCHED:
                    continue
                pool = (place for place in self._candidates.turns[tool] if place not in shown and owners.get(place, tool) == tool)
                near = list(islice(pool, max(1, min(budget, _MAX_COMPARED_EACH))))
                budget -= len(near)
                places[position] = self._nearest(position, near)
                shown.add(places[position])
        return [None if place == UNMATCHED else calls[place] for place in places]

    def _nearest(self, position: int, places: Sequence[int]) -> int:
        if len(places) == 1:
            return places[0]
        return max(places, key=lambda place: self._nearness(position, self._candidates.calls[place]))


def full_score(wanted: Expectations, justification: PairingJustification) -> Score:
    """Return the score where all expectations are matched for certain, as ``score_candidates`` does."""
    return Score(value=1.0, lowest=1.0, highest=1.0, justification=justification, outcomes=wanted.matched)


def score_candidates(
    criteria: CriteriaT,
    wanted: Expectations,
    log: CallLog,
    *,
    candidates: Candidates,
    contents: Sequence[Content],
    fits: MatchSets,
    wrong: Outcome,
    justify: Callable[[CriteriaT, Expectations, Candidates, Pairing], PairingJustification],
) -> Score:
    """Pair candidates with expectations; return the share of matched expectations, with ``strict`` 1.0 if all are matched, else 0.0.

    Args:
        criteria: say how to pair and to score.
        wanted: their n expectations.
        log: the calls that the candidates were picked from.
        candidates: the calls that may match.
        contents: the content of each that is compared.
        fits: which of them match.
        wrong: outcome of an unmatched expectation whose tool was called once more than others needed; MISSING otherwise.
        justify: makes the justification that the score keeps.
    """
    pairing = pair(wanted, candidates, fits, matching=criteria.matching, open_ended=log.open_ended)
    total = len(wanted.tools)

    def share(number: int) -> float:
        return float(number == total) if criteria.strict else number / total

    doubts: tuple[IncompletenessReason, ...] = ()
    if share(pairing.matched) != share(pairing.highest_by_content):
        unsettled = 0
        for possible in fits.possible:
            unsettled |= possible
        raised = {content.state for place, content in enumerate(contents) if unsettled >> place & 1}
        doubts = tuple(doubt for state, doubt in UNKNOWN_STATES.items() if state in raised)
    return Score(
        value=share(pairing.matched),
        lowest=share(pairing.lowest),
        highest=share(pairing.highest),
        justification=justify(criteria, wanted, candidates, pairing),
        outcomes=wanted.matched if pairing.matched == total else _outcomes(pairing, wanted, wrong),
        doubts=doubts,
    )


def _outcomes(pairing: Pairing, wanted: Expectations, wrong: Outcome) -> tuple[ExpectationOutcome, ...]:
    return tuple(
        matched if partner != UNMATCHED else ExpectationOutcome(tool=matched.tool, outcome=wrong if stray != UNMATCHED else Outcome.MISSING)
        for matched, partner, stray in zip(wanted.matched, pairing.partners, pairing.strays, strict=True)
    )
