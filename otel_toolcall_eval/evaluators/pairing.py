"""Pairs expected calls with recorded ones, and bounds what unrecorded ones could change, for arguments and outputs alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching
from otel_toolcall_eval.model.criteria import Matching
from otel_toolcall_eval.model.payload.equality import member_identities
from otel_toolcall_eval.model.score import ExpectationOutcome, Outcome
from otel_toolcall_eval.model.tool_call import ContentState
from otel_toolcall_eval.model.trace import IncompletenessReason
from otel_toolcall_eval.model.values import value_class

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from otel_toolcall_eval.model.tool_call import CallLog, Json, ToolCall


_NOWHERE: Final[list[int]] = []

UNKNOWN_STATES: Final = {
    ContentState.ABSENT: IncompletenessReason.CONTENT_NOT_CAPTURED,
    ContentState.REDACTED: IncompletenessReason.VALUE_REDACTED,
    ContentState.TRUNCATED: IncompletenessReason.VALUE_TRUNCATED,
}
"""The states that leave something open, and the doubt that each raises."""


class ExpectedValue(Protocol):
    """What expected arguments and expected outputs have in common."""

    @property
    def tool(self) -> str:
        """Name or alias that the call has to have."""
        ...

    @property
    def call_id(self) -> str | None:
        """ID that the call has to have, if any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Who was paired with whom.

    Attributes:
        partners: for each expectation the place of the call that matches it, or UNMATCHED.
        strays: for each expectation without a partner the place of an unused call of its name, or UNMATCHED; no call twice.
        matched: number of expectations with a partner.
        lowest: least number that unrecorded contents and calls could make it.
        highest: greatest number that they could make it.
        highest_by_content: greatest number that unrecorded contents alone could make it.
    """

    partners: Sequence[int]
    strays: Sequence[int]
    matched: int
    lowest: int
    highest: int
    highest_by_content: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectations:
    """Whose calls are expected; worked out once for each criteria. One entry for each expectation, save ``names``.

    Attributes:
        tools: the expected names.
        call_ids: the expected IDs; None altogether if no expectation has one.
        turns: how many expectations of the same tool stand before.
        labels: the tool and its turn, as the guides number them: ``get_user_0``.
        names: each tool once, in order of first mention.
        matched: the outcomes if all are matched.
        full: the pairing if all are matched, each with the call that has its own place.
    """

    tools: tuple[str, ...]
    call_ids: tuple[str | None, ...] | None
    turns: tuple[int, ...]
    labels: tuple[str, ...]
    names: tuple[str, ...]
    matched: tuple[ExpectationOutcome, ...]
    full: Pairing

    @classmethod
    def of(cls, expectations: Iterable[ExpectedValue]) -> Expectations:
        """Read expectations in their order."""
        seen: dict[str, int] = {}
        tools, call_ids, turns = [], [], []
        for expectation in expectations:
            turn = seen.get(expectation.tool, 0)
            seen[expectation.tool] = turn + 1
            tools.append(expectation.tool)
            call_ids.append(expectation.call_id)
            turns.append(turn)
        return cls(
            tools=tuple(tools),
            call_ids=tuple(call_ids) if any(call_id is not None for call_id in call_ids) else None,
            turns=tuple(turns),
            labels=tuple(f"{tool}_{turn}" for tool, turn in zip(tools, turns, strict=True)),
            names=tuple(seen),
            matched=tuple(ExpectationOutcome(tool=tool, outcome=Outcome.MATCHED) for tool in tools),
            full=Pairing(
                partners=range(len(tools)),
                strays=(UNMATCHED,) * len(tools),
                matched=len(tools),
                lowest=len(tools),
                highest=len(tools),
                highest_by_content=len(tools),
            ),
        )


@value_class
class Candidates:
    """The calls that some expectation names. A set of them is an integer whose bit i stands for ``calls[i]``.

    Attributes:
        calls: those of the first name in order of the log, then those of the second, ...; each once.
        turns: for each name its calls' places in ``calls``, in order of the log.
        by_tool: for each name the set of its calls.
        shared: True if a call answers to two of the names, by an alias.
    """

    calls: list[ToolCall]
    turns: dict[str, list[int]]
    by_tool: dict[str, int]
    shared: bool

    @staticmethod
    def paired(calls: list[ToolCall]) -> Candidates:
        """Keep the calls of a full pairing, in the order of the expectations, without the rest, which nobody asks for then."""
        return Candidates(calls=calls, turns={}, by_tool={}, shared=False)

    @staticmethod
    def of(wanted: Expectations, log: CallLog) -> Candidates:
        """Look up the calls of each expected name."""
        places: dict[int, int] = {}
        turns: dict[str, list[int]] = {}
        by_tool: dict[str, int] = {}
        total = 0
        by_name = log.by_name
        for name in wanted.names:
            turn = [places.setdefault(position, len(places)) for position in by_name.get(name, _NOWHERE)]
            members = 0
            for place in turn:
                members |= 1 << place
            turns[name] = turn
            by_tool[name] = members
            total += len(turn)
        calls = log.calls
        return Candidates(calls=[calls[position] for position in places], turns=turns, by_tool=by_tool, shared=total > len(places))

    def eligible(self, wanted: Expectations) -> list[int]:
        """Return for each expectation the set of calls with its name and ID, whatever they hold."""
        if wanted.call_ids is None:
            return [self.by_tool[tool] for tool in wanted.tools]
        by_id: dict[str | None, int] = {}
        for place, call in enumerate(self.calls):
            by_id[call.call_id] = by_id.get(call.call_id, 0) | 1 << place
        return [
            self.by_tool[tool] if call_id is None else self.by_tool[tool] & by_id.get(call_id, 0)
            for tool, call_id in zip(wanted.tools, wanted.call_ids, strict=True)
        ]

    def fits(self, wanted: Expectations, *, certain: Sequence[int], possible: Sequence[int], always: Sequence[bool]) -> MatchSets:
        """Return what fits by content, as in ``MatchSets``, reduced to the calls with the name and ID that each expectation asks for."""
        eligible = self.eligible(wanted)
        return MatchSets(
            certain=[calls & allowed for calls, allowed in zip(certain, eligible, strict=True)],
            possible=[calls & allowed for calls, allowed in zip(possible, eligible, strict=True)],
            always=always,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchSets:
    """Which calls match which expectation: a set for each expectation.

    Attributes:
        certain: calls that match by what was recorded, whatever else they hold.
        possible: calls that may match, since what would tell was not recorded.
        always: for each expectation whether any call of its name matches, whatever it holds.
    """

    certain: Sequence[int]
    possible: Sequence[int]
    always: Sequence[bool]


def pair(wanted: Expectations, candidates: Candidates, fits: MatchSets, *, matching: Matching, open_ended: bool) -> Pairing:
    """Pair expectations with calls and bound the number of pairs.

    Args:
        wanted: n expectations.
        candidates: m calls.
        fits: what matches.
        matching: MAXIMUM pairs as many as possible; POSITIONAL looks only at the n-th call of a name for its n-th expectation.
        open_ended: whether the log may lack calls, at any place and with any contents.

    MAXIMUM: let M be the size of a maximum matching of the certain pairs. The pairs that really match are these and some of the
    possible ones, and more calls only add pairs, so the true size is at least M, and it is M if nothing more matches. It is at
    most that of certain and possible pairs together; and it is that if each call in such a matching holds what its partner
    expects, which nothing forbids, for it has one partner. If calls may be missing, there may be one for each expectation: n.

    POSITIONAL: each pair stands alone, so certain pairs and certain or possible pairs bound the number. If calls may be
    missing, calls at the front may push all others back: none matches any more, save expectations that every call of their
    name matches and that have their n-th call already; or those at the front are just what is expected: n. A call that
    answers to two expected names is the first one's only.

    Cost: see ``maximum_matching``; a second one if something was not recorded.
    """
    if matching is Matching.POSITIONAL:
        return _pair_by_position(wanted, candidates, fits, open_ended=open_ended)
    partners = maximum_matching(fits.certain)
    matched = highest = len(partners) - partners.count(UNMATCHED)
    if any(fits.possible):
        both = [certain | possible for certain, possible in zip(fits.certain, fits.possible, strict=True)]
        highest = len(partners) - maximum_matching(both, partners).count(UNMATCHED)
    return Pairing(
        partners=partners,
        strays=_strays(wanted, candidates, partners) if matched < len(partners) else (UNMATCHED,) * matched,
        matched=matched,
        lowest=matched,
        highest=len(partners) if open_ended else highest,
        highest_by_content=highest,
    )


def _pair_by_position(wanted: Expectations, candidates: Candidates, fits: MatchSets, *, open_ended: bool) -> Pairing:
    """Pair the n-th expectation of each name with the n-th call of that name, if the two match."""
    partners, strays = [], []
    taken: set[int] = set()
    highest = lasting = 0
    for position, (tool, turn) in enumerate(zip(wanted.tools, wanted.turns, strict=True)):
        places = candidates.turns[tool]
        place = places[turn] if turn < len(places) else UNMATCHED
        if place == UNMATCHED or place in taken:
            partners.append(UNMATCHED)
            strays.append(UNMATCHED)
            continue
        taken.add(place)
        match = bool(fits.certain[position] >> place & 1)
        partners.append(place if match else UNMATCHED)
        strays.append(UNMATCHED if match else place)
        highest += match or fits.possible[position] >> place & 1
        lasting += fits.always[position]
    matched = len(partners) - partners.count(UNMATCHED)
    if not open_ended:
        lasting = matched
    elif candidates.shared:
        lasting = 0  # with calls at the front, one that two names share may go to either
    return Pairing(
        partners=partners,
        strays=strays,
        matched=matched,
        lowest=lasting,
        highest=len(partners) if open_ended else highest,
        highest_by_content=highest,
    )


def _strays(wanted: Expectations, candidates: Candidates, partners: Sequence[int]) -> list[int]:
    """Return for each expectation without a partner the next call of its name that no other one has."""
    taken = 0
    for place in partners:
        if place != UNMATCHED:
            taken |= 1 << place
    strays = []
    for tool, partner in zip(wanted.tools, partners, strict=True):
        free = candidates.by_tool[tool] & ~taken if partner == UNMATCHED else 0
        lowest = free & -free
        taken |= lowest
        strays.append(lowest.bit_length() - 1)
    return strays


class ObjectIndex:
    """Expected objects by their members. A set of expectations is an integer whose bit i stands for expectation i."""

    __slots__ = ("_all", "_by_member")

    def __init__(self, identities: Iterable[Hashable]) -> None:
        """Index expectations by the identities of what they expect; one that is no object is never found."""
        self._all = 0
        self._by_member: dict[Hashable, int] = {}
        for position, wanted in enumerate(identities):
            if isinstance(wanted, frozenset):
                self._all |= 1 << position
                for member in wanted:
                    self._by_member[member] = self._by_member.get(member, 0) | 1 << position

    def having(self, members: Mapping[str, Json]) -> int:
        """Return the set of expectations that expect an object with all these members, equal in value; all if there are none.

        Cost: one step for each member.
        """
        found = self._all
        for member in member_identities(members):
            found &= self._by_member.get(member, 0)
        return found


def spread(calls_by_expectations: Mapping[int, int], total: int) -> list[int]:
    """Return for each of ``total`` expectations the set of calls, given the set of calls for each set of expectations."""
    spread_out = [0] * total
    for expectations, calls in calls_by_expectations.items():
        for position in bits(expectations):
            spread_out[position] |= calls
    return spread_out


def bits(members: int) -> Iterator[int]:
    """Yield the positions of the ones, ascending."""
    while members:
        lowest = members & -members
        yield lowest.bit_length() - 1
        members ^= lowest


def pair_in_order(wanted: Expectations, log: CallLog, matching: Matching) -> list[ToolCall] | None:
    """Return the n-th call of each name for its n-th expectation: what nearly every trace is paired by.

    If each of these calls matches for certain, they are the partners that ``pair`` would choose, and no bound is apart from the score.
    So nothing else has to be looked at.

    Returns:
        None if there is no call for one of them, or ``pair`` may choose others all the same: expectations have IDs, calls answer to two
        of the names, or missing calls would push those that are there to other places.
    """
    if wanted.call_ids is not None or not wanted.tools or (log.open_ended and matching is Matching.POSITIONAL):
        return None
    if _one_by_one(wanted, log):
        return list(log.calls)
    by_name = log.by_name
    calls = []
    for position, tool in enumerate(wanted.tools):
        places = by_name.get(tool)
        turn = wanted.turns[position]
        if places is None or turn >= len(places):
            return None
        calls.append(log.calls[places[turn]])
    for made in log.calls:
        if made.aliases:  # most have none
            return None if _shared(wanted, by_name) else calls
    return calls


def _one_by_one(wanted: Expectations, log: CallLog) -> bool:
    """Tell whether the calls are just those that are expected, in the same order, and by their own names: the simplest case of all."""
    calls = log.calls
    return len(calls) == len(wanted.tools) and all(
        call.name == tool and not call.aliases for call, tool in zip(calls, wanted.tools, strict=True)
    )


def _shared(wanted: Expectations, by_name: dict[str, list[int]]) -> bool:
    """Tell whether a call answers to two of the names."""
    places = [place for name in wanted.names for place in by_name[name]]
    return len(set(places)) < len(places)
