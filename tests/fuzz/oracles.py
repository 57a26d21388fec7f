"""What has to hold for any bytes whatever: one function for each target, which returns, or raises an AssertionError that says what broke.

Stronger than "no crash": nothing but the promised errors comes out; what was decoded is valid, and equal after it was written down
again in either encoding; the generated classes of OTLP agree; memory is in proportion to the input, and accounted for.
Time is watched by the engine.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
import zlib
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from sys import getsizeof
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError as ProtobufDecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_toolcall_eval.model.errors import CriteriaError, DecodeError, IntakeError, TooLargeError
from otel_toolcall_eval.model.trace import StatusCode
from otel_toolcall_eval.otlp import json_logs, json_traces, protobuf_logs, protobuf_traces
from otel_toolcall_eval.otlp.unpacking import Gunzip, gunzip
from otel_toolcall_eval.settings.criteria_file import CriteriaSource, load_criteria
from otel_toolcall_eval.settings.diagnostics import Diagnostics, SourceLocation
from otel_toolcall_eval.settings.dialect_file import default_extractor
from otel_toolcall_eval.settings.yaml_tree import parse_yaml
from tests.fuzz.rewriting import logs_in_json, logs_in_protobuf, traces_in_json, traces_in_protobuf
from tests.otlp.otlp_requests import KEEP, expected_spans, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from otel_toolcall_eval.model.log_record import LogRecord
    from otel_toolcall_eval.model.trace import Projection, Span
    from otel_toolcall_eval.otlp.decoded import DecodedTraces
    from otel_toolcall_eval.otlp.decoded_logs import DecodedLogs
    from otel_toolcall_eval.settings.criteria_file import LoadedCriteria

ROOM_BYTES = 1024
GROWTH = 100
"""Bytes of memory for each byte of input. The costliest input is an empty key-value list: 64 bytes of dict and 8 of place for 4 bytes."""

FACTOR = 2
"""Between the memory that spans take and what is accounted for them."""

UNPACKED_BYTES = 1 << 20
_UINT32, _UINT64 = (1 << 32) - 1, (1 << 64) - 1
_PROBLEM = re.compile(r".+: .+; .+", re.DOTALL)


@cache
def projection() -> Projection:
    """Return what a sidecar keeps, and what the tests of the wire keep."""
    return default_extractor().projection | KEEP


# --- what decoded things are like -------------------------------------------------------------------------------------------------------


def memory(thing: object, known: frozenset[int] = frozenset()) -> int:
    """Add up what a decoded thing takes, members included; ``known`` are the identities of what somebody else holds.

    Raises UnicodeEncodeError for text with half of a surrogate pair, which could not be written out again.
    """
    if thing is None or isinstance(thing, (bool, StatusCode)) or id(thing) in known:
        return 0
    size = getsizeof(thing)
    if isinstance(thing, str):
        thing.encode()
    if isinstance(thing, dict):
        return size + sum(memory(key, known) + memory(value, known) for key, value in thing.items())
    if isinstance(thing, tuple):
        return size + sum(memory(member, known) for member in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        return size + sum(memory(getattr(thing, each.name), known) for each in fields(thing))
    return size


@cache
def _keys() -> frozenset[int]:
    return frozenset(id(key) for key in projection().keys | projection().event_names)


def hold_memory(parts: Sequence[Span | LogRecord], accounted: int, sent: int) -> None:
    """Hold that memory is in proportion to the input and accounted for."""
    # Resources and scopes are shared, by requests too, and accounted for once.
    origins = {id(origin): origin for part in parts for origin in (part.resource, part.scope)}
    shared = sum(memory(origin) for origin in origins.values())
    own = sum(memory(part, _keys() | frozenset(origins)) for part in parts)
    assert own + shared <= GROWTH * sent + ROOM_BYTES, f"{sent} bytes became {own + shared}"
    assert own <= FACTOR * accounted + ROOM_BYTES, f"{own} bytes are accounted for as {accounted}"
    assert accounted <= FACTOR * (own + shared) + ROOM_BYTES, f"{own + shared} bytes are accounted for as {accounted}"


def hold_spans(decoded: DecodedTraces, sent: int) -> None:
    """Hold that every span is one that the rest of the product can work with."""
    assert decoded.received == len(decoded.spans) + decoded.rejected
    assert bool(decoded.reasons) is bool(decoded.rejected)
    for span in decoded.spans:
        assert (len(span.trace_id), len(span.span_id)) == (16, 8)
        assert any(span.trace_id)
        assert any(span.span_id)
        assert span.parent_span_id is None or (len(span.parent_span_id) == 8 and any(span.parent_span_id))
        assert 0 < span.start_unix_ns <= _UINT64
        assert 0 < span.end_unix_ns <= _UINT64
        assert 0 <= span.flags <= _UINT32
        assert -(1 << 31) <= span.kind < 1 << 31
        assert all(map(projection().keeps, span.attributes))
    hold_memory(decoded.spans, decoded.size_bytes, sent)


def seen(parts: Sequence[Span] | Sequence[LogRecord]) -> list[str]:
    """Return what can be compared: all but sizes; NaN equals NaN, and 1 is not 1.0."""
    return [repr(replace(part, size_bytes=0)) for part in parts]


# --- targets ----------------------------------------------------------------------------------------------------------------------------


def _traces(data: bytes, decode: Callable[[bytes, Projection], DecodedTraces]) -> DecodedTraces | None:
    try:
        decoded = decode(data, projection())
    except IntakeError as error:
        hold_refusal(error, data)
        return None
    hold_spans(decoded, len(data))
    # What was too deep counts as dropped, on top of what the sender dropped.
    spans = [replace(span, dropped_attributes=min(span.dropped_attributes, _UINT32)) for span in decoded.spans]
    for rewritten, again in (
        (traces_in_protobuf(spans), protobuf_traces.decode_traces),
        (traces_in_json(spans), json_traces.decode_traces),
    ):
        assert seen(again(rewritten, projection()).spans) == seen(spans)
    return decoded


def traces_protobuf(data: bytes) -> None:
    """Hold trace requests in protobuf; where OTLP's generated classes can read them, they have to agree."""
    decoded = _traces(data, protobuf_traces.decode_traces)
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except ProtobufDecodeError:
        return
    request.DiscardUnknownFields()  # of groups in them we are less tolerant
    expected = seen(expected_spans(request, projection()))
    # Written anew: protobuf merges a field that stands twice, and we take the last one.
    for again in (
        protobuf_traces.decode_traces(request.SerializeToString(), projection()),
        json_traces.decode_traces(to_json(request), projection()),
    ):
        assert seen([replace(span, linked=False) for span in again.spans]) == expected
        assert decoded is None or again.received == decoded.received


