"""Forwards requests, and sends our own events: room for a request is reserved first, and threads of its own send it.

Senders are threads, a few: one request at a time would wait for each answer in turn, and many would only queue at the downstream.

Our own events go the same way. The SDK's batch processors drop without a word when they are full, block for minutes while a collector is
dead, and give up what they hold when they are shut down meanwhile. Here the queue is bounded in bytes, requests are retried with a growing
delay, and counted when they are lost.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.exporters.forward.downstream import Delivered, QueuedRequest, Refused, RetryLater
from otel_toolcall_eval.exporters.forward.forward_queue import DELIVERED, EXPIRED, ForwardQueue
from otel_toolcall_eval.exporters.suppression import suppressed_instrumentation
from otel_toolcall_eval.model.errors import ForwardQueueFullError
from otel_toolcall_eval.otlp.replies import Encoding, Signal
from otel_toolcall_eval.otlp.transcoding import to_protobuf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.engine.counters import Counts
    from otel_toolcall_eval.exporters.forward.downstream import Client, Outcome
    from otel_toolcall_eval.exporters.forward.forward_queue import Entry
    from otel_toolcall_eval.model.errors import Problem

_logger = logging.getLogger(__name__)

SENDERS: Final = 4
ENTRY_BYTES: Final = 500
"""What a request that waits takes beside its body."""

_END_SECONDS: Final = 5.0

EVENT_QUEUE_BYTES: Final = 32 * 1024 * 1024
"""What may wait of one signal: some 60,000 verdicts, two seconds at the sidecar's full rate or hours at a usual one."""

EVENT_MAX_ELAPSED_SECONDS: Final = 300.0
"""How long one request is tried. Source: the Collector's exporters do so by default."""

_EVENT_SENDERS: Final = 2

_TELLING_FAILURES: Final = 2  # one alone is a connection that was closed while idle, or a downstream that restarts in no time

FORWARDING: Final = {
    "rejected": "the downstream rejected part of a request",
    "refused": "the downstream refuses requests for good, so they are dropped; check forward.endpoint, its credentials, and its log",
    "failing": "the downstream can't be reached, or takes nothing; requests wait and are tried again; see forward.endpoint and .protocol",
    "works": "the downstream takes requests again",
    "expired": "requests are dropped that were tried for forward.max_elapsed",
    "full": "the queue of requests to pass on is full; senders are asked to wait",
    "left": "requests that senders had been answered for could not be passed on before the end; "
    "check that the downstream can be reached, or raise completion.shutdown_timeout",
}
"""What the operator reads of each thing that can go wrong, with what to turn."""
EXPORTING: Final = {
    "rejected": "the OTLP endpoint rejected part of our events",
    "refused": "the OTLP endpoint refuses our events for good, so they are dropped; check its address, its credentials, and its log",
    "failing": "the OTLP endpoint can't be reached, or accepts nothing; events wait and are retried; see export.otlp, OTEL_EXPORTER_OTLP_*",
    "works": "the OTLP endpoint takes events again",
    "expired": "events are dropped that the OTLP endpoint did not take for minutes",
    "full": "too many events wait for the OTLP endpoint; the newest are dropped until it keeps up",
    "left": "events could not be exported before the end; check the OTLP endpoint, or raise completion.shutdown_timeout",
}


