"""Reads the golden cases and recordings through the wire decoder, so that the projection is tried along with the reading."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_toolcall_eval.otlp.json_traces import decode_document
from otel_toolcall_eval.settings.dialect_file import default_extractor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_toolcall_eval.extraction.extractor import Extractor
    from otel_toolcall_eval.model.tool_call import Json, ToolCall
    from otel_toolcall_eval.model.trace import Span

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
CORPUS = GOLDEN / "corpus"


@cache
def cases() -> Sequence[dict[str, Any]]:
    """Return the golden cases."""
    loaded: list[dict[str, Any]] = json.loads((GOLDEN / "dialects" / "cases.json").read_text(encoding="utf-8"))["cases"]
    return loaded


def spans_of(document: object, extractor: Extractor | None = None) -> list[Span]:
    """Decode an OTLP/JSON request as the receivers do, dropping what the extractor does not read."""
    return list(decode_document(document, (extractor or default_extractor()).projection).spans)


def recordings() -> list[str]:
    """Return the name of every recording, such as ``crewai/openinference-seq``."""
    paths = sorted(CORPUS.glob("*/*.otlp.jsonl.gz"))
    return [f"{path.parent.name}/{path.name.removesuffix('.otlp.jsonl.gz')}" for path in paths]


@cache
def requests_of(recording: str) -> Sequence[Sequence[Span]]:
    """Return the spans of each request of a recording, in order of arrival."""
    with gzip.open(CORPUS / f"{recording}.otlp.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [spans_of(json.loads(line)) for line in lines if line.strip()]


@cache
def truth_of(recording: str) -> dict[str, Any]:
    """Return what the tools themselves wrote down."""
    truth: dict[str, Any] = json.loads((CORPUS / f"{recording}.truth.json").read_text(encoding="utf-8"))
    return truth


def traces_of(spans: Sequence[Span]) -> Sequence[Sequence[Span]]:
    """Group spans by trace."""
    traces: defaultdict[bytes, list[Span]] = defaultdict(list)
    for span in spans:
        traces[span.trace_id].append(span)
    return list(traces.values())


def calls_of(spans: Sequence[Span]) -> list[ToolCall]:
    """Return the calls of all traces among the spans, by start; within a trace, in the extractor's order."""
    calls = [call for trace in traces_of(spans) for call in default_extractor().extract(trace).calls]
    return calls if len(traces_of(spans)) == 1 else sorted(calls, key=lambda call: call.start_unix_ns)


def plain(value: Json) -> Json:
    """Return a value with lists for tuples, as JSON has them."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(member) for key, member in value.items()}
    return value
