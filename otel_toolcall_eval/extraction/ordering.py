"""Puts calls in order and finds out which of them ran side by side."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from otel_toolcall_eval.model.tool_call import CallPhase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.span_tree import SpanTree

_DIGITS = re.compile(r"(\d{1,18})")


def in_order(calls: Sequence[Candidate], tree: SpanTree) -> list[Candidate]:
    """Return the calls by start, then end, a parent before its children.

    The order of arrival must not matter, so equal times go by call ID (``call_2`` before ``call_10``), then by span ID.
    Calls that start together and whose requests are known stand as the model asked for them: clocks that tick in milliseconds give
    the calls of one message one start, and which of them ended first says nothing.
    """
    if _is_by_start(calls, tree):  # as most come
        return list(calls)
    ranks, placed = _ranks(calls, tree), tree.placed

    def key(call: Candidate) -> tuple[int, tuple[int, int], int, int, int, int, list[tuple[bool, int, str]], bytes]:
        span_id = call.span.span_id
        place = placed.start[span_id], ranks[id(call)], placed.tie[span_id], placed.depth[span_id]
        # Calls that start together with the span above them have its tie, so their own ends are asked once parents stand first.
        return *place, call.span.end_unix_ns, call.index, _natural(call.call_id or ""), span_id

    return sorted(calls, key=key)


def _is_by_start(calls: Sequence[Candidate], tree: SpanTree) -> bool:
    """Tell whether each call starts after the one before it."""
    last: int | None = None
    for call in calls:
        start = tree.start(call.span)
        if last is not None and start <= last:
            return False
        last = start
    return True


def _ranks(calls: Sequence[Candidate], tree: SpanTree) -> Mapping[int, tuple[int, int]]:
    """Return the rank of each call: its own, but not before that of the call around it."""
    ranks: dict[int, tuple[int, int]] = {}
    by_span: dict[bytes, tuple[int, int]] = {}
    for call in sorted(calls, key=lambda call: tree.placed.depth[call.span.span_id]):
        around = (-1, -1) if call.nested_in is None else by_span.get(call.nested_in, (-1, -1))
        ranks[id(call)] = by_span[call.span.span_id] = max(call.rank, around)
    return ranks


def _natural(text: str) -> list[tuple[bool, int, str]]:
    """Order text with the numbers in it by value."""
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in _DIGITS.split(text[:200])]


def parallel_groups(calls: Sequence[Candidate], agents: Sequence[object], enclosing: Sequence[object]) -> Mapping[int, int]:
    """Return the group of each call that overlaps another one, by position in ``calls``, which are in order.

    Calls are compared only within one agent and below the same enclosing call, so never with their own ancestors. Intervals
    are half-open: one that ends when the next starts does not overlap it.

    ``agents`` and ``enclosing`` say, by position, what identifies each call's agent and the call around it.
    """
    lanes: defaultdict[object, list[int]] = defaultdict(list)
    for position, call in enumerate(calls):
        start, end = call.ran
        if call.phase is CallPhase.EXECUTED and start < end:
            lanes[agents[position], enclosing[position]].append(position)
    clusters: list[list[int]] = []
    for lane in lanes.values():
        lane.sort(key=lambda position: calls[position].ran)
        cluster: list[int] = []
        end = 0
        for position in lane:
            start, until = calls[position].ran
            if cluster and start >= end:
                clusters.append(cluster)
                cluster, end = [], 0
            cluster.append(position)
            end = max(end, until)
        clusters.append(cluster)
    overlapping = sorted(cluster for cluster in clusters if len(cluster) > 1)
    return {position: number for number, cluster in enumerate(overlapping) for position in cluster}


def in_a_row(calls: Sequence[Candidate]) -> bool:
    """Tell whether each call began after all before it had ended, so that none overlap."""
    until = 0
    for call in calls:
        start, end = call.ran
        if start < until:
            return False
        until = max(end, start)
    return True