class Forwarder:
    """Forwards what was received. Start it once; ``reserve`` and ``counts`` may be called from any thread."""

    def __init__(
        self,
        client: Client,
        *,
        queue_bytes: int,
        max_elapsed_seconds: float,
        on_delivered: Callable[[float], None] | None = None,
        phrases: Mapping[str, str] = FORWARDING,
        senders: int = SENDERS,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: speaks to the downstream.
            queue_bytes: what may wait.
            max_elapsed_seconds: since it was first tried, until a request is given up.
            on_delivered: called for each delivered request with the seconds that it waited, from several threads.
            phrases: FORWARDING or EXPORTING, what the operator reads.
            senders: threads that send.
        """
        self._client = client
        self._number_of_senders = senders
        self._on_delivered = on_delivered
        self._queue = ForwardQueue(
            limit_bytes=queue_bytes, max_elapsed_ns=round(max_elapsed_seconds * 1e9), clock=time.monotonic_ns, random=random.random
        )
        self._episodes = DeliveryLog(client.shown, protocol="http/protobuf" if client.takes_json else "grpc", phrases=phrases)
        self._senders: list[threading.Thread] = []
        self._stopped: bool | None = None

    @property
    def is_full(self) -> bool:
        """True while senders are asked to come again, since the downstream does not keep up."""
        return self._queue.is_full

    @property
    def alive(self) -> bool:
        """True unless a sender has died."""
        return all(sender.is_alive() for sender in self._senders)

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what the operator should know about the files of credentials."""
        return self._client.warnings

    def refresh(self) -> None:
        """Read files of credentials again that have changed. Called by one thread."""
        self._client.refresh()

    def start(self) -> None:
        """Start the senders."""
        self._client.start()
        self._senders = [
            threading.Thread(target=self._run, name=f"otlp-forward-{number}", daemon=True) for number in range(self._number_of_senders)
        ]
        for sender in self._senders:
            sender.start()

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal, *, items: int = 0) -> QueueReservation:
        """Reserve room for a request. The passage sends it.

        Args:
            body: of the request, unpacked.
            encoding: the body's.
            signal: what it carries.
            items: how many spans or records it holds, for ``undelivered_items``.

        Raises:
            ForwardQueueFullError: there is no room.
            DecodeError: it is to be transcoded, and can't be.
        """
        if encoding is Encoding.JSON and not self._client.takes_json:
            body, encoding = to_protobuf(body, signal), Encoding.PROTOBUF
        parcel = QueuedRequest(signal=signal, encoding=encoding, body=body, items=items)
        room_bytes = len(parcel.body) + ENTRY_BYTES
        try:
            self._queue.reserve(room_bytes)
        except Exception:
            self._episodes.full(is_full=self._queue.is_full)
            raise
        return QueueReservation(self._queue, parcel, room_bytes=room_bytes)

    @property
    def undelivered_items(self) -> int:
        """Return how many items were in requests that were given up, or were rejected in those that were taken."""
        return self._queue.undelivered_items + sum(self._episodes.rejected.values())

    @property
    def waiting_bytes(self) -> int:
        """Return what waits, with what it takes beside its bodies."""
        return self._queue.size_bytes

    def wait_until_empty(self, timeout_seconds: float) -> bool:
        """Wait until all that was taken is settled; False if that took longer."""
        return self._queue.wait_until_empty(timeout_seconds)

    def results(self) -> tuple[Mapping[tuple[str, str], int], Mapping[str, int]]:
        """Return the numbers of requests by result and signal, and of repeated tries by signal."""
        return self._queue.counts()

    def counts(self) -> Counts:
        """Return the counts since the start: instrument name and attributes to a number."""
        results, retries = self._queue.counts()
        found: Counts = {("toolcall_eval.forward.queue", ()): self._queue.size_bytes}
        for (result, signal), number in results.items():
            found["toolcall_eval.forward.requests", (("result", result), ("signal", signal))] = number
        for signal, number in retries.items():
            found["toolcall_eval.forward.retries", (("signal", signal),)] = number
        for signal, number in self._episodes.rejected.items():
            found["toolcall_eval.forward.rejected", (("signal", signal),)] = number
        return found

    def stop(self, timeout_seconds: float) -> bool:
        """Take nothing more, send what waits within the time given, and end; False if something was left, which is counted and logged."""
        if self._stopped is not None:
            return self._stopped
        left = self._queue.stop(timeout_seconds if self._senders else 0.0)
        self._client.close()
        for sender in self._senders:
            sender.join(_END_SECONDS)
        self._episodes.left(left)
        self._stopped = not left
        return self._stopped

    def _run(self) -> None:
        with suppressed_instrumentation():
            while not self._queue.is_cut:
                entry = self._queue.take()
                if entry is not None:
                    self._settle(entry, self._sent(entry.parcel))

    def _sent(self, parcel: QueuedRequest) -> Outcome:
        try:
            return self._client.send(parcel)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the thread; its text may hold what was sent
            return RetryLater(code=type(error).__qualname__)

    def _settle(self, entry: Entry, outcome: Outcome) -> None:
        result = self._queue.settle(entry, outcome)
        signal = entry.parcel.signal
        if isinstance(outcome, Delivered):
            self._episodes.delivered(signal, rejected=outcome.rejected)
        elif isinstance(outcome, Refused):
            self._episodes.refused(signal, outcome.code)
        else:
            self._episodes.failing(outcome.code, in_a_row=self._queue.failures)
        self._episodes.full(is_full=self._queue.is_full)
        if result == DELIVERED and self._on_delivered is not None:
            self._on_delivered((time.monotonic_ns() - entry.put_ns) / 1e9)
        if result == EXPIRED:
            self._episodes.expired()


