"""Bounds on the order of calls whose clocks disagree.

Calls of one clock have an order, and a call comes before those that run inside it; of all others the order is unknown, and
any of them may be the true one. A chain, calls of which each is known to come before the next, stands in every order; so
the longest common subsequence of a chain is a lower bound. The upper bound forgets the order between clocks altogether.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.evaluators.lcs import align
from otel_toolcall_eval.evaluators.matching import UNMATCHED, maximum_matching

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.model.tool_call import CallLog

MAX_STEPS = 2_000_000
"""Calls squared times names up to which all chains are looked at (0.3 s); above it only those of a single clock."""


def common_in_any_order(log: CallLog, fits: Sequence[int], length: int, *, free: bool) -> tuple[int, int]:
    """Return the least and the greatest length that a longest common subsequence with the expected names may have.

    Args:
        log: the calls, each with its clock.
        fits: for each call a bit for each expected name that it answers to.
        length: number of expected names.
        free: calls of one clock may change places, too, so that only their number bounds them.

    Neither has to be reached; both are right.
    """
    lanes: dict[int, list[int]] = {}
    for position, clock in enumerate(log.clocks):
        lanes.setdefault(clock, []).append(position)
    alone = [len(align([fits[position] for position in lane], length)) for lane in lanes.values()]
    matched = sum(name != UNMATCHED for name in maximum_matching(fits))
    greatest = matched if free else min(matched, sum(alone))
    if len(fits) * len(fits) * length > MAX_STEPS:
        return max(alone, default=0), greatest
    return _longest_chain(log, fits, length), greatest


def _longest_chain(log: CallLog, fits: Sequence[int], length: int) -> int:
    """Return the longest common subsequence of the expected names and any chain."""
    around = _enclosing(log)
    rows: list[list[int]] = []  # for each call, by number of names: the longest that ends with a chain up to it
    for position, fit in enumerate(fits):
        before = [0] * (length + 1)
        for earlier in range(position):
            if log.clocks[earlier] == log.clocks[position] or earlier in around[position]:
                before = list(map(max, before, rows[earlier]))
        row = [0]
        for name in range(length):
            row.append(max(row[-1], before[name + 1], before[name] + (fit >> name & 1)))
        rows.append(row)
    return max((row[-1] for row in rows), default=0)


def _enclosing(log: CallLog) -> list[set[int]]:
    """Return for each call the positions of those that it runs inside of."""
    positions = {call.span_id: position for position, call in enumerate(log.calls)}
    around: list[set[int]] = []
    for call in log.calls:
        found: set[int] = set()
        outer = positions.get(call.nested_in) if call.nested_in is not None else None
        while outer is not None and outer not in found:
            found.add(outer)
            nested_in = log.calls[outer].nested_in
            outer = positions.get(nested_in) if nested_in is not None else None
        around.append(found)
    return around
