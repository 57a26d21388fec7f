"""Decides when a trace is complete (``completion_deadline``), and what may be missing from it (``doubts``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from otel_toolcall_eval.engine.buffer.span_kinds import NO_CONDITION, RootCondition
from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger

SECOND_NS = 1_000_000_000


class Unit(StrEnum):
    """What gets a verdict of its own."""

    TRACE = "trace"
    AGENT_INVOCATION = "agent_invocation"  # the top-most agent span with all that is below it; a trace without one counts whole


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionPolicy:
    """The waiting times, in monotonic nanoseconds of arrival. Defaults: the sidecar's.

    Attributes:
        wait_after_root_ns: quiet period after the root was received, restarted by each span of the trace. Another process
            exports on a 5 s tick and retries for up to 10 s.
        wait_after_root_max_ns: cap on the quiet period, so that a chatty background task can't hold the verdict. While an
            orphan exists or a local span is open, the cap is what is waited for.
        idle_timeout_ns: since the last span, no root yet. Long model turns are silent for minutes.
        trace_timeout_ns: since the first span, whatever happens.
        late_span_window_ns: since the verdict; a span that matters and comes within it makes a revision.
        max_revisions: most revisions of one verdict.
        unit: what gets a verdict of its own.
        root: what makes a span a root although it has a parent.
    """

    wait_after_root_ns: int = 10 * SECOND_NS
    wait_after_root_max_ns: int = 60 * SECOND_NS
    idle_timeout_ns: int = 300 * SECOND_NS
    trace_timeout_ns: int = 3600 * SECOND_NS
    late_span_window_ns: int = 60 * SECOND_NS
    max_revisions: int = 3
    unit: Unit = Unit.TRACE
    root: RootCondition = NO_CONDITION


IN_PROCESS_POLICY = CompletionPolicy(wait_after_root_ns=0, wait_after_root_max_ns=30 * SECOND_NS)


class Progress(Protocol):
    """How far a trace has come. All times are arrival times."""

    @property
    def first_ns(self) -> int:
        """Return when the first span came."""
        ...

    @property
    def last_ns(self) -> int:
        """Return when the last span came."""
        ...

    @property
    def root_ns(self) -> int | None:
        """Return when the first root came; None if there is none yet."""
        ...

    @property
    def orphans(self) -> bool:
        """True if a span's parent is unknown and not flagged as remote, so that something is missing."""
        ...

    @property
    def open_spans(self) -> int:
        """Return how many local spans have started and not ended; always 0 in the sidecar."""
        ...

    @property
    def truncated(self) -> bool:
        """True if spans were left out to stay within bounds."""
        ...

    @property
    def lost(self) -> bool:
        """True if spans that belong to it were given up before."""
        ...

    @property
    def damaged(self) -> bool:
        """True if spans that belong to it could not be read back from the journal."""
        ...


def completion_deadline(progress: Progress, policy: CompletionPolicy) -> tuple[int, Trigger]:
    """Decide when the trace counts as complete if no other span arrives, and why then.

    - With a root: after a quiet period since the last span, at most ``wait_after_root_max_ns`` after the root. While a parent is missing
      or a local span is open, only that cap counts.
    - Without a root: ``idle_timeout_ns`` after the last span.
    - In any case ``trace_timeout_ns`` after the first span.
    """
    if progress.root_ns is None:
        at_ns, trigger = progress.last_ns + policy.idle_timeout_ns, Trigger.IDLE_TIMEOUT
    else:
        cap_ns = progress.root_ns + policy.wait_after_root_max_ns
        held = progress.orphans or progress.open_spans > 0
        at_ns = cap_ns if held else min(progress.last_ns + policy.wait_after_root_ns, cap_ns)
        trigger = Trigger.ROOT_SPAN
    limit_ns = progress.first_ns + policy.trace_timeout_ns
    return (limit_ns, Trigger.TRACE_TIMEOUT) if limit_ns < at_ns else (at_ns, trigger)


_DOUBT_BY_TRIGGER = {
    Trigger.EVICTION: IncompletenessReason.EVICTED,
    Trigger.MEMORY: IncompletenessReason.EVICTED,
    Trigger.SHUTDOWN: IncompletenessReason.SHUTDOWN,
}


def doubts(progress: Progress, trigger: Trigger) -> tuple[IncompletenessReason, ...]:
    """Return why spans may be missing from a trace that is evaluated now; empty if it is complete.

    Args:
        progress: how far the trace has come.
        trigger: why it is evaluated now. A trace that was cut short by shutdown or eviction may lack spans that were under way.
    """
    found: list[IncompletenessReason] = []
    if progress.root_ns is None:
        found.append(IncompletenessReason.NO_ROOT)
    if progress.orphans and not progress.truncated:  # beyond the limit parents are not kept, so every child would look like an orphan
        found.append(IncompletenessReason.ORPHAN)
    if progress.open_spans > 0:
        found.append(IncompletenessReason.OPEN_SPANS)
    if progress.truncated:
        found.append(IncompletenessReason.SPAN_LIMIT)
    if progress.lost:
        found.append(IncompletenessReason.EVICTED)
    if progress.damaged:
        found.append(IncompletenessReason.JOURNAL)
    if trigger in _DOUBT_BY_TRIGGER and _DOUBT_BY_TRIGGER[trigger] not in found:
        found.append(_DOUBT_BY_TRIGGER[trigger])
    return tuple(found)
