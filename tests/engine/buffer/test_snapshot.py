"""The picture of what waits says why, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.completion import CompletionPolicy, Unit
from otel_toolcall_eval.engine.buffer.trace_buffer import TraceBuffer
from tests.engine.buffer.test_agent_invocations import KINDS, agent, tool
from tests.fakes import SECOND_NS, span

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.buffer.snapshot import OpenTracesSnapshot


def picture(buf: TraceBuffer, second: float, limit: int = 10) -> OpenTracesSnapshot:
    return buf.waiting(now_ns=round(second * SECOND_NS), limit=limit)


def test_each_state_of_a_trace_has_its_words_and_its_seconds() -> None:
    buf = TraceBuffer(kinds=KINDS)
    buf.add([span(2, parent=1)], now_ns=0)
    buf.add([span(1, trace=2)], now_ns=0)
    buf.add([span(1, trace=3), span(3, trace=3, parent=2)], now_ns=0)
    buf.add([span(1, trace=4)], now_ns=0, open_spans={span(1, trace=4).trace_id: 2})
    buf.add([tool(1, None, trace=5)], now_ns=-10 * SECOND_NS)
    buf.pop_due(now_ns=0)
    found = picture(buf, 4)
    assert [(t.trace_id[-1], t.state, t.waits_for, t.seconds, t.trigger) for t in found.open] == [
        (1, "active", "its root span", 296.0, "idle_timeout"),
        (2, "root_seen", "quiet", 6.0, "root_span"),
        (3, "root_seen", "the parents of some spans", 56.0, "root_span"),
        (4, "root_seen", "spans that are open in this process", 56.0, "root_span"),
    ]
    (decided,) = found.decided
    assert (decided.trace_id[-1], decided.state, decided.waits_for, decided.seconds, decided.trigger) == (
        5,
        "decided",
        "late spans",
        56.0,
        None,
    )
    assert (found.open_traces, found.revisable, found.size_bytes) == (4, 1, buf.size_bytes)
    buf.add([tool(2, 1, trace=5)], now_ns=5 * SECOND_NS)
    (late,) = picture(buf, 6).decided
    assert (late.waits_for, late.seconds) == ("quiet, to be looked at again", 9.0)


def test_units_are_told_with_their_agent_span_and_the_agents_that_wait() -> None:
    buf = TraceBuffer(kinds=KINDS, policy=CompletionPolicy(unit=Unit.AGENT_INVOCATION))
    buf.add([agent(1), tool(2, 1)], now_ns=0)
    buf.pop_due(now_ns=10 * SECOND_NS)
    buf.add([agent(11, parent=99)], now_ns=20 * SECOND_NS)
    document = picture(buf, 20).document()
    assert document["open"] == document["revisable"] == 1
    open_trace, decided = (kind[0] for kind in (document["traces"], document["decided"]))  # type: ignore[index]
    assert {key: open_trace[key] for key in ("agents", "unit_span_id", "spans", "state", "seconds")} == {
        "agents": 1,
        "unit_span_id": None,
        "spans": 1,
        "state": "root_seen",
        "seconds": 10.0,
    }
    assert (decided["unit_span_id"], decided["trigger"], decided["spans"]) == ("00" * 7 + "01", None, 2)


def test_picture_is_bounded_and_its_totals_are_not() -> None:
    buf = TraceBuffer(kinds=KINDS)
    buf.add([span(1, trace=number) for number in range(1, 30)], now_ns=0)
    found = picture(buf, 0, limit=3)
    assert (len(found.open), found.open_traces) == (3, 29)
