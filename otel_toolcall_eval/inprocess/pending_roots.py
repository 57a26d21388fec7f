"""Holds ended root spans back until their verdict, so that what is exported of them carries it.

An ended span can't be written to, so the exported root is a copy. The worker thread hands it to the next processor. Where the verdict is
there within ``budget_seconds`` the root's own thread waits for it, and hands it on itself: then it is there when the hook returns, as
without us. No thread waits in which an event loop runs (all its tasks would), nor one whose trace has other spans open.

Never lost: whoever takes a root off the table hands it on. It leaves the table untouched when its trace was decided without a word about it
(a late root, a unit of another span), when too many are held, when it is held for too long, at a flush, and at shutdown; its verdict then
goes on a span of ours. Rejected: evaluation in the root's thread, which takes a lock around the evaluation; holding the whole trace.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.model.trace import Span

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from opentelemetry.sdk.trace import ReadableSpan

    from otel_toolcall_eval.model.score import TraceReport
    from otel_toolcall_eval.model.trace import Attributes, SpanEvent

    Key = tuple[int, int]

_logger = logging.getLogger(__name__)

MAX_ROOTS: Final = 1_000
"""Roots that may be held; the SDK's batch processor holds 2,048 spans."""


@dataclass(frozen=True, slots=True)
class Said:
    """What there is to be said on a root: the report, with verdicts, and the attributes and events that it comes to."""

    report: TraceReport
    attributes: Attributes
    events: tuple[SpanEvent, ...]


class PendingRoot:
    """A root that waits."""

    __slots__ = ("awaited", "copy", "decided", "done", "ending", "said", "since", "span", "taken")

    def __init__(self, span: ReadableSpan, since: float) -> None:
        """Hold a span, ``since`` this moment of monotonic time."""
        self.span = span
        self.since = since
        self.taken = False  # the worker thread has it, too
        self.awaited = False  # by its own thread, which hands it on
        self.copy: ReadableSpan | None = None  # what is to be handed on
        self.done = threading.Event()
        self.ending = False  # its end is still to come, and hands it on; until then it can be written to (see wrapped_next)
        self.decided = False  # while it was ending
        self.said: Said | None = None  # what was decided then


