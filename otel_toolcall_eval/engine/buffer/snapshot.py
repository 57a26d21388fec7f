"""A picture of what is open, for people: what waits, why, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.open_trace import OpenTrace
    from otel_toolcall_eval.model.trace import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTrace:
    """One trace that waits for its verdict, or for late spans.

    Attributes:
        unit_span_id: the agent span, for a unit; None for a whole trace.
        state: ``active`` (no root yet), ``root_seen`` or ``decided`` (may be revised).
        waits_for: in a few words.
        seconds: from now until it is evaluated, or forgotten, if nothing else comes; below 0 if it is overdue.
        trigger: what it is then evaluated by; None for a decided one.
        agents: agent spans that wait to be evaluated one by one.
        revisions: how often its verdict was looked at again.
    """

    trace_id: bytes
    unit_span_id: bytes | None
    state: str
    waits_for: str
    seconds: float
    trigger: Trigger | None
    age_seconds: float
    spans: int
    size_bytes: int
    root_seen: bool
    orphans: bool
    open_spans: int
    agents: int
    truncated: bool
    revisions: int

    def document(self) -> Mapping[str, object]:
        """Return it in plain values, IDs as hex, times in seconds."""
        return {
            "trace_id": self.trace_id.hex(),
            "unit_span_id": None if self.unit_span_id is None else self.unit_span_id.hex(),
            "state": self.state,
            "waits_for": self.waits_for,
            "seconds": round(self.seconds, 3),
            "trigger": None if self.trigger is None else self.trigger.value,
            "age_seconds": round(self.age_seconds, 3),
            "spans": self.spans,
            "bytes": self.size_bytes,
            "root_seen": self.root_seen,
            "orphans": self.orphans,
            "open_spans": self.open_spans,
            "agents": self.agents,
            "truncated": self.truncated,
            "revisions": self.revisions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTracesSnapshot:
    """What waits, with the totals; ``open`` and ``decided`` may hold fewer."""

    open_traces: int
    revisable: int
    size_bytes: int
    open: tuple[WaitingTrace, ...]
    decided: tuple[WaitingTrace, ...]

    def document(self) -> Mapping[str, object]:
        """Return it in plain values."""
        return {
            "open": self.open_traces,
            "revisable": self.revisable,
            "bytes": self.size_bytes,
            "traces": [trace.document() for trace in self.open],
            "decided": [trace.document() for trace in self.decided],
        }


def waiting_of(
    open_traces: Mapping[bytes, OpenTrace],
    settled: Iterable[OpenTrace],
    due: Callable[[OpenTrace], tuple[int, Trigger]],
    *,
    now_ns: int,
    limit: int,
    size_bytes: int,
) -> OpenTracesSnapshot:
    """Return the picture; at most ``limit`` traces of each kind."""
    settled = tuple(settled)
    return OpenTracesSnapshot(
        open_traces=len(open_traces),
        revisable=len(settled),
        size_bytes=size_bytes,
        open=tuple(_waiting(trace, due(trace), now_ns) for trace in islice(open_traces.values(), limit)),
        decided=tuple(_decided(trace, now_ns) for trace in settled[:limit]),
    )


def _waiting(trace: OpenTrace, due: tuple[int, Trigger], now_ns: int) -> WaitingTrace:
    agents = 0 if trace.pending is None else len(trace.pending.arrived)
    root_seen = trace.root_ns is not None or bool(agents)
    if not root_seen:
        waits_for = "its root span"
    elif trace.open_spans:
        waits_for = "spans that are open in this process"
    elif trace.orphans:
        waits_for = "the parents of some spans"
    else:
        waits_for = "quiet"
    return _picture(trace, "root_seen" if root_seen else "active", waits_for, due, now_ns)


def _decided(trace: OpenTrace, now_ns: int) -> WaitingTrace:
    until_ns = trace.revise_ns
    waits_for = "late spans" if until_ns is None else "quiet, to be looked at again"
    return _picture(trace, "decided", waits_for, (trace.keep_until_ns if until_ns is None else until_ns, None), now_ns)


def _picture(trace: OpenTrace, state: str, waits_for: str, due: tuple[int, Trigger | None], now_ns: int) -> WaitingTrace:
    until_ns, trigger = due
    return WaitingTrace(
        trace_id=trace.trace_id,
        unit_span_id=trace.unit_span_id,
        state=state,
        waits_for=waits_for,
        seconds=(until_ns - now_ns) / 1e9,
        trigger=trigger,
        age_seconds=(now_ns - trace.first_ns) / 1e9,
        spans=len(trace),
        size_bytes=trace.size_bytes,
        root_seen=trace.root_ns is not None,
        orphans=trace.orphans,
        open_spans=trace.open_spans,
        agents=0 if trace.pending is None else len(trace.pending.arrived),
        truncated=trace.truncated,
        revisions=trace.revisions,
    )
