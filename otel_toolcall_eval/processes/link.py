"""The first process's hold on one of the others: what it was sent and has not answered yet, and whether it lives."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from otel_toolcall_eval.errors import OverloadedError
from otel_toolcall_eval.pace import Burden
from otel_toolcall_eval.processes.channel import Kind, Question, packed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.processes.channel import Channel, Frame

_logger = logging.getLogger(__name__)

STALLED_SECONDS: Final = 3.0
"""After so long without an answer, and with requests to answer, a process is sent no more of them: their senders would wait in vain. A
question that is open for as long is not asked again, whatever it waits for: requests have nothing to do with it."""

_GONE: Final = "the process that judges this trace has ended"
_NOTES_FACTOR: Final = 2  # notes of requests are taken beyond the bound on requests, and up to so many times of it


class OtherProcess(Protocol):
    """The process at the other end."""

    @property
    def pid(self) -> int:
        """Return its ID."""
        ...

    @property
    def how(self) -> str:
        """Return how it has ended."""
        ...

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for its end; False if it does not come in time."""
        ...

    def kill(self) -> None:
        """End it, and wait for that."""
        ...


class Taken(NamedTuple):
    """How a request was taken in.

    Attributes:
        judged: False if there was no room, and its spans are only noted as shed.
        rejected: spans that can't be used, by reason.
        burden: what a span makes of work there.
    """

    judged: bool = True
    rejected: Mapping[str, int] = {}
    burden: Burden = Burden()


@dataclass(slots=True, kw_only=True)
class _Open:
    """A frame that waits for its answer, sent at a moment; a request, unless it is a question or an order."""

    since_seconds: float
    question: Question | None = None
    is_request: bool = False
    size_bytes: int = 0
    answer: Future[Any] = field(default_factory=Future)


