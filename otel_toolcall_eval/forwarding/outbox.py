"""Sends our own events, with the queue, the patience and the clients that pass requests on.

The SDK's batch processors drop without a word when they are full, block for minutes while a collector is dead, and give up what they
hold when they are shut down meanwhile. Here what waits is bounded in bytes, tried again with a growing delay, and counted when it is lost.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.errors import ForwardQueueFullError
from otel_toolcall_eval.forwarding.episodes import EXPORTING
from otel_toolcall_eval.forwarding.forward_queue import DELIVERED
from otel_toolcall_eval.forwarding.forwarder import Forwarder
from otel_toolcall_eval.wire.replies import Encoding

if TYPE_CHECKING:
    from otel_toolcall_eval.accounts import Counts
    from otel_toolcall_eval.forwarding.delivery import Client
    from otel_toolcall_eval.wire.replies import Signal

QUEUE_BYTES: Final = 32 * 1024 * 1024
"""What may wait of one signal: some 60,000 verdicts, two seconds at the sidecar's full rate or hours at a usual one."""

MAX_ELAPSED_SECONDS: Final = 300.0
"""How long one request is tried. Source: the Collector's exporters do so by default."""

_SENDERS: Final = 2


class Outbox:
    """Sends one signal. Any thread."""

    def __init__(self, client: Client, signal: Signal, *, queue_bytes: int = QUEUE_BYTES) -> None:
        """Start sending to ``client``."""
        self._signal = signal
        self._forwarder = Forwarder(
            client, queue_bytes=queue_bytes, max_elapsed_seconds=MAX_ELAPSED_SECONDS, words=EXPORTING, senders=_SENDERS
        )
        self._lock = threading.Lock()
        self._dropped = 0  # guarded by _lock
        self._told = 0  # how much was lost by the end of the last flush; whoever flushes does so one at a time
        self._forwarder.start()

    def send(self, body: bytes, *, items: int) -> None:
        """Take a request of so many spans or records; if there is no room for it, it is dropped, counted and told."""
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
        before, self._told = self._told, self.dropped
        return before == self._told

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
