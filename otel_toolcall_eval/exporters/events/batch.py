"""What waits to be sent of one signal, and who takes it away."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from otel_toolcall_eval.otlp.writing import Envelope

TAKEN_BYTES: Final = 512 * 1024
"""What makes a batch full. With a report on top a request has some twice that, far below the 4 MiB that gRPC receivers take by default."""


class EventSender(Protocol):
    """Takes one signal away. Any thread."""

    def send(self, body: bytes, *, items: int) -> None:
        """Take a request that holds so many records or spans; never waits. What there is no room for is dropped, and counted there."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Return True once all that was taken has been delivered; False if that took longer, or some of it was not taken there."""
        ...


class Batch:
    """What waits to be sent of one signal. ``add`` is the worker's; ``send`` comes from any thread."""

    def __init__(self, outlet: EventSender, envelope: Envelope) -> None:
        """Begin without any."""
        self.outlet = outlet
        self._envelope = envelope
        self._sending = Lock()  # held by whoever takes the items away until the outlet has them, so that a flush sees all of them
        self._lock = Lock()
        self._fields: list[bytes] = []
        self._items = 0
        self._bytes = 0

    def add(self, fields: bytes, items: int) -> None:
        """Take so many items, encoded as fields; what has come is sent if it is enough for a request."""
        with self._lock:
            self._fields.append(fields)
            self._items += items
            self._bytes += len(fields)
            is_full = self._bytes >= TAKEN_BYTES
        if is_full:
            self.send()

    def send(self) -> None:
        """Send what has come."""
        with self._sending:
            with self._lock:
                fields, items = self._fields, self._items
                self._fields, self._items, self._bytes = [], 0, 0
            if items:
                self.outlet.send(self._envelope.request(fields), items=items)
