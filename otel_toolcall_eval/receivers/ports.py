"""Where receivers put what they took in, and how they count what they refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from otel_toolcall_eval.model.errors import ForwardQueueFullError
from otel_toolcall_eval.model.trace import Projection

if TYPE_CHECKING:
    from otel_toolcall_eval.engine.buffer.skipped_request import SkippedRequest
    from otel_toolcall_eval.engine.work_items import PendingResponse
    from otel_toolcall_eval.model.errors import IntakeError
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
    from otel_toolcall_eval.otlp.replies import Encoding, Signal

DEFAULT_MAX_MESSAGE_BYTES = 64 << 20
"""Largest message that a receiver takes, unpacked. Source: OTLP specification, which advises 64 MiB."""


class SpanSink(Protocol):
    """Takes the spans of requests. Called from any thread, several at a time."""

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse | None:
        """Take all spans of a request, or none; returns without waiting, with what has to come to pass before the sender is answered.

        Args:
            decoded: the spans, and how many of the request were rejected.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Raises:
            OverloadedError: it is full, and took nothing; the sender is asked to resend.
        """
        ...


class LogSink(Protocol):
    """Takes the log records of requests. Called from any thread, several at a time."""

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> PendingResponse | None:
        """Take all records of a request, or none; returns without waiting, with what has to come to pass before the sender is answered.

        Args:
            decoded: the records that dialects ask for, and how many the request held.
            transport: as for spans.

        Raises:
            OverloadedError: it is full, and took nothing; the sender is asked to resend.
        """
        ...


class Reservation(Protocol):
    """Room that is reserved for passing one request on; one of the two is called, once."""

    def commit(self) -> None:
        """Pass it on."""
        ...

    def cancel(self) -> None:
        """Give the room up."""
        ...


class RequestForwarder(Protocol):
    """Passes requests on. Called from any thread, several at a time."""

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal) -> Reservation:
        """Reserve room for a request.

        Raises:
            ForwardQueueFullError: there is none; the sender is asked to resend.
            DecodeError: it can't be put into the form that the downstream takes.
        """
        ...


class OverloadRecorder(Protocol):
    """Notes what is passed on although there is no room for it to be judged. Called from any thread, several at a time."""

    def shed(self, shed: SkippedRequest) -> bool:
        """Note spans, or log records; False if even that can't be done, or all is about to stop."""
        ...


ProjectionSource: TypeAlias = Callable[[], Projection]
"""Gives the projection that is in force; asked for each request, since criteria are reloaded. Any thread."""

Refused: TypeAlias = Callable[[str, str], None]
"""Counts a refused request by transport and reason, see ``reason_of``. Any thread."""

_REASONS = {
    400: "undecodable",
    401: "unauthenticated",
    408: "too_slow",
    413: "too_large",
    421: "unknown_host",
    422: "unknown_criteria",
    503: "overloaded",
}


def reason_of(error: IntakeError) -> str:
    """Return the reason under which a refusal is counted: one of a fixed few."""
    if isinstance(error, ForwardQueueFullError):
        return "forward_queue_full"
    return _REASONS.get(error.http_status, "unsupported")


class LocalSink(Protocol):
    """Judges spans of this process on a thread of its own, and comes to ``SpanSource.take`` for them."""

    def look(self) -> None:
        """Come soon."""
        ...

    def refuse(self, transport: str, reason: str) -> None:
        """Count spans that were not taken."""
        ...

    def flush(self, timeout_seconds: float) -> bool:
        """Wait until what came is judged, if it is due, and sent."""
        ...

    def shutdown(self, timeout_seconds: float) -> bool:
        """Judge and send everything, and end."""
        ...
