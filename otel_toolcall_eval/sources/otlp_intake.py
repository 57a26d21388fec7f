"""Takes in the body of an OTLP request, whatever brought it: decodes it, offers what it holds, and says what is to be answered.

Both receivers use it, so that the same request has the same effect and the same answer over gRPC and HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_toolcall_eval.wire import otlp_json, otlp_logs, otlp_logs_json, otlp_protobuf
from otel_toolcall_eval.wire.replies import Encoding, Signal, export_reply

if TYPE_CHECKING:
    from otel_toolcall_eval.sources.sink import LogSink, ProjectionSource, SpanSink

_DECODERS = {Encoding.PROTOBUF: otlp_protobuf.decode_traces, Encoding.JSON: otlp_json.decode_traces}
_LOG_DECODERS = {Encoding.PROTOBUF: otlp_logs.decode_logs, Encoding.JSON: otlp_logs_json.decode_logs}


class OtlpIntake:
    """Takes in requests. Any thread, several at a time."""

    def __init__(self, *, sink: SpanSink, projection: ProjectionSource, logs: LogSink | None = None) -> None:
        """Say where things go.

        Args:
            sink: takes the spans.
            projection: asked for each request.
            logs: takes log records; without it they are accepted and ignored, as metrics are: one endpoint serves an agent.
        """
        self._sink = sink
        self._projection = projection
        self._logs = logs

    def wants(self, signal: Signal) -> bool:
        """Tell whether the body of such a request is looked at."""
        return signal is Signal.TRACES or (signal is Signal.LOGS and self._logs is not None)

    def take(self, body: bytes, encoding: Encoding, signal: Signal, *, transport: str) -> bytes:
        """Take in all of a request, or nothing.

        Args:
            body: unpacked.
            encoding: its encoding, and the answer's.
            signal: what it carries.
            transport: ``grpc``, ``http/protobuf`` or ``http/json``.

        Returns:
            The answer: an export response, which says how many spans were rejected, and why.

        Raises:
            IntakeError: it can't be taken in.
        """
        if not self.wants(signal):
            return export_reply(encoding, signal)
        if signal is Signal.LOGS and self._logs is not None:
            self._logs.offer_logs(_LOG_DECODERS[encoding](body, self._projection()), transport=transport)
            return export_reply(encoding, signal)
        decoded = _DECODERS[encoding](body, self._projection())
        self._sink.offer(decoded, transport=transport)
        return export_reply(encoding, signal, rejected=decoded.rejected, reasons=decoded.reasons)
