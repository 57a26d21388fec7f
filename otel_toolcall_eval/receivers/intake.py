"""Takes in the body of an OTLP request, whatever brought it: decodes it, offers what it holds, and says what is to be answered.

Both receivers use it, so that the same request has the same effect and the same answer over gRPC and HTTP.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from otel_toolcall_eval.engine.buffer.skipped_request import SkippedRequest
from otel_toolcall_eval.engine.pipeline import OWN_SCOPE
from otel_toolcall_eval.model.errors import OverloadedError
from otel_toolcall_eval.otlp import json_logs, json_traces, protobuf_logs, protobuf_traces
from otel_toolcall_eval.otlp.metrics_check import check_metrics
from otel_toolcall_eval.otlp.replies import Encoding, Signal, export_reply

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from otel_toolcall_eval.engine.work_items import PendingResponse
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
    from otel_toolcall_eval.receivers.ports import LogSink, OverloadRecorder, ProjectionSource, RequestForwarder, Reservation, SpanSink

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
        """Say where things go.

        Args:
            sink: takes the spans.
            projection: asked for each request.
            logs: takes log records; without it they are not looked at.
            forward: passes every request on; without it what nobody here looks at is accepted and ignored: one endpoint serves an agent.
            shedder: with ``forward``, notes what the sinks have no room for, instead of a refusal.
        """
        self._sink = sink
        self._projection = projection
        self._logs = logs
        self._forward = forward
        self._shedder = shedder

    def wants(self, signal: Signal) -> bool:
        """Tell whether the body of such a request is looked at."""
        return signal is Signal.TRACES or self._forward is not None or (signal is Signal.LOGS and self._logs is not None)

    def take(self, body: bytes, encoding: Encoding, signal: Signal, *, transport: str) -> tuple[bytes, PendingResponse | None]:
        """Take in all of a request, or nothing.

        Room for passing it on is reserved before anything is done with it, and used after: so a request is refused whole, if that
        queue is full, and never because judging is behind, if it can be passed on. What can't be decoded is not passed on.

        Args:
            body: unpacked.
            encoding: its encoding, and the answer's.
            signal: what it carries.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Returns:
            The answer: an export response, which says how many spans were rejected, and why. And what has to come to pass before it is
            given, None if nothing; see ``sources.receipt``.

        Raises:
            IntakeError: it can't be taken in.
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
        """Offer a request for judging, and pass it on if it was taken, or may be shed; returns what the offer returned.

        If it is still to be written down, it is passed on once that has succeeded.
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
            written.add_done_callback(partial(_pass_on, passage))
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


def _pass_on(passage: Reservation, done: Future[None]) -> None:
    if done.cancelled() or done.exception() is not None:
        passage.cancel()
    else:
        passage.commit()
