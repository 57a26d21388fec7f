"""What a downstream answers to an export request: how much of it was rejected, and when to try again.

Answers may be anything, so nothing here raises.
Source: OTLP specification, "Partial Success", "OTLP/gRPC Throttling"; google/rpc/status.proto, error_details.proto.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from otel_toolcall_eval.otlp.json_fields import WrongTypeError, integer_of, object_of
from otel_toolcall_eval.otlp.replies import RETRY_INFO, Encoding, Signal
from otel_toolcall_eval.otlp.varint import LENGTH_DELIMITED, VARINT, MalformedError, fields_of, read_varint

if TYPE_CHECKING:
    from collections.abc import Iterator

_INT64_MAX = (1 << 63) - 1
_NANOSECOND = 1e-9


def rejected_in(answer: bytes, encoding: Encoding, signal: Signal) -> int:
    """Return how many spans, records or data points a downstream says that it rejected; 0 if it says nothing that can be read."""
    try:
        if encoding is Encoding.JSON:
            document = json.loads(answer)
            partial = object_of(document, "partialSuccess") if isinstance(document, dict) else {}
            return integer_of(partial, signal.value, low=0, high=_INT64_MAX)
        number = _integers(next(_messages(answer, 1), b"")).get(1, 0)
    except (MalformedError, WrongTypeError, ValueError, RecursionError):
        return 0
    return number if number <= _INT64_MAX else 0  # negative ones are nonsense


def retry_info_seconds(message: bytes) -> float | None:
    """Return the delay that a ``google.rpc.RetryInfo`` asks for; None if it can't be read or asks for none."""
    try:
        delay = next(_messages(message, 1), None)
        return None if delay is None else _seconds(_integers(delay))
    except MalformedError:
        return None


def status_retry_seconds(message: bytes) -> float | None:
    """Return the delay that the ``RetryInfo`` among the details of a ``google.rpc.Status`` asks for; None if there is none."""
    try:
        for detail in _messages(message, 3):
            if next(_messages(detail, 1), b"") == RETRY_INFO.encode():
                return retry_info_seconds(next(_messages(detail, 2), b""))
    except MalformedError:
        pass  # the same as no answer
    return None


def _seconds(duration: dict[int, int]) -> float | None:
    seconds = duration.get(1, 0) + duration.get(2, 0) * _NANOSECOND
    return seconds if seconds <= _INT64_MAX else None


def _messages(message: bytes, number: int) -> Iterator[bytes]:
    for tag, start, end in fields_of(message, 0, len(message)):
        if tag == number << 3 | LENGTH_DELIMITED:
            yield message[start:end]


def _integers(message: bytes) -> dict[int, int]:
    return {tag >> 3: read_varint(message, start, end)[0] for tag, start, end in fields_of(message, 0, len(message)) if tag & 7 == VARINT}
