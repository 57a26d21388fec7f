"""The bytes of answers, in the encoding of the request.

Built by hand, since they are a few fields: the response of an export request, ``google.rpc.Status`` for errors, and ``RetryInfo`` in it.
Source: OTLP specification, "Full Success", "Partial Success", "Failures"; google/rpc/status.proto, error_details.proto.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from otel_toolcall_eval.otlp.varint import LENGTH_DELIMITED, VARINT, field_of, varint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from otel_toolcall_eval.model.errors import IntakeError

GRPC_CODES: Mapping[str, int] = {
    "INVALID_ARGUMENT": 3,
    "DEADLINE_EXCEEDED": 4,
    "NOT_FOUND": 5,
    "PERMISSION_DENIED": 7,
    "RESOURCE_EXHAUSTED": 8,
    "UNIMPLEMENTED": 12,
    "INTERNAL": 13,
    "UNAVAILABLE": 14,
    "UNAUTHENTICATED": 16,
}
"""Numbers of the status codes that we answer with. Source: google/rpc/code.proto."""

RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class Encoding(StrEnum):
    """How a request is encoded; the value is its media type."""

    PROTOBUF = "application/x-protobuf"
    JSON = "application/json"


class Signal(StrEnum):
    """What a request carries; the value is what OTLP calls its refused parts."""

    TRACES = "rejectedSpans"
    METRICS = "rejectedDataPoints"
    LOGS = "rejectedLogRecords"


def export_reply(encoding: Encoding, signal: Signal = Signal.TRACES, *, rejected: int = 0, reasons: str = "") -> bytes:
    """Return the response of an export service.

    Args:
        encoding: that of the request.
        signal: whose response it is; in protobuf all three look the same.
        rejected: how many parts were refused; with 0 and no reasons the response is empty, which means full success.
        reasons: why, for people; with ``rejected`` 0 it is a warning.
    """
    if not rejected and not reasons:
        return b"{}" if encoding is Encoding.JSON else b""
    if encoding is Encoding.JSON:
        return json.dumps({"partialSuccess": {signal.value: str(rejected), "errorMessage": reasons}}).encode()
    return _message(1, (_integer(1, rejected) if rejected else b"") + _text(2, reasons))


def status_reply(encoding: Encoding, *, code: str, message: str, retry_after_seconds: int | None = None) -> bytes:
    """Return a ``google.rpc.Status``.

    Args:
        encoding: that of the request.
        code: a name in GRPC_CODES.
        message: for people; must not hold what was sent.
        retry_after_seconds: with it, ``RetryInfo`` is among the details.
    """
    if encoding is Encoding.JSON:
        details = [] if retry_after_seconds is None else [{"@type": RETRY_INFO, "retryDelay": f"{retry_after_seconds}s"}]
        return json.dumps({"code": GRPC_CODES[code], "message": message, **({"details": details} if details else {})}).encode()
    status = _integer(1, GRPC_CODES[code]) + _text(2, message)
    if retry_after_seconds is not None:
        status += _message(3, _text(1, RETRY_INFO) + _message(2, retry_info(retry_after_seconds)))
    return status


def error_reply(encoding: Encoding, error: IntakeError) -> bytes:
    """Return the ``google.rpc.Status`` of an error."""
    return status_reply(encoding, code=error.grpc_code, message=str(error), retry_after_seconds=error.retry_after_seconds)


def retry_info(seconds: int) -> bytes:
    """Return a ``google.rpc.RetryInfo``, the value of the trailer ``google.rpc.retryinfo-bin``."""
    return _message(1, _integer(1, seconds))


def _integer(field: int, number: int) -> bytes:
    return varint(field << 3 | VARINT) + varint(number)


def _message(field: int, content: bytes) -> bytes:
    return field_of(field << 3 | LENGTH_DELIMITED, content)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace")) if text else b""


GRPC_SERVICES: Final[Mapping[Signal, str]] = {
    Signal.TRACES: "opentelemetry.proto.collector.trace.v1.TraceService",
    Signal.METRICS: "opentelemetry.proto.collector.metrics.v1.MetricsService",
    Signal.LOGS: "opentelemetry.proto.collector.logs.v1.LogsService",
}
"""Each has one method, ``Export``."""

HTTP_PATHS: Final[Mapping[Signal, str]] = {Signal.TRACES: "/v1/traces", Signal.METRICS: "/v1/metrics", Signal.LOGS: "/v1/logs"}
