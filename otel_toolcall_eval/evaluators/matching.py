"""Maximum matchings: pairs as many expectations as possible with a candidate each.

Source: Hopcroft and Karp, "An n^(5/2) algorithm for maximum matchings in bipartite graphs", 1973. The sets of candidates are big
integers, so a search step over a thousand candidates is one operation. Rejected: one augmenting path at a time, which takes 60
times as long for a thousand expectations that share their candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

UNMATCHED: Final = -1


def maximum_matching(options: Sequence[int], start: Sequence[int] | None = None) -> list[int]:
    """Return a partner for as many expectations as can have one at the same time.

    Args:
        options: for each expectation, a bit for each candidate that it can be paired with.
        start: a matching within ``options`` to begin with; its expectations keep a partner, though perhaps another one.

    Returns:
        For each expectation the number of its candidate, or UNMATCHED. No candidate is given twice. The number of pairs does
        not depend on the order of either side; which ones they are may.

    Cost: at worst the square root of n times n steps over sets for n expectations; mostly one pass, since the first candidate
    that is free is the right one. Neither recursion nor memory beyond the sets.
    """
    partners = list(start) if start is not None else [UNMATCHED] * len(options)
    owners = {candidate: expectation for expectation, candidate in enumerate(partners) if candidate != UNMATCHED}
    taken = 0
    for candidate in owners:
        taken |= 1 << candidate
    waiting = []
    for expectation, candidates in enumerate(options):
        if partners[expectation] != UNMATCHED or not candidates:
            continue
        free = candidates & ~taken
        if free:
            candidate = (free & -free).bit_length() - 1
            partners[expectation] = candidate
            owners[candidate] = expectation
            taken |= 1 << candidate
        else:
            waiting.append(expectation)
    while waiting:
        layers = _layers(options, owners, taken, waiting)
        if not layers:
            break
        for expectation in waiting:
            taken |= _augment(options, partners, owners, layers, expectation)
        waiting = [expectation for expectation in waiting if partners[expectation] == UNMATCHED]
    return partners


def _layers(options: Sequence[int], owners: dict[int, int], taken: int, waiting: list[int]) -> list[int]:
    """Return the candidates at the end of 1, 2, ... steps from those who wait, up to the first free ones; empty if none is reached."""
    layers = []
    seen = 0
    frontier = waiting
    while frontier:
        layer = 0
        for expectation in frontier:
            layer |= options[expectation]
        layer &= ~seen
        free = layer & ~taken
        if free:
            layers.append(free)
            return layers
        seen |= layer
        layers.append(layer)
        frontier = []
        while layer:
            lowest = layer & -layer
            frontier.append(owners[lowest.bit_length() - 1])
            layer ^= lowest
    return []


def _augment(options: Sequence[int], partners: list[int], owners: dict[int, int], layers: list[int], root: int) -> int:
    """Find a partner for ``root`` by handing candidates on, one step in each layer; return the candidate that was free, or 0.

    A candidate is struck from its layer when it is tried: a second path through it in the same round can't end elsewhere.
    """
    path = [root]
    chosen: list[int] = []
    while path:
        depth = len(path) - 1
        candidates = options[path[-1]] & layers[depth]
        if not candidates:
            path.pop()
            if chosen:
                chosen.pop()
            continue
        lowest = candidates & -candidates
        layers[depth] ^= lowest
        candidate = lowest.bit_length() - 1
        chosen.append(candidate)
        if depth + 1 == len(layers):
            for expectation, partner in zip(path, chosen, strict=True):
                partners[expectation] = partner
                owners[partner] = expectation
            return lowest
        path.append(owners[candidate])
    return 0