def traces_json(data: bytes) -> None:
    _traces(data, json_traces.decode_traces)


def _logs(data: bytes, decode: Callable[[bytes, Projection], DecodedLogs]) -> None:
    try:
        decoded = decode(data, projection())
    except IntakeError as error:
        hold_refusal(error, data)
        return
    assert len(decoded.records) <= decoded.received
    for record in decoded.records:
        assert record.trace_id is None or (len(record.trace_id) == 16 and any(record.trace_id))
        assert record.span_id is None or (record.trace_id is not None and len(record.span_id) == 8 and any(record.span_id))
        assert 0 <= record.time_unix_ns <= _UINT64
    hold_memory(decoded.records, decoded.size_bytes, len(data))
    named = [record for record in decoded.records if record.event_name in projection().event_names and "{" not in record.event_name]
    for rewritten, again in (
        (logs_in_protobuf(named), protobuf_logs.decode_logs),
        (logs_in_json(named), json_logs.decode_logs),
    ):
        assert seen(again(rewritten, projection()).records) == seen(named)


def logs_protobuf(data: bytes) -> None:
    _logs(data, protobuf_logs.decode_logs)


def logs_json(data: bytes) -> None:
    _logs(data, json_logs.decode_logs)


def unpacking(data: bytes) -> None:
    """Hold gzip and zlib: never more than the limit, the same however it is cut, and what Python's gzip module packed is unpacked."""
    for level in (0, 6):
        assert gunzip(gzip.compress(data, level) + bytes(level), UNPACKED_BYTES) == data
    try:
        whole = gunzip(data, UNPACKED_BYTES)
    except (DecodeError, TooLargeError) as error:
        hold_refusal(error, data)
        whole = None
    assert whole is None or len(whole) <= UNPACKED_BYTES
    cut = 1 + (data[0] % 64 if data else 0)
    unpacker = Gunzip(UNPACKED_BYTES)
    pieces: list[bytes] = []
    try:
        for start in range(0, len(data), cut):
            pieces.extend(unpacker.feed(data[start : start + cut]))
        unpacker.finish()
    except (DecodeError, TooLargeError):
        assert whole is None, "refused when it comes in pieces"
    else:
        assert b"".join(pieces) == whole, "different when it comes in pieces"
    assert sum(map(len, pieces)) <= UNPACKED_BYTES
    assert whole is None or whole == _unpacked_plainly(data)