class QueueReservation:
    """Room that is reserved for one request. One of the two methods is to be called, once."""

    __slots__ = ("_parcel", "_queue", "_room_bytes")

    def __init__(self, queue: ForwardQueue, parcel: QueuedRequest, *, room_bytes: int) -> None:
        """Keep what is to be sent."""
        self._queue = queue
        self._parcel = parcel
        self._room_bytes = room_bytes

    def commit(self) -> None:
        """Queue the request; an empty one holds nothing to send."""
        if self._parcel.body:
            self._queue.put(self._parcel, room_bytes=self._room_bytes)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Release the room: the request was rejected."""
        self._queue.release(self._room_bytes)


class OtlpEventSender:
    """Sends our own events of one signal. Any thread."""

    def __init__(self, client: Client, signal: Signal, *, queue_bytes: int = EVENT_QUEUE_BYTES) -> None:
        """Start sending to ``client``."""
        self._signal = signal
        self._forwarder = Forwarder(
            client, queue_bytes=queue_bytes, max_elapsed_seconds=EVENT_MAX_ELAPSED_SECONDS, phrases=EXPORTING, senders=_EVENT_SENDERS
        )
        self._lock = threading.Lock()
        self._dropped = 0  # guarded by _lock
        self._lost_before = 0  # how much was lost by the end of the last flush; whoever flushes does so one at a time
        self._forwarder.start()

    def send(self, body: bytes, *, items: int) -> None:
        """Take a request of so many spans or records; if there is no room for it, it is dropped, counted and logged."""
        try:
            passage = self._forwarder.reserve(body, Encoding.PROTOBUF, self._signal, items=items)
        except ForwardQueueFullError:
            with self._lock:
                self._dropped += items
        else:
            passage.commit()

    @property
    def dropped(self) -> int:
        """Return how many spans or records were lost: for lack of room, given up, or rejected by the endpoint."""
        with self._lock:
            own = self._dropped
        return own + self._forwarder.undelivered_items

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until all that was taken is delivered; False if that took longer, or something was lost since the last flush."""
        if not self._forwarder.wait_until_empty(timeout_seconds):
            return False
        before, self._lost_before = self._lost_before, self.dropped
        return before == self._lost_before

    def shutdown(self, timeout_seconds: float) -> bool:
        """Send what waits within the time given, and end; False if something was left."""
        return self._forwarder.stop(timeout_seconds)

    def counts(self) -> Counts:
        """Return exports that failed, whether or not they were tried again, what was lost, and what waits."""
        signal = (("signal", self._signal.name.lower()),)
        results, retries = self._forwarder.results()
        failed = sum(retries.values()) + sum(number for (result, _), number in results.items() if result != DELIVERED)
        return {
            ("toolcall_eval.export.failures", signal): failed,
            ("toolcall_eval.export.dropped", signal): self.dropped,
            ("toolcall_eval.export.queue", signal): self._forwarder.waiting_bytes,
        }


class DeliveryLog:
    """Logs what goes wrong, once for each episode; never what was sent, what was answered, or any header. Any thread."""

    def __init__(self, shown: str, *, protocol: str, phrases: Mapping[str, str]) -> None:
        """Start without an episode; ``shown`` is the downstream's address, without credentials."""
        self._phrases = phrases
        self._fields = {"endpoint": shown, "protocol": protocol}
        self._lock = threading.Lock()
        # Guarded by _lock:
        self._episodes: set[tuple[str, str]] = set()  # what goes wrong, and of which signal, if that matters
        self._rejected: Counter[str] = Counter()

    @property
    def rejected(self) -> Counter[str]:
        """Return how many spans, records and data points were rejected in requests that were accepted, by signal."""
        with self._lock:
            return Counter(self._rejected)

    def delivered(self, signal: Signal, *, rejected: int) -> None:
        """Note a request that was accepted, but for what was rejected of it."""
        name = signal.name.lower()
        self._works()
        self._end("refused", name)
        if not rejected:
            self._end("rejected", name)
            return
        with self._lock:
            self._rejected[name] += rejected
        self._begin("rejected", logging.WARNING, signal=name, rejected=rejected)

    def refused(self, signal: Signal, code: str) -> None:
        """Note a request that the downstream will never accept."""
        self._works()
        self._begin("refused", logging.ERROR, signal=signal.name.lower(), status=code)

    def failing(self, code: str, *, in_a_row: int) -> None:
        """Note a request that has to be sent again."""
        if in_a_row >= _TELLING_FAILURES:
            self._begin("failing", logging.WARNING, status=code)

    def expired(self) -> None:
        """Note a request that was given up."""
        self._begin("expired", logging.ERROR)

    def full(self, *, is_full: bool) -> None:
        """Note whether the queue is full."""
        if is_full:
            self._begin("full", logging.WARNING)
        else:
            self._end("full")

    def left(self, requests: int) -> None:
        """Note what could not be sent before the end."""
        if requests:
            self._begin("left", logging.ERROR, requests=requests)

    def _works(self) -> None:
        if self._end("failing"):
            _logger.info(self._phrases["works"], extra=self._fields)
        self._end("expired")

    def _begin(self, what: str, level: int, *, signal: str = "", **fields: object) -> None:
        with self._lock:
            if (what, signal) in self._episodes:
                return
            self._episodes.add((what, signal))
        of_signal = {"signal": signal} if signal else {}
        _logger.log(level, self._phrases[what], extra={**self._fields, **of_signal, **fields})

    def _end(self, what: str, signal: str = "") -> bool:
        with self._lock:
            is_open = (what, signal) in self._episodes
            self._episodes.discard((what, signal))
            return is_open
