"""Takes in the body of an OTLP request: decodes it, offers its contents to the worker, forwards it, and makes the response.

Both receivers use it, so that the same request has the same effect and the same answer over gRPC and HTTP. A response may have to wait:
until the journal has the request, and while more comes than can be evaluated.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from otel_toolcall_eval.engine.buffer.span_counts import SkippedRequest
from otel_toolcall_eval.engine.pipeline import OWN_SCOPE
from otel_toolcall_eval.model.errors import ForwardQueueFullError, OverloadedError
from otel_toolcall_eval.model.trace import Projection
from otel_toolcall_eval.otlp import json_logs, json_traces, protobuf_logs, protobuf_traces
from otel_toolcall_eval.otlp.metrics_check import check_metrics
from otel_toolcall_eval.otlp.replies import Encoding, Signal, export_reply

if TYPE_CHECKING:
    from concurrent.futures import Future

    from otel_toolcall_eval.engine.work_items import PendingResponse
    from otel_toolcall_eval.model.errors import IntakeError
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs


DEFAULT_MAX_MESSAGE_BYTES = 64 << 20
"""Largest message that a receiver accepts, unpacked. Source: OTLP specification, which advises 64 MiB."""

RECEIPT_SECONDS = 8.0
"""Longest delay of a response, the pause included. Senders give up after 10 s. A sender that is asked earlier sends the request again, and
spans that were accepted after all are recognized by their IDs."""

ProjectionSource: TypeAlias = Callable[[], Projection]
"""Returns the current projection; called for each request, since criteria are reloaded. Any thread."""

RejectionCounter: TypeAlias = Callable[[str, str], None]
"""Counts a rejected request by transport and reason, see ``reason_of``. Any thread."""

_REASONS = {
    400: "undecodable",
    401: "unauthenticated",
    408: "too_slow",
    413: "too_large",
    421: "unknown_host",
    422: "unknown_criteria",
    503: "overloaded",
}


class SpanSink(Protocol):
    """Accepts the spans of requests. Called from any thread, several at a time."""

    def offer(self, decoded: DecodedTraces, *, transport: str) -> PendingResponse | None:
        """Accept all spans of a request, or none, without waiting; returns what the response has to wait for.

        Args:
            decoded: the spans, and how many of the request were rejected.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Raises:
            OverloadedError: it is full and accepted nothing; the sender is asked to resend.
        """
        ...


class LogSink(Protocol):
    """Accepts the log records of requests, as ``SpanSink`` does spans."""

    def offer_logs(self, decoded: DecodedLogs, *, transport: str) -> PendingResponse | None:
        """Accept all records that dialects ask for, or none; as ``SpanSink.offer``."""
        ...


class Reservation(Protocol):
    """Room that is reserved for forwarding one request. Exactly one of the methods is called, once."""

    def commit(self) -> None:
        """Forward the request."""
        ...

    def cancel(self) -> None:
        """Release the room."""
        ...


class RequestForwarder(Protocol):
    """Forwards requests. Called from any thread, several at a time."""

    def reserve(self, body: bytes, encoding: Encoding, signal: Signal) -> Reservation:
        """Reserve room for a request.

        Raises:
            ForwardQueueFullError: there is none; the sender is asked to resend.
            DecodeError: the request can't be converted to what the downstream accepts.
        """
        ...


class OverloadRecorder(Protocol):
    """Records what is forwarded without being evaluated, for lack of room. Called from any thread, several at a time."""

    def shed(self, shed: SkippedRequest) -> bool:
        """Record spans, or log records; False if even that is impossible, or at shutdown."""
        ...


_DECODERS = {Encoding.PROTOBUF: protobuf_traces.decode_traces, Encoding.JSON: json_traces.decode_traces}
_LOG_DECODERS = {Encoding.PROTOBUF: protobuf_logs.decode_logs, Encoding.JSON: json_logs.decode_logs}


class OtlpIntake:
    """Takes in requests. Any thread, several at a time."""

    def __init__(
        self,
        *,
        sink: SpanSink,
        projection: ProjectionSource,
        logs: LogSink | None = None,
        forward: RequestForwarder | None = None,
        shedder: OverloadRecorder | None = None,
    ) -> None:
        """Connect the intake.

        Args:
            sink: accepts the spans.
            projection: called for each request.
            logs: accepts log records; without it they are ignored.
            forward: forwards every request; without it, signals that are not evaluated are accepted and ignored, so that one endpoint
                serves an agent.
            shedder: with ``forward``, records what the sinks have no room for, instead of a rejection.
        """
        self._sink = sink
        self._projection = projection
        self._logs = logs
        self._forward = forward
        self._shedder = shedder

    def wants(self, signal: Signal) -> bool:
        """Return whether the body of such a request is decoded or forwarded."""
        return signal is Signal.TRACES or self._forward is not None or (signal is Signal.LOGS and self._logs is not None)

    def take(self, body: bytes, encoding: Encoding, signal: Signal, *, transport: str) -> tuple[bytes, PendingResponse | None]:
        """Take in all of a request, or nothing.

        Room for forwarding is reserved first and used last. So a request is rejected whole if the forward queue is full, but never because
        evaluation is behind if it can be forwarded. What can't be decoded is not forwarded.

        Args:
            body: unpacked.
            encoding: its encoding, and the answer's.
            signal: what it carries.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Returns:
            An export response with the number of rejected spans and the reasons; and what it has to wait for, None if nothing.

        Raises:
            IntakeError: the request is rejected.
        """
        if not self.wants(signal):
            return export_reply(encoding, signal), None
        if signal is Signal.TRACES:
            decoded = _DECODERS[encoding](body, self._projection())
            passage = None if self._forward is None else self._forward.reserve(body, encoding, signal)
            receipt = self._offer(passage, partial(self._sink.offer, decoded, transport=transport), self._shed(decoded, transport))
            return export_reply(encoding, signal, rejected=decoded.rejected, reasons=decoded.reasons), receipt
        records = None if self._logs is None or signal is not Signal.LOGS else _LOG_DECODERS[encoding](body, self._projection())
        if signal is Signal.METRICS:
            check_metrics(body, encoding)
        passage = None if self._forward is None else self._forward.reserve(body, encoding, signal)
        receipt = None
        if self._logs is not None and records is not None:
            receipt = self._offer(
                passage, partial(self._logs.offer_logs, records, transport=transport), self._shed_logs(records, transport)
            )
        elif passage is not None:
            passage.commit()
        return export_reply(encoding, signal), receipt

    def _offer(
        self, passage: Reservation | None, offer: Callable[[], PendingResponse | None], shed: Callable[[], bool]
    ) -> PendingResponse | None:
        """Offer a request for evaluation, and forward it if it was accepted, or recorded as skipped; returns what the offer returned.

        If the request is still to be journaled, it is forwarded once that has succeeded.
        """
        try:
            receipt = offer()
        except OverloadedError:
            if passage is None:
                raise
            if not shed():
                passage.cancel()
                raise
            passage.commit()
            return None
        except BaseException:
            if passage is not None:
                passage.cancel()
            raise
        written = None if receipt is None else receipt.done
        if passage is not None and written is None:
            passage.commit()
        elif passage is not None and written is not None:
            written.add_done_callback(partial(_forward_when_done, passage))
        return receipt

    def _shed(self, decoded: DecodedTraces, transport: str) -> Callable[[], bool]:
        return lambda: (
            self._shedder is not None
            and self._shedder.shed(SkippedRequest.of_spans(decoded.spans, decoded.rejected_by, transport=transport, but_scope=OWN_SCOPE))
        )

    def _shed_logs(self, decoded: DecodedLogs, transport: str) -> Callable[[], bool]:
        return lambda: (
            self._shedder is not None
            and self._shedder.shed(SkippedRequest.of_records(decoded.records, received=decoded.received, transport=transport))
        )


def _forward_when_done(passage: Reservation, done: Future[None]) -> None:
    if done.cancelled() or done.exception() is not None:
        passage.cancel()
    else:
        passage.commit()


def reason_of(error: IntakeError) -> str:
    """Return the reason under which a rejection is counted: one of a fixed few."""
    if isinstance(error, ForwardQueueFullError):
        return "forward_queue_full"
    return _REASONS.get(error.http_status, "unsupported")


def wait_for(receipt: PendingResponse, transport: str) -> None:
    """Wait on this thread; raises OverloadedError if the request was rejected, or is not done in time."""
    time.sleep(receipt.seconds)
    done = receipt.done
    if done is None:
        return
    try:
        done.result(max(0.0, RECEIPT_SECONDS - receipt.seconds))
    except TimeoutError:
        done.cancel()  # the sender resends; whatever waits for this request, such as forwarding, waits for that one
        raise _late(transport) from None


async def waiting_for(receipt: PendingResponse | None, transport: str) -> None:
    """Wait without blocking the event loop; raises as ``wait_for``."""
    if receipt is None:
        return
    await asyncio.sleep(receipt.seconds)
    if receipt.done is None:
        return
    try:
        async with asyncio.timeout(max(0.0, RECEIPT_SECONDS - receipt.seconds)):
            await asyncio.wrap_future(receipt.done)
    except TimeoutError:
        raise _late(transport) from None


def _late(transport: str) -> OverloadedError:
    return OverloadedError(where=transport, what="accepting it takes too long", fix="send the request again after a moment")
