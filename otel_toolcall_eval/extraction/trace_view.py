"""One trace laid out for reading: its tree, what each span is, and its agents. From here on the way leads to the tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.agents import Agents
from otel_toolcall_eval.extraction.call_kinds import mark_kinds, mark_rejected
from otel_toolcall_eval.extraction.call_reader import read_call
from otel_toolcall_eval.extraction.conversations import conversations_of
from otel_toolcall_eval.extraction.event_reader import calls_by_event, with_events
from otel_toolcall_eval.extraction.ignoring import IgnoredSpans
from otel_toolcall_eval.extraction.merging import Merger
from otel_toolcall_eval.extraction.message_reader import batch_in
from otel_toolcall_eval.extraction.ordering import in_a_row, in_order, parallel_groups
from otel_toolcall_eval.extraction.requests import RequestJoiner
from otel_toolcall_eval.extraction.span_classification import SpanClassifications
from otel_toolcall_eval.extraction.span_tree import SpanTree
from otel_toolcall_eval.model.tool_call import CallKind, CallPhase, CallStatus, Extraction, ToolCall
from otel_toolcall_eval.model.trace import IncompletenessReason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.dialect_cache import DialectCache
    from otel_toolcall_eval.model.trace import Span


class TraceView:
    """A trace before its calls are read."""

    def __init__(self, spans: Sequence[Span], cache: DialectCache) -> None:
        """Take ``spans`` of one trace, in any order; ``looks`` tells what dialects make of a span.

        Nothing is laid out before it is asked for.
        """
        self._spans = spans
        self._cache = cache
        # No cached_property: until Python 3.12 it has a lock for all instances, which a fork may find held by the evaluating thread.
        self._tree: SpanTree | None = None
        self._classifications: SpanClassifications | None = None
        self._agents: Agents | None = None

    @property
    def tree(self) -> SpanTree:
        """Return its distinct spans."""
        if self._tree is None:
            self._tree = SpanTree(self._spans)
        return self._tree

    @property
    def classifications(self) -> SpanClassifications:
        """Return what each of them is."""
        if self._classifications is None:
            self._classifications = SpanClassifications(self.tree, self._cache)
        return self._classifications

    @property
    def agents(self) -> Agents:
        """Return the agents above them."""
        if self._agents is None:
            self._agents = Agents(self.tree, self.classifications)
        return self._agents

    @property
    def top_agent(self) -> str | None:
        """Return the name of the trace's top-most agent; of several, the one that started first. None if no span tells."""
        return self.agents.top

    def extract(self) -> Extraction:
        """Return the tool calls, in order, and why every other span is none.

        Cost: linear in the spans, apart from sorting them; arguments are decoded where two spans may show one call.
        """
        tree, classifications, agents = self.tree, self.classifications, self.agents
        calls: list[Candidate] = []
        for span in classifications.calls:
            calls.extend(_read(span, tree, classifications))
        if classifications.by_event:
            shown = (call for span in tree.spans for call in calls_by_event(span, classifications.by_event.get(span.span_id, ())))
            calls = with_events(calls, list(shown))
        calls = Merger(tree, agents, classifications).merge(calls)
        joiner = RequestJoiner(tree, agents, classifications)
        calls = joiner.join(calls)
        mark_kinds(calls, tree, agents)
        for call in calls:
            if call.from_message or call.status is CallStatus.ERROR:
                mark_rejected(call)
        calls = in_order(calls, tree)
        hints, doubts = _hints_and_doubts(calls, classifications)
        return Extraction(
            calls=_finished(calls, tree, classifications, agents),
            ignored=IgnoredSpans(calls, tree, classifications, joiner.used),
            hints=hints,
            doubts=doubts,
        )


def _read(span: Span, tree: SpanTree, classifications: SpanClassifications) -> Sequence[Candidate]:
    """Read the calls that a span itself shows, which stands for calls or for a part of one."""
    plan = classifications.plan(span)
    if plan.is_batch:
        return batch_in(span, tree, classifications.dialects(span))
    call = read_call(span, tree, plan)
    return () if call is None else (call,)


def _finished(calls: Sequence[Candidate], tree: SpanTree, classifications: SpanClassifications, agents: Agents) -> tuple[ToolCall, ...]:
    groups: Mapping[int, int] = {}
    if not in_a_row(calls):
        owners = [call.own_agent or agents.nearest(call.span) for call in calls]
        groups = parallel_groups(calls, owners, _enclosing(calls, tree))
    conversations: Mapping[bytes, str] = conversations_of(tree) if classifications.tell_conversations else {}
    return tuple(
        [
            _call(
                call,
                agents.path(call.span),
                group=groups.get(index) if groups else None,
                merged=_provenance(call, tree) if call.merged else (),
                conversation_id=call.conversation_id or (conversations.get(call.span.span_id) if conversations else None),
            )
            for index, call in enumerate(calls)
        ]
    )


