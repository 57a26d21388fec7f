"""Finds the best order of calls that overlap in time, for ``parallel: any``.

Calls of one agent that overlap carry the same group number. Calls of one group that stand side by side in start order may
change places; a call of another agent between them parts them, and only those on the same side of it change places. So two
agents at work at the same time are held to the order in which their calls started, while each one's fan-out is free.
Rejected: letting a group change places across others' calls. It would make the best order of two interleaved groups a hard
search, and moving whole groups to one place would punish a sequence that was expected as it started.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import or_
from typing import TYPE_CHECKING

from otel_toolcall_eval.evaluators.lcs import next_row
from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching
from otel_toolcall_eval.evaluators.pairing import bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class Run:
    """Calls from ``start`` up to, not including, ``end``. Those of one run may change places; most runs have a single call."""

    start: int
    end: int


def find_runs(calls: Sequence[ToolCall]) -> list[Run]:
    """Part calls into runs, in order."""
    runs = []
    start = 0
    for group, members in groupby(call.parallel_group for call in calls):
        end = start + sum(1 for _ in members)
        if group is None:
            runs += [Run(single, single + 1) for single in range(start, end)]
        else:
            runs.append(Run(start, end))
        start = end
    return runs


def best_order(fits: Sequence[int], runs: Sequence[Run], length: int) -> list[int]:
    """Return an order of the calls, within their runs, whose longest common subsequence with the expected names is longest.

    Args:
        fits: for each call a bit for each expected name that it answers to.
        runs: which calls may change places.
        length: number of expected names.

    Returns:
        Positions of calls, each once.

    A run's share in a stretch of names is the greatest number of names in it that different calls of the run answer to: the
    calls that take part can stand in the names' order, and the others anywhere. So the table of longest common subsequences
    needs one row for each run. Read a row as ``reach``: for each v the least number of names within which v are common. A run
    of k calls leads from ``reach[v]`` to ``reach[v + t]``, for t up to k, by the shortest stretch with t names in it.

    Cost: n calls and m names take at most n * m steps, of about 0.3 us for calls that may change places, far less for others.
    """
    full = (1 << length) - 1
    rows = [full]
    shares: dict[int, _Share] = {}
    places: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        if run.end - run.start == 1:
            rows.append(next_row(rows[-1], fits[run.start], full))
        else:
            shares[number] = _Share(fits[run.start : run.end], places)
            rows.append(_next_reach(rows[-1], shares[number], full))
    order: list[int] = []
    below = length  # names that are not passed yet, on the way back
    for number in range(len(runs) - 1, -1, -1):
        before, after, run = rows[number], rows[number + 1], runs[number]
        calls = list(range(run.start, run.end))
        gained = _common(after, below) - _common(before, below)
        if gained and number not in shares:
            below = _last_step(after, below)
        elif gained:
            below, names = _stretch(before, after, below, gained, shares[number])
            taking_part = dict.fromkeys(run.start + call for call in shares[number].arrange(names))
            calls = [*taking_part, *(call for call in calls if call not in taking_part)]
        order += reversed(calls)
    order.reverse()
    return order


class _Share:
    """The names that the calls of one run take up."""

    __slots__ = ("_ambiguous", "_fits", "_kinds", "size")

    def __init__(self, fits: Sequence[int], places: dict[int, list[int]]) -> None:
        """Take the names that each call answers to; ``places`` keeps their positions for the next run."""
        self._fits = fits
        kinds = Counter(fit for fit in fits if fit)
        for fit in kinds:
            if fit not in places:
                places[fit] = list(bits(fit))
        self._kinds = [(places[fit], number) for fit, number in kinds.items()]
        self.size = sum(kinds.values())
        # True if a name fits calls of two kinds, which takes criteria that spell one tool's name in two ways
        self._ambiguous = sum(kinds) != reduce(or_, kinds, 0)

    def from_(self, start: int) -> list[int]:
        """Return the names, from ``start`` on, at which the share grows by one; ascending."""
        if self._ambiguous:
            return self._search_from(start)
        names = []
        for positions, number in self._kinds:
            first = bisect_left(positions, start)
            names += positions[first : first + number]
        names.sort()
        return names

    def _search_from(self, start: int) -> list[int]:
        """Do the same where a name may fit calls of several kinds: it is taken if others can make room for it."""
        names: list[int] = []
        union = sorted({position for positions, _ in self._kinds for position in positions if position >= start})
        for position in union:
            wider = [*names, position]
            if UNMATCHED not in maximum_matching([self._calls_at(name) for name in wider]):
                names = wider
        return names

    def _calls_at(self, name: int) -> int:
        """Return the set of calls that answer to a name."""
        return sum(1 << call for call, fit in enumerate(self._fits) if fit >> name & 1)

    def arrange(self, names: Sequence[int]) -> list[int]:
        """Return for each of the names a call that answers to it, no call twice."""
        return maximum_matching([self._calls_at(name) for name in names])


def _stretch(before: int, after: int, below: int, gained: int, share: _Share) -> tuple[int, list[int]]:
    """Return where a run's stretch begins on the way back, and the names that it takes up.

    Args:
        before: row before the run.
        after: row after it.
        below: names that are not passed yet.
        gained: how much longer the run makes what is common within these; at least 1.
        share: of the run.
    """
    last = _last_step(after, below)
    steps = ~before & ((1 << below) - 1)
    start = steps.bit_length()
    names = share.from_(start)
    while len(names) < gained or names[gained - 1] != last:
        steps ^= 1 << (start - 1)  # begin one common name earlier, which the run then takes up itself
        start = steps.bit_length()
        gained += 1
        names = share.from_(start)
    return start, names[:gained]


def _next_reach(row: int, share: _Share, full: int) -> int:
    # Of names that are common without a gap from the first on, all but the last few are as short as they can be.
    settled = max(0, (row & -row).bit_length() - 1 - share.size) if row else full.bit_length()
    reach = _reach(row >> settled, full >> settled)
    best = reach + [full.bit_length() + 1] * share.size
    for common, start in enumerate(reach):
        for taken, name in enumerate(share.from_(start + settled), common + 1):
            best[taken] = min(best[taken], name + 1 - settled)
    steps = 0
    for end in best[1:]:
        steps |= 1 << (end - 1)
    return full & ~(steps << settled) & (-1 << settled)


def _reach(row: int, full: int) -> list[int]:
    """Return for each length the least number of names within which it is reached."""
    return [0, *(name + 1 for name in bits(~row & full))]


def _common(row: int, names: int) -> int:
    """Return the length that is reached within the first names."""
    return names - (row & ((1 << names) - 1)).bit_count()


def _last_step(row: int, names: int) -> int:
    """Return the last of the first names that adds to the length."""
    return (~row & ((1 << names) - 1)).bit_length() - 1
