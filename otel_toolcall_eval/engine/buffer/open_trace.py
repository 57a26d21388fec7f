"""One trace that is being assembled, or one unit of it: its spans, what is missing, what it weighs."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.completion import doubts
from otel_toolcall_eval.engine.buffer.packing import PackedSpans
from otel_toolcall_eval.engine.buffer.span_kinds import EVERY_SPAN_MATTERS, by_parent
from otel_toolcall_eval.model.trace import Trace, Trigger

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from otel_toolcall_eval.engine.buffer.compression import CompressorPool
    from otel_toolcall_eval.engine.buffer.span_kinds import SpanKinds
    from otel_toolcall_eval.model.trace import Span

TRACE_BYTES = 550
"""What a trace takes beside its spans: this object, its places in the buffer and in the heap (measured, see tests)."""

UNPACKED_BYTES = TRACE_BYTES + 250
"""The same with its table of spans, which a packed one does not have."""

SPAN_SLOT_BYTES = 45
"""What a span takes in the trace's tables, on the average over the sizes to which they grow."""


_NOWHERE: dict[bytes, Span] = {}
"""Where the spans of packed traces are; one for all, since nothing is put into it: an empty dictionary each would take 64 bytes."""


class Arrival(StrEnum):
    """What became of a span that arrived. Each span has exactly one, so the counts add up to what was received."""

    KEPT = "kept"
    DROPPED = "dropped"  # counted, not kept: the trace is at its bound
    DUPLICATE = "duplicate"  # an equal copy: exporters resend a whole batch after a timeout
    CONFLICT = "conflict"  # another copy under the same ID


class PendingAgents:
    """The agent spans of a container that are not units yet.

    Attributes:
        arrived: when each came.
        above: parents of agent spans that have not come. What else hangs on them is beside the agents, not part of them.
        fresh: something came since it was last looked at.
        retry_ns: when the first of the top-most ones will have waited up to the cap, as of that look.
    """

    __slots__ = ("above", "arrived", "fresh", "retry_ns")

    def __init__(self) -> None:
        """Start with none."""
        self.arrived: dict[bytes, int] = {}
        self.above: set[bytes] = set()
        self.fresh = True
        self.retry_ns = 0