class PendingRoots:
    """Holds roots, and lets them go with their verdicts."""

    def __init__(
        self,
        hand_on: Callable[[ReadableSpan], None],
        annotate: Callable[[ReadableSpan, Said], ReadableSpan],
        *,
        is_open: Callable[[bytes], bool],
        quiet: Callable[[], AbstractContextManager[None]],
        budget_seconds: float,
        max_seconds: float,
    ) -> None:
        """Prepare.

        Args:
            hand_on: gives a span to the next processor; never raises.
            annotate: returns a copy of a span with verdicts.
            is_open: tells whether a trace is still to be evaluated; asked by the worker thread alone.
            quiet: suppresses instrumentation while the worker thread hands on.
            budget_seconds: longest wait of a root's own thread; 0 never waits.
            max_seconds: longest time that a root is held, whatever the worker thread does.
        """
        self._hand_on = hand_on
        self._annotate = annotate
        self._is_open = is_open
        self._quiet = quiet
        self._budget_seconds = budget_seconds
        self._max_seconds = max_seconds
        self._complained = False
        self._held: dict[Key, PendingRoot] = {}
        self.reset()

    def reset(self) -> None:
        """Forget all: after a fork the parent hands them on."""
        self._lock = threading.RLock()  # a signal handler may end a root while this thread is in here
        self._held = {}  # the oldest first; guarded by _lock

    def hold(self, span: ReadableSpan, *, ending: bool = False) -> PendingRoot | None:
        """Hold a root that has ended, or is ending; None if it has to be handed on at once. What was held for too long is handed on."""
        now = time.monotonic()
        while (key := self._held_too_long(now)) is not None:
            self._let_go(key, None)
        held = PendingRoot(span, now)
        held.ending = ending
        held.awaited = self._budget_seconds > 0 and not _in_event_loop()
        with self._lock:
            if len(self._held) >= MAX_ROOTS:
                return None
            self._held[_key(span)] = held
        return held

    def wait(self, held: PendingRoot) -> None:
        """Wait for the verdict within the budget, and hand the root on if it is there; the worker thread does otherwise."""
        if not held.awaited:
            return
        try:
            held.done.wait(self._budget_seconds)
        finally:  # an exception out of a signal handler, too
            with self._lock:
                held.awaited = False
                copy = held.copy
            if copy is not None:
                self._hand_on(copy)

    def wait_while_ending(self, held: PendingRoot) -> Said | None:
        """Wait for what is said on a root that can be written to, within the budget; None if there is nothing, or nothing yet."""
        try:
            if held.awaited:
                held.done.wait(self._budget_seconds)
        finally:
            held.awaited = False
        return held.said

    def ended(self, held: PendingRoot, span: ReadableSpan, *, written: bool) -> None:
        """Hand on a root that was held while it was ending, unless its verdict is still to come."""
        with self._lock:
            held.ending, held.span = False, span
            decided, said = held.decided, held.said
        if decided:
            self._hand_on(span if written or said is None else self._with_verdicts(span, said))

    def settle(self, report: TraceReport, *, attributes: Attributes, events: tuple[SpanEvent, ...]) -> bool:
        """Let the root of a report go, with its verdicts if there are any; True if they are on it."""
        said = None if report.unbound else Said(report, attributes, events)
        return self._let_go(_key_of(report), said) and said is not None

    def taken(self, span: ReadableSpan | Span) -> None:
        """Hear that the worker thread has got the end of a span."""
        if isinstance(span, Span):
            if not span.is_root:
                return
            key = int.from_bytes(span.trace_id), int.from_bytes(span.span_id)
        else:
            parent = span.parent
            if parent is not None and not parent.is_remote:
                return
            key = _key(span)
        held = self._held.get(key)
        if held is not None:
            held.taken = True

    def on_batch_done(self) -> None:
        """Let those go about which nothing is to be said, and let nobody wait for what takes longer."""
        for key, held in self._all_held().items():
            if held.taken and not self._is_open(key[0].to_bytes(16, "big")):
                self._let_go(key, None)
            elif held.taken:
                held.done.set()

    def flush(self) -> None:
        """Let all go that are held. What is due was evaluated before; the others' verdicts come too late for who flushes."""
        for key in self._all_held():
            self._let_go(key, None)

    def release(self, span: ReadableSpan) -> None:
        """Let a root go that the worker thread won't get."""
        self._let_go(_key(span), None)

    def _all_held(self) -> dict[Key, PendingRoot]:
        """Return a copy of the table. Iterating it instead would fail: a finalizer may end a root in this very thread, lock or no lock."""
        with self._lock:
            return self._held.copy()

    def _held_too_long(self, now: float) -> Key | None:
        with self._lock:
            key = next(iter(self._held), None)
            held = None if key is None else self._held.get(key)
        return None if held is None or now - held.since < self._max_seconds else key

    def _let_go(self, key: Key, said: Said | None) -> bool:
        """Hand a root on; False if somebody else did, or it was never held. Who takes it off the table decides what is on it."""
        with self._lock:
            held = self._held.pop(key, None)
            if held is not None and held.ending:
                held.said, held.decided = said, True
        if held is None:
            return False
        if held.decided:
            held.done.set()
            return True
        copy = held.span if said is None else self._with_verdicts(held.span, said)
        with self._lock:
            held.copy = copy
            awaited = held.awaited
        held.done.set()
        if not awaited:
            with self._quiet():
                self._hand_on(copy)
        return True

    def _with_verdicts(self, span: ReadableSpan, said: Said) -> ReadableSpan:
        try:
            return self._annotate(span, said)
        except Exception:
            if not self._complained:
                self._complained = True
                _logger.exception("verdicts could not be put on a span, which is exported without them; please report this")
            return span


def _key(span: ReadableSpan) -> Key:
    context = span.context
    return context.trace_id, context.span_id


def _key_of(report: TraceReport) -> Key:
    span = report.evaluated_span
    return (0, 0) if span is None else (int.from_bytes(span.trace_id), int.from_bytes(span.span_id))


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
