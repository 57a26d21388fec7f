"""What one of the other processes does: judges what the first one sends, answers it, and ends with it."""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from otel_toolcall_eval.assembly.shed import Shed
from otel_toolcall_eval.assembly.waiting import WaitingTrace
from otel_toolcall_eval.errors import IntakeError, InternalError, OverloadedError, ToolCallEvalError
from otel_toolcall_eval.model.bound import Bound
from otel_toolcall_eval.processes.channel import TRANSPORTS, Kind, Question, encoding_of, packed
from otel_toolcall_eval.processes.link import Taken
from otel_toolcall_eval.sources.otlp_intake import DECODERS, LOG_DECODERS, shed_records, shed_spans
from otel_toolcall_eval.status.recent import Seen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from otel_toolcall_eval.assembly.waiting import Waiting
    from otel_toolcall_eval.emission.telemetry import Telemetry
    from otel_toolcall_eval.journal.sqlite_journal import SqliteJournal
    from otel_toolcall_eval.processes.channel import Channel, Frame
    from otel_toolcall_eval.processes.news import NewsSender
    from otel_toolcall_eval.status.recent import Recent
    from otel_toolcall_eval.work_items import Receipt
    from otel_toolcall_eval.worker import Worker

    Versions: TypeAlias = Sequence[tuple[str, str]]

_logger = logging.getLogger(__name__)