class OpenTrace:
    """The spans of one trace, distinct by span ID. Owned by the buffer."""

    __slots__ = (
        "_awaited",
        "_kinds",
        "_packed",
        "_packed_orphans",
        "_relevant",
        "_spans",
        "above",
        "damaged",
        "decided_ns",
        "first_ns",
        "keep_until_ns",
        "last_ns",
        "lost",
        "news",
        "note",
        "open_spans",
        "outside",
        "pending",
        "provisional",
        "revise_ns",
        "revisions",
        "root_ns",
        "scheduled_ns",
        "size_bytes",
        "trace_id",
        "truncated",
        "unit_span_id",
    )

    def __init__(self, trace_id: bytes, kinds: SpanKinds = EVERY_SPAN_MATTERS, *, now_ns: int, unit_span_id: bytes | None = None) -> None:
        """Start an empty trace at its first span's arrival."""
        self.trace_id = trace_id
        self.unit_span_id = unit_span_id
        self.first_ns = now_ns
        self.last_ns = now_ns
        self.root_ns: int | None = None
        self.open_spans = 0
        self.size_bytes = UNPACKED_BYTES
        self.truncated = False
        self.lost = False  # spans that belong to it were given up before
        self.damaged = False  # spans that belong to it could not be read back from the journal
        self.outside = False  # a unit: spans that may belong to it hang on parents that have not come
        self.above: bytes | None = None  # a unit: the parent of its agent span
        self.provisional = False  # a unit: that parent has not come, so it may turn out to be part of another unit
        self.pending: PendingAgents | None = None  # agent spans that wait to become units
        self.scheduled_ns: int | None = None  # earliest deadline that stands for this trace in the buffer's heap
        self.decided_ns: int | None = None
        self.keep_until_ns = 0  # once decided: until when late spans may revise it
        self.revise_ns: int | None = None  # when late spans are to be looked at
        self.revisions = 0
        self.note: object = None  # the buffer's owner's
        self.news = False  # something came that could change a verdict
        self._kinds = kinds
        self._relevant = 0
        self._spans: dict[bytes, Span] = {}
        self._awaited: dict[bytes, int] | None = None  # parents that spans name and that have not come, and how many name them
        self._packed: PackedSpans | None = None  # stands for the two above while nobody looks at them
        self._packed_orphans = False

    @property
    def key(self) -> bytes:
        """Return what tells it from all other traces and units."""
        return self.trace_id if self.unit_span_id is None else self.trace_id + self.unit_span_id

    @property
    def spans(self) -> Mapping[bytes, Span]:
        """Return the spans by ID, in order of arrival; those that are packed are unpacked for the caller alone."""
        return self._spans if self._packed is None else self._packed.unpack()

    @property
    def is_packed(self) -> bool:
        """True while the spans are packed."""
        return self._packed is not None

    def __len__(self) -> int:
        """Return the number of spans."""
        return len(self._spans) if self._packed is None else self._packed.number

    def pack(self, compressors: CompressorPool) -> None:
        """Take less memory until the next span comes; what can't be packed, or would take no less, stays as it is."""
        if self._packed is not None or not self._spans:
            return
        try:
            packed = PackedSpans(self.trace_id, self._spans, compressors)
        except ValueError:  # a value of a type that no decoder of ours makes
            return
        size_bytes = TRACE_BYTES + packed.size_bytes
        if size_bytes < self.size_bytes:
            self._packed, self._packed_orphans, self.size_bytes = packed, bool(self._awaited), size_bytes
            self._spans, self._awaited = _NOWHERE, None

    def add(self, span: Span, *, now_ns: int, relevant: bool, span_limit: int, max_bytes: int) -> Arrival:
        """Take in one span and say what became of it."""
        self.last_ns = now_ns
        if self._packed is not None:
            self._unpack(self._packed)
        known = self._spans.get(span.span_id)
        if known is not None:
            return self._resolve_copies(known, span, relevant=relevant)
        is_root = self._kinds.is_root(span)
        full = self.size_bytes + span.size_bytes > max_bytes or (relevant and self._relevant >= span_limit)
        if full and not is_root:  # the root carries the verdict and tells the agent, so it's kept in any case
            self.truncated = True
            return Arrival.DROPPED
        self._relevant += relevant
        self.news |= relevant or self.awaits(span.span_id) or (self.root_ns is None and is_root)
        self._keep(span, is_root=is_root)
        return Arrival.KEPT

    def take(self, span_ids: Collection[bytes]) -> list[Span]:
        """Let go of spans that belong elsewhere, and return them. Cost: linear in all spans."""
        spans = self.spans
        taken = [span for span_id, span in spans.items() if span_id in span_ids]
        self._packed, self._awaited = None, None
        self._spans = {span_id: span for span_id, span in spans.items() if span_id not in span_ids}
        self._relevant -= sum(map(self._kinds.is_relevant, taken))
        self._weigh()
        return taken

    def awaits(self, span_id: bytes) -> bool:
        """Tell whether a span that is here names this one as its parent, and it has not come. Roots await nobody."""
        if self._packed is not None:
            return span_id not in (spans := self.spans) and any(span.parent_span_id == span_id for span in spans.values())
        return self._awaited is not None and span_id in self._awaited

    @property
    def orphans(self) -> bool:
        """True if a span's parent has not come, so that something is missing."""
        return self.outside or (bool(self._awaited) if self._packed is None else self._packed_orphans)

    def close(self, trigger: Trigger, *, now_ns: int) -> Trace:
        """Return the trace as it stands."""
        spans = self.spans
        return Trace(
            trace_id=self.trace_id,
            spans=tuple(spans.values()),
            root=judged_root(spans.values(), self._kinds.is_root) if self.unit_span_id is None else spans.get(self.unit_span_id),
            trigger=trigger,
            doubts=doubts(self, trigger),
            revision=self.revisions,
            note=self.note,
            decided_after_ns=now_ns - (self.first_ns if self.root_ns is None else self.root_ns),
            unit_span_id=self.unit_span_id,
        )

    def _unpack(self, packed: PackedSpans) -> None:
        self._packed = None
        self._spans = packed.unpack()
        self._weigh()

    def _weigh(self) -> None:
        self.size_bytes = UNPACKED_BYTES + sum(SPAN_SLOT_BYTES + span.size_bytes for span in self._spans.values())
        for span in self._spans.values():
            self._await_parent(span, is_root=self._kinds.is_root(span))

    def _resolve_copies(self, known: Span, span: Span, *, relevant: bool) -> Arrival:
        """Decide between two copies by what they say, never by which came first."""
        if span == known:
            return Arrival.DUPLICATE
        if _precedence(span) > _precedence(known):
            self._relevant += relevant - self._kinds.is_relevant(known)
            self.news |= relevant or self._kinds.is_relevant(known)
            self._forget(known)
            self._keep(span, is_root=self._kinds.is_root(span))
        return Arrival.CONFLICT

    def _keep(self, span: Span, *, is_root: bool) -> None:
        if self.root_ns is None and (is_root or span.span_id == self.unit_span_id):
            self.root_ns = self.last_ns
        self._spans[span.span_id] = span
        self.size_bytes += SPAN_SLOT_BYTES + span.size_bytes
        if self._awaited and span.span_id in self._awaited:
            del self._awaited[span.span_id]
        self._await_parent(span, is_root=is_root)

    def _await_parent(self, span: Span, *, is_root: bool) -> None:
        parent = None if is_root else self._missing_parent(span)
        if parent is not None:
            if self._awaited is None:
                self._awaited = {}
            self._awaited[parent] = self._awaited.get(parent, 0) + 1

    def _forget(self, span: Span) -> None:
        self.size_bytes -= SPAN_SLOT_BYTES + span.size_bytes
        parent = None if self._kinds.is_root(span) else self._missing_parent(span)
        del self._spans[span.span_id]
        if parent is not None and self._awaited is not None:
            self._awaited[parent] -= 1
            if not self._awaited[parent]:
                del self._awaited[parent]

    def _missing_parent(self, span: Span) -> bytes | None:
        """Return the ID of the parent of a span that is no root, if that has not come."""
        parent = span.parent_span_id
        return None if parent in self._spans or parent == self.above else parent


