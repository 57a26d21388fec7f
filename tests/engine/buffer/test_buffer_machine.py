"""The buffer against a plain model: random traces, interleavings, copies, conflicts, losses, restarted senders, skewed clocks.

CI runs a few dozen sequences. For a long run: ``HYPOTHESIS_PROFILE=long pytest tests/engine/buffer/test_buffer_machine.py``.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds
from otel_toolcall_eval.engine.buffer.trace_buffer import BufferLimits, TraceBuffer
from otel_toolcall_eval.model.trace import Span, Trace, Trigger
from tests.engine.buffer.plain_model import ModelVerdict, PlainModel, Sent
from tests.fakes import SECOND_NS, span

LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
SETTINGS = settings(
    max_examples=5_000 if LONG else 60,
    stateful_step_count=100 if LONG else 40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
COUNTED = ("received", "relevant", "ignored", "duplicate", "conflict", "late")
SECONDS = st.sampled_from([0, 1, 5, 9, 10, 11, 49, 50, 60, 61, 240, 300, 3600])

sent_spans = st.builds(
    Sent,
    trace=st.integers(1, 3),
    number=st.integers(1, 6),
    parent=st.none() | st.integers(1, 7),
    remote=st.sampled_from([False, False, True]),
    tool=st.booleans(),
    end=st.integers(-50, 50),
)


def to_span(sent: Sent) -> Span:
    """Build the span; its times jump as they like, since nothing may depend on them but which copy wins."""
    flags = 0x300 if sent.remote and sent.parent is not None else 0x100
    return span(
        sent.number,
        trace=sent.trace,
        parent=sent.parent,
        tool="t" if sent.tool else None,
        flags=flags,
        start=10_000 * sent.end % 777,
        end=sent.end,
    )


def hold_shelves(buffer: TraceBuffer) -> None:
    """Hold that all that is not packed can be: what is on no shelf would take its room for as long as it waits."""
    memory = buffer._memory  # noqa: SLF001 - which traces are packed is to be seen from inside alone
    shelves = (memory._young, memory._soon, memory._long)  # noqa: SLF001
    shelved = {identity for shelf in shelves for identity in shelf.traces}
    unpacked = [trace for trace in (*buffer._open.values(), *buffer._settled) if not trace.is_packed]  # noqa: SLF001
    assert {id(trace) for trace in unpacked if len(trace)} <= shelved <= {id(trace) for trace in unpacked}


class WholeTraces(RuleBasedStateMachine):
    """Everything that is judged, when, why and with what, is what the model says."""

    def __init__(self) -> None:
        super().__init__()
        # Never full, but tight enough that traces are packed and unpacked all the time.
        limits = BufferLimits(limit_bytes=40_000, span_limit=10**6, decisions_ns=10**18)
        self.buffer = TraceBuffer(is_relevant=lambda s: "tool.name" in s.attributes, limits=limits)
        self.model = PlainModel()
        self.counts = dict.fromkeys(COUNTED, 0)
        self.batches: list[list[Sent]] = []
        self.ends: dict[tuple[int, int, int], Sent] = {}

    @rule(batch=st.lists(sent_spans, min_size=1, max_size=6))
    def send(self, batch: list[Sent]) -> None:
        # Copies that end together differ in nothing: which of two of them wins is any fixed order's affair, not the model's.
        same = [self.ends.setdefault((s.trace, s.number, s.end), s) for s in batch]
        self.batches.append(same)
        self._deliver(same)

    @rule(data=st.data())
    def restart_the_sender(self, data: st.DataObject) -> None:
        if self.batches:
            self._deliver(data.draw(st.permutations(data.draw(st.sampled_from(self.batches)))))

    @rule(seconds=SECONDS)
    def expire(self, seconds: int) -> None:
        expected = self.model.expire(seconds)
        assert {judged(trace) for trace in self.buffer.pop_due(now_ns=self.model.now * SECOND_NS)} == expected

    @rule(seconds=SECONDS)
    def fall_behind(self, seconds: int) -> None:
        """Let time pass without asking what is due: the worker was busy."""
        self.expire(0)
        due = self.buffer.next_due_ns()
        if due is None or due > (self.model.now + seconds) * SECOND_NS:
            self.model.now += seconds

    @invariant()
    def books_are_straight(self) -> None:
        counts = self.counts
        assert counts == self.model.counts
        assert counts["received"] == counts["relevant"] + counts["ignored"] + counts["duplicate"] + counts["conflict"]
        assert len(self.buffer) == sum(record.decided is None for record in self.model.traces.values())
        assert 0 <= self.buffer.size_bytes <= 40_000
        hold_shelves(self.buffer)

    def teardown(self) -> None:
        assert {judged(trace) for trace in self.buffer.drain(now_ns=self.model.now * SECOND_NS)} == self.model.drain()
        assert (len(self.buffer), self.buffer.size_bytes, self.buffer.next_due_ns()) == (0, 0, None)

    def _deliver(self, batch: list[Sent]) -> None:
        result = self.buffer.add([to_span(sent) for sent in batch], now_ns=self.model.now * SECOND_NS)
        for sent in batch:
            self.model.send(sent)
        for what in COUNTED:
            self.counts[what] += getattr(result, what)


def judged(trace: Trace) -> ModelVerdict:
    """Return a trace in the model's words."""
    spans = frozenset((int.from_bytes(s.span_id, "big"), s.end_unix_ns) for s in trace.spans)
    return int.from_bytes(trace.trace_id, "big"), trace.revision, trace.trigger, frozenset(trace.doubts), spans


