"""Where the targets start from: the recordings, cases and files in ``tests/golden`` and ``config``, cut into small pieces."""

from __future__ import annotations

import gzip
import json
import zlib
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from ruamel.yaml import YAML

from otel_toolcall_eval.model.log_record import LogRecord
from otel_toolcall_eval.model.trace import Scope
from otel_toolcall_eval.otlp.json_traces import decode_document
from tests.fuzz.oracles import projection
from tests.fuzz.rewriting import logs_in_json, logs_in_protobuf, traces_in_json, traces_in_protobuf
from tests.otlp.otlp_requests import attribute, nested, numbered, request_of, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    from otel_toolcall_eval.model.trace import Span

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
FOUND = Path(__file__).resolve().parent / "found"
"""Inputs that broke a target once, by target; what mended them holds as long as these are tried."""

MOST_BYTES = 4096
"""Longer pieces teach an engine nothing, and slow it down."""


def seeds(target: str) -> Iterator[bytes]:
    """Yield the seeds of a target, what was found by it included."""
    for made in _SEEDS[target]():
        if len(made) <= MOST_BYTES:
            yield made
    yield from found(target)


def found(target: str) -> Iterator[bytes]:
    """Yield the inputs that broke a target once."""
    folder = FOUND / target
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        yield path.read_bytes()


def write(target: str, folder: Path) -> int:
    """Write the seeds of a target into a folder, and return how many they are."""
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    for number, seed in enumerate(seeds(target), start=1):
        folder.joinpath(f"seed-{number:04}").write_bytes(seed)
    return number


def _documents() -> Iterator[object]:
    """Yield the first requests of each recording."""
    for path in sorted((GOLDEN / "corpus").glob("*/*.otlp.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (json.loads(line) for line in islice(lines, 4))


def _recorded_spans() -> Iterator[Span]:
    for document in _documents():
        yield from decode_document(document, projection()).spans


def _odd_request() -> ExportTraceServiceRequest:
    values = [AnyValue(double_value=1e300), AnyValue(bool_value=True), AnyValue(bytes_value=b"\xff"), nested(5), nested(3, kvlist=True)]
    span = numbered(1, flags=0x300, kind=3, dropped_attributes_count=4)
    span.attributes.extend(attribute(key, value) for key, value in zip(("tool.name", "id", "xa", "input.value", "xb"), values, strict=True))
    span.events.add(name="exception", time_unix_nano=5).attributes.append(attribute("exception.message", "m"))
    span.links.add(trace_id=bytes(15) + b"\x09")
    span.status.message = "failed"
    rejected = [numbered(2, trace_id=bytes(16)), numbered(3, span_id=b"short"), numbered(4, end_time_unix_nano=0)]
    return request_of(span, *rejected, attributes=[attribute("service.name", "s")])


def _in_protobuf() -> Iterator[bytes]:
    yield _odd_request().SerializeToString()
    for span in islice(_recorded_spans(), 0, None, 3):
        yield traces_in_protobuf([span])


def _in_json() -> Iterator[bytes]:
    yield to_json(_odd_request())
    for span in islice(_recorded_spans(), 0, None, 3):
        yield traces_in_json([span])


def _records() -> Iterator[LogRecord]:
    """Yield a record of each name that is asked for, with what recorded spans hold: no recording has log records."""
    names = (name.replace("{scope}", "my.scope") for name in sorted(projection().event_names))
    for name, span in zip(names, islice(_recorded_spans(), 0, None, 40), strict=False):
        scope = Scope(name="my.scope", version="1")
        for body in (span.attributes, "a text", None):
            yield LogRecord(
                trace_id=span.trace_id,
                span_id=span.span_id,
                event_name=name,
                time_unix_ns=span.end_unix_ns,
                body=body,
                attributes=span.attributes,
                resource=span.resource,
                scope=scope,
            )


def _log_requests() -> Iterator[bytes]:
    for record in _records():
        yield logs_in_protobuf([record])


def _log_requests_in_json() -> Iterator[bytes]:
    for record in _records():
        yield logs_in_json([record])


def _packed() -> Iterator[bytes]:
    for body in islice(_in_protobuf(), 20):
        yield gzip.compress(body, mtime=0)
        yield zlib.compress(body)
        yield gzip.compress(body[:20], mtime=0) + gzip.compress(body[20:], mtime=0) + bytes(3)
    yield gzip.compress(bytes(2 << 20), mtime=0)
    yield gzip.compress(gzip.compress(bytes(1000), mtime=0), mtime=0)


def _criteria() -> Iterator[bytes]:
    for path in sorted((ROOT / "config").rglob("*.yaml")):
        if "dialects" not in path.parts:
            yield path.read_bytes()
            yield b"\n".join(line for line in path.read_bytes().splitlines() if not line.lstrip().startswith(b"#"))
    for path in sorted((ROOT / "config" / "weather").rglob("*.json")):
        yield path.read_bytes()  # JSON is YAML, too
        yield _as_yaml(json.loads(path.read_text(encoding="utf-8")))


def _as_yaml(value: object) -> bytes:
    out = BytesIO()
    YAML(typ="safe", pure=True).dump(value, out)
    return out.getvalue()


_SEEDS = {
    "traces_protobuf": _in_protobuf,
    "traces_json": _in_json,
    "logs_protobuf": _log_requests,
    "logs_json": _log_requests_in_json,
    "unpacking": _packed,
    "criteria_yaml": _criteria,
}
