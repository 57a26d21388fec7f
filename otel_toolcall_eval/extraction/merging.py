"""Merges the spans that recorded the same call.

Two real calls are never merged: what tells observers of one call from calls of one tool is that they nest or overlap, that
they come from different instrumentations, and that nothing they recorded (arguments, IDs) contradicts.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_identity import (
    bare_name,
    fingerprint,
    known_same_arguments,
    same_arguments,
    same_tool,
)
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.agents import Agents
    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications
    from otel_toolcall_eval.extraction.span_tree import SpanTree

OVERLAP = 0.8
"""Share of the shorter one of two spans by which siblings have to overlap."""

MAX_COMPARED = 50
"""How many calls that still run a call is compared with. One call has a handful of observers."""


class Merger:
    """Merges the calls of one trace.

    Attributes:
        agents: tells the nearest agent span above a span.
        classifications: tells model and agent spans: what is below one was decided there, and is no observer of what is above.
    """

    def __init__(self, tree: SpanTree, agents: Agents, classifications: SpanClassifications) -> None:
        """Look at the trace's tree."""
        self._tree = tree
        self._agents = agents
        self._classifications = classifications

    def merge(self, calls: Sequence[Candidate]) -> list[Candidate]:
        """Return the calls that are left, in the order given: by time."""
        left = list(calls)
        if any(self._tree.has_children(call.span) for call in left):
            self._merge_nested(left)
            left = [call for call in left if not call.absorbed]
        if any(call.span.scope.name != left[0].span.scope.name for call in left):  # it takes two to see one call
            _merge_observers(left, self._agents)
            left = [call for call in left if not call.absorbed]
        call_ids = [call.call_id for call in left if call.call_id is not None]
        if len(set(call_ids)) < len(call_ids):
            self._merge_attempts(left)
            left = [call for call in left if not call.absorbed]
        return left

    def _merge_nested(self, calls: Sequence[Candidate]) -> None:
        """Fold descendants with an equal name into the outermost (rules 2 and 4), and note what else is nested in a call.

        Cost: linear in the trace; the nearest call above is handed down from parent to child.
        """
        by_span: defaultdict[bytes, list[Candidate]] = defaultdict(list)
        for call in calls:
            by_span[call.span.span_id].append(call)
        barriers = {span.span_id for span in (*self._classifications.models, *self._classifications.agents)}
        above: dict[bytes, tuple[Candidate | None, bool]] = {}
        for span in self._tree.placed.top_down:
            parent = self._tree.parent(span)
            around, open_way = (None, True) if parent is None else above[parent.span_id]
            if parent is not None and parent.span_id in barriers:
                open_way = False
            here = by_span.get(span.span_id, ())
            for call in here:
                if around is None:
                    continue
                if call.is_part or (open_way and _is_observer(call, around)):
                    absorb(around, call)
                else:
                    call.nested_in = around.span.span_id
            only = here[0] if len(here) == 1 else None
            if only is None:
                above[span.span_id] = (around, open_way)
            else:
                above[span.span_id] = (around if only.absorbed else only, True)

    def _merge_attempts(self, calls: Sequence[Candidate]) -> None:
        """Fold calls with one ID that follow each other under one agent into attempts of one call; the last one decides (rule 3)."""
        by_id: defaultdict[tuple[str, object], list[Candidate]] = defaultdict(list)
        for call in calls:
            if call.call_id is not None and call.phase is CallPhase.EXECUTED:
                by_id[call.call_id, self._agents.nearest(call.span)].append(call)
        for attempts in by_id.values():
            earlier = attempts[0]
            for call in attempts[1:]:
                follows = call.start_unix_ns >= earlier.end_unix_ns
                if follows and same_tool(call.name, earlier.name) and same_arguments(call, earlier):
                    absorb(call, earlier, as_attempt=True)
                earlier = call
            last = attempts[-1]
            for call in reversed(attempts):  # each name is handed on once, and not from attempt to attempt
                if call.absorbed:
                    _take_names(last, call)
                else:
                    last = call


def _is_observer(inner: Candidate, outer: Candidate) -> bool:
    """Tell whether a call below another one is the same call, seen further in."""
    if not same_tool(inner.name, outer.name):
        return False
    if inner.call_id is not None and outer.call_id is not None and inner.call_id != outer.call_id:
        return False
    if inner.name != outer.name and "_" in outer.name and bare_name(outer.name) != bare_name(inner.name):
        return known_same_arguments(inner, outer)  # a single "_" may just as well be a part of the name
    if inner.span.scope.name == outer.span.scope.name and inner.call_id is None:
        # One instrumentation seldom records one call twice, but recursion looks just like that: something has to tell.
        apart = inner.kind is not outer.kind or inner.span.kind != outer.span.kind
        return same_arguments(inner, outer) if apart else known_same_arguments(inner, outer)
    return same_arguments(inner, outer)


