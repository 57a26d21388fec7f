"""One trace that is still being assembled: its spans, what is missing, what it weighs."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING

from otel_toolcall_eval.assembly.completion import Progress, doubts
from otel_toolcall_eval.model.trace import Trace, Trigger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_toolcall_eval.model.trace import Span

TRACE_OVERHEAD_BYTES = 1_000
"""What an open trace takes beside its spans: this object, its dicts, its place in the heap (measured with tracemalloc)."""


class Arrival(StrEnum):
    """What became of a span that arrived. Each span has exactly one, so the counts add up to what was received."""

    KEPT = "kept"
    DROPPED = "dropped"  # counted, not kept: the trace is at its bound
    DUPLICATE = "duplicate"  # an equal copy: exporters resend a whole batch after a timeout
    CONFLICT = "conflict"  # another copy under the same ID


class OpenTrace:
    """The spans of one trace, distinct by span ID. Owned by the buffer."""

    __slots__ = (
        "_awaited",
        "_relevant",
        "decided_ns",
        "first_ns",
        "last_ns",
        "news",
        "note",
        "open_spans",
        "revise_ns",
        "revisions",
        "root_ns",
        "scheduled_ns",
        "size_bytes",
        "spans",
        "trace_id",
        "truncated",
    )

    def __init__(self, trace_id: bytes, *, now_ns: int) -> None:
        """Start an empty trace at its first span's arrival."""
        self.trace_id = trace_id
        self.spans: dict[bytes, Span] = {}
        self.first_ns = now_ns
        self.last_ns = now_ns
        self.root_ns: int | None = None
        self.open_spans = 0
        self.size_bytes = TRACE_OVERHEAD_BYTES
        self.truncated = False
        self.scheduled_ns: int | None = None  # earliest deadline that stands for this trace in the buffer's heap
        self.decided_ns: int | None = None
        self.revise_ns: int | None = None  # when late spans are to be looked at
        self.revisions = 0
        self.note: object = None  # the buffer's owner's
        self.news = False  # something came that could change a verdict
        self._relevant = 0
        self._awaited: Counter[bytes] = Counter()  # parents that spans name and that have not come

    def add(self, span: Span, *, now_ns: int, relevant: bool, span_limit: int, max_bytes: int) -> Arrival:
        """Take in one span and say what became of it."""
        self.last_ns = now_ns
        known = self.spans.get(span.span_id)
        if known is not None:
            return self._settle(known, span, relevant=relevant)
        full = self.size_bytes + span.size_bytes > max_bytes or (relevant and self._relevant >= span_limit)
        if full and not span.is_root:  # the root carries the verdict and tells the agent, so it's kept in any case
            self.truncated = True
            return Arrival.DROPPED
        self._relevant += relevant
        self.news |= relevant or span.span_id in self._awaited or (self.root_ns is None and span.is_root)
        self._keep(span)
        return Arrival.KEPT

    def progress(self) -> Progress:
        """Return how far the trace has come."""
        return Progress(
            first_ns=self.first_ns,
            last_ns=self.last_ns,
            root_ns=self.root_ns,
            orphans=bool(self._awaited),
            open_spans=self.open_spans,
        )

    def close(self, trigger: Trigger, *, now_ns: int) -> Trace:
        """Return the trace as it stands."""
        spans = tuple(self.spans.values())
        return Trace(
            trace_id=self.trace_id,
            spans=spans,
            root=judged_root(spans),
            trigger=trigger,
            doubts=doubts(self.progress(), trigger, truncated=self.truncated),
            revision=self.revisions,
            note=self.note,
            decided_after_ns=now_ns - (self.first_ns if self.root_ns is None else self.root_ns),
        )

    def _settle(self, known: Span, span: Span, *, relevant: bool) -> Arrival:
        """Decide between two copies by what they say, never by which came first."""
        if span == known:
            return Arrival.DUPLICATE
        if _precedence(span) > _precedence(known):
            self.news |= relevant
            self._forget(known)
            self._keep(span)
        return Arrival.CONFLICT

    def _keep(self, span: Span) -> None:
        if self.root_ns is None and span.is_root:
            self.root_ns = self.last_ns
        self.spans[span.span_id] = span
        self.size_bytes += span.size_bytes
        self._awaited.pop(span.span_id, None)
        parent = self._missing_parent(span)
        if parent is not None:
            self._awaited[parent] += 1

    def _forget(self, span: Span) -> None:
        self.size_bytes -= span.size_bytes
        parent = self._missing_parent(span)
        del self.spans[span.span_id]
        if parent is not None:
            self._awaited[parent] -= 1
            if not self._awaited[parent]:
                del self._awaited[parent]

    def _missing_parent(self, span: Span) -> bytes | None:
        parent = span.parent_span_id
        if span.is_root or parent is None or parent in self.spans:
            return None
        return parent


def judged_root(spans: Iterable[Span]) -> Span | None:
    """Return the span that verdicts are attached to, whatever the order of ``spans``; None if there are none.

    The earliest span without a parent; else the earliest whose parent is in another process; else the earliest one whose
    parent is unknown; else (parents in a ring) the earliest of all.
    """
    spans = tuple(spans)
    ids = {span.span_id for span in spans}

    def rank(span: Span) -> tuple[int, int, bytes]:
        if span.parent_span_id is None:
            kind = 0
        elif span.is_root:
            kind = 1
        else:
            kind = 2 if span.parent_span_id not in ids else 3
        return kind, span.start_unix_ns, span.span_id

    return min(spans, key=rank, default=None)


def _precedence(span: Span) -> tuple[int, int, str]:
    """Order the copies of one span: the later end wins (an early export was cut short), then any fixed order."""
    return span.end_unix_ns, span.start_unix_ns, repr((sorted(span.attributes.items(), key=lambda item: item[0]), span))