def judged_root(spans: Iterable[Span], is_root: Callable[[Span], bool] = by_parent) -> Span | None:
    """Return the span that verdicts are attached to, whatever the order of ``spans``; None if there are none.

    The earliest span without a parent; else the earliest other root; else the earliest one whose parent is unknown; else
    (parents in a ring) the earliest of all.
    """
    spans = tuple(spans)
    found: Span | None = None
    for span in spans:  # nearly every trace has one without a parent: no tuple is made of each span then
        if span.parent_span_id is None and (found is None or _is_before(span, found)):
            found = span
    if found is not None:
        return found
    ids = {span.span_id for span in spans}

    def rank(span: Span) -> tuple[int, int, bytes]:
        is_top = span.parent_span_id not in ids
        return 1 if is_root(span) else 2 if is_top else 3, span.start_unix_ns, span.span_id

    return min(spans, key=rank, default=None)


def _is_before(span: Span, other: Span) -> bool:
    """Tell whether a span is the earlier one; of two that start together, the one with the lower ID."""
    start, other_start = span.start_unix_ns, other.start_unix_ns
    return start < other_start or (start == other_start and span.span_id < other.span_id)


def _precedence(span: Span) -> tuple[int, int, str]:
    """Order the copies of one span: the later end wins (an early export was cut short), then any fixed order."""
    return span.end_unix_ns, span.start_unix_ns, repr((sorted(span.attributes.items(), key=lambda item: item[0]), span))