class AgentInvocations(RuleBasedStateMachine):
    """Whatever comes in whatever order: nothing is judged twice, nothing is in two units of one moment, nothing is left."""

    @initialize(tight=st.booleans())
    def start(self, tight: bool) -> None:  # noqa: FBT001 - drawn
        kinds = SpanKinds(
            is_relevant=lambda s: "tool.name" in s.attributes or "agent" in s.attributes, is_agent=lambda s: "agent" in s.attributes
        )
        bounds = {"num_traces": 2, "limit_bytes": 8_000, "span_limit": 4} if tight else {"limit_bytes": 60_000}
        limits = BufferLimits(**bounds, decisions_ns=10**18)
        self.buffer = TraceBuffer(kinds=kinds, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION), limits=limits)
        self.now = 0
        self.batches: list[list[Span]] = []
        self.revisions: dict[bytes, int] = {}

    @rule(
        batch=st.lists(st.tuples(sent_spans, st.sampled_from(["agent", "tool", "other"])), min_size=1, max_size=6),
        open_spans=st.none() | st.integers(0, 1),
    )
    def send(self, batch: list[tuple[Sent, str]], open_spans: int | None) -> None:
        spans = [
            span(
                sent.number,
                trace=sent.trace,
                parent=sent.parent,
                tool="t" if kind == "tool" else None,
                attributes={"agent": "a"} if kind == "agent" else {},
                flags=0x300 if sent.remote and sent.parent is not None else 0x100,
                end=sent.end,
            )
            for sent, kind in batch
        ]
        self.batches.append(spans)
        self._deliver(spans, open_spans)

    @rule(data=st.data())
    def restart_the_sender(self, data: st.DataObject) -> None:
        if self.batches:
            self._deliver(data.draw(st.permutations(data.draw(st.sampled_from(self.batches)))), None)

    @rule(seconds=SECONDS)
    def expire(self, seconds: int) -> None:
        self.now += seconds
        self._judge(self.buffer.pop_due(now_ns=self.now * SECOND_NS))
        due_ns = self.buffer.next_due_ns()
        assert due_ns is None or due_ns > self.now * SECOND_NS
        hold_shelves(self.buffer)

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            self._judge(self.buffer.drain(now_ns=self.now * SECOND_NS))
            assert (len(self.buffer), self.buffer.size_bytes, self.buffer.revisable, self.buffer.next_due_ns()) == (0, 0, 0, None)

    def _deliver(self, spans: list[Span], open_spans: int | None) -> None:
        still_open = None if open_spans is None else dict.fromkeys({s.trace_id for s in spans}, open_spans)
        result = self.buffer.add(spans, now_ns=self.now * SECOND_NS, open_spans=still_open)
        assert result.received == len(spans) == result.relevant + result.ignored + result.duplicate + result.conflict
        waiting = self.buffer.waiting(now_ns=self.now * SECOND_NS, limit=100)
        held = [trace.size_bytes for trace in (*waiting.open, *waiting.decided)]
        assert sum(held) == self.buffer.size_bytes == waiting.size_bytes
        hold_shelves(self.buffer)

    def _judge(self, traces: list[Trace]) -> None:
        for trace in traces:
            assert self.revisions.get(trace.key, -1) == trace.revision - 1, "a verdict was given twice"
            self.revisions[trace.key] = trace.revision
            assert trace.unit_span_id is None or trace.unit_span_id in {s.span_id for s in trace.spans}
        # What was evicted was so at another moment, and what was sent again since then may be in a unit of now.
        now = [trace for trace in traces if not trace.revision and trace.trigger not in {Trigger.EVICTION, Trigger.MEMORY}]
        first = [s.span_id + trace.trace_id for trace in now for s in trace.spans]
        assert len(first) == len(set(first)), "a span is in two units of one moment"


TestWholeTraces = WholeTraces.TestCase
TestWholeTraces.settings = SETTINGS
TestAgentInvocations = AgentInvocations.TestCase
TestAgentInvocations.settings = SETTINGS
