"""Checks that a request to be forwarded is an OTLP metrics request. Metrics are not read here, so nothing is decoded.

What can't be a request is rejected while its sender still waits for the response; the downstream checks the rest.
"""

from __future__ import annotations

from otel_toolcall_eval.model.errors import DecodeError
from otel_toolcall_eval.otlp.json_fields import WrongTypeError, as_object, list_of
from otel_toolcall_eval.otlp.json_traces import parse_json
from otel_toolcall_eval.otlp.limits import DEFAULT_LIMITS, Limits, check_json, too_many
from otel_toolcall_eval.otlp.replies import Encoding
from otel_toolcall_eval.otlp.varint import LENGTH_DELIMITED, MalformedError, fields_of

_RESOURCE_METRICS = 1 << 3 | LENGTH_DELIMITED
_FIX = "send an ExportMetricsServiceRequest, and OTLP/JSON as Content-Type application/json"


def check_metrics(body: bytes, encoding: Encoding, *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise DecodeError if ``body`` is no ``ExportMetricsServiceRequest``, TooLargeError if it holds too much to be looked at.

    Cost: JSON is parsed; of protobuf only the framing of the outer two blocks is followed.
    """
    if encoding is Encoding.JSON:
        check_json(body, limits)
        _check_document(parse_json(body))
        return
    try:
        _check_framing(body, limits)
    except MalformedError:
        raise DecodeError(where="request", what="the body is not a metrics request in protobuf", fix=_FIX) from None


def _check_document(document: object) -> None:
    try:
        request = as_object(document)
        list_of(request, "resourceMetrics")
    except WrongTypeError as error:
        raise DecodeError(where=error.where, what=error.what, fix=_FIX) from None
    if "resourceMetrics" not in request and not request.keys().isdisjoint({"resourceSpans", "resourceLogs", "resource_metrics"}):
        raise DecodeError(where="request", what="it has no resourceMetrics", fix=_FIX)


def _check_framing(body: bytes, limits: Limits) -> None:
    blocks = 0
    for tag, start, end in fields_of(body, 0, len(body)):
        for _ in fields_of(body, start, end) if tag == _RESOURCE_METRICS else ():
            blocks += 1
        blocks += 1
        if blocks > limits.spans:
            what = "blocks of metrics"
            raise too_many(what, limits.spans)
