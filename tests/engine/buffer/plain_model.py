"""What the buffer does for whole traces without bounds, written down as plainly as possible and without regard to cost."""

from __future__ import annotations

from dataclasses import dataclass, field

from otel_toolcall_eval.model.trace import IncompletenessReason, Trigger

QUIET, CAP, IDLE, AGE, WINDOW, REVISIONS = 10, 60, 300, 3600, 60, 3


@dataclass(frozen=True)
class Sent:
    """A span as the model sees it: numbers for names, seconds for times."""

    trace: int
    number: int
    parent: int | None
    remote: bool
    tool: bool
    end: int

    @property
    def is_root(self) -> bool:
        return self.parent is None or self.remote


@dataclass
class Record:
    """All that is known of one trace."""

    first: int
    last: int = 0
    root: int | None = None
    spans: dict[int, Sent] = field(default_factory=dict)
    decided: int | None = None
    revise: int | None = None
    news: bool = False
    revisions: int = 0

    @property
    def orphans(self) -> bool:
        return any(not s.is_root and s.parent is not None and s.parent not in self.spans for s in self.spans.values())

    def awaited(self, number: int) -> bool:
        return number not in self.spans and any(not s.is_root and s.parent == number for s in self.spans.values())

    def due(self) -> tuple[int, Trigger]:
        if self.root is None:
            at, trigger = self.last + IDLE, Trigger.IDLE_TIMEOUT
        else:
            at, trigger = min(self.root + CAP, self.root + CAP if self.orphans else self.last + QUIET), Trigger.ROOT_SPAN
        return (self.first + AGE, Trigger.TRACE_TIMEOUT) if self.first + AGE < at else (at, trigger)

    def doubts(self, *, drained: bool) -> set[IncompletenessReason]:
        found = {IncompletenessReason.NO_ROOT} if self.root is None else set()
        found |= {IncompletenessReason.ORPHAN} if self.orphans else set()
        return found | ({IncompletenessReason.SHUTDOWN} if drained else set())


ModelVerdict = tuple[int, int, Trigger, frozenset[IncompletenessReason], frozenset[tuple[int, int]]]


class PlainModel:
    """Traces by number, and the counts of spans."""

    def __init__(self) -> None:
        self.now = 0
        self.traces: dict[int, Record] = {}
        self.counts = dict.fromkeys(("received", "relevant", "ignored", "duplicate", "conflict", "late"), 0)

    def send(self, sent: Sent) -> None:
        record = self.traces.setdefault(sent.trace, Record(first=self.now))
        self.counts["received"] += 1
        decided = record.decided is not None
        if record.decided is not None and self.now >= record.decided + WINDOW:
            self.counts["late"] += 1
            self.counts["relevant" if sent.tool else "ignored"] += 1
            return
        known = record.spans.get(sent.number)
        record.last = self.now
        if known == sent:
            self.counts["duplicate"] += 1
            return
        self.counts["late"] += decided
        if known is not None:
            self.counts["conflict"] += 1
            if sent.end > known.end:
                record.news |= sent.tool or known.tool
                record.spans[sent.number] = sent
        else:
            self.counts["relevant" if sent.tool else "ignored"] += 1
            record.news |= sent.tool or record.awaited(sent.number) or (record.root is None and sent.is_root)
            record.spans[sent.number] = sent
        if record.root is None and record.spans[sent.number].is_root:
            record.root = self.now
        if record.decided is not None and record.news and record.revisions < REVISIONS:
            record.news = False
            record.revise = min(self.now + QUIET, record.decided + WINDOW)

    def expire(self, seconds: int) -> set[ModelVerdict]:
        self.now += seconds
        judged = set()
        for number, record in self.traces.items():
            at, trigger = record.due()
            if record.decided is None and at <= self.now:
                judged.add(self._judged(number, record, trigger))
                record.decided, record.news = self.now, False
            elif record.decided is not None and record.revise is not None and record.revise <= self.now:
                record.revise = None
                record.revisions += 1
                judged.add(self._judged(number, record, Trigger.LATE_SPAN))
        return judged

    def drain(self) -> set[ModelVerdict]:
        judged = {self._judged(number, r, Trigger.SHUTDOWN) for number, r in self.traces.items() if r.decided is None}
        for number, record in self.traces.items():
            if record.decided is not None and record.revise is not None:  # a revision that waits for quiet is not lost
                record.revisions += 1
                judged.add(self._judged(number, record, Trigger.LATE_SPAN))
        return judged

    def _judged(self, number: int, record: Record, trigger: Trigger) -> ModelVerdict:
        doubts = frozenset(record.doubts(drained=trigger is Trigger.SHUTDOWN))
        return number, record.revisions, trigger, doubts, frozenset((s.number, s.end) for s in record.spans.values())
