"""Where receivers put what they took in, and how they count what they refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from otel_toolcall_eval.model.trace import Projection

if TYPE_CHECKING:
    from otel_toolcall_eval.errors import IntakeError
    from otel_toolcall_eval.wire.decoded import DecodedTraces
    from otel_toolcall_eval.wire.decoded_logs import DecodedLogs

DEFAULT_MAX_MESSAGE_BYTES = 64 << 20
"""Largest message that a receiver takes, unpacked. Source: OTLP specification, which advises 64 MiB."""


class SpanSink(Protocol):
    """Takes the spans of requests. Called from any thread, several at a time."""

    def offer(self, decoded: DecodedTraces, *, transport: str) -> None:
        """Take all spans of a request, or none; returns without waiting.

        Args:
            decoded: the spans, and how many of the request were rejected.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Raises:
            OverloadedError: it is full, and took nothing; the sender is asked to resend.
        """
        ...


class LogSink(Protocol):
    """Takes the log records of requests. Called from any thread, several at a time."""

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> None:
        """Take all records of a request, or none; returns without waiting.

        Args:
            decoded: the records that dialects ask for, and how many the request held.
            transport: as for spans.

        Raises:
            OverloadedError: it is full, and took nothing; the sender is asked to resend.
        """
        ...


ProjectionSource: TypeAlias = Callable[[], Projection]
"""Gives the projection that is in force; asked for each request, since criteria are reloaded. Any thread."""

Refused: TypeAlias = Callable[[str, str], None]
"""Counts a refused request by transport and reason, see ``reason_of``. Any thread."""

_REASONS = {400: "undecodable", 401: "unauthenticated", 408: "too_slow", 413: "too_large", 422: "unknown_criteria", 503: "overloaded"}


def reason_of(error: IntakeError) -> str:
    """Return the reason under which a refusal is counted: one of a fixed few."""
    return _REASONS.get(error.http_status, "unsupported")