def _call(
    found: Candidate, path: tuple[str, ...], *, group: int | None, merged: tuple[bytes, ...], conversation_id: str | None
) -> ToolCall:
    """Turn one candidate into a call; ``path`` names the agents above it."""
    span = found.span
    agent = found.own_agent or (path[-1] if path else None)
    return ToolCall(
        name=found.name,
        aliases=tuple(found.aliases),
        kind=found.kind or CallKind.FUNCTION,
        phase=found.phase,
        call_id=found.call_id,
        arguments=found.arguments,
        output=found.output,
        status=found.status,
        status_from=found.status_from,
        error_type=found.error_type,
        error_message=found.error_message,
        start_unix_ns=found.start_unix_ns,
        end_unix_ns=found.end_unix_ns,
        duration_known=found.duration_known,
        agent=agent,
        agent_path=path if agent is None or (path and path[-1] == agent) else (*path, agent),
        parallel_group=group,
        attempts=found.attempts,
        failed_attempts=found.failed_attempts,
        from_cache=found.from_cache,
        nested_in=found.nested_in,
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_span_id,
        merged_span_ids=merged,
        dialects=tuple(found.dialects),
        evidence=found.evidence,
        conversation_id=conversation_id,
        event_unix_ns=found.event_unix_ns,
        event_duration_ns=found.event_duration_ns,
    )


def _provenance(call: Candidate, tree: SpanTree) -> tuple[bytes, ...]:
    """Return the other spans that showed a call, in order of time."""
    others = dict.fromkeys(span_id for span_id in call.merged if span_id != call.span.span_id)
    placed = tree.placed
    return tuple(sorted(others, key=lambda span_id: (placed.start[span_id], placed.depth[span_id], placed.tie[span_id], span_id)))


def _enclosing(calls: Sequence[Candidate], tree: SpanTree) -> Sequence[bytes | None]:
    """Return the span of the nearest call above each call. Cost: linear in the trace."""
    if not any(tree.has_children(call.span) for call in calls):
        return (None,) * len(calls)
    own = {call.span.span_id for call in calls}
    around: dict[bytes, bytes | None] = {}
    for span in tree.parents_first:
        parent = tree.parent_id(span)
        around[span.span_id] = parent if parent is None or parent in own else around[parent]
    return [around[call.span.span_id] for call in calls]


_ONLY_REQUESTS = "models asked for calls, and no span shows that any of them ran: instrument the agent framework, not only its model client"
_DROPPED = "the producer dropped attributes of tool spans, so arguments or results may be lost: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT"


def _hints_and_doubts(
    calls: Sequence[Candidate], classifications: SpanClassifications
) -> tuple[tuple[str, ...], tuple[IncompletenessReason, ...]]:
    """Return hints, each once, and why calls may be missing although no span is."""
    hints: dict[str, None] = {}
    doubts: tuple[IncompletenessReason, ...] = ()
    executed = [call for call in calls if call.phase is CallPhase.EXECUTED]
    if all(call.from_message for call in executed):
        silent = [dialect.hint for _, dialect in sorted(classifications.seen.items()) if dialect.hint]
        if not executed and any(call.phase is CallPhase.REQUESTED for call in calls):
            silent.append(_ONLY_REQUESTS)
        hints.update(dict.fromkeys(silent))
        doubts = (IncompletenessReason.NO_TOOL_SPANS,) if silent and not executed else ()
    for hint in _content_hints(executed, classifications):
        hints[hint] = None
    if any(call.span.dropped_attributes and not (call.arguments.is_there and call.output.is_there) for call in executed):
        hints[_DROPPED] = None
    return tuple(hints), doubts


def _content_hints(calls: Sequence[Candidate], classifications: SpanClassifications) -> list[str]:
    """Return the hints on how to switch content on whose calls, all of them, recorded no arguments or no output.

    Calls that failed have no output to record, so they say nothing about it.
    """
    if all(call.arguments.is_there and (call.output.is_there or call.status is CallStatus.ERROR) for call in calls):
        return []
    arguments: dict[str, bool] = {}
    output: dict[str, bool] = {}
    for call in calls:
        hint = classifications.content_hint(call.span.span_id)
        if hint:
            arguments[hint] = arguments.get(hint, False) or call.arguments.is_there
            output[hint] = output.get(hint, False) or call.output.is_there or call.status is CallStatus.ERROR
    return [hint for hint, there in arguments.items() if not (there and output[hint])]