def _unpacked_plainly(data: bytes) -> bytes:
    """Unpack the slow and obvious way. Python's gzip module passes over reserved flags, which RFC 1952 wants refused."""
    unpacked = b""
    while data:
        member = zlib.decompressobj(32 + zlib.MAX_WBITS)
        unpacked += member.decompress(data)
        assert member.eof
        data = member.unused_data.lstrip(b"\0")
    return unpacked


def criteria_yaml(data: bytes) -> None:
    """Hold criteria files in YAML: errors read ``where: what; fix``, and the same values in JSON are the same criteria."""
    found = _loaded(data, "fuzz.yaml")
    if isinstance(found, CriteriaError):
        for problem in found.problems:
            assert _PROBLEM.fullmatch(str(problem))
        return
    assert _versions(_loaded(data, "fuzz.yaml")) == _versions(found)
    value, _ = parse_yaml(data.decode("utf-8-sig"), SourceLocation(origin="fuzz"), Diagnostics())
    assert _versions(_loaded(json.dumps(value).encode(), "fuzz.json")) == _versions(found)


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="otel-toolcall-eval-fuzz-"))


def _loaded(text: bytes, name: str) -> LoadedCriteria | CriteriaError:
    file = _folder() / name
    file.write_bytes(text)
    try:
        return load_criteria([CriteriaSource(path=file)])
    except CriteriaError as error:
        return error


def _versions(found: LoadedCriteria | CriteriaError) -> object:
    return str(found) if isinstance(found, CriteriaError) else {each.name: each.version for each in found.sets}


_WORD = re.compile(rb"[^\W\d_]{9,}")


def hold_refusal(error: IntakeError, data: bytes) -> None:
    """Hold that a refusal reads as promised, is one that the sender understands, and repeats nothing that was sent."""
    text = str(error)
    assert _PROBLEM.fullmatch(text), text
    assert (error.http_status, error.grpc_code) in {(400, "INVALID_ARGUMENT"), (413, "RESOURCE_EXHAUSTED")}
    assert error.retry_after_seconds is None
    assert error.__cause__ is None, "the cause may hold what was sent"
    repeated = {*_WORD.findall(data)} & {*_WORD.findall(text.encode())} - _OUR_WORDS
    assert not repeated, f"the refusal repeats {repeated}"


_OUR_WORDS = frozenset(
    word.encode()
    for word in (
        *("resourceSpans", "scopeSpans", "resource", "attributes", "startTimeUnixNano", "endTimeUnixNano", "stringValue", "arrayValue"),
        *("kvlistValue", "bytesValue", "doubleValue", "boolValue", "intValue", "droppedAttributesCount", "parentSpanId", "timeUnixNano"),
        *("resourceLogs", "scopeLogs", "logRecords", "eventName", "observedTimeUnixNano", "resourceMetrics", "lowerCamelCase"),
        *("ExportTraceServiceRequest", "ExportLogsServiceRequest", "application", "protobuf", "nesting", "Content", "character"),
    )
)

TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "traces_protobuf": traces_protobuf,
    "traces_json": traces_json,
    "logs_protobuf": logs_protobuf,
    "logs_json": logs_json,
    "unpacking": unpacking,
    "criteria_yaml": criteria_yaml,
}
