"""Makes one of what several processes tell: counts, the cells of metrics, what is open."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.assembly.waiting import Waiting
from otel_toolcall_eval.emission.aggregator import MAX_CELLS
from otel_toolcall_eval.emission.cell_state import State
from otel_toolcall_eval.emission.recording import RECORDED
from otel_toolcall_eval.status.recent import MAX_NAMES, Seen, UnboundService

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from otel_toolcall_eval.emission.aggregator import Key
    from otel_toolcall_eval.emission.metrics import CountKey
    from otel_toolcall_eval.emission.recording import Occasion

    Counted = Mapping[CountKey, int | float]
    States = Mapping[str, Sequence[tuple[Key | None, State]]]
    Shown = dict[str, set[Key | None]]

_SAYS_THAT_IT_IS: Final = ".info"  # such a metric is 1 for each thing that there is, whoever has seen it
_BOUNDS: Final = {instrument.name: instrument.bounds for instrument in RECORDED}


def merged_counts(parts: Iterable[Counted]) -> Counted:
    """Return the sums of counts."""
    found: dict[CountKey, int | float] = {}
    for counts in parts:
        for key, number in counts.items():
            known = found.get(key, 0)
            found[key] = max(known, number) if key[0].endswith(_SAYS_THAT_IT_IS) else known + number
    return found


def merged_states(parts: Iterable[States], shown: Shown) -> States:
    """Return the states of cells, those of one attribute set as one.

    Beyond MAX_CELLS of an instrument they are in the overflow. What is shown stays shown, so that no series goes back: ``shown`` holds the
    attribute sets that are, and takes those that are new.
    """
    found: defaultdict[str, dict[Key | None, State]] = defaultdict(dict)
    for states in parts:
        for name, cells in states.items():
            known, ours = found[name], shown.setdefault(name, set())
            for key, state in cells:
                if key not in ours and len(ours) < MAX_CELLS:
                    ours.add(key)
                place = key if key in ours else None
                known[place] = state if place not in known else _both(name, known[place], state)
    return {name: list(cells.items()) for name, cells in found.items()}


def merged_waiting(parts: Sequence[Waiting], *, limit: int) -> Waiting:
    """Return what is open, the oldest first; at most ``limit`` traces of each kind."""
    opened = sorted((trace for part in parts for trace in part.open), key=lambda trace: -trace.age_seconds)
    decided = sorted((trace for part in parts for trace in part.decided), key=lambda trace: trace.seconds)
    return Waiting(
        open_traces=sum(part.open_traces for part in parts),
        revisable=sum(part.revisable for part in parts),
        size_bytes=sum(part.size_bytes for part in parts),
        open=tuple(opened[:limit]),
        decided=tuple(decided[:limit]),
    )


def merged_seen(parts: Iterable[Seen]) -> Seen:
    """Return the sums of what the status page tells of all that came."""
    parts = list(parts)
    return Seen(
        passing=sum(part.passing for part in parts),
        others=sum(part.others for part in parts),
        unbound=sum(part.unbound for part in parts),
        passing_left_out=sum(part.passing_left_out for part in parts),
        others_left_out=sum(part.others_left_out for part in parts),
    )


def merged_unbound(parts: Iterable[Mapping[str, UnboundService]]) -> Mapping[str, UnboundService]:
    """Return the services whose traces nothing judges."""
    found: dict[str, UnboundService] = {}
    for services in parts:
        for name, one in services.items():
            known = found.get(name)
            if known is None:
                found[name] = one
                continue
            latest = max(known, one, key=lambda service: service.latest_unix_ns)
            found[name] = UnboundService(
                traces=known.traces + one.traces,
                latest=latest.latest,
                latest_unix_ns=latest.latest_unix_ns,
                asked_for=tuple(dict.fromkeys((*known.asked_for, *one.asked_for)))[:MAX_NAMES],
            )
    return found


def _both(instrument: str, one: State, other: State) -> State:
    newest: dict[int, tuple[float, Occasion]] = {}
    for value, occasion in (*one.exemplars, *other.exemplars):
        place = bisect_left(_BOUNDS[instrument], value)  # of a counter, which has no bounds, all are in one place
        if place not in newest or newest[place][1].unix_ns < occasion.unix_ns:
            newest[place] = value, occasion
    return State(
        total=one.total + other.total,
        counts=tuple(mine + theirs for mine, theirs in zip(one.counts, other.counts, strict=True)),
        low=min(one.low, other.low),
        high=max(one.high, other.high),
        exemplars=tuple(newest.values()),
    )
