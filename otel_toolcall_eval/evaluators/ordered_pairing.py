"""Finds the calls that nearly every trace is paired by, so that sets of calls are made only where there is something to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.model.criteria import Matching

if TYPE_CHECKING:
    from otel_toolcall_eval.evaluators.pairing import Expectations
    from otel_toolcall_eval.model.tool_call import CallLog, ToolCall


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
