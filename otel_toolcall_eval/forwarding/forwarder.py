"""Passes requests on: takes them in with their room reserved, and sends them from threads of its own.

Senders are threads, a few: one request at a time would wait for each answer in turn, and many would only queue at the downstream.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.forwarding.delivery import Delivered, Parcel, Refused, TryAgain
from otel_toolcall_eval.forwarding.episodes import FORWARDING, Episodes
from otel_toolcall_eval.forwarding.forward_queue import DELIVERED, EXPIRED, ForwardQueue
from otel_toolcall_eval.suppression import suppressed_instrumentation
from otel_toolcall_eval.wire.replies import Encoding, Signal
from otel_toolcall_eval.wire.transcoding import to_protobuf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.accounts import Counts
    from otel_toolcall_eval.errors import Problem
    from otel_toolcall_eval.forwarding.delivery import Client, Outcome
    from otel_toolcall_eval.forwarding.episodes import Words
    from otel_toolcall_eval.forwarding.forward_queue import Entry

SENDERS: Final = 4
ENTRY_BYTES: Final = 500
"""What a request that waits takes beside its body."""

_END_SECONDS: Final = 5.0


class Forwarder:
    """Passes on what was received. Start it once; ``reserve`` and ``counts`` may be called from any thread."""

    def __init__(
        self,
        client: Client,
        *,
        queue_bytes: int,
        max_elapsed_seconds: float,
        on_delivered: Callable[[float], None] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        words: Words = FORWARDING,
        senders: int = SENDERS,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: speaks to the downstream.
            queue_bytes: what may wait.
            max_elapsed_seconds: since it was first tried, until a request is given up.
            on_delivered: is told, for each request that was delivered, how many seconds it waited. Called from several threads.
            clock: monotonic nanoseconds.
            words: what the operator is told in.
            senders: threads that send.
        """
        self._client = client
        self._number_of_senders = senders
        self._on_delivered = on_delivered
        self._clock = clock
        self._queue = ForwardQueue(
            limit_bytes=queue_bytes, max_elapsed_ns=round(max_elapsed_seconds * 1e9), clock=clock, random=random.random
        )
        self._episodes = Episodes(client.shown, protocol="http/protobuf" if client.takes_json else "grpc", words=words)
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

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal, *, items: int = 0) -> Passage:
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
        parcel = Parcel(signal=signal, encoding=encoding, body=body, items=items)
        room_bytes = len(parcel.body) + ENTRY_BYTES
        try:
            self._queue.reserve(room_bytes)
        except Exception:
            self._episodes.full(is_full=self._queue.is_full)
            raise
        return Passage(self._queue, parcel, room_bytes=room_bytes)

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
        """Return what happened since the start: instrument name and attributes to a number."""
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
        """Take nothing more, send what waits within the time given, and end; False if something was left, which is counted and told."""
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

    def _sent(self, parcel: Parcel) -> Outcome:
        try:
            return self._client.send(parcel)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the thread; its text may hold what was sent
            return TryAgain(code=type(error).__qualname__)

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
            self._on_delivered((self._clock() - entry.put_ns) / 1e9)
        if result == EXPIRED:
            self._episodes.expired()


class Passage:
    """Room that is reserved for one request. One of the two methods is to be called, once."""

    __slots__ = ("_parcel", "_queue", "_room_bytes")

    def __init__(self, queue: ForwardQueue, parcel: Parcel, *, room_bytes: int) -> None:
        """Keep what is to be sent."""
        self._queue = queue
        self._parcel = parcel
        self._room_bytes = room_bytes

    def commit(self) -> None:
        """Pass the request on; an empty one holds nothing to send."""
        if self._parcel.body:
            self._queue.put(self._parcel, room_bytes=self._room_bytes)
        else:
            self.cancel()

    def cancel(self) -> None:
        """Let go of the room: the request was refused."""
        self._queue.release(self._room_bytes)
