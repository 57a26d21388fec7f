"""All other processes as one: what the first process shares out among them, asks them and orders."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_all
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from otel_toolcall_eval.assembly.shed import Shed
from otel_toolcall_eval.assembly.waiting import Waiting, WaitingTrace
from otel_toolcall_eval.clock import MonotonicClock
from otel_toolcall_eval.ending import Ending
from otel_toolcall_eval.errors import CriteriaError, OverloadedError, SettingsError
from otel_toolcall_eval.pace import Brake, Burden
from otel_toolcall_eval.processes.channel import TRANSPORTS, Kind, Question, packed
from otel_toolcall_eval.processes.link import joined
from otel_toolcall_eval.processes.merging import merged_counts, merged_waiting
from otel_toolcall_eval.wire.shares import part_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.model.bound import Bound
    from otel_toolcall_eval.model.criteria import CriteriaSet
    from otel_toolcall_eval.processes.channel import Frame
    from otel_toolcall_eval.processes.link import Link, Taken
    from otel_toolcall_eval.processes.merging import Counted, States
    from otel_toolcall_eval.status.recent import Seen, UnboundService
    from otel_toolcall_eval.wire.shares import Share

_logger = logging.getLogger(__name__)

READY_SECONDS: Final = 60.0
ASK_SECONDS: Final = 2.0
"""How long metrics wait for a process before its last numbers are shown again."""

PROBLEMS_SECONDS: Final = 0.5  # who probes mostly waits for one
HOW_SECONDS: Final = 1.0
RELOAD_SECONDS: Final = 5.0
_NOTE_BYTES: Final = 50  # of a trace ID, with what is around it
_LEAST_SECONDS: Final = 0.5  # for their ends


class DividedError(CriteriaError):
    """Some processes judge by new criteria, and others could not read them, or the same ones."""


class Crew:
    """Judges in several processes; to the rest of the sidecar what a ``Worker`` is. Any thread, but ``start`` and ``shutdown``."""

    def __init__(self, links: Sequence[Link], *, criteria: Sequence[CriteriaSet]) -> None:
        """Take over processes that were just forked.

        Args:
            links: to each of them.
            criteria: those that all of them were forked with.
        """
        self.links = links
        self.criteria = criteria
        self._clock = MonotonicClock()
        self._brake = Brake(TRANSPORTS)
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._refused: Counter[tuple[str, str]] = Counter()  # guarded by _lock
        self._stopping = True  # until all are built
        self._counts: dict[int, Counted] = {}  # the last of each
        self._states: dict[int, States] = {}
        self._done: bool | None = None  # once all were told to end: whether they judged everything. What they said then was their last word
        self.on_lost: Callable[[], None] = lambda: None  # one has ended by itself
        self.on_closed: Callable[[], None] = lambda: None  # nothing more comes from any

    def listen(self, on_news: Callable[[Link, Frame], None]) -> None:
        """Read what they send; ``on_news`` gets what is no answer, on the thread of each link, and must not wait."""
        for link in self.links:
            link.start(on_news=on_news, on_end=self._ended)

    def await_ready(self) -> None:
        """Wait until all are built.

        Raises:
            SettingsError: one of them can't use the settings, a journal in most cases.
        """
        deadline, left = time.monotonic() + READY_SECONDS, {link.ready for link in self.links}
        while left:
            done, left = wait_for_all(left, max(0.0, deadline - time.monotonic()), FIRST_COMPLETED)
            fault = next((fault for ready in done if isinstance(fault := _said(ready), SettingsError)), None)
            if fault is not None:
                raise fault
            if not done or any(_said(ready) is not None for ready in done):
                what, fix = "a process that was to judge did not start", "see the lines above, or set workers: 1"
                raise SettingsError(where="workers", what=what, fix=fix)
        self._stopping = False

    def start(self) -> None:
        """Let them judge."""
        for link in self.links:
            link.order(Kind.START)

    @property
    def alive(self) -> bool:
        """Return True while all of them run."""
        return all(link.alive for link in self.links)

    def judge_by(self, criteria: Sequence[CriteriaSet]) -> None:
        """Have all read the criteria that were just read here, and judge by them from the next trace on.

        Raises:
            DividedError: one could not, or read something else: the files changed meanwhile. Those that could judge by the new ones.
        """
        versions = [(found.name, found.version) for found in criteria]
        answers = self._ask_all(Question.RELOAD, RELOAD_SECONDS, versions)
        if list(answers.values()) != [True] * len(self.links):
            what, fix = "not every process has read the same criteria", "nothing: it is tried again"
            raise DividedError(where="criteria", what=what, fix=fix)
        self.criteria = criteria

    def offer(self, kind: Kind, shares: Mapping[int, Share], *, transport: str, may_shed: bool) -> tuple[Future[Sequence[Taken]], float]:
        """Send the shares of a request to those that they belong to.

        Args:
            kind: SPANS or LOGS.
            shares: by process.
            transport: one of TRANSPORTS.
            may_shed: what has no room there is noted as shed, and not refused.

        Returns:
            What will hold how each was taken in, or the error of one; and for how many seconds the answer has to wait besides.

        Raises:
            OverloadedError: one of them is too far behind, more comes than can be judged, or all are stopping; nothing was sent.
        """
        self._refuse_if_full({part: len(share.body) for part, share in shares.items()}, transport)
        spans = sum(share.items for share in shares.values()) if kind is Kind.SPANS else 0
        now_ns = self._clock.now_ns()
        self._brake.admit(spans, transport=transport, now_ns=now_ns)
        head = bytes([TRANSPORTS.index(transport), may_shed])
        answers = [self.links[part].post(kind, head, share.body, size_bytes=len(share.body)) for part, share in shares.items()]
        return joined(answers), self._brake.charge(spans, self._burden(), transport=transport, now_ns=now_ns)

    def shed(self, sheds: Mapping[int, Shed]) -> Future[Sequence[Taken]]:
        """Have what is passed on, although there was no room for it, noted by those that its traces belong to.

        Raises:
            OverloadedError: even for that one of them is too far behind, or all are stopping.
        """
        sizes = {part: _NOTE_BYTES * len(shed.trace_ids) + 1 for part, shed in sheds.items()}
        self._refuse_if_full(sizes, "request", note=True)
        values = {part: {field.name: getattr(shed, field.name) for field in fields(Shed)} for part, shed in sheds.items()}
        return joined([self.links[part].post(Kind.SHED, packed(value), size_bytes=sizes[part]) for part, value in values.items()])

    def refuse(self, transport: str, reason: str) -> None:
        """Count a request that a receiver turned away."""
        with self._lock:
            self._refused[transport, reason] += 1

    def bind(self, trace_id: bytes, bound: Bound) -> None:
        """Judge a trace by these criteria, too, in turn with its spans.

        Raises:
            OverloadedError: all are stopping, or its process is far behind; the trace is not bound.
        """
        part = part_of(trace_id, len(self.links))
        self._refuse_if_full({part: 0}, "bind")
        self.links[part].post(Kind.BIND, packed((trace_id, tuple(bound.names))), size_bytes=_NOTE_BYTES * (1 + len(bound.names)))

    def waiting(self, *, limit: int, timeout_seconds: float) -> Waiting:
        """Return what is open and why it waits, at most ``limit`` traces of each kind.

        Raises:
            OverloadedError: not all can tell in time.
        """
        answers = self._ask_all(Question.WAITING, timeout_seconds, limit)
        if len(answers) < len(self.links):
            raise OverloadedError(where="traces", what="the service is stopping or too busy to tell", fix="ask again after a moment")
        return merged_waiting([_waiting_of(answer) for answer in answers.values()], limit=limit)

    def counts(self) -> Counted:
        """Return what happened since the start. A process that does not tell in time is there with what it told last."""
        told = self._remember(self._counts, Question.COUNTS)
        with self._lock:
            refused = dict(self._refused)
        own: dict[Any, int | float] = {
            ("toolcall_eval.requests.refused", (("reason", reason), ("transport", transport))): number
            for (transport, reason), number in refused.items()
        }
        own |= {("toolcall_eval.requests.delayed", (("transport", name),)): number for name, number in self._brake.delayed.items()}
        own["toolcall_eval.queue.memory", ()] = sum(link.waiting_bytes for link in self.links)
        return merged_counts([own, *told])

    def states(self, *, take_extremes: bool) -> Sequence[States]:
        """Return what the cells of each hold; likewise."""
        return self._remember(self._states, Question.STATES, take_extremes)

    def problems(self) -> Sequence[str]:
        """Return why they are not ready, by part; empty if they are."""
        answers = self._ask_all(Question.PROBLEMS, PROBLEMS_SECONDS)
        late = ["worker"] if len(answers) < len(self.links) else []
        return list(dict.fromkeys([*late, *(problem for answer in answers.values() for problem in answer)]))

    def remembered(self) -> Mapping[int, tuple[Seen, Mapping[str, UnboundService]]]:
        """Have what waits for the status page sent, and return what each has seen, as far as they tell in time."""
        return self._ask_all(Question.REMEMBERED, ASK_SECONDS)

    def freeze(self) -> None:
        """Let no trace fall due from now on, in none of them."""
        for link in self.links:
            link.order(Kind.FREEZE)

    def shutdown(self, timeout_seconds: float) -> bool:
        """Have all judge and send everything, and end them; False if that took longer than allowed. May be called again."""
        if self._done is not None:
            return self._done
        deadline = time.monotonic() + timeout_seconds
        self._stopping = True
        theirs = deadline - timeout_seconds + Ending.judging_seconds(timeout_seconds)  # the clock is the same in all processes
        stops = {link.index: link.stop(theirs) for link in self.links}
        wait_for_all(stops.values(), timeout_seconds)
        ended = {index: answer.result() for index, answer in stops.items() if answer.done() and answer.exception() is None}
        with self._lock:
            for index, (_, counts, states) in ended.items():
                self._counts[index], self._states[index] = counts, states
            self._done = len(ended) == len(self.links) and all(done for done, _, _ in ended.values())
        self._end(max(0.0, deadline - time.monotonic()) + _LEAST_SECONDS)
        return self._done

    def abandon(self) -> None:
        """End them at once: a part of the first process could not be built."""
        self._stopping = True
        self._end(_LEAST_SECONDS)

    def _end(self, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        for link in self.links:
            link.hang_up()
        for link in self.links:
            link.end(max(0.0, deadline - time.monotonic()))
        self.on_closed()

    def _remember(self, known: dict[int, Any], question: Question, value: object = None) -> list[Any]:
        """Ask, and return the answers; of who does not tell in time the last one. One thread at a time, so that none goes back."""
        with self._asking:
            answers = self._ask_all(question, ASK_SECONDS, value)
            with self._lock:
                if self._done is None:
                    known.update(answers)
                return list(known.values())

    def _ask_all(self, question: Question, timeout_seconds: float, value: object = None) -> dict[int, Any]:
        """Return the answers that came in time, by process."""
        asked = {link.index: answer for link in self.links if (answer := link.ask(question, value)) is not None}
        wait_for_all(asked.values(), timeout_seconds)
        return {index: answer.result() for index, answer in asked.items() if answer.done() and answer.exception() is None}

    def _refuse_if_full(self, sizes: Mapping[int, int], where: str, *, note: bool = False) -> None:
        """Raise OverloadedError, with the reason, if something of these sizes can't be sent to these processes."""
        what = "the service is stopping" if self._stopping else None
        for part, size in () if what else sizes.items():
            what = what or self.links[part].refusal(size, note=note)
        if what is not None:
            raise OverloadedError(where=where, what=what, fix="send the request again after a moment")

    def _burden(self) -> Burden:
        """Return what a span makes of work here: as many share it as there are processes, and the latest is waited for."""
        burdens = [link.burden for link in self.links]
        seconds = sum(burden.span_seconds for burden in burdens) / len(burdens) ** 2
        return Burden(seconds, max(burden.late_seconds for burden in burdens))

    def _ended(self, link: Link) -> None:
        if self._stopping:
            return
        try:
            _logger.error(
                "a process that judges has ended by itself; the others are ended, too, so that all can be started anew",
                extra={"worker": link.index + 1, "pid": link.pid, "how": link.how_it_ended(HOW_SECONDS)},
            )
        finally:
            self.on_lost()


def _said(ready: Future[object]) -> object:
    """Return what a process said when it was built: None, or what is wrong."""
    return ready.exception() or ready.result()


def _waiting_of(told: Mapping[str, Any]) -> Waiting:
    traces = {kind: tuple(WaitingTrace(**trace) for trace in told[kind]) for kind in ("open", "decided")}
    return Waiting(open_traces=told["open_traces"], revisable=told["revisable"], size_bytes=told["size_bytes"], **traces)