def _merge_observers(calls: Sequence[Candidate], agents: Agents) -> None:
    """Fold calls that ran at the same time, seen by different instrumentations (rules 3 and 5).

    A call is compared with those of its name and arguments that are still running when it starts. Nothing is decoded where
    one instrumentation alone knows the name, which is nearly always so.
    """
    by_name: defaultdict[str, list[Candidate]] = defaultdict(list)
    for call in calls:
        if call.phase is CallPhase.EXECUTED:
            by_name[bare_name(call.name)].append(call)
    for group in by_name.values():
        if len({call.span.scope.name for call in group}) > 1:
            _merge_group(sorted(group, key=lambda call: call.start_unix_ns), agents)


def _merge_group(group: Sequence[Candidate], agents: Agents) -> None:
    """Fold observers among calls of one name, which stand in order of start."""
    running: defaultdict[str | None, list[Candidate]] = defaultdict(list)
    latest: list[Candidate] = []
    seen_by: defaultdict[int, set[str]] = defaultdict(set)
    for call in group:
        known, scope = fingerprint(call), call.span.scope.name
        candidates = latest if known is None else [*running[known], *running[None]]
        for other in candidates:
            if scope in seen_by[id(other)] or scope == other.span.scope.name:
                continue  # never siblings of one scope: these are parallel calls
            if _same_moment(call, other, agents):
                seen_by[id(other)].add(scope)
                absorb(other, call)
                break
        else:
            running[known] = _still_running([*running[known], call], call)
            latest = _still_running([*latest, call], call)


def _still_running(calls: Sequence[Candidate], now: Candidate) -> list[Candidate]:
    return [call for call in calls if call.end_unix_ns > now.start_unix_ns][-MAX_COMPARED:]


def _same_moment(call: Candidate, other: Candidate, agents: Agents) -> bool:
    """Tell whether two calls that overlap are one."""
    if call.call_id is not None and other.call_id is not None:
        if call.call_id != other.call_id or agents.nearest(call.span) != agents.nearest(other.span):
            return False
        return same_arguments(call, other)
    shorter = min(call.end_unix_ns - call.start_unix_ns, other.end_unix_ns - other.start_unix_ns)
    overlap = min(call.end_unix_ns, other.end_unix_ns) - max(call.start_unix_ns, other.start_unix_ns)
    if overlap <= 0 or overlap < OVERLAP * shorter or call.nested_in == other.span.span_id:
        return False
    if call.span.parent_span_id == other.span.parent_span_id and call.name == other.name:
        return same_arguments(call, other)
    return known_same_arguments(call, other)


def absorb(winner: Candidate, other: Candidate, *, as_attempt: bool = False) -> None:
    """Fold ``other`` into ``winner``, which keeps its place, times and name, and takes what it lacks (rule 7).

    An attempt's names are left to whoever folds all attempts. Cost: linear in what ``other`` has, but for attempts constant.
    """
    other.absorbed = True
    if as_attempt:  # the other may have many of its own: its list goes on, in place of a copy
        other.merged += (other.span.span_id, *winner.merged)
        winner.merged = other.merged
    else:
        winner.merged += (other.span.span_id, *other.merged)
        _take_names(winner, other)
    if not other.is_part:
        winner.dialects.extend(family for family in other.dialects if family not in winner.dialects)
    if winner.kind is None or (winner.kind is CallKind.FUNCTION and other.kind is CallKind.MCP):
        winner.kind = other.kind
    winner.call_id = winner.call_id or other.call_id
    winner.own_agent = winner.own_agent or other.own_agent
    winner.arguments.also(other.arguments)
    winner.has_fingerprint = winner.has_fingerprint and winner.fingerprint is not None
    if as_attempt:
        winner.attempts += other.attempts
        winner.failed_attempts += other.failed_attempts + (other.status is CallStatus.ERROR)
        return
    if other.status is CallStatus.ERROR and winner.status is not CallStatus.ERROR:
        if not (winner.explicit_ok and winner.output.is_there):  # else it was dealt with
            winner.status, winner.status_from = other.status, other.status_from
            winner.error_type, winner.error_message = other.error_type, other.error_message
    elif other.status is CallStatus.ERROR and winner.status is CallStatus.ERROR:
        winner.error_type = winner.error_type or other.error_type
        winner.error_message = winner.error_message or other.error_message
    winner.output.also(other.output)
    winner.from_cache = winner.from_cache or other.from_cache
    winner.attempts = max(winner.attempts, other.attempts)


def _take_names(winner: Candidate, other: Candidate) -> None:
    for alias in (other.name, *other.aliases):
        if alias != winner.name:
            winner.aliases.setdefault(alias)
