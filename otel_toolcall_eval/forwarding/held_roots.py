"""Root spans that wait for the verdict on their trace, while all other spans have gone on.

A root is held from the moment before its spans are offered for judging, so that no verdict can fall before it is here, and leaves with the
verdict on its trace. Without one it leaves when it would have fallen long ago, or when too much is held; nothing is ever lost by waiting.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.forwarding.delivery import Parcel
from otel_toolcall_eval.wire.cut_roots import Additions, cut_roots
from otel_toolcall_eval.wire.cut_roots_json import cut_roots_json
from otel_toolcall_eval.wire.replies import Encoding, Signal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from otel_toolcall_eval.model.trace import Span
    from otel_toolcall_eval.wire.cut_roots import CutRoot

ATTACHED: Final = "attached"
PLAIN: Final = "no_verdict"  # nothing judges its trace, or the verdict is on another span
EXPIRED: Final = "expired"
EVICTED: Final = "evicted"
OVERLOAD: Final = "overload"
SHUTDOWN: Final = "shutdown"

OVERHEAD_BYTES: Final = 500
"""What a root that waits takes beside its bytes."""

MAX_ROOTS: Final = 100_000
_SPARE_BYTES: Final = 1 << 20
_SAID_TRACES: Final = 10_000
_SAID_BYTES: Final = 4 << 20

_CUT: Mapping[Encoding, Callable[[bytes, set[bytes]], tuple[bytes, Sequence[CutRoot]]]] = {
    Encoding.PROTOBUF: cut_roots,
    Encoding.JSON: cut_roots_json,
}


@dataclass(slots=True, kw_only=True, eq=False)
class HeldRoot:
    """A root that waits.

    Attributes:
        result: why it may leave; None while it waits.
        committed: its request was taken; before, it can't leave.
    """

    root: CutRoot
    encoding: Encoding
    since_ns: int
    additions: Additions | None = None
    result: str | None = None
    committed: bool = False

    @property
    def room_bytes(self) -> int:
        """Return what it takes of the queue's bound."""
        return self.root.size_bytes + OVERHEAD_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A root that leaves: in a parcel, in the room that it had, with so much more."""

    parcel: Parcel
    room_bytes: int
    more_bytes: int


@dataclass(frozen=True, slots=True)
class _Said:
    span_id: bytes
    additions: Additions | None
    size_bytes: int


class HeldRoots:
    """All roots that wait. Any thread; what leaves is returned, and sent by the caller."""

    def __init__(self, *, limit_bytes: int, longest_ns: int, by_unit: bool, own_scope: str, clock: Callable[[], int]) -> None:
        """Start empty.

        Args:
            limit_bytes: of all roots; beyond it the oldest leave.
            longest_ns: how long one may wait: the longest wait for a verdict after a root, and some.
            by_unit: agent runs are judged one by one, so that a trace may get a verdict after the first one.
            own_scope: spans of this scope are never judged.
            clock: monotonic nanoseconds.
        """
        self._limit_bytes = limit_bytes
        self._longest_ns = longest_ns
        self._by_unit = by_unit
        self._own_scope = own_scope
        self._clock = clock
        self._lock = threading.Lock()
        # Guarded by _lock:
        self._held: OrderedDict[int, HeldRoot] = OrderedDict()  # by identity, the oldest first
        self._of_trace: dict[bytes, list[HeldRoot]] = {}
        self._bytes = 0
        self._said: OrderedDict[bytes, _Said] = OrderedDict()
        self._said_bytes = 0
        self._results: Counter[str] = Counter()

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many roots left, by why."""
        with self._lock:
            return dict(self._results)

    def cut(self, parcel: Parcel, spans: Iterable[Span]) -> tuple[Parcel, Sequence[HeldRoot]]:
        """Take the roots among ``spans`` out of a parcel; they are not held yet."""
        wanted = {span.trace_id + span.span_id for span in spans if span.is_root and span.scope.name != self._own_scope}
        if not wanted:
            return parcel, ()
        body, roots = _CUT[parcel.encoding](parcel.body, wanted)
        # Each takes a copy of its resource along: a request with a huge one and a thousand roots would become a thousand huge ones.
        if sum(root.size_bytes for root in roots) > 2 * len(parcel.body) + _SPARE_BYTES:
            with self._lock:
                self._results[EVICTED] += len(roots)
            return parcel, ()
        left = Parcel(signal=parcel.signal, encoding=parcel.encoding, body=body)
        return left, [HeldRoot(root=root, encoding=parcel.encoding, since_ns=self._clock()) for root in roots]

    def admit(self, roots: Iterable[HeldRoot]) -> Sequence[Leaving]:
        """Hold roots, whose request is about to be taken; returns what leaves for them."""
        with self._lock:
            for held in roots:
                said = self._said.get(self._key(held.root.trace_id, held.root.span_id))
                if said is not None:  # late, or sent again
                    held.additions = said.additions if said.span_id == held.root.span_id else None
                    held.result = PLAIN if held.additions is None else ATTACHED
                    continue
                self._held[id(held)] = held
                self._of_trace.setdefault(held.root.trace_id, []).append(held)
                self._bytes += held.room_bytes
            return self._shed()

    def commit(self, roots: Iterable[HeldRoot], *, judged: bool) -> Sequence[Leaving]:
        """Note that the request was taken; ``judged`` is False if its spans were not. Returns what leaves already."""
        with self._lock:
            leaving = []
            for held in roots:
                held.committed = True
                if held.result is None and not judged:
                    self._let_go(held, OVERLOAD)
                if held.result is not None:
                    leaving.append(self._leaving(held))
            return leaving

    def cancel(self, roots: Iterable[HeldRoot]) -> None:
        """Forget roots whose request was not taken."""
        with self._lock:
            for held in roots:
                if held.result is None:
                    self._let_go(held, SHUTDOWN)

    def settle(self, trace_id: bytes, span_id: bytes | None, additions: Additions | None) -> tuple[bool, Sequence[Leaving]]:
        """Let the roots of a trace go, the judged one with what its verdict adds.

        Returns:
            Whether the judged span is among them, and what leaves.
        """
        size_bytes = 0 if additions is None else len(repr(additions))  # before the lock, which every intake takes
        with self._lock:
            attached = False
            leaving = []
            for held in tuple(self._of_trace.get(trace_id, ())):
                is_judged = held.root.span_id == span_id and additions is not None
                attached |= is_judged
                held.additions = additions if is_judged else None
                self._let_go(held, ATTACHED if is_judged else PLAIN)
                if held.committed:
                    leaving.append(self._leaving(held))
            if span_id is not None:
                self._remember(trace_id, _Said(span_id, additions, size_bytes) if attached else _Said(span_id, None, 0))
            return attached, leaving

    def expire(self) -> Sequence[Leaving]:
        """Let go of what has waited too long."""
        with self._lock:
            oldest_ns = self._clock() - self._longest_ns
            old = list(takewhile(lambda held: held.since_ns <= oldest_ns, self._held.values()))
            return [self._leave(held, EXPIRED) for held in old if held.committed]

    def clear(self) -> Sequence[Leaving]:
        """Let go of everything: no verdict is to follow."""
        with self._lock:
            return [self._leave(held, SHUTDOWN) for held in tuple(self._held.values()) if held.committed]

    def _shed(self) -> Sequence[Leaving]:
        too_many_bytes, too_many = self._bytes - self._limit_bytes, len(self._held) - MAX_ROOTS
        chosen: list[HeldRoot] = []
        oldest = filter(lambda held: held.committed, self._held.values())
        while (too_many_bytes > 0 or too_many > 0) and (held := next(oldest, None)) is not None:
            chosen.append(held)
            too_many_bytes -= held.room_bytes
            too_many -= 1
        return [self._leave(held, EVICTED) for held in chosen]

    def _leave(self, held: HeldRoot, result: str) -> Leaving:
        self._let_go(held, result)
        return self._leaving(held)

    def _let_go(self, held: HeldRoot, result: str) -> None:
        held.result = result
        del self._held[id(held)]
        siblings = self._of_trace[held.root.trace_id]
        siblings.remove(held)
        if not siblings:
            del self._of_trace[held.root.trace_id]
        self._bytes -= held.room_bytes

    def _leaving(self, held: HeldRoot) -> Leaving:
        self._results[held.result or PLAIN] += 1
        body = held.root.request(held.additions)
        more_bytes = max(0, len(body) - held.room_bytes)
        return Leaving(
            parcel=Parcel(signal=Signal.TRACES, encoding=held.encoding, body=body), room_bytes=held.room_bytes, more_bytes=more_bytes
        )

    def _key(self, trace_id: bytes, span_id: bytes) -> bytes:
        """Return under which key is remembered what was said: of a trace once and for all, of agent runs one by one."""
        return trace_id + span_id if self._by_unit else trace_id

    def _remember(self, trace_id: bytes, said: _Said) -> None:
        key = self._key(trace_id, said.span_id)
        known = self._said.get(key)
        if known is not None and known.additions is not None:
            return  # a revision goes out on a span of its own, and the root stays as it was sent
        if known is not None:
            self._said.move_to_end(key)
        self._said[key] = said
        self._said_bytes += said.size_bytes
        while len(self._said) > _SAID_TRACES or self._said_bytes > _SAID_BYTES:
            _, forgotten = self._said.popitem(last=False)
            self._said_bytes -= forgotten.size_bytes