_HEAD_BYTES: Final = 2  # see ``Kind.SPANS``
_ANSWER_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a judging process consists of; ``reload`` returns False if other criteria than those were read, and judges by the old ones."""

    worker: Worker
    telemetry: Telemetry
    journal: SqliteJournal | None
    recent: Recent | None
    news: NewsSender
    reload: Callable[[Versions], bool]


class Member:
    """A process that judges. ``run`` is its main thread."""

    def __init__(self, channel: Channel, parts: Parts) -> None:
        """Take the parts; none of them runs yet."""
        self._channel = channel
        self._parts = parts
        # Each question has a thread of its own: an answer may take a while, or for ever, and requests and the others go on meanwhile.
        self._answering = {question: ThreadPoolExecutor(1, thread_name_prefix=f"otel-toolcall-eval-{question}") for question in Question}
        self._makers: Mapping[Question, Callable[[Any], object]] = {
            Question.COUNTS: lambda _: self._counts(),
            Question.STATES: lambda extremes: parts.telemetry.aggregator.states(take_extremes=extremes),
            Question.WAITING: lambda limit: _plain(parts.worker.waiting(limit=limit, timeout_seconds=_ANSWER_SECONDS)),
            Question.REMEMBERED: lambda _: self._remembered(),
            Question.PROBLEMS: lambda _: self._problems(),
            Question.RELOAD: self._reload,
        }
        self._started = self._stopped = False

    def run(self) -> bool:
        """Serve until the first process lets go; False if it did without having ordered the end, or if nothing can be judged any more."""
        self._channel.send(Kind.READY, 0, packed(None))
        while (frame := self._channel.receive()) is not None:
            if self._started and not self._stopped and not self._parts.worker.alive:
                return False
            self._take(frame)
        return self._stopped

    def _take(self, frame: Frame) -> None:
        parts = self._parts
        if frame.kind is Kind.SPANS or frame.kind is Kind.LOGS:
            self._request(frame)
        elif frame.kind is Kind.ASK:
            question, value = frame.value()
            with suppress(RuntimeError):  # all is judged and told: who asks now hears that when the others have ended, too
                self._answering[question].submit(self._answer, frame.number, self._makers[question], value)
        elif frame.kind is Kind.SHED:
            told = frame.value()
            noted = parts.worker.shed(Shed(**told))
            self._send(frame.number, self._taken({}, judged=False) if noted else _full(told["transport"]))
        elif frame.kind is Kind.BIND:
            self._bind(frame)
        elif frame.kind is Kind.START:
            parts.worker.start()
            self._started = True
        elif frame.kind is Kind.FREEZE:
            parts.worker.freeze()
        elif frame.kind is Kind.STOP:
            self._stopped = True
            # Beside this thread, which hears meanwhile that what was told is written.
            threading.Thread(target=self._stop, args=(frame,), name="otel-toolcall-eval-stop", daemon=True).start()
        else:
            parts.news.hear(frame)

    def _bind(self, frame: Frame) -> None:
        trace_id, names = frame.value()
        try:
            self._parts.worker.bind(trace_id, Bound(names=names))
        except OverloadedError as error:
            _logger.warning("a trace was not bound: %s", error)
            self._send(frame.number, error)
        else:
            self._send(frame.number, self._taken({}))

    def _request(self, frame: Frame) -> None:
        """Take a request in, and answer once that is done: at once, or when it is in the journal."""
        transport, may_shed = TRANSPORTS[frame.content[0]], bool(frame.content[1])
        worker, encoding = self._parts.worker, encoding_of(transport)
        try:
            body, projection = frame.content[_HEAD_BYTES:], worker.pipeline.projection
            if frame.kind is Kind.SPANS:
                spans = DECODERS[encoding](body, projection)
                shed = (lambda: worker.shed(shed_spans(spans, transport))) if may_shed else None
                self._offered(frame, partial(worker.offer, spans, transport=transport), spans.rejected_by, shed)
            else:
                records = LOG_DECODERS[encoding](body, projection)
                shed = (lambda: worker.shed(shed_records(records, transport))) if may_shed else None
                self._offered(frame, partial(worker.offer_logs, records, transport=transport), {}, shed)
        except IntakeError as error:
            self._send(frame.number, error)
        except Exception as error:  # noqa: BLE001 - a bug of ours must cost this request alone
            self._failed("a request", error)
            self._send(frame.number, InternalError.anonymous())

    def _offered(
        self, frame: Frame, offer: Callable[[], Receipt | None], rejected: Mapping[str, int], shed: Callable[[], bool] | None
    ) -> None:
        try:
            receipt = offer()
        except OverloadedError:
            if shed is None or not shed():
                raise
            self._send(frame.number, self._taken(rejected, judged=False))
            return
        written = None if receipt is None else receipt.done
        if written is None:
            self._send(frame.number, self._taken(rejected))
        else:
            written.add_done_callback(partial(self._written, frame.number, rejected))

    def _written(self, number: int, rejected: Mapping[str, int], done: Future[None]) -> None:
        error = done.exception()
        self._send(number, self._taken(rejected) if error is None else error)

    def _taken(self, rejected: Mapping[str, int], *, judged: bool = True) -> Taken:
        return Taken(judged=judged, rejected=rejected, burden=self._parts.worker.burden)

    def _answer(self, number: int, make: Callable[[Any], object], value: object) -> None:
        try:
            self._send(number, make(value))
        except IntakeError as error:
            self._send(number, error)
        except Exception as error:  # noqa: BLE001 - likewise
            self._failed("a question", error)
            self._send(number, InternalError.anonymous())

    def _stop(self, frame: Frame) -> None:
        deadline = frame.value()
        parts = self._parts
        judged = parts.worker.shutdown(max(0.0, deadline - time.monotonic()))
        sent = parts.telemetry.shutdown(max(0.1, deadline - time.monotonic()))
        if parts.journal is not None:
            parts.journal.close(delivered=sent, ended=not parts.worker.alive, timeout_seconds=deadline - time.monotonic())
        for answering in self._answering.values():
            answering.shutdown(wait=False, cancel_futures=True)
        self._send(frame.number, (judged and sent, self._counts(), parts.telemetry.aggregator.states(take_extremes=True)))

    def _counts(self) -> Mapping[Any, int | float]:
        source = self._parts.telemetry.aggregator.source
        return {} if source is None else source.counts()

    def _remembered(self) -> object:
        recent = self._parts.recent
        if recent is None:
            return Seen(), {}
        recent.settle()
        return recent.seen, recent.unbound

    def _problems(self) -> list[str]:
        worker, journal = self._parts.worker, self._parts.journal
        return [*([] if worker.alive else ["worker"]), *(["journal"] if journal is not None and journal.has_problem() else [])]

    def _reload(self, versions: Versions) -> bool:
        try:
            return self._parts.reload(versions)
        except ToolCallEvalError as error:
            _logger.warning("criteria could not be read once more: %s", error)
            return False

    def _send(self, number: int, value: object) -> None:
        self._channel.send(Kind.ANSWER, number, packed(value))

    @staticmethod
    def _failed(what: str, error: Exception) -> None:
        """Log a fault by its type: its text may hold what was sent."""
        _logger.error("%s failed inside a process that judges; please report it", what, extra={"error_type": type(error).__qualname__})


def _full(transport: str) -> OverloadedError:
    return OverloadedError(where=transport, what="too many traces are shed already", fix="send the request again after a moment")


def _plain(waiting: Waiting) -> Mapping[str, object]:
    """Return it in values that can travel: objects of the compiled core can't."""
    names = [field.name for field in fields(WaitingTrace)]

    def plain(traces: Sequence[WaitingTrace]) -> list[Mapping[str, object]]:
        return [{name: getattr(one, name) for name in names} for one in traces]

    return {
        "open_traces": waiting.open_traces,
        "revisable": waiting.revisable,
        "size_bytes": waiting.size_bytes,
        "open": plain(waiting.open),
        "decided": plain(waiting.decided),
    }