class Link:
    """One of the other processes. Any thread.

    Attributes:
        index: which one, from 0.
        burden: what a span makes of work there, by its last answer.
    """

    def __init__(self, channel: Channel, process: OtherProcess, index: int, *, limit_bytes: int) -> None:
        """Prepare; nothing is read before ``start``.

        Args:
            channel: our end.
            process: at the other.
            index: which one.
            limit_bytes: of requests that it has not answered; beyond it further ones are refused.
        """
        self.index = index
        self.burden = Burden()
        self._process = process
        self._channel = channel
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._open: dict[int, _Open] = {}  # guarded by _lock, as the next five
        self._open_requests = self._open_bytes = 0
        self._number = 0
        self._heard_seconds = 0.0  # when the last request was answered, or the first of those that are open was sent; monotonic
        self._ended = False
        self._told_stalled = False
        self._named = {"worker": index + 1, "pid": process.pid}
        self.ready: Future[object] = Future()

    @property
    def waiting_bytes(self) -> int:
        """Return the size of the requests that were not answered yet."""
        return self._open_bytes

    @property
    def alive(self) -> bool:
        """Return True while it can be spoken to."""
        return not self._ended

    @property
    def stalled(self) -> bool:
        """Return True if it has answered no request for STALLED_SECONDS, although there are some."""
        return bool(self._open_requests) and time.monotonic() - self._heard_seconds > STALLED_SECONDS

    @property
    def pid(self) -> int:
        """Return the ID of the process."""
        return self._process.pid

    def how_it_ended(self, timeout_seconds: float) -> str:
        """Return how the process has ended, if it does in time."""
        return self._process.how if self._process.wait(timeout_seconds) else "not yet"

    def start(self, *, on_news: Callable[[Link, Frame], None], on_end: Callable[[Link], None]) -> None:
        """Read what it sends, on a thread; ``on_news`` must not wait, and ``on_end`` is called once nothing more can come."""
        threading.Thread(target=self._run, args=(on_news, on_end), name=f"otel-toolcall-eval-link-{self.index}", daemon=True).start()

    def refusal(self, size_bytes: int, *, note: bool = False) -> str | None:
        """Return why a request of this size can't be sent, or a note of one; None if it can, as always if nothing is open."""
        if self._ended:
            return _GONE
        if self.stalled:
            if not self._told_stalled:
                self._told_stalled = True
                _logger.error("a process that judges does not answer; it is sent no more until it does", extra=self._named)
            return "the process that judges this trace does not answer"
        limit_bytes = self._limit_bytes * (_NOTES_FACTOR if note else 1)
        is_full = self._open_bytes and self._open_bytes + size_bytes > limit_bytes
        return "the queue of spans to judge is full" if is_full else None

    def post(self, kind: Kind, *parts: bytes, size_bytes: int) -> Future[Taken]:
        """Send a request; returns what will hold how it was taken in, or an error."""
        return self._send(_Open(since_seconds=time.monotonic(), is_request=True, size_bytes=size_bytes), kind, *parts)

    def ask(self, question: Question, value: object) -> Future[Any] | None:
        """Ask something; returns what will hold the answer. None if there is no hope for one: then nothing is asked."""
        now_seconds = time.monotonic()
        with self._lock:
            asked = [opened.since_seconds for opened in self._open.values() if opened.question is question]
        if self._ended or self.stalled or (asked and now_seconds - min(asked) > STALLED_SECONDS):
            return None
        return self._send(_Open(since_seconds=now_seconds, question=question), Kind.ASK, packed((question, value)))

    def stop(self, deadline_seconds: float) -> Future[Any]:
        """Have all judged and sent until then, on the clock that all processes share; returns what will hold the last counts."""
        return self._send(_Open(since_seconds=time.monotonic()), Kind.STOP, packed(deadline_seconds))

    def order(self, kind: Kind, value: object = None) -> None:
        """Send a frame that has no answer."""
        self._channel.send(kind, 0, packed(value))

    def hang_up(self) -> None:
        """Let go of the process, which ends by that."""
        self._channel.close()

    def end(self, timeout_seconds: float) -> None:
        """Wait for its end, after ``hang_up``; it is killed if that does not come in time."""
        if not self._process.wait(timeout_seconds):
            self._process.kill()

    def _send(self, opened: _Open, kind: Kind, *parts: bytes) -> Future[Any]:
        with self._lock:
            self._number = number = self._number + 1
            if self._ended:
                opened.answer.set_exception(_gone())
                return opened.answer
            if opened.is_request and not self._open_requests:
                self._heard_seconds = opened.since_seconds
            self._open[number] = opened
            self._open_requests += opened.is_request
            self._open_bytes += opened.size_bytes
        self._channel.send(kind, number, *parts)
        return opened.answer

    def _run(self, on_news: Callable[[Link, Frame], None], on_end: Callable[[Link], None]) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                if frame.kind is Kind.ANSWER:
                    self._answered(frame)
                elif frame.kind is Kind.READY:
                    self.ready.set_result(frame.value())
                else:
                    on_news(self, frame)
        except Exception as error:  # noqa: BLE001 - whatever it was, nothing more is read, and who waits has to hear of it
            _logger.error(  # noqa: TRY400 - without the traceback, whose last line may hold what was sent
                "a process that judges can't be understood; please report it", extra={"error_type": type(error).__qualname__}
            )
        self._end(on_end)

    def _end(self, on_end: Callable[[Link], None]) -> None:
        with self._lock:
            self._ended = True
            left, self._open = list(self._open.values()), {}
            self._open_requests = self._open_bytes = 0
        for opened in left:
            _settle(opened.answer, _gone())
        if not self.ready.done():
            self.ready.set_exception(_gone())
        on_end(self)

    def _answered(self, frame: Frame) -> None:
        with self._lock:
            opened = self._open.pop(frame.number)
            self._open_bytes -= opened.size_bytes
            if opened.is_request:
                self._open_requests -= 1
                self._heard_seconds = time.monotonic()
        if opened.is_request and self._told_stalled:
            self._told_stalled = False
            _logger.info("the process that judges answers again", extra=self._named)
        value = frame.value()
        if isinstance(value, Taken):
            self.burden = value.burden
        _settle(opened.answer, value)


def joined(answers: Sequence[Future[Taken]]) -> Future[Sequence[Taken]]:
    """Return what is done when all are: with all results, or the error of one."""
    whole: Future[Sequence[Taken]] = Future()
    lock, left = threading.Lock(), [len(answers)]

    def one_is_done(_answer: Future[Taken]) -> None:
        with lock:
            left[0] -= 1
            if left[0]:
                return
        if not whole.set_running_or_notify_cancel():
            return
        error = next((error for answer in answers if (error := answer.exception()) is not None), None)
        if error is None:
            whole.set_result([answer.result() for answer in answers])
        else:
            whole.set_exception(error)

    for answer in answers:
        answer.add_done_callback(one_is_done)
    if not answers:
        whole.set_result(())
    return whole


def _settle(answer: Future[Any], result: object) -> None:
    """Give an answer to who waits; who has given up is passed over."""
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(result, Exception):
        answer.set_exception(result)
    else:
        answer.set_result(result)


def _gone() -> OverloadedError:
    return OverloadedError(where="request", what=_GONE, fix="send the request again after a moment")
