"""Joins the calls that models requested with the calls that ran, and answers with calls that have no output.

Only what a model newly asked for becomes a call; calls that stand in the history of a request belong to the model call that
asked for them, in this trace or an earlier one. So a history that is sent again and again counts nothing twice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from otel_toolcall_eval.extraction.call_identity import bare_name, fingerprint, same_tool
from otel_toolcall_eval.extraction.merging import absorb
from otel_toolcall_eval.extraction.message_reader import answer_output, answers_in, mentions, requests_in
from otel_toolcall_eval.model.tool_call import CallPhase, CallStatus

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from otel_toolcall_eval.extraction.agents import Agents
    from otel_toolcall_eval.extraction.candidate import Candidate
    from otel_toolcall_eval.extraction.dialect import Dialect, MessageSource
    from otel_toolcall_eval.extraction.messages import MessageAnswer
    from otel_toolcall_eval.extraction.span_classification import SpanClassifications
    from otel_toolcall_eval.extraction.span_tree import SpanTree
    from otel_toolcall_eval.model.trace import Span

MAX_COMPARED = 50
"""How many calls of one ID, or of one name and equal arguments, a request is compared with."""

_ANY = "*"  # stands for all arguments; no fingerprint is this text


class RequestJoiner:
    """Joins the requests and answers of one trace with its calls. Cost: linear, but for the answers that are looked for."""

    def __init__(self, tree: SpanTree, agents: Agents, classifications: SpanClassifications) -> None:
        """Look at the spans of models."""
        self._tree = tree
        self._agents = agents
        self._classifications = classifications
        self.used: set[bytes] = set()

    def join(self, calls: Sequence[Candidate]) -> list[Candidate]:
        """Return the calls and, after them, the requests that nothing shows to have run, and the calls that only answers show."""
        classifications = self._classifications
        requests = [request for span in classifications.models for request in requests_in(span, self._tree, classifications.dialects(span))]
        if not requests:
            self._answer(calls)
            return list(calls)
        requests = _without_repeats(requests, self._agents)
        unclaimed = _Unclaimed(calls, self._agents)
        left: list[Candidate] = []
        for request in requests:
            executed = unclaimed.claim(request)
            if executed is None:
                left.append(request)
                self.used.add(request.span.span_id)
            else:
                _attach(executed, request)
        self._answer([*calls, *left])
        return [*calls, *left]

    def _answer(self, calls: Sequence[Candidate]) -> None:
        """Give answers to calls that have none. The latest history is read first: it mostly holds all of them."""
        calls = [call for call in calls if call.phase is CallPhase.REQUESTED or (call.call_id is not None and not call.output.is_there)]
        if not calls:
            return
        waiting: defaultdict[str, list[Candidate]] = defaultdict(list)
        nameless: defaultdict[bytes | None, list[Candidate]] = defaultdict(list)
        for call in calls:
            if call.call_id is not None and not call.output.is_there:
                waiting[call.call_id].append(call)
            else:
                nameless[call.span.parent_span_id].append(call)
        for span in reversed(self._classifications.models):
            if not waiting and not nameless:
                return
            dialects = self._classifications.dialects(span)
            unanswered = nameless.get(span.parent_span_id)
            if not unanswered and not mentions(span, waiting, dialects):
                continue
            count = 0
            for answer, dialect, source in answers_in(span, self._tree, dialects):
                count += not answer.call_id
                answered = _taken(waiting, answer.call_id, span)
                if answered is not None:
                    self._give(answered, answer, dialect, source, span)
            if unanswered and count:
                self._count(unanswered, count, span)
                del nameless[span.parent_span_id]

    def _give(self, call: Candidate, answer: MessageAnswer, dialect: Dialect, source: MessageSource, span: Span) -> None:
        """Give a call its answer; one that was only asked for has run after all."""
        if answer.recorded:
            call.output.also(answer_output(answer, dialect, source))
        if dialect.family not in call.dialects:
            call.dialects.append(dialect.family)
        self._mark(call, span)
        if call.phase is CallPhase.REQUESTED:
            call.phase = CallPhase.EXECUTED
            if answer.recorded:
                call.status = CallStatus.ERROR if answer.failed else CallStatus.OK
                call.status_from = "output"

    def _count(self, asked: Sequence[Candidate], count: int, span: Span) -> None:
        """Mark requests without IDs as run, as far as a later history in the same loop has answers without IDs.

        Histories keep their order, so n answers belong to the first n requests. Which one is whose is not known for parallel
        calls, so the answers' texts are not used.
        """
        earlier = [call for call in asked if call.call_id is None and call.start_unix_ns < span.start_unix_ns]
        for call in earlier[:count]:
            call.phase = CallPhase.EXECUTED
            self._mark(call, span)

    def _mark(self, call: Candidate, span: Span) -> None:
        call.merged.append(span.span_id)
        self.used.add(span.span_id)


def _taken(waiting: defaultdict[str, list[Candidate]], call_id: str, span: Span) -> Candidate | None:
    """Take out the latest call with this ID that was there before the span asked its model.

    Spans come from the latest to the earliest, so a call that starts after one of them waits for none of the others.
    """
    calls = waiting.get(call_id, [])
    taken: Candidate | None = None
    for position in range(len(calls) - 1, -1, -1):
        if calls[position].start_unix_ns > span.start_unix_ns:
            del calls[position]
        elif calls[position].span is not span:
            taken = calls.pop(position)
            break
    if not calls:
        waiting.pop(call_id, None)
    return taken


class _Unclaimed:
    """Calls that ran and that no request was joined with yet. A request is looked up by ID, then by name and arguments."""

    def __init__(self, calls: Sequence[Candidate], agents: Agents) -> None:
        """Index the calls, which are in order of time."""
        self._agents = agents
        self._calls = calls
        self._claimed: set[int] = set()
        self._by_id: defaultdict[str, list[Candidate]] = defaultdict(list)
        self._by_arguments: Mapping[tuple[str, str | None], list[Candidate]] | None = None
        for call in reversed(calls):
            if call.call_id is not None:
                self._by_id[call.call_id].append(call)

    def claim(self, request: Candidate) -> Candidate | None:
        """Take out the call that a request led to."""
        if request.call_id is not None:
            claimed = self._first(self._by_id[request.call_id], request)
            if claimed is not None:
                return claimed
        name, asked = bare_name(request.name), fingerprint(request)
        for key in ((name, asked), (name, None)) if asked is not None else ((name, _ANY),):
            claimed = self._first(self._index().get(key, []), request)
            if claimed is not None:
                return claimed
        return None

    def _index(self) -> Mapping[tuple[str, str | None], list[Candidate]]:
        """Index the calls by name and arguments, when first asked: it decodes the arguments."""
        if self._by_arguments is None:
            index: defaultdict[tuple[str, str | None], list[Candidate]] = defaultdict(list)
            for call in reversed(self._calls):
                index[bare_name(call.name), fingerprint(call)].append(call)
                index[bare_name(call.name), _ANY].append(call)
            self._by_arguments = index
        return self._by_arguments

    def _first(self, calls: list[Candidate], request: Candidate) -> Candidate | None:
        """Take out the earliest fitting call, of the same agent if there is one. ``calls`` stand latest first."""
        agent = self._agents.nearest(request.span)
        while calls and id(calls[-1]) in self._claimed:
            calls.pop()
        second: Candidate | None = None
        for call in calls[: -MAX_COMPARED - 1 : -1]:
            if not self._may_be(call, request):
                continue
            if self._agents.nearest(call.span) == agent:
                second = call
                break
            second = second or call
        if second is not None:
            self._claimed.add(id(second))
        return second

    def _may_be(self, call: Candidate, request: Candidate) -> bool:
        """Tell whether a call is free, ran after the request, has its name, and no other ID."""
        if id(call) in self._claimed or call.start_unix_ns < request.start_unix_ns or not same_tool(call.name, request.name):
            return False
        return call.call_id is None or call.call_id == request.call_id or _names_nobody(request)


def _names_nobody(request: Candidate) -> bool:
    """Tell whether a request has no ID, or one that its producer made up out of the tool's name and a number.

    Google ADK writes ``get_order_0`` into its messages where a model gives no IDs, as Gemini does not, while the tool's span has an ID
    of ADK's own; telling the two apart would count each call twice.
    """
    if request.call_id is None:
        return True
    number = request.call_id.removeprefix(f"{request.name}_")
    return number != request.call_id and number.isdecimal()


def _attach(executed: Candidate, request: Candidate) -> None:
    """Join a request with the call that it led to; the call keeps its phase, name and status."""
    if not executed.arguments.is_there and request.dialects[0] not in executed.dialects:
        executed.dialects.append(request.dialects[0])
    name, aliases = executed.name, dict(executed.aliases)
    kind, dialects = executed.kind, list(executed.dialects)
    absorb(executed, request)
    executed.rank = request.rank
    executed.name, executed.aliases = name, aliases
    executed.kind, executed.dialects = kind, dialects


def _without_repeats(requests: Sequence[Candidate], agents: Agents) -> list[Candidate]:
    """Drop requests that a second instrumentation of the same model call recorded, or the model span around it.

    Those are the ones with equal name, ID and arguments whose model spans overlap. Each request stands for one repeat of
    each other span, so a model that asks for the same thing twice in one message counts twice.
    """
    kept: list[Candidate] = []
    latest: defaultdict[tuple[str, str | None, str | None], list[tuple[Candidate, set[bytes]]]] = defaultdict(list)
    for request in requests:
        key = (request.name, request.call_id, None if request.call_id is not None else fingerprint(request))
        span = request.span
        overlapping = [entry for entry in latest[key] if entry[0].end_unix_ns >= request.start_unix_ns][-20:]
        for first, spans in overlapping:
            if span.span_id not in spans and agents.nearest(first.span) == agents.nearest(span):
                spans.add(span.span_id)
                first.merged.append(span.span_id)
                break
        else:
            kept.append(request)
            overlapping.append((request, {span.span_id}))
        latest[key] = overlapping
    return kept
