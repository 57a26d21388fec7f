"""Tells what a recorded file holds by its first bytes, and names what people hand in by mistake."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

HEAD_BYTES = 4096
"""How much of a file ``format_of`` wants to see."""

LENGTH_BYTES = 4
"""Size of the length, big-endian, before each request in the Collector's protobuf files."""

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_REQUEST_TAG = b"\x0a"  # resource_spans; every request in protobuf begins with it
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CRITERIA_LINE = re.compile(rb"^\s*(?:criteria|defaults|evaluators|match)\s*:", re.MULTILINE)
_CRITERIA_KEYS = frozenset({"criteria", "evaluations", "evaluationCriterias", "evaluatorConfig", "evaluatorRefs", "evaluatorTypeId"})
_EXPORT = "export OTLP/JSON, with the Collector's file exporter or from the backend's OTLP API"


class Format(Enum):
    """How the requests lie in a file."""

    JSON = auto()  # one document, or one a line
    PROTOBUF = auto()  # one request
    EITHER = auto()  # a line feed and an opening brace: JSON, or a request in protobuf whose first block is 123 bytes long
    RECORDS = auto()  # protobuf requests, each behind its length
    FOREIGN = auto()  # none of these


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFormat:
    """What a file seems to be instead.

    Attributes:
        traces: True if it holds traces in another form, so that in a folder of traces it can't be meant to be passed over.
    """

    what: str
    fix: str
    traces: bool = False


_CRITERIA = ForeignFormat(what="this is a criteria file, not traces", fix="pass it with --criteria")
_CONSOLE = ForeignFormat(
    what="this looks like the output of the SDK's ConsoleSpanExporter",
    fix="use an OTLP exporter, or the Collector's file exporter",
    traces=True,
)
_UNKNOWN_JSON = ForeignFormat(what="this is JSON but not OTLP: no resourceSpans", fix=_EXPORT)


def format_of(head: bytes) -> Format:
    """Return how a file that begins with ``head`` is to be read."""
    if head.startswith(_REQUEST_TAG):
        return Format.EITHER if _looks_like_json(head) else Format.PROTOBUF
    if _looks_like_json(head):
        return Format.JSON
    length, content = int.from_bytes(head[:LENGTH_BYTES]), head[LENGTH_BYTES:]
    if content.startswith(_REQUEST_TAG) and length > 1:
        return Format.RECORDS
    return Format.FOREIGN


def _looks_like_json(head: bytes) -> bool:
    """Tell whether the first thing that is not white space opens an object or a list."""
    return head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] in {b"{", b"["}


def foreign_file(head: bytes) -> ForeignFormat:
    """Return what a file that is neither JSON nor protobuf seems to be."""
    if _ZSTD_MAGIC in {head[: len(_ZSTD_MAGIC)], head[LENGTH_BYTES : LENGTH_BYTES + len(_ZSTD_MAGIC)]}:
        return ForeignFormat(what="this is compressed with zstd", fix="unpack it first, or write it without compression", traces=True)
    if b"\0" in head:
        return ForeignFormat(what="this is binary, and not OTLP", fix=_EXPORT)
    if _CRITERIA_LINE.search(head):
        return _CRITERIA
    return ForeignFormat(what="this is text, and not OTLP", fix=_EXPORT)


def foreign_text(head: bytes) -> ForeignFormat | None:
    """Return what JSON that is more than one document seems to be, None if nothing that we know."""
    return _CONSOLE if b'"trace_id": "0x' in head else None


def foreign_document(document: object) -> ForeignFormat | None:
    """Return what a JSON document seems to be instead of a trace request, None if it is one (or OTLP of another signal)."""
    if isinstance(document, list):
        first = document[0] if document else None
        if isinstance(first, dict) and "traceId" in first and "id" in first:
            return ForeignFormat(what="this looks like a Zipkin export", fix=_EXPORT, traces=True)
        return _UNKNOWN_JSON
    return _foreign_object(document) if isinstance(document, dict) else _UNKNOWN_JSON


def _foreign_object(document: Mapping[str, object]) -> ForeignFormat | None:
    if any(key in document for key in ("resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans")):
        return None
    if _is_jaeger(document):
        return ForeignFormat(what="this looks like a Jaeger export", fix=_EXPORT, traces=True)
    context = document.get("context")
    if isinstance(context, dict) and str(context.get("trace_id")).startswith("0x"):
        return _CONSOLE
    return _CRITERIA if not _CRITERIA_KEYS.isdisjoint(document) else _UNKNOWN_JSON


def _is_jaeger(document: Mapping[str, object]) -> bool:
    data = document.get("data")
    first = data[0] if isinstance(data, list) and data else document
    return isinstance(first, dict) and "spans" in first and "traceID" in first
